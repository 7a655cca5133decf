"""Measure every variant of experiments/spaces/NAME.yaml, and keep the space in benchmarks/spaces/NAME.json.gz.

    python benchmarks/record_space.py gemm_square stencil [--seconds 60] [--into FOLDER] [--jobs 16]
    python benchmarks/record_space.py gemm_square --predict

Replays of a search need no GPU then. Each space is measured by `lab` itself, all checks included, without a report. One
that takes longer than --seconds is interrupted, and what was measured is kept. With --predict nothing is measured:
today's estimates and counts take the place of those in the file.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from recorded_space import FOLDER, RecordedSpace, RecordedVariant, read, write  # the module beside this one

from lab.experiment.load import load
from lab.recorded.run_records import VariantRecord
from lab.runs.pipeline import RunOptions, RunOutcome, run
from lab.runs.services import Services
from lab.search.prior import known_before
from lab.store.figures import estimated, predicted, scored

EXPERIMENTS: Final = Path(__file__).parents[1] / "experiments" / "spaces"

MOST_VARIANTS: Final = 5000

HELD_OUT: Final = ("reduction", "softmax")
"""Spaces that nobody looks at while a search is built; its figures are given on these first."""


def recorded(outcome: RunOutcome, values: Mapping[str, tuple[object, ...]]) -> tuple[RecordedVariant, ...]:
    """Return what is kept of a run, variant by variant.

    Args:
        outcome: The run.
        values: Of each swept parameter, by its name.
    """
    scores = scored(outcome.records)
    return tuple(_variant(record, tuple(values), scores.get(record.variant)) for record in outcome.records)


def _variant(record: VariantRecord, names: tuple[str, ...], score: float | None) -> RecordedVariant:
    measurement = record.measurement
    samples = measurement.samples if measurement and not record.status.failed else None
    rates = {"estimate": estimated(record), "score": score, "ceiling": predicted(record)}
    return RecordedVariant(
        parameters={name: record.parameters[name] for name in names},
        ms=samples.median if samples else None,
        spread=samples.spread if samples else None,
        n=samples.n if samples else 0,
        failure=str(record.status) if record.status.failed else "",
        facts=known_before(record),
        estimates={name: record.rate(1.0) / rate for name, rate in rates.items() if rate},
    )


def measure(name: str, *, seconds: float | None, jobs: int | None, gpu: bool) -> RecordedSpace:
    """Run one experiment and return its space.

    Args:
        name: Of the experiment.
        seconds: Time limit; None for none.
        jobs: Worker processes; None for the number of cores.
        gpu: Measure.
    """
    file = EXPERIMENTS / f"{name}.yaml"
    values = {axis: tuple(listed) for axis, listed in load(file).kernels[0].axes.items() if len(listed) > 1}
    stop = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)) if seconds else None
    if stop:
        stop.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            options = RunOptions(output=Path(folder), max_variants=MOST_VARIANTS, jobs=jobs, measure=gpu)
            outcome = run(file, options, services=Services(render=lambda _: ()))
            records = recorded(outcome, values)  # before the folder is gone
            compilers = {record.compiler for record in outcome.records}
    finally:
        if stop:
            stop.cancel()
    facts = outcome.run
    machine = {
        "gpu": facts.gpu.name if facts.gpu else "",
        "driver": str(facts.gpu.driver) if facts.gpu else "",
        "compiler": ", ".join(sorted(compilers)),
        "recorded": facts.started,
    }
    return RecordedSpace(name, file.read_text(), machine, values, records)


def with_predictions(kept: RecordedSpace, made: RecordedSpace) -> RecordedSpace:
    """Return a measured space with the facts and estimates of another run of the same experiment."""
    new = {repr(variant.parameters): variant for variant in made.variants}
    variants = [(variant, new.get(repr(variant.parameters), variant)) for variant in kept.variants]
    return replace(
        kept,
        variants=tuple(replace(old, facts=one.facts, estimates=one.estimates) for old, one in variants),
    )


def main() -> None:
    """Record the spaces that are asked for, one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="names of files in experiments/spaces, without .yaml")
    parser.add_argument("--seconds", type=float, default=None, help="time limit for each; none by default")
    parser.add_argument("--jobs", type=int, default=None, help="worker processes")
    parser.add_argument("--into", type=Path, default=FOLDER, help="where the spaces go")
    parser.add_argument("--predict", action="store_true", help="replace the estimates and facts alone")
    asked = parser.parse_args()
    for name in asked.names:
        began, file = time.monotonic(), asked.into / f"{name}.json.gz"
        space = measure(name, seconds=asked.seconds, jobs=asked.jobs, gpu=not asked.predict)
        if asked.predict:
            space = with_predictions(read(file), space)
        write(space, file)
        timed = sum(variant.ms is not None for variant in space.variants)
        each = (time.monotonic() - began) / max(1, len(space.variants))
        print(
            f"{name}: {len(space.variants)} variants, {timed} measured, {time.monotonic() - began:.0f} s, "
            f"{each * 1e3:.0f} ms each, {file.stat().st_size / 1000:.0f} KB",
            flush=True,
        )


if __name__ == "__main__":
    main()
