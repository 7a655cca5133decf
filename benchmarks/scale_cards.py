"""Scaling over several GPUs of one machine: a sweep and a tuning run on one card, then on more.

    python benchmarks/scale_cards.py [--cards 1,2] [--parts sweep,tune,busy] [--json FILE]

The sweep's kernels are compiled once, before anything is timed, so that both runs take them from the cache. Printed for
each number of cards: seconds from the first to the last record (the timing stage), seconds of the whole command with
its report, and the winner with the spread of its samples. The last part times one variant again and again on one card,
interleaved with idle and with busy cores (builds that come from no cache), on all cores and on all but one: does what
the builders do change a time?
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from lab.experiment.variants import Planned
    from lab.gpu.process.cards import Card
    from lab.recorded.run_records import VariantRecord
    from lab.runs.observer import RunObserver

SPACE = """question: What are several cards worth?
operator: gemm
problem: {{m: {size}, n: {size}, k: {size}}}
kernels:
  - template: gemm/tiled.cu.j2
    parameters:
      block_m: [64, 128]
      block_n: [64, 128]
      block_k: [8, 16]
      thread_m: [4, 8]
      thread_n: [4, 8]
      vector_width: [1, 2, 4]
      padding: [0, 4]
      double_buffer: [false, true]
      unroll: [{unroll}]
archs: [{arch}]
toolchains: [nvrtc]
baselines: [cublas]
"""

TUNING = """question: What are several cards worth at many sizes?
arch: {arch}
toolchain: nvrtc
baselines: [cublas]
timing: {{samples: 5}}
groups:
  - name: tensile
    template: gemm/tensile.cu.j2
    InitialSolutionParameters: {{DepthU: 8}}
    ForkParameters:
      ThreadTile: [[8, 8], [4, 4]]
      WorkGroup: [[16, 16, 1], [8, 8, 4]]
    BenchmarkFinalParameters:
      - range: [[128, 64, {stop}], [128, 64, {stop}], 512]
"""

MOST = 5000
"""Variants that the sweep may have."""

BLOCKS, JOBS = 4, 10
"""Turns of idle and busy cores, and jobs in each."""


@dataclass
class Stage:
    """Notes when records come."""

    first: float = 0.0
    last: float = 0.0
    records: int = 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Whatever else is told is of no interest."""
        return lambda *_, **__: None

    def recorded(self, _: object) -> None:
        """A variant is finished."""
        self._tick()

    def timed(self, _: object, points: int, leader: object = None) -> None:
        """A size is finished."""
        del leader
        self._tick(points)

    def _tick(self, points: int = 1) -> None:
        self.last = time.perf_counter()
        self.first = self.first or self.last
        self.records += points


def taking(cards: Sequence[Card]) -> Callable[..., tuple[tuple[Card, ...], str]]:
    """Find these cards and no others."""

    def find(*, measure: bool, **_: object) -> tuple[tuple[Card, ...], str]:
        return (tuple(cards), "") if measure else ((), "Nothing was measured: --no-gpu was given.")

    return find


def sweep(file: Path, folder: Path, cards: Sequence[Card]) -> dict[str, Any]:
    """Run the sweep, all builds cached."""
    from lab.runs.pipeline import RunOptions, run  # noqa: PLC0415 - every worker process imports this module
    from lab.runs.services import Services  # noqa: PLC0415

    stage, began = Stage(), time.perf_counter()
    services, observer = Services(find_cards=taking(cards)), cast("RunObserver", stage)
    options = RunOptions(output=folder, max_variants=MOST, emulate=False, cluster="local")
    outcome = run(file, options, observer, services)
    whole = time.perf_counter() - began
    timed = [record for record in outcome.records if record.measurement]
    best = sorted(timed, key=lambda record: -(record.throughput or 0))[:5]
    shares = {card.label: sum(_card(record) == card.id for record in timed) for card in cards}
    return {
        "cards": len(cards),
        "variants": len(outcome.records),
        "measured": len(timed),
        "not_measured": [
            f"{record.label}: {record.status} {record.reason}" for record in outcome.records if not record.measurement
        ],
        "begin_s": round(stage.first - began, 2),
        "timing_s": round(stage.last - stage.first, 2),
        "whole_s": round(whole, 2),
        "shares": shares,
        "best": [_told(record) for record in best],
        "notes": list(outcome.run.notes),
    }


def _card(record: VariantRecord) -> str:
    return record.measurement.card if record.measurement else ""


def _told(record: VariantRecord) -> dict[str, Any]:
    timed = record.measurement
    assert timed is not None  # noqa: S101 - measured ones are told of
    return {
        "variant": record.variant,
        "label": record.label,
        "tflops": round(record.throughput or 0, 2),
        "spread": round(timed.samples.spread, 4),
        "ratio": round(timed.ratio_to_baseline or 0, 4),
        "again": round(record.rate(timed.remeasured.median), 2) if timed.remeasured else None,
        "card": timed.card,
    }


def tune(file: Path, folder: Path, cards: Sequence[Card]) -> dict[str, Any]:
    """Run the tuning file; the kernels are few, and their builds are cached."""
    from lab.runs.services import Services  # noqa: PLC0415
    from lab.store.tuning import TuningStore  # noqa: PLC0415
    from lab.store.tuning_model import TimingStage  # noqa: PLC0415
    from lab.tuning.run import TuningOptions  # noqa: PLC0415
    from lab.tuning.run import tune as run_tuning  # noqa: PLC0415

    stage, began = Stage(), time.perf_counter()
    services = Services(find_cards=taking(cards))
    run_tuning(file, TuningOptions(output=folder, cluster="local"), stage, services)
    whole = time.perf_counter() - began
    with TuningStore(folder) as store:
        times = store.times(TimingStage.FINAL)
    wins: dict[str, str] = {}
    for size in {size for own in times.values() for size in own}:
        ranked = sorted(
            (timed.ms, name) for name, own in times.items() if (timed := own.get(size)) and timed.ms is not None
        )
        wins[str(size)] = ranked[0][1] if ranked else ""
    return {
        "cards": len(cards),
        "sizes": len(wins),
        "points": stage.records,
        "begin_s": round(stage.first - began, 2),
        "timing_s": round(stage.last - stage.first, 2),
        "whole_s": round(whole, 2),
        "wins": wins,
        "ms": {name: {str(size): timed.ms for size, timed in own.items()} for name, own in times.items()},
    }


def prepare(file: Path, folder: Path) -> float:
    """Compile everything that the sweep needs; return the seconds."""
    from lab.runs.pipeline import RunOptions, run  # noqa: PLC0415
    from lab.runs.services import Services  # noqa: PLC0415

    began = time.perf_counter()
    run(
        file,
        RunOptions(output=folder, max_variants=MOST, emulate=False, measure=False),
        None,
        Services(render=lambda _: ()),
    )
    return time.perf_counter() - began


def busy(file: Path, folder: Path, card: Card) -> dict[str, Any]:
    """Time one variant with idle cores, with builds on all cores and with builds on all but one."""
    from lab.base import workers  # noqa: PLC0415
    from lab.base.executor import ProcessExecutor  # noqa: PLC0415
    from lab.experiment.load import load  # noqa: PLC0415
    from lab.experiment.space import expand  # noqa: PLC0415
    from lab.experiment.variants import plan, toolchains  # noqa: PLC0415
    from lab.gpu.process.localcards import LocalCards  # noqa: PLC0415
    from lab.runs import flow  # noqa: PLC0415
    from lab.stages.build import Built, build, build_task  # noqa: PLC0415
    from lab.templates.launches import BuiltLaunch  # noqa: PLC0415

    experiment = load(file)
    planned = plan(experiment, expand(experiment, max_variants=MOST).points, toolchains(experiment), experiment.archs)
    (built,) = build([build_task(planned[0])])
    assert isinstance(built, Built)  # noqa: S101 - it was built before
    variant = planned[0].built(BuiltLaunch.of(built.build))
    job, policy = flow.job_of(experiment, variant, built.build.cubin), flow.policy_of(experiment)
    policy = replace(policy, check=False)
    cores, phases = workers.cores(), dict[str, dict[str, Any]]()
    taken: dict[str, list[tuple[float, float, float]]] = {"idle": [], "all cores": [], "all but one": []}
    left = list(planned)
    with LocalCards([card]) as cards:
        for _ in range(BLOCKS):
            for name, number in (("idle", 0), ("all cores", cores), ("all but one", cores - 1)):
                os.environ["LAB_CACHE_DIR"] = tempfile.mkdtemp(dir=folder)  # nothing in it: every build is one
                with ProcessExecutor(max(1, number)) as executor:
                    taken[name] += _block(cards, job, policy, executor if number else None, left, build, build_task)
    for name, rows in taken.items():
        ms, base, wall = (statistics.median(column) for column in zip(*rows, strict=True))
        spread = statistics.quantiles([row[0] for row in rows], n=10)
        phases[name] = {
            "jobs": len(rows),
            "kernel_ms": ms,
            "p10_ms": spread[0],
            "p90_ms": spread[-1],
            "baseline_ms": base,
            "ratio": statistics.median(row[1] / row[0] for row in rows),
            "wall_s": wall,
        }
    return {"cores": cores, **phases}


def _block(  # noqa: PLR0917
    cards: Any,  # noqa: ANN401
    job: Any,  # noqa: ANN401
    policy: Any,  # noqa: ANN401
    executor: Any,  # noqa: ANN401
    left: list[Planned],
    build: Callable[..., Any],
    task_of: Callable[[Planned], Any],
) -> list[tuple[float, float, float]]:
    """Some jobs, one after another, while builds keep the executor busy."""
    rows, building = [], set[Future[Any]]()

    def fill() -> None:
        while executor is not None and len(building) < 2 * executor.workers:
            left.append(left.pop(0))
            building.add(executor.submit(build, [task_of(left[-1])], timeout_s=120.0))

    fill()
    if building:
        wait(building, return_when=FIRST_COMPLETED)  # the processes are up
    for _ in range(JOBS):
        began = time.perf_counter()
        running = cards.submit(job, policy)
        while not running.done():
            building -= wait({running, *building}, return_when=FIRST_COMPLETED).done
            fill()
        timed = running.result().result.measurement
        rows.append((timed.samples.median, timed.baseline.median, time.perf_counter() - began))
    return rows


def compared(reference: dict[str, Any], other: dict[str, Any]) -> str:
    """Describe whether the winners of a sweep agree within the spread."""
    if not reference["best"] or not other["best"]:
        return "nothing was measured"
    first, second = reference["best"][0], other["best"][0]
    if first["variant"] == second["variant"]:
        return "the same winner"
    rates = {row["variant"]: row["tflops"] for row in reference["best"]}
    there = rates.get(second["variant"])
    if there is None:
        return f"another winner, {second['label']}, which is not among one card's first five"
    return (
        f"another winner, which is {1 - there / first['tflops']:.2%} slower on one card (spread {first['spread']:.2%})"
    )


def tuned_alike(reference: dict[str, Any], other: dict[str, Any]) -> str:
    """At how many sizes the winners agree, and how much slower the others are by one card's times."""
    loss = [
        reference["ms"][other["wins"][size]][size] / reference["ms"][name][size] - 1
        for size, name in reference["wins"].items()
        if other["wins"][size] != name and size in reference["ms"].get(other["wins"][size], {})
    ]
    same = f"the same winner at {len(reference['wins']) - len(loss)} of {len(reference['wins'])} sizes"
    if not loss:
        return same
    return f"{same}; elsewhere the other one is {statistics.median(loss):.2%} slower (median), {max(loss):.2%} at most"


def main() -> None:
    """Run what was asked for, and print."""
    from lab.gpu.process.find import find_cards  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cards", default="1,2", help="numbers of cards, the first to compare with")
    parser.add_argument(
        "--unroll", default="1,2,4,8", help="values of one parameter; with four there are 1280 variants"
    )
    parser.add_argument("--size", type=int, default=1024, help="m, n and k of the sweep's product")
    parser.add_argument("--steps", type=int, default=27, help="sizes along m and n")
    parser.add_argument("--parts", default="sweep,tune,busy", help="what to run")
    parser.add_argument("--json", type=Path, help="file for everything that was found")
    options = parser.parse_args()
    there, why = find_cards(measure=True, every=True)
    numbers = [int(number) for number in options.cards.split(",") if int(number) <= len(there)]
    if not numbers:
        raise SystemExit(why or f"there are {len(there)} cards")
    gpu, parts = there[0].description, options.parts.split(",")
    report: dict[str, Any] = {"gpu": gpu.name, "driver": gpu.driver, "cores": os.cpu_count(), "there": len(there)}

    def keep() -> None:
        if options.json:
            options.json.write_text(json.dumps(report, indent=1))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["LAB_CACHE_DIR"] = str(folder / "cache")
        file, tuning = folder / "space.yaml", folder / "sizes.yaml"
        file.write_text(SPACE.format(size=options.size, unroll=options.unroll, arch=gpu.arch))
        tuning.write_text(TUNING.format(arch=gpu.arch, stop=128 + 64 * (options.steps - 1)))
        if "sweep" in parts:
            report["prepare_s"] = round(prepare(file, folder / "prepared"), 1)
            print(f"all builds of the sweep: {report['prepare_s']} s", flush=True)
            report["sweep"] = _each(numbers, lambda n: sweep(file, folder / f"sweep{n}", there[:n]), compared)
            keep()
        if "tune" in parts:
            report["tune"] = _each(numbers, lambda n: tune(tuning, folder / f"tune{n}", there[:n]), tuned_alike)
            keep()
        if "busy" in parts:
            report["busy"] = busy(file, folder, there[0])
            print(json.dumps(report["busy"], indent=1), flush=True)
            keep()


def _each(
    numbers: Sequence[int],
    measure: Callable[[int], dict[str, Any]],
    alike: Callable[[dict[str, Any], dict[str, Any]], str],
) -> list[dict[str, Any]]:
    """Run a part on each number of cards, and print how it compares with the first."""
    rows: list[dict[str, Any]] = []
    for number in numbers:
        row = measure(number)
        rows.append(row)
        first = rows[0]
        print({key: value for key, value in row.items() if key not in {"ms", "wins"}})
        if len(rows) > 1:
            stage, whole = (first[key] / max(row[key], 1e-9) for key in ("timing_s", "whole_s"))
            row |= {"stage_ratio": round(stage, 2), "whole_ratio": round(whole, 2), "winners": alike(first, row)}
            print(f"{number} cards: timing stage {stage:.2f} x, whole {whole:.2f} x; {row['winners']}", flush=True)
    return rows


if __name__ == "__main__":
    main()
