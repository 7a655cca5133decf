"""Cost of 10,000 or 100,000 variants for the process that runs a sweep: seconds by stage, and memory growth.

    python benchmarks/large_sweep.py [--variants 10000] [--kernel gemm] [--folder FOLDER] [--report]

Workers and the GPU are played, so that only the client's own work is left: one real build and one real execution on
the CPU answer for all variants, and every answer is pickled as it would be on its way from a worker. Times are the
variants' ids. Everything else is real: the parameter space, the sandbox that renders, the scheduler, the files and the
database. With `--fail`, every second variant does not compile. With `--search`, the sweep is a search, which takes
results back in order. `--resume` runs again what is in FOLDER.

Seconds are those that the main thread computes. The memory is this process's resident set in MB, read whenever a tenth
of the variants is recorded. Nothing that is printed was measured on a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import math
import pickle
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

from lab.base.executor import Executor, ProcessExecutor
from lab.experiment import space
from lab.gpu.process.cards import Card
from lab.gpu.process.job import BaselineResult, Job, JobResult, Policy
from lab.gpu.process.localcards import LocalCards
from lab.gpu.process.session import GpuSession
from lab.measured.timing import CardState, GpuDescription, Measurement, Samples, Verification
from lab.recorded.run_records import VariantRecord
from lab.runs import flow, pipeline, recorder, sweep
from lab.runs.observer import RunObserver
from lab.runs.services import Services, draw_report
from lab.stages import provenance
from lab.stages.build import BuildFailure, BuildTask, Built, build
from lab.stages.executed import execution
from lab.store.database import Store

H200 = GpuDescription("NVIDIA H200", "sm_90", 132, 1980, 150 * 10**9, 60 * 2**20, "580.159", "13.0")

GEMM = """question: What do {variants} variants of a matrix product cost?
operator: gemm
problem: {{m: 4096, n: 4096, k: 4096, dtype: float32, layout: nn, alpha: 1.0, beta: 0.0}}
emulate: {{m: 256, n: 128, k: 64}}
kernels:
  - template: gemm/tiled.cu.j2
    parameters:
      block_m: [32, 64, 128]
      block_n: [32, 64, 128]
      block_k: [8, 16, 32]
      thread_m: [2, 4, 8]
      thread_n: [4, 8]
      vector_width: [1, 2, 4]
      padding: [0, 1, 2, 4]
      double_buffer: [false, true]
      unroll: [1, 2, 4, 8]
      min_blocks: [1, 2]
baselines: [cublas]
archs: [sm_90]
toolchains: [nvrtc]
{search}
"""

PLAIN = """question: What do {variants} variants of an addition cost?
source: add.cu
problem: {{n: 10_000_000}}
emulate: {{n: 10_000}}
arguments: {{c: "out float32[n]", a: "float32[n]", b: "float32[n]", n: int32}}
parameters: {{block: [32, 64, 128, 256, 512], first: {first}, second: {second}, third: {third}}}
grid: ceil_div(n, block)
block: block
reference: {{c: a + b}}
archs: [sm_90]
toolchains: [nvrtc]
{search}
"""

SOURCE = """__global__ void add(float *c, const float *a, const float *b, int n)
{
    int i = blockIdx.x * block + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i] + 0 * (first + second + third);
}
"""

MB = 2**20


def resident_mb() -> float:
    """Resident set of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / MB


class Clock:
    """Seconds of computing of each stage in the main thread, without those of the stages that it calls."""

    def __init__(self) -> None:
        """Start with no stage."""
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner = [0.0]

    def watch(self, owner: object, name: str, stage: str) -> None:
        """Count the time of a function or method under a stage's name."""
        original: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            began = time.thread_time()
            self._inner.append(0.0)
            try:
                return original(*args, **kwargs)
            finally:
                whole = time.thread_time() - began
                self.seconds[stage] += whole - self._inner.pop()
                self._inner[-1] += whole

        setattr(owner, name, timed)


class PlayedExecutor:
    """An executor that answers at once, by pickled answers of one real build and one real execution."""

    def __init__(self, jobs: int, *, fail: bool) -> None:
        """Prepare; the first task of each kind is really done."""
        self.workers, self._fail, self._calls = jobs, fail, 0
        self._built = self._executed = b""

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:  # noqa: ANN401
        """Answer a task; its arguments are pickled, too, as they would be."""
        del timeout_s
        pickle.dumps((function, args), pickle.HIGHEST_PROTOCOL)
        future: Future[Any] = Future()
        if function is execution:
            self._executed = self._executed or self._really(execution, *args)
            future.set_result(pickle.loads(self._executed))  # noqa: S301 - our own
        else:
            future.set_result([self._build(task) for task in args[0]])
        return future

    def _build(self, task: BuildTask) -> Built | BuildFailure:
        self._calls += 1
        if self._fail and self._calls % 2 == 0:
            log = "\n".join(f"kernel.cu({line}): error: identifier is undefined" for line in range(20))
            return BuildFailure("kernel.cu(7): error: identifier is undefined", log, "nvrtc kernel.cu")
        self._built = self._built or self._really(_build_one, task)
        made: Built | BuildFailure = pickle.loads(self._built)  # noqa: S301 - our own
        return made

    @staticmethod
    def _really(function: Callable[..., Any], *args: Any) -> bytes:  # noqa: ANN401
        """Do a task in a worker: compilers and machine code stay out of this process."""
        with ProcessExecutor(1) as executor:
            return pickle.dumps(executor.submit(function, *args, timeout_s=300).result(), pickle.HIGHEST_PROTOCOL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def _build_one(task: BuildTask) -> Built | BuildFailure:
    return build([task])[0]


class PlayedSession:
    """A GPU session in which the id of a variant decides its time."""

    workers = 1

    def __exit__(self, *_: object) -> None:
        return None

    def start(self) -> GpuDescription:
        """Do nothing."""
        return H200

    def restart(self) -> GpuDescription:
        """Do nothing."""
        return H200

    def run(self, job: Job, policy: Policy) -> JobResult:
        """Answer a job."""
        pickle.dumps((job, policy), pickle.HIGHEST_PROTOCOL)
        ms = 2.1 + int(job.variant, 16) / 16**10
        passed = Verification(passed=True, max_error=0.0, tolerance=1e-6, worst="", executed_on=H200.name)
        timed = Measurement(Samples((ms,) * 30), Samples((2.0,) * 30), "cublas", "cold", CardState(), CardState())
        return JobResult(job.variant, passed, timed, None, BaselineResult("cublas", "libcublas 13"))


class Watch(RunObserver):
    """Reads the memory whenever a tenth of the variants is finished."""

    def __init__(self, variants: int) -> None:
        """Begin at none of `variants`."""
        self._every, self._seen = max(1, variants // 10), 0
        self.memory: list[float] = []

    def recorded(self, record: VariantRecord) -> None:
        """Count a variant."""
        del record
        self._seen += 1
        if self._seen % self._every == 0:
            self.memory.append(resident_mb())


def no_report(store: Store) -> tuple[Path, ...]:
    """Draw nothing."""
    return (store.folder / "index.html",)


def write_experiment(folder: Path, kernel: str, variants: int, *, searching: bool) -> Path:
    """Write the experiment; its space has at least so many points, and the first of them are taken."""
    file = folder / f"{kernel}.yaml"
    search = f"search: {{sample: {variants}, seed: 1}}" if searching else ""
    if kernel == "gemm":
        file.write_text(GEMM.format(variants=variants, search=search))
        return file
    (folder / "add.cu").write_text(SOURCE)
    side = math.ceil((variants / 5) ** (1 / 3))
    values = list(range(side))
    file.write_text(PLAIN.format(variants=variants, search=search, first=values, second=values, third=values))
    return file


@contextlib.contextmanager
def first_points(variants: int) -> Iterator[None]:
    """Let an experiment have its first `variants` points and no more."""
    original = space.expand

    def some(experiment: Any, *, max_variants: int | None = None) -> space.Expansion:  # noqa: ANN401
        found = original(experiment, max_variants=max_variants)
        return replace(found, points=found.points[:variants])

    vars(pipeline)["expand"] = some
    try:
        yield
    finally:
        vars(pipeline)["expand"] = original


def watched() -> Clock:
    """Count the stages of a run."""
    clock = Clock()
    stages: Sequence[tuple[object, str, str]] = (
        (pipeline, "load", "read the file"),
        (pipeline, "plan", "plan: render, hash"),
        (pipeline, "conditions_of", "conditions"),
        (pipeline, "_take_up", "take up"),
        (sweep.Sweep, "work", "schedule"),
        (flow, "inspect", "inspect"),
        (provenance, "files_of", "make files"),
        (recorder.Recorder, "files", "write files (waiting)"),
        (recorder.Recorder, "finish", "write records (waiting)"),
        (recorder.Recorder, "take_over", "take over"),
        (sweep.Sweep, "_emulated", "after execution"),
        (flow, "emulation_task", "before execution"),
        (flow, "emulation_work", "before execution"),
        (PlayedExecutor, "submit", "played workers"),
        (flow, "job_of", "before the GPU"),
        (sweep.Sweep, "_measured", "after the GPU"),
        (pipeline, "repeat_winners", "measure the best again"),
        (Store, "drop_others", "drop others"),
        (Store, "records", "read records"),
        (Store, "whole_records", "read whole records"),
    )
    for owner, name, stage in stages:
        clock.watch(owner, name, stage)
    return clock


def one_card(*, measure: bool, every: bool = False, model: str = "") -> tuple[tuple[Card, ...], str]:
    """The card that is played."""
    del every, model
    return ((Card("GPU-0", "", "", H200, "GPU 0"),), "") if measure else ((), "")


def main() -> None:
    """Run the sweep and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", type=int, default=10000)
    parser.add_argument("--kernel", choices=("gemm", "plain"), default="gemm")
    parser.add_argument("--folder", type=Path, help="where the run goes; a temporary folder by default")
    parser.add_argument("--workers", type=int, default=16, help="of the played executor")
    parser.add_argument("--fail", action="store_true", help="every second variant does not compile")
    parser.add_argument("--search", action="store_true", help="search instead of a sweep")
    parser.add_argument("--resume", action="store_true", help="go on with the run in FOLDER")
    parser.add_argument("--report", action="store_true", help="draw the report, too")
    settings = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = settings.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(first_points(settings.variants))
        clock, watch = watched(), Watch(settings.variants)
        clock.watch(pipeline, "expand", "list the space")
        services = Services(
            find_cards=one_card,
            cards=lambda found: LocalCards(found, lambda _: cast("GpuSession", PlayedSession())),
            executor=lambda jobs: cast("Executor", PlayedExecutor(settings.workers or jobs, fail=settings.fail)),
            render=draw_report if settings.report else no_report,
        )
        options = pipeline.RunOptions(output=folder / "run", max_variants=10**9, resume=settings.resume, held=False)
        began, before, computed = time.perf_counter(), resident_mb(), time.thread_time()
        file = write_experiment(folder, settings.kernel, settings.variants, searching=settings.search)
        outcome = pipeline.run(file, options, watch, services)
        whole, computed = time.perf_counter() - began, time.thread_time() - computed
        gc.collect()
        at_end = resident_mb()
        statuses = [record.status for record in outcome.each()]
        failed = sum(status.failed for status in statuses)
        print(f"{len(statuses)} variants ({failed} failed) in {whole:.1f} s; {before:.0f} MB before")
        print("MB at each tenth:", " ".join(f"{one:.0f}" for one in watch.memory), f"| at the end {at_end:.0f}")
        print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
        print(f"{computed:.1f} s of computing in the main thread, {computed / settings.variants * 1e3:.2f} ms each:")
        for stage, seconds in sorted(clock.seconds.items(), key=lambda pair: -pair[1]):
            print(f"  {stage:28} {seconds:8.2f} s {seconds / settings.variants * 1e3:8.3f} ms each")
        print(f"  {'the rest':28} {computed - sum(clock.seconds.values()):8.2f} s")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
