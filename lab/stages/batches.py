"""Batched builds in worker processes: starting the disassembler takes longer than disassembling one kernel.

A variant on which the compiler hangs or crashes does not affect others: its batch is rebuilt one variant at a time.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

from lab.base import interrupts
from lab.base.errors import LabError
from lab.base.executor import Executor, WorkerLostError
from lab.base.machine_errors import fault_of
from lab.stages.build import BuildFailure, BuildTask, Built, build

BUILD_TIMEOUT_S = 300.0
"""Compile time limit per variant; beyond it the variant is recorded as a build failure."""

BATCH_TIMEOUT_S = 30.0
"""Time limit of a batch; beyond it, its variants are built one by one."""

_MOST = 8
"""Most variants in a batch: each then bears an eighth of nvdisasm's start-up cost; larger batches save little more."""

_WORTH_S = 4.0
"""Most seconds of compiling in a batch: beyond them, start-up is negligible and the batch only delays results."""

BuildFunction = Callable[[Sequence[BuildTask]], Sequence[Built | BuildFailure]]
"""A function that builds several variants in one worker, in order."""

Done = Callable[[Built | BuildFailure], None]
"""A callback for the outcome of one build."""


class BatchSizes:
    """Batch sizes, from the compile times of earlier variants."""

    def __init__(self, workers: int) -> None:
        """Start without compile times.

        Args:
            workers: Number of concurrent batches.
        """
        self._workers = workers
        self._begun, self._compiled, self._seconds = 0, 0, 0.0

    def following(self, waiting: int) -> int:
        """Return the size of the next batch when `waiting` variants are left, at least 1.

        The first batches have one variant per worker, so that later stages can begin. Later ones are as large as pays
        off, and smaller towards the end, so that all workers finish together.
        """
        if self._begun < self._workers:
            return 1
        share = -(-waiting // self._workers)
        if self._seconds:
            share = min(share, int(_WORTH_S * self._compiled / self._seconds))
        return max(1, min(share, _MOST))

    def begin(self) -> None:
        """Count a batch that starts."""
        self._begun += 1

    def learn(self, outcomes: Sequence[Built | BuildFailure]) -> None:
        """Record compile times; cached builds do not count."""
        for outcome in outcomes:
            if isinstance(outcome, Built) and not outcome.cached:
                self._compiled, self._seconds = self._compiled + 1, self._seconds + outcome.build.seconds


@dataclass
class _Wanted:
    """A build under way, and the callbacks that wait for it."""

    task: BuildTask
    done: list[Done]
    key: tuple[object, ...]
    repeated: bool = False


class BuildQueue:
    """Queued and running builds; a lane of the scheduler in `lab.runs.task_schedule`.

    Identical tasks that are under way at the same time are built once.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        function: BuildFunction = build,
        sizes: BatchSizes | None = None,
        room: Callable[[], bool] | None = None,
    ) -> None:
        """Create an empty queue.

        Args:
            executor: Runs the batches.
            function: Builds a batch; must be importable in the executor's workers.
            sizes: Batch sizes learnt by earlier queues.
            room: Returns whether another batch may start; by default, while there are fewer than two per worker.
        """
        self._executor, self._function = executor, function
        self._room = room or (lambda: len(self._running) < 2 * executor.workers)
        self._sizes = sizes or BatchSizes(executor.workers)
        self._supplies: deque[Iterator[tuple[BuildTask, Done]]] = deque()
        self._waiting = 0
        self._running: dict[Future[Any], list[_Wanted]] = {}
        self._under_way: dict[tuple[object, ...], _Wanted] = {}

    @property
    def running(self) -> Collection[Future[Any]]:
        """Batches under way."""
        return self._running.keys()

    def add(self, task: BuildTask, callback: Done) -> None:
        """Queue a build; `callback` receives its outcome."""
        self.supply(iter([(task, callback)]), 1)

    def supply(self, tasks: Iterator[tuple[BuildTask, Done]], number: int) -> None:
        """Queue `number` builds, each taken from `tasks` when it starts."""
        self._supplies.append(tasks)
        self._waiting += number

    def _next(self) -> tuple[BuildTask, Done]:
        self._waiting -= 1
        while True:
            if (following := next(self._supplies[0], None)) is not None:
                return following
            self._supplies.popleft()

    def feed(self) -> None:
        """Start batches while there is room."""
        while self._waiting and self._room():
            batch: list[_Wanted] = []
            size = self._sizes.following(self._waiting)
            while self._waiting and len(batch) < size:
                task, callback = self._next()
                key = _key(task)
                if under_way := self._under_way.get(key):
                    under_way.done.append(callback)
                    continue
                self._under_way[key] = job = _Wanted(task, [callback], key)
                batch.append(job)
            if batch:
                self._start(batch)

    def finished(self, completed: Collection[Future[Any]]) -> list[Future[Any]]:
        """Return the `completed` futures that belong to this queue, in the order they started."""
        return [future for future in self._running if future in completed]

    def ended(self, future: Future[Any]) -> None:
        """Deliver the outcomes of a finished batch, or rebuild its variants if the worker was lost.

        Raises:
            MissingToolError: the compiler or the disassembler cannot run here.
        """
        batch = self._running.pop(future)
        try:
            outcomes: Sequence[Built | BuildFailure] = future.result()
        except Exception as error:
            if isinstance(error, LabError) and not isinstance(error, WorkerLostError):
                raise  # nothing can be built at all
            if len(batch) > 1:
                for job in batch:
                    self._start([job])
                return
            if isinstance(error, WorkerLostError) and error.killed and not batch[0].repeated:
                batch[0].repeated = True
                self._start(batch)
                return
            outcomes = [_failure(error)]
        self._sizes.learn(outcomes)
        for job in batch:
            del self._under_way[job.key]
        for job, outcome in zip(batch, outcomes, strict=True):
            for callback in job.done:
                callback(outcome)

    def _start(self, batch: list[_Wanted]) -> None:
        self._sizes.begin()
        timeout_s = BUILD_TIMEOUT_S if len(batch) == 1 else BATCH_TIMEOUT_S
        tasks = [job.task for job in batch]
        self._running[self._executor.submit(self._function, tasks, timeout_s=timeout_s)] = batch


def build_each(
    executor: Executor,
    tasks: Sequence[BuildTask],
    *,
    function: BuildFunction = build,
    sizes: BatchSizes | None = None,
) -> Iterator[tuple[int, Built | BuildFailure]]:
    """Build many variants, and yield each as soon as it is built.

    Args:
        executor: Runs the builds.
        tasks: The variants to build.
        function: Builds a batch; must be importable in the executor's workers.
        sizes: Batch sizes learnt by earlier calls.

    Yields:
        The index of a task in `tasks`, and its outcome.

    Raises:
        MissingToolError: the compiler or the disassembler cannot run here.
    """
    ready: list[tuple[int, Built | BuildFailure]] = []

    def keep(position: int) -> Done:
        return lambda outcome: ready.append((position, outcome))

    queue = BuildQueue(executor, function=function, sizes=sizes)
    for position, task in enumerate(tasks):
        queue.add(task, keep(position))
    queue.feed()
    while queue.running:
        for future in queue.finished(interrupts.wait(wait, queue.running, return_when=FIRST_COMPLETED).done):
            queue.ended(future)
        queue.feed()
        yield from ready
        ready.clear()


def _key(task: BuildTask) -> tuple[object, ...]:
    """Return the key by which equal builds are recognised."""
    return (task.toolchain.name, task.toolchain.version, task.request, task.entries)


def _failure(error: Exception) -> BuildFailure:
    """Return the failure of a single variant's build."""
    if isinstance(error, TimeoutError):
        return BuildFailure(f"the build took longer than {BUILD_TIMEOUT_S:.0f} s")
    if isinstance(error, MemoryError):
        return BuildFailure("the build exceeded its memory limit")
    if isinstance(error, WorkerLostError):
        return BuildFailure(f"the build process died: {error}")
    if fault := fault_of(error):
        return BuildFailure(f"the build failed on this machine: {fault}")
    # a bug in lab, which affects only this variant; the log has the traceback
    log = "".join(traceback.format_exception(error))
    return BuildFailure(f"lab itself failed on this variant: {type(error).__name__}: {error}", log)
