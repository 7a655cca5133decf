"""A scheduler of work in lanes. It knows executors and futures, and nothing of what the work is about.

A lane starts work, says which futures are under way, and takes each one back when it is done; taking one back may put
new work into any lane, which is how one piece of work follows another. `run_lanes` goes on until no lane has work left.

::

    TaskLane      starts work on an executor at once; equal work is done once
    SerialLane    feeds a serial resource (a GPU) with what is most urgent, a bounded number of pieces ahead
    OrderGate     holds results back until all earlier ones are there

Ctrl-C raises `KeyboardInterrupt` out of `run_lanes`; leaving the executor's context then stops the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import takewhile
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from lab.base.executor import Executor, WorkerLostError
from lab.base.spool import Spool

AHEAD = 2
"""Pieces handed to a serial resource: the next is there when one ends, and the others can still be put in order."""

Item = TypeVar("Item")
Then = Callable[[Future[Any]], None]
"""Takes a finished future: its result or its error."""


class Lane(Protocol):
    """Work of one kind."""

    @property
    def running(self) -> Collection[Future[Any]]:
        """Futures under way, in the order in which they started."""

    def feed(self) -> None:
        """Start what may start now."""

    def finished(self, done: Collection[Future[Any]]) -> Sequence[Future[Any]]:
        """The lane's futures that can be taken back now, in order, given the futures that are `done`."""

    def ended(self, future: Future[Any]) -> None:
        """Take back one of the `finished` futures and go on with its result."""


def run_lanes(lanes: Sequence[Lane]) -> None:
    """Work until no lane has anything under way.

    Args:
        lanes: From the first step of the work to the last. Results are taken back in this order; lanes are fed in the
            reverse order, so that work that has come further starts first.
    """
    arrivals = _Arrivals()
    _feed(lanes)
    while any(lane.running for lane in lanes):
        arrivals.listen(lanes)
        done = arrivals.wait()
        for lane in lanes:
            for future in lane.finished(done):
                lane.ended(future)
                arrivals.forget(future)
        _feed(lanes)


def _feed(lanes: Sequence[Lane]) -> None:
    for lane in reversed(lanes):
        lane.feed()


class _Arrivals:
    """Tells which futures have finished. A turn takes as long as there is news, however many are under way."""

    def __init__(self) -> None:
        self._finished: SimpleQueue[Future[Any]] = SimpleQueue()
        self._known: set[Future[Any]] = set()

    def listen(self, lanes: Sequence[Lane]) -> None:
        """Expect the futures that started since the last call: the last ones of each lane."""
        for lane in lanes:
            for future in takewhile(lambda one: one not in self._known, reversed([*lane.running])):
                self._known.add(future)
                future.add_done_callback(self._finished.put)

    def wait(self) -> set[Future[Any]]:
        """Wait until one has finished; return all that have since the last call."""
        done = {self._finished.get()}
        while not self._finished.empty():
            done.add(self._finished.get())
        return done

    def forget(self, future: Future[Any]) -> None:
        """Drop a future that its lane took back."""
        self._known.discard(future)


@dataclass(frozen=True, slots=True)
class LaneTask:
    """A function to run on an executor.

    Attributes:
        key: Equal keys mean equal results.
        function: A function of a module.
        args: Its arguments.
        timeout_s: Seconds after which it is stopped.
    """

    key: Hashable
    function: Callable[..., Any]
    args: tuple[Any, ...]
    timeout_s: float


@dataclass
class _Started:
    """A task under way, and everyone who waits for it."""

    task: LaneTask
    then: list[Then]
    number: int = 0
    repeated: bool = False


class TaskLane:
    """Starts each task at once. Tasks with equal keys run once; one whose worker was killed runs a second time."""

    def __init__(self, executor: Executor, *, remember: bool) -> None:
        """Start with nothing under way.

        Args:
            executor: Where tasks run.
            remember: Keep what finished tasks returned, for tasks with equal keys that come later. It is kept on disk.
        """
        self._executor, self._remember = executor, remember
        self._running: dict[Future[Any], _Started] = {}
        self._by_key: dict[Hashable, _Started] = {}
        self._begun = 0
        self._answers = Spool()

    @property
    def running(self) -> Collection[Future[Any]]:
        """Tasks under way."""
        return self._running.keys()

    def submit(self, task: LaneTask, then: Then) -> None:
        """Start a task, unless an equal one is under way or known; `then` is called with its finished future."""
        if task.key in self._answers:
            then(_finished(self._answers[task.key]))
        elif (same := self._by_key.get(task.key)) is not None:
            same.then.append(then)
        else:
            self._start(_Started(task, [then]))

    def feed(self) -> None:
        """Do nothing: tasks start when they are submitted."""

    def finished(self, done: Collection[Future[Any]]) -> list[Future[Any]]:
        """Those of the `done` futures that are this lane's, in the order in which they started."""
        return sorted(done & self._running.keys(), key=lambda future: self._running[future].number)

    def ended(self, future: Future[Any]) -> None:
        """Hand out a finished task, or run it again where its worker was killed for the first time."""
        started = self._running.pop(future)
        del self._by_key[started.task.key]
        error = future.exception()
        if isinstance(error, WorkerLostError) and error.killed and not started.repeated:
            started.repeated = True
            self._start(started)
            return
        if self._remember:
            self._answers[started.task.key] = (None if error else future.result(), error)
        for then in started.then:
            then(future)

    def _start(self, started: _Started) -> None:
        task = started.task
        self._begun += 1
        started.number = self._begun
        self._by_key[task.key] = started
        self._running[self._executor.submit(task.function, *task.args, timeout_s=task.timeout_s)] = started


def _finished(answer: tuple[Any, BaseException | None]) -> Future[Any]:
    """A future that has a result, or an error."""
    result, error = answer
    future: Future[Any] = Future()
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
    return future


@dataclass(frozen=True, slots=True, order=True)
class _Ready(Generic[Item]):
    """An item that waits for a serial resource; the least one goes first."""

    urgency: float
    position: int
    group: Hashable = field(compare=False)
    item: Item = field(compare=False)


class SerialLane(Generic[Item]):
    """Feeds a resource that does one thing after another.

    A few items are handed over ahead; the rest stay here and can still be put in order. Items of the group that was
    started last go first, since the resource has that group's data; then by urgency, then by position.
    """

    def __init__(
        self, start: Callable[[Item], Future[Any] | None], then: Callable[[Item, Future[Any]], None], ahead: int = AHEAD
    ) -> None:
        """Start with nothing waiting.

        Args:
            start: Hands an item to the resource; None where the item turns out not to be needed any more.
            then: Called with an item and its finished future.
            ahead: Items handed over at a time.
        """
        self._start, self._then, self._ahead = start, then, ahead
        self._ready: list[_Ready[Item]] = []
        self._running: dict[Future[Any], Item] = {}
        self._group: Hashable = None

    @property
    def running(self) -> Collection[Future[Any]]:
        """Items that were handed over, in order."""
        return self._running.keys()

    @property
    def waiting(self) -> int:
        """Number of items that were not handed over yet."""
        return len(self._ready)

    def put(self, item: Item, *, urgency: float, position: int, group: Hashable) -> None:
        """Add an item: the lowest `urgency` goes first, then the lowest `position`."""
        self._ready.append(_Ready(urgency, position, group, item))
        self.feed()

    def feed(self) -> None:
        """Hand over what comes next while fewer than `ahead` items are under way."""
        while self._ready and len(self._running) < self._ahead:
            entry = min([one for one in self._ready if one.group == self._group] or self._ready)
            self._ready.remove(entry)
            self._group = entry.group
            if (future := self._start(entry.item)) is not None:
                self._running[future] = entry.item

    def finished(self, done: Collection[Future[Any]]) -> list[Future[Any]]:
        """The finished items in the order of the line, up to the first one that is not finished.

        `concurrent.futures.wait` may name an item as done and leave out an earlier one that is done, too; so the
        futures themselves are asked.
        """
        del done
        return list(takewhile(Future.done, self._running))

    def ended(self, future: Future[Any]) -> None:
        """Hand back a finished item."""
        self._then(self._running.pop(future), future)

    def give_up(self) -> list[Item]:
        """Remove and return the items that were not handed over, the most urgent first."""
        left = [entry.item for entry in sorted(self._ready)]
        self._ready.clear()
        return left


class OrderGate(Generic[Item]):
    """Lets items through at once or, `ordered`, in the order of their positions, none before all earlier ones."""

    def __init__(self, *, ordered: bool) -> None:
        """Start with nothing held, and position 0 as the first one to let through."""
        self._ordered, self._next = ordered, 0
        self._held: dict[int, Item] = {}

    def hold(self, position: int, item: Item) -> None:
        """Put an item before the gate."""
        self._held[position] = item

    def release(self) -> list[Item]:
        """Remove and return the items that may go on, by position."""
        if not self._ordered:
            free = [self._held[position] for position in sorted(self._held)]
            self._held.clear()
            return free
        free = []
        while self._next in self._held:
            free.append(self._held.pop(self._next))
            self._next += 1
        return free
