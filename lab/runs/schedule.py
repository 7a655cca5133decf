"""A scheduler of work in lanes. It knows executors and futures, and nothing of what the work is about.

A lane starts work, says which futures are under way, and takes each one back when it is done; taking one back may put
new work into any lane, which is how one piece of work follows another. `run_lanes` goes on until no lane has work left.

::

    TaskLane      starts work on an executor at once; equal work is done once
    SerialLane    feeds serial resources (GPUs) with what is most urgent, a bounded number of pieces ahead
    OrderGate     holds results back until all earlier ones are there

Ctrl-C raises `KeyboardInterrupt` out of `run_lanes`; leaving the executor's context then stops the workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import takewhile
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from lab.base import interrupts
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
        done = {interrupts.wait(self._finished.get)}
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
    """An item that waits for a place; the least one goes first."""

    urgency: float
    position: int
    group: Hashable = field(compare=False)
    item: Item = field(compare=False)


class SerialLane(Generic[Item]):
    """Feeds resources that do one thing after another: GPUs.

    Each place has a few items handed over ahead; the rest stay here and can still be put in order. A place gets items
    of the group that it was given last, since it has that group's data; then of groups that no other place is at; in
    each case by urgency, then by position. The place with the least to do is served first.

    Results are taken back in the order in which items were handed over if the lane is `ordered`, and each one before
    the next item is handed over. What `start` decides then depends on the results of the items handed over before, less
    the last few (`ahead` for each place), and not on which place was quicker; an item that takes long holds up
    the others by as much. Without an order each result is taken back when it is there.
    """

    def __init__(
        self,
        start: Callable[[Item, str], Future[Any] | None],
        then: Callable[[Item, Future[Any]], None],
        *,
        places: Callable[[], Sequence[str]] = lambda: ("",),
        ordered: bool = True,
        ahead: int = AHEAD,
    ) -> None:
        """Start with nothing waiting.

        Args:
            start: Hands an item to a place; None where the item turns out not to be needed any more.
            then: Called with an item and its finished future.
            places: Names of the places that take work now.
            ordered: Take results back in order.
            ahead: Items handed over to a place at a time.
        """
        self._start, self._then, self._ahead = start, then, ahead
        self._places, self._ordered = places, ordered
        self._ready: dict[Hashable, list[_Ready[Item]]] = {}
        self._running: dict[Future[Any], tuple[Item, str]] = {}
        self._group: dict[str, Hashable] = {}
        self._load: Counter[str] = Counter()
        self.waiting = 0

    @property
    def running(self) -> Collection[Future[Any]]:
        """Items that were handed over, in order."""
        return self._running.keys()

    def put(self, item: Item, *, urgency: float, position: int, group: Hashable) -> None:
        """Add an item: the lowest `urgency` goes first, then the lowest `position`."""
        heappush(self._ready.setdefault(group, []), _Ready(urgency, position, group, item))
        self.waiting += 1
        self.feed()

    def feed(self) -> None:
        """Hand over what comes next while a place has fewer than `ahead` items."""
        while self._ready and (free := [name for name in self._places() if self._load[name] < self._ahead]):
            self._hand_over(min(free, key=lambda name: self._load[name]))

    def finished(self, done: Collection[Future[Any]]) -> list[Future[Any]]:
        """The finished items in the order of the line; in an ordered lane, up to the first one that is not finished.

        `concurrent.futures.wait` may name an item as done and leave out an earlier one that is done, too; so the
        futures themselves are asked.
        """
        del done
        return list((takewhile if self._ordered else filter)(Future.done, self._running))

    def ended(self, future: Future[Any]) -> None:
        """Hand back a finished item, and hand over the next one."""
        item, place = self._running.pop(future)
        self._load[place] -= 1
        self._then(item, future)
        self.feed()

    def give_up(self) -> list[Item]:
        """Remove and return the items that were not handed over, the most urgent first."""
        left = [entry.item for entry in sorted(entry for group in self._ready.values() for entry in group)]
        self._ready.clear()
        self.waiting = 0
        return left

    def _hand_over(self, place: str) -> None:
        group = self._group_for(place)
        entry = heappop(self._ready[group])
        if not self._ready[group]:
            del self._ready[group]
        self.waiting -= 1
        self._group[place] = group
        if (future := self._start(entry.item, place)) is not None:
            self._running[future] = (entry.item, place)
            self._load[place] += 1

    def _group_for(self, place: str) -> Hashable:
        own = self._group.get(place)
        if place in self._group and own in self._ready:
            return own
        taken = {self._group[name] for name in self._places() if name in self._group}
        free = [group for group in self._ready if group not in taken] or list(self._ready)
        return min(free, key=lambda group: self._ready[group][0])


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
