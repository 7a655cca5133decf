"""The same SGEMM space through lab and through Kernel Tuner, on a GPU: wall time of the whole command, cache empty.

python benchmarks/sweep_vs_kernel_tuner.py [--variants 120] [--kernel-tuner 120] [--size 1024] [--repeats 3]

Each side is a fresh process, timed from its start to its end: imports, reading, sweep and, of lab, the report. Every
repetition has an empty cache and runs both sides; medians are printed. Then lab's command runs with a full cache, and
lab once more in a process that says when its first build, its last record and its report were there.

Both verify every variant. Kernel Tuner compiles, checks and times (7 launches) one after another; lab also
disassembles, reads and predicts every variant, times at least 10 launches with the L2 cache flushed, and writes
records and a report. Needs the extras `gpu` and `kernel-tuner`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from lab.runs.observer import RunObserver

if TYPE_CHECKING:
    from lab.experiment.model import Experiment
    from lab.experiment.space import Point

SPACE = """question: How fast is a sweep?
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
      unroll: [1, 2, 4, 8]
archs: [native]
toolchains: [nvrtc]
baselines: {baselines}
search: {{sample: {variants}, prune: {{spills: false, below_prediction: 0, below_measured: false}}}}
"""


class Clock(RunObserver):
    """Notes when the work begins, when the first build and the last record are finished, and when the page is begun."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.begun = self.last = time.perf_counter()
        self.first: float | None = None
        self.page = self.begun

    def drawing(self) -> None:
        """The report is drawn; the winner was repeated."""
        self.page = time.perf_counter()

    def built(self, *_: object) -> None:
        """A build is finished."""
        self.first = self.first or time.perf_counter()

    def recorded(self, *_: object) -> None:
        """A record is stored."""
        self.last = time.perf_counter()


def with_lab(file: Path, folder: Path) -> tuple[int, float]:
    """Variants that lab verified and measured, and seconds for each; prints where the time went."""
    from lab.runs.pipeline import RunOptions, run  # noqa: PLC0415 - every worker process imports this module

    clock = Clock()
    outcome = run(file, RunOptions(output=folder, emulate=False), clock)
    measured_records = [record for record in outcome.records if record.measurement]
    total = time.perf_counter() - clock.begun
    per_variant_s = (clock.last - clock.begun) / len(outcome.records)
    gpu = (
        sum(sum(r.measurement.samples.ms) * r.measurement.samples.batch for r in measured_records if r.measurement)
        / 1e3
    )
    compile_s = sum(r.build.seconds for r in outcome.records if r.build and not r.build.cached)
    print(
        f"lab: {len(measured_records)} of {len(outcome.records)} measured; "
        f"first build {(clock.first or 0) - clock.begun:.1f} s, "
        f"last record {clock.last - clock.begun:.1f} s, winner repeated {clock.page - clock.begun:.1f} s, "
        f"report {total:.1f} s after the start; {per_variant_s:.4f} s a variant; "
        f"timed launches {gpu:.2f} s; compilers' wall time {compile_s:.1f} s on {os.cpu_count()} cores"
    )
    for record in outcome.records:
        if not record.measurement:
            print(f"not measured: {record.label}: {record.status} {record.reason}")
    return len(measured_records), per_variant_s


def with_kernel_tuner(experiment: Experiment, points: tuple[Point, ...], language: str) -> tuple[int, float]:
    """Variants that Kernel Tuner measured, and seconds for each."""
    import numpy as np  # noqa: PLC0415 - see above
    from kernel_tuner import tune_kernel  # noqa: PLC0415 - an extra of its own

    from lab.operators.gemm import Gemm, GemmProblem  # noqa: PLC0415
    from lab.templates.instance import Instance  # noqa: PLC0415

    gemm, problem = Gemm(), experiment.problems[0].values
    assert isinstance(problem, GemmProblem)  # noqa: S101 - the experiment above is of gemm
    inputs = gemm.inputs(problem, 0)
    expected = gemm.reference(problem, inputs)["C"].values
    steps = [Instance(p.kernel.template, p.parameters, problem).launches.steps[0] for p in points]
    arguments: list[Any] = []
    answer: list[Any] = []
    for name, kind in steps[0].arguments:
        pointer = kind.endswith("*")
        arguments.append(inputs.arrays[name].copy() if pointer else np.dtype(kind).type(inputs.scalars[name]))
        answer.append(expected.T.reshape(-1).astype(np.float32) if name == "C" else None)

    def source(parameters: dict[str, int]) -> str:
        point = points[parameters["code"] // 2048]
        return Instance(point.kernel.template, point.parameters, problem).source

    # one tunable that names the variant and, for the restriction, its threads; the source decides the rest
    codes = [2048 * index + step.block[0] for index, step in enumerate(steps)]
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = tune_kernel(
            steps[0].entry,
            source,
            (problem["m"], problem["n"]),
            arguments,
            {"code": codes, "block_size_x": sorted({s.block[0] for s in steps})},
            grid_div_x=lambda p: points[p["code"] // 2048].parameters["block_m"],
            grid_div_y=lambda p: points[p["code"] // 2048].parameters["block_n"],
            restrictions=["code % 2048 == block_size_x"],
            answer=answer,
            atol=1e-2,
            lang=language,
            iterations=7,
            quiet=True,
        )
    seconds = time.perf_counter() - began
    measured_count = sum(isinstance(result.get("time"), float) for result in results)
    per_variant_s = seconds / len(points)
    print(
        f"Kernel Tuner, {language}: {measured_count} of {len(points)} measured in {seconds:.1f} s; "
        f"{per_variant_s:.4f} s a variant"
    )
    return measured_count, per_variant_s


def command(side: str, file: Path, folder: Path, variants: int) -> list[str]:
    """The command of one side: `lab`, or the language that Kernel Tuner is asked to use."""
    if side == "lab":
        return [sys.executable, "-m", "lab", "run", str(file), "--output", str(folder), "--no-emulate", "--no-resume"]
    return [sys.executable, __file__, "--only", side, "--file", str(file), "--kernel-tuner", str(variants)]


def timed(words: list[str], cache: Path, *, accepted: tuple[int, ...] = (0,)) -> float:
    """Wall time in seconds of a command with a cache of builds.

    Raises:
        subprocess.CalledProcessError: its exit code is not one of those that are accepted.
    """
    began = time.perf_counter()
    # where a driver is, NVRTC keeps a cache of its own that would not be empty from the second repetition on
    variables = {**os.environ, "LAB_CACHE_DIR": str(cache), "CUDA_CACHE_DISABLE": "1"}
    completed = subprocess.run(words, check=False, env=variables, stdout=sys.stderr)
    seconds = time.perf_counter() - began
    if completed.returncode not in accepted:
        raise subprocess.CalledProcessError(completed.returncode, words)
    return seconds


def compared(file: Path, folder: Path, sides: dict[str, int], repeats: int) -> None:
    """Run every side, each repetition with an empty cache, and print medians of the whole commands.

    Args:
        file: The experiment.
        folder: Where run directories and caches go.
        sides: From the name of each side to the number of variants that it runs; `lab` is the first.
        repeats: How often each runs.
    """
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(repeats):
        for side, variants in sides.items():
            cache = folder / "cache"
            shutil.rmtree(cache, ignore_errors=True)
            words = command(side, file, folder / f"run-{number}", variants)
            # lab ends with 1 where a variant cannot be launched, as some of a sample may not
            seconds[side].append(timed(words, cache, accepted=(0, 1) if side == "lab" else (0,)))
    per_variant_s = {side: median(taken) / sides[side] for side, taken in seconds.items()}
    for side, taken in seconds.items():
        print(
            f"{side}: {sides[side]} variants, whole command {median(taken):.1f} s (median of {repeats}, "
            f"{min(taken):.1f} to {max(taken):.1f}), {per_variant_s[side]:.4f} s a variant, "
            f"{per_variant_s[side] / per_variant_s['lab']:.2f} x lab's"
        )


def again(file: Path, folder: Path) -> float:
    """Wall time in seconds of lab's whole command with a full cache."""
    cache = folder / "full cache"
    for _ in range(2):
        seconds = timed(command("lab", file, folder / "again", 0), cache, accepted=(0, 1))
    return seconds


def main() -> None:
    """Run both, print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", type=int, default=120, help="variants that lab runs")
    parser.add_argument("--kernel-tuner", type=int, default=120, help="how many of them Kernel Tuner runs; 0 for none")
    parser.add_argument("--languages", default="NVCUDA", help="Kernel Tuner's backends: NVCUDA, PYCUDA, or both")
    parser.add_argument("--size", type=int, default=1024, help="m, n and k of the product")
    parser.add_argument("--repeats", type=int, default=3, help="how often each whole command runs")
    parser.add_argument("--baseline", action="store_true", help="let lab time cuBLAS beside every variant")
    parser.add_argument("--only", help=argparse.SUPPRESS)  # a process of our own: Kernel Tuner with this backend
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        from lab.experiment.load import load  # noqa: PLC0415
        from lab.experiment.space import expand  # noqa: PLC0415

        experiment = load(options.file)
        with_kernel_tuner(experiment, expand(experiment).points[: options.kernel_tuner], options.only)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "space.yaml"
        baselines = "[cublas]" if options.baseline else "[]"
        file.write_text(SPACE.format(size=options.size, variants=options.variants, baselines=baselines))
        languages = options.languages.replace(",", " ").split() if options.kernel_tuner else []
        sides = {"lab": options.variants} | dict.fromkeys(languages, min(options.kernel_tuner, options.variants))
        compared(file, folder, sides, options.repeats)
        print(f"lab: the whole command again, everything cached: {again(file, folder):.1f} s")
        os.environ |= {"LAB_CACHE_DIR": str(folder / "another cache"), "CUDA_CACHE_DISABLE": "1"}
        with_lab(file, folder / "cold")
        print("again, everything cached:")
        with_lab(file, folder / "warm")


if __name__ == "__main__":
    main()
