"""Count what the kernels of committed reports read again, which their records lack, and keep it beside this script.

python benchmarks/count_reuse.py plain/spmv others/gather …

builds the variants with the compiler that the records name, executes them on the CPU, and adds what the first blocks
read again to benchmarks/reuse.json.xz. benchmarks/score_agreement.py takes the counts from there. No GPU is needed. A
variant whose machine code is not the one that was measured is left out.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from estimate_again import _planned, experiment_of  # the module beside this one

from lab.emulator.results import ReuseCount
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.stages.build import Built, build, build_task
from lab.stages.emulate import emulate
from lab.store import published
from lab.store.model import VariantRecord

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).parent / "reuse.json.xz"
_TOGETHER = 8

Counts = dict[str, list[ReuseCount | None]]
"""By variant: what was counted in each launch."""


def read() -> dict[str, Counts]:
    """What was counted, by report; empty where nothing was."""
    if not KEPT.exists():
        return {}
    kept = json.loads(lzma.decompress(KEPT.read_bytes()))
    return {
        name: {
            variant: [one and ReuseCount(**{**one, "again": tuple(one["again"])}) for one in steps]
            for variant, steps in variants.items()
        }
        for name, variants in kept.items()
    }


def write(found: dict[str, Counts]) -> None:
    """Keep what was counted, by report."""
    kept = {
        name: {variant: [one and asdict(one) for one in steps] for variant, steps in variants.items()}
        for name, variants in sorted(found.items())
    }
    KEPT.write_bytes(lzma.compress(json.dumps(kept).encode(), preset=9))


def with_reuse(record: VariantRecord, counts: Counts) -> VariantRecord:
    """The record with what was counted later, where it lacks that."""
    done, found = record.emulation, counts.get(record.variant)
    if done is None or found is None or any(step.reuse for step in done.launches):
        return record
    steps = tuple(replace(step, reuse=one) for step, one in zip(done.launches, found, strict=True))
    return replace(record, emulation=replace(done, launches=steps))


def counted(name: str) -> Counts:
    """Build and execute the variants of a report."""
    kept = published.read_records(ROOT / "reports" / "h200" / name)
    experiment = experiment_of(kept.run, ROOT / "experiments" / Path(name).parent)
    records = [one for one in kept.records if one.build is not None and one.emulation is not None]
    planned = [_planned(experiment, record) for record in records]
    tasks = [build_task(one) for one in planned]
    built = [one for i in range(0, len(tasks), _TOGETHER) for one in build(tasks[i : i + _TOGETHER])]
    context = FlowContext(experiment, kept.run.gpu, emulate=True)
    found: Counts = {}
    for record, plan, outcome in zip(records, planned, built, strict=True):
        if isinstance(outcome, Built) and record.build and outcome.sass_sha256 == record.build.sass_sha256:
            task = flow.emulation_task(context, flow.inspect(context, plan, outcome, None))
            done = emulate(replace(task, halved=()), outcome.build.ptx)
            found[record.variant] = [step.reuse for step in done.launches]
    return found


def main(names: Sequence[str]) -> None:
    """Count, and keep it."""
    for name in names:
        found = counted(name)
        write(read() | {name: found})
        print(f"{name}: {len(found)} variants", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
