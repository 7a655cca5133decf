"""Many builds in worker processes, several to a worker: starting the disassembler takes longer than one kernel does.

A variant on which the compiler hangs or dies costs no other variant: the rest of its batch is built again, each alone.
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
from lab.base.machine import fault_of
from lab.stages.build import BuildFailure, BuildTask, Built, build

BUILD_TIMEOUT_S = 300.0
"""A compiler that takes longer on one variant is stopped, and the variant is a row that says so."""

BATCH_TIMEOUT_S = 30.0
"""A batch that takes longer holds a variant that does: its variants are built one by one."""

_MOST = 8
"""Variants in a batch: nvdisasm's start then costs each an eighth of what it costs alone; more saves little."""

_WORTH_S = 4.0
"""Most seconds of compiling in a batch: beyond them the start is negligible, and the batch comes late."""

BuildFunction = Callable[[Sequence[BuildTask]], Sequence[Built | BuildFailure]]
"""Builds several variants in one worker, in their order."""

Done = Callable[[Built | BuildFailure], None]
"""Takes the outcome of one build."""


class BatchSizes:
    """How many variants to build together, by how long the compiler took for earlier ones."""

    def __init__(self, workers: int) -> None:
        """Start with no knowledge of the compiler.

        Args:
            workers: How many batches run at a time.
        """
        self._workers = workers
        self._begun, self._compiled, self._seconds = 0, 0, 0.0

    def following(self, waiting: int) -> int:
        """Size of the next batch when `waiting` variants are left, at least 1.

        One variant for each worker at first, so that later stages can begin; then as many as are worth it; towards the
        end fewer, so that all workers finish together.
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
        """Remember how long the compiler took; what came from the cache says nothing."""
        for one in outcomes:
            if isinstance(one, Built) and not one.cached:
                self._compiled, self._seconds = self._compiled + 1, self._seconds + one.build.seconds


@dataclass
class _Wanted:
    """A build under way, and everyone who waits for it."""

    task: BuildTask
    done: list[Done]
    key: tuple[object, ...]
    repeated: bool = False


class BuildQueue:
    """Builds that wait and builds under way; a lane of the scheduler in `lab.runs.schedule`.

    Equal tasks that are under way at the same time are built once.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        function: BuildFunction = build,
        sizes: BatchSizes | None = None,
        room: Callable[[], bool] | None = None,
    ) -> None:
        """Start with nothing to build.

        Args:
            executor: Where batches run.
            function: Builds a batch; must be importable in the executor's workers.
            sizes: What earlier queues learnt of the compiler.
            room: Whether a further batch may start; by default while there are fewer than two for each worker.
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

    def add(self, task: BuildTask, done: Done) -> None:
        """Put a build in the queue; `done` is called with its outcome."""
        self.supply(iter([(task, done)]), 1)

    def supply(self, tasks: Iterator[tuple[BuildTask, Done]], number: int) -> None:
        """Put `number` builds in the queue, each of which is taken from `tasks` when it starts."""
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
                task, done = self._next()
                key = _key(task)
                if same := self._under_way.get(key):
                    same.done.append(done)
                    continue
                self._under_way[key] = wanted = _Wanted(task, [done], key)
                batch.append(wanted)
            if batch:
                self._start(batch)

    def finished(self, done: Collection[Future[Any]]) -> list[Future[Any]]:
        """Those of the `done` futures that are this queue's, in the order in which they started."""
        return [future for future in self._running if future in done]

    def ended(self, future: Future[Any]) -> None:
        """Hand out the outcomes of a finished batch, or build its variants again where a worker was lost over it.

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
                for wanted in batch:
                    self._start([wanted])
                return
            if isinstance(error, WorkerLostError) and error.killed and not batch[0].repeated:
                batch[0].repeated = True
                self._start(batch)
                return
            outcomes = [_failure(error)]
        self._sizes.learn(outcomes)
        for wanted in batch:
            del self._under_way[wanted.key]
        for wanted, outcome in zip(batch, outcomes, strict=True):
            for done in wanted.done:
                done(outcome)

    def _start(self, batch: list[_Wanted]) -> None:
        self._sizes.begin()
        timeout_s = BUILD_TIMEOUT_S if len(batch) == 1 else BATCH_TIMEOUT_S
        tasks = [wanted.task for wanted in batch]
        self._running[self._executor.submit(self._function, tasks, timeout_s=timeout_s)] = batch


def build_each(
    executor: Executor,
    tasks: Sequence[BuildTask],
    *,
    function: BuildFunction = build,
    sizes: BatchSizes | None = None,
) -> Iterator[tuple[int, Built | BuildFailure]]:
    """Build many variants and yield each as soon as it is built.

    Args:
        executor: Where they are built.
        tasks: What to build.
        function: Builds a batch; must be importable in the executor's workers.
        sizes: What earlier calls learnt of the compiler.

    Yields:
        The position of a task in `tasks`, and its outcome.

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
    """What decides a build."""
    return (task.toolchain.name, task.toolchain.version, task.request, task.entries)


def _failure(error: Exception) -> BuildFailure:
    """What stopped the build of a single variant."""
    if isinstance(error, TimeoutError):
        return BuildFailure(f"the build took longer than {BUILD_TIMEOUT_S:.0f} s")
    if isinstance(error, MemoryError):
        return BuildFailure("the build needs more memory than its share")
    if isinstance(error, WorkerLostError):
        return BuildFailure(f"the build process ended by itself: {error}")
    if fault := fault_of(error):
        return BuildFailure(f"the build failed on this machine: {fault}")
    # a mistake of our own, which costs this variant alone; its log says where
    log = "".join(traceback.format_exception(error))
    return BuildFailure(f"lab itself failed on this variant: {type(error).__name__}: {error}", log)
