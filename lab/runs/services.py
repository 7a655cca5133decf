"""What a run takes from its surroundings, as one argument: tests and other executors put their own parts here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lab.base import workers
from lab.base.executor import Executor, ProcessExecutor
from lab.gpu.counters.profile import Counted, ProfileOrder, profiles
from lab.gpu.device import describe
from lab.gpu.process.session import GpuSession
from lab.measured.timing import GpuDescription
from lab.stages.batches import BuildFunction
from lab.stages.build import build
from lab.store.database import Store


class FindGpu(Protocol):
    """Looks for the GPU to measure on."""

    def __call__(self, *, measure: bool) -> tuple[GpuDescription | None, str]:
        """The GPU, or None and one sentence that says why there is none; see `lab.gpu.device.describe.find`."""


class ReadCounters(Protocol):
    """Reads hardware counters."""

    def __call__(self, orders: Sequence[ProfileOrder], *, seconds: float) -> Iterable[Counted]:
        """What was counted, as it comes, in at most `seconds`; see `lab.gpu.counters.profile.profiles`."""


def draw_report(store: Store) -> tuple[Path, ...]:
    """Write the report of a run; see `lab.report.render.render`."""
    # importing it takes a second, in which the first builds can begin
    from lab.report.render import render  # noqa: PLC0415

    return render(store)


@dataclass(frozen=True, slots=True)
class Services:
    """The surroundings of a run.

    Attributes:
        prepare: Starts what takes a while to start; called first.
        find_gpu: Looks for a GPU.
        session: Opens a session on the GPU; nothing starts before it is asked to.
        executor: Makes the executor for a number of jobs.
        build: Builds a batch of variants; runs on the executor.
        read_counters: Reads hardware counters.
        render: Writes the report of a run directory.
    """

    prepare: Callable[[], None] = workers.prepare
    find_gpu: FindGpu = describe.find
    session: Callable[[], GpuSession] = GpuSession
    executor: Callable[[int], Executor] = ProcessExecutor
    build: BuildFunction = build
    read_counters: ReadCounters = profiles
    render: Callable[[Store], tuple[Path, ...]] = draw_report
