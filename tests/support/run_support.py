"""Fake services for a run: without worker processes or a GPU. All timings are invented."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Self, cast

from lab.gpu.process.cards import Card
from lab.gpu.process.job import BaselineResult, Job, JobResult, Policy
from lab.gpu.process.localcards import LocalCards
from lab.gpu.process.session import GpuSession
from lab.measured.timing import CardState, GpuDescription, Measurement, Samples, Verification
from lab.runs.services import Services
from lab.stages.build import BuildFailure, BuildTask, Built, build
from lab.store.database import Store

H200 = GpuDescription("NVIDIA H200", "sm_90", 132, 1980, 150 * 10**9, 60 * 2**20, "580.159", "13.0")
NO_GPU = "Nothing was measured: there is no GPU."


class InProcess:
    """An executor that does what it is asked at once, in this process and this thread."""

    def __init__(self, jobs: int = 1) -> None:
        self.workers = jobs
        self.submitted: list[tuple[Callable[..., Any], tuple[Any, ...], float]] = []
        self.left: list[type[BaseException] | None] = []

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:
        self.submitted.append((function, args, timeout_s))
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args))
        except Exception as error:  # noqa: BLE001 - it is the future's, as an executor's is
            future.set_exception(error)
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.left.append(kind)


class Later(InProcess):
    """An executor whose work the test finishes, in any order."""

    def __init__(self, jobs: int = 1) -> None:
        super().__init__(jobs)
        self.futures: list[Future[Any]] = []

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:
        self.submitted.append((function, args, timeout_s))
        self.futures.append(Future())
        return self.futures[-1]


class DecidedSession:
    """A GPU session in which every job has the time that its id decides, in any process."""

    workers, process_id = 1, 1

    def __exit__(self, *_: object) -> None:
        return None

    def start(self) -> GpuDescription:
        return H200

    def restart(self) -> GpuDescription:
        return H200

    def close(self) -> None:
        return None

    def run(self, job: Job, policy: Policy) -> JobResult:
        ms = 1 + int(job.variant, 16) / 16**10
        passed = Verification(passed=True, max_error=0.0, tolerance=1e-6, worst="", executed_on=H200.name)
        timed = Measurement(Samples((ms,) * 3), Samples((1.0,) * 3), "cublas", "cold", CardState(), CardState())
        return JobResult(job.variant, passed, timed, None, BaselineResult("cublas", "libcublas 13"))


@cache
def _built(task: BuildTask) -> Built | BuildFailure:
    return build([task])[0]


def build_once(tasks: Sequence[BuildTask]) -> list[Built | BuildFailure]:
    """Builds through one compiler call for all equal sources, and says that none came from the cache."""
    made = [_built(task) for task in tasks]
    return [replace(one, cached=False) if isinstance(one, Built) else one for one in made]


def no_gpu(*, measure: bool, every: bool = False, model: str = "") -> tuple[tuple[Card, ...], str]:
    return (), NO_GPU


def cards_of(number: int) -> tuple[Card, ...]:
    """As many H200s as there are letters: `GPU-a`, called GPU 0, `GPU-b`, called GPU 1."""
    return tuple(Card(f"GPU-{chr(97 + i)}", "", f"GPU-{chr(97 + i)}", H200, f"GPU {i}") for i in range(number))


def an_h200(*, measure: bool, every: bool = False, model: str = "") -> tuple[tuple[Card, ...], str]:
    return (cards_of(1), "") if measure else ((), "Nothing was measured: --no-gpu was given.")


def no_report(store: Store) -> tuple[Path, ...]:
    return (store.folder / "index.html",)


def without_a_gpu(**parts: Any) -> Services:
    """This machine as if it had no GPU."""
    return replace(Services(find_cards=no_gpu), **parts)


def with_a_gpu(session: Callable[[], object], **parts: Any) -> Services:
    """This machine as if it had an H200 that `session` plays."""
    return replace(Services(find_cards=an_h200, cards=played_by(session)), **parts)


def played_by(session: Callable[[], object]) -> Callable[[Sequence[Card]], LocalCards]:
    """Opens cards that `session` plays, each with one of its own."""
    return partial(LocalCards, session=lambda _: cast("GpuSession", session()))


def all_played(**parts: Any) -> Services:
    """Everything played, so that a run takes milliseconds."""
    played = with_a_gpu(DecidedSession, prepare=lambda: None, executor=InProcess, build=build_once, render=no_report)
    return replace(played, **parts)
