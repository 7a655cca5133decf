"""A scheduler of tasks in lanes, independent of what the tasks are.

A lane starts tasks, lists its running futures, and collects each one when it is done; collecting one may put new
tasks into any lane. `run_lanes` continues until no lane has tasks left.

::

    TaskLane      starts tasks on an executor at once; equal tasks run once
    SerialLane    feeds serial resources (GPUs) the most urgent items, a bounded number ahead
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
"""Items queued on a serial resource: the next is ready when one ends, the rest can still be reordered."""

Item = TypeVar("Item")
Then = Callable[[Future[Any]], None]
"""Callback that takes a finished future: its result or its error."""


class Lane(Protocol):
    """A queue of tasks of one kind."""

    @property
    def running(self) -> Collection[Future[Any]]:
        """Running futures, in start order."""

    def feed(self) -> None:
        """Start what can start now."""

    def finished(self, completed: Collection[Future[Any]]) -> Sequence[Future[Any]]:
        """Return the lane's futures to collect now, in order, given the `completed` ones."""

    def ended(self, future: Future[Any]) -> None:
        """Collect one of the `finished` futures and continue with its result."""


def run_lanes(lanes: Sequence[Lane]) -> None:
    """Run until no lane has a running task.

    Args:
        lanes: From the first step of the work to the last. Results are taken back in this order; lanes are fed in the
            reverse order, so that work that has come further starts first.
    """
    arrivals = _Arrivals()
    _feed(lanes)
    while any(lane.running for lane in lanes):
        arrivals.listen(lanes)
        completed = arrivals.wait()
        for lane in lanes:
            for future in lane.finished(completed):
                lane.ended(future)
                arrivals.forget(future)
        _feed(lanes)


def _feed(lanes: Sequence[Lane]) -> None:
    for lane in reversed(lanes):
        lane.feed()


class _Arrivals:
    """A watch on finished futures; a turn's cost depends on news, not on the number of running tasks."""

    def __init__(self) -> None:
        self._finished: SimpleQueue[Future[Any]] = SimpleQueue()
        self._known: set[Future[Any]] = set()

    def listen(self, lanes: Sequence[Lane]) -> None:
        """Register the futures started since the last call: the last ones of each lane."""
        for lane in lanes:
            for future in takewhile(lambda candidate: candidate not in self._known, reversed([*lane.running])):
                self._known.add(future)
                future.add_done_callback(self._finished.put)

    def wait(self) -> set[Future[Any]]:
        """Wait until one finishes; return all that finished since the last call."""
        completed = {interrupts.wait(self._finished.get)}
        while not self._finished.empty():
            completed.add(self._finished.get())
        return completed

    def forget(self, future: Future[Any]) -> None:
        """Drop a future its lane has collected."""
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
    """A running task and the callbacks that wait for it."""

    task: LaneTask
    then: list[Then]
    number: int = 0
    repeated: bool = False


class TaskLane:
    """A lane that starts tasks at once. Equal keys run once; a task whose worker was killed runs a second time."""

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
        """Running tasks."""
        return self._running.keys()

    def submit(self, task: LaneTask, then: Then) -> None:
        """Start a task unless an equal one is running or known; `then` is called with its finished future."""
        if task.key in self._answers:
            then(_finished(self._answers[task.key]))
        elif (equal_task := self._by_key.get(task.key)) is not None:
            equal_task.then.append(then)
        else:
            self._start(_Started(task, [then]))

    def feed(self) -> None:
        """Do nothing: tasks start when they are submitted."""

    def finished(self, completed: Collection[Future[Any]]) -> list[Future[Any]]:
        """Return this lane's `completed` futures, in start order."""
        return sorted(completed & self._running.keys(), key=lambda future: self._running[future].number)

    def ended(self, future: Future[Any]) -> None:
        """Deliver a finished task, or run it again if its worker was killed for the first time."""
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
    """Return a future that has a result or an error."""
    result, error = answer
    future: Future[Any] = Future()
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
    return future


@dataclass(frozen=True, slots=True, order=True)
class _Ready(Generic[Item]):
    """An item waiting for a place; the least one goes first."""

    urgency: float
    position: int
    group: Hashable = field(compare=False)
    item: Item = field(compare=False)


class SerialLane(Generic[Item]):
    """A lane that feeds serial resources: GPUs.

    Each place has a few items handed over ahead; the rest stay here and can still be put in order. A place gets items
    of the group that it was given last, since it has that group's data; then of groups that no other place is at; in
    each case by urgency, then by position. The place with the least to do is served first.

    Results are taken back in the order in which items were handed over if the lane is `ordered`, and each one before
    the next item is handed over. The decisions of `start` then depend on the results of the items handed over before,
    less the last few (`ahead` for each place), and not on which place was quicker; an item that takes long holds up
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
        """Items handed over, in order."""
        return self._running.keys()

    def put(self, item: Item, *, urgency: float, position: int, group: Hashable) -> None:
        """Add an item: the lowest `urgency` goes first, then the lowest `position`."""
        heappush(self._ready.setdefault(group, []), _Ready(urgency, position, group, item))
        self.waiting += 1
        self.feed()

    def feed(self) -> None:
        """Hand over the next items while a place has fewer than `ahead`."""
        while self._ready and (free := [name for name in self._places() if self._load[name] < self._ahead]):
            self._hand_over(min(free, key=lambda name: self._load[name]))

    def finished(self, completed: Collection[Future[Any]]) -> list[Future[Any]]:
        """Return the finished items in queue order; in an ordered lane, up to the first unfinished one.

        `concurrent.futures.wait` may name an item as done and leave out an earlier one that is done, too; so the
        futures themselves are asked.
        """
        del completed
        return list((takewhile if self._ordered else filter)(Future.done, self._running))

    def ended(self, future: Future[Any]) -> None:
        """Collect a finished item and hand over the next one."""
        item, place = self._running.pop(future)
        self._load[place] -= 1
        self._then(item, future)
        self.feed()

    def give_up(self) -> list[Item]:
        """Remove and return the items that were not handed over, the most urgent first."""
        waiting = [entry.item for entry in sorted(entry for group in self._ready.values() for entry in group)]
        self._ready.clear()
        self.waiting = 0
        return waiting

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
        served_groups = {self._group[name] for name in self._places() if name in self._group}
        free = [group for group in self._ready if group not in served_groups] or list(self._ready)
        return min(free, key=lambda group: self._ready[group][0])


class OrderGate(Generic[Item]):
    """A gate that passes items at once or, if `ordered`, by position, none before all earlier ones."""

    def __init__(self, *, ordered: bool) -> None:
        """Start empty, with position 0 as the first to pass."""
        self._ordered, self._next = ordered, 0
        self._held: dict[int, Item] = {}

    def hold(self, position: int, item: Item) -> None:
        """Hold an item at the gate."""
        self._held[position] = item

    def release(self) -> list[Item]:
        """Remove and return the items that may pass, by position."""
        if not self._ordered:
            free = [self._held[position] for position in sorted(self._held)]
            self._held.clear()
            return free
        free = []
        while self._next in self._held:
            free.append(self._held.pop(self._next))
            self._next += 1
        return free
