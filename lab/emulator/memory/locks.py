"""Locks taken by an atomic without a memory order and without a fence after it.

`atomicCAS` and `atomicExch` are relaxed: later accesses may be executed before the lock is held. They count as acquires
here, since most code relies on that. This module keeps a thread's knowledge without them, to detect accesses that rely
on the leniency.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.emulator.memory.clocks import KnownTimes

Join = Callable[["KnownTimes | None", "KnownTimes | None"], "KnownTimes | None"]


@dataclass(slots=True, eq=False)
class LooseLock:
    """A lock taken by a thread without a fence since.

    Attributes:
        position: Index of the atomic.
        strict: The thread's knowledge without it.
        own: Its knowledge about its own block, which a block-scope fence acquires.
        narrow: A block-scope fence has followed, and no wider one.
    """

    position: int
    strict: KnownTimes | None
    own: KnownTimes | None
    narrow: bool = False


class LooseLocks:
    """The fence-less locks of a launch's threads.

    Attributes:
        used: Atomics whose leniency prevents a race, in order.
    """

    def __init__(self, join: Join) -> None:
        """Start without locks; `join` merges knowledge."""
        self._join = join
        self._held: dict[int, LooseLock] = {}
        self.used: dict[int, None] = {}

    def __bool__(self) -> bool:
        """Return whether a thread has taken a lock."""
        return bool(self._held)

    def __contains__(self, thread: int) -> bool:
        return thread in self._held

    def held_by(self, thread: int) -> LooseLock:
        """Return the lock a thread of the launch has taken."""
        return self._held[thread]

    def take(self, thread: int, position: int, knowledge: KnownTimes | None, own: KnownTimes | None) -> None:
        """Record that a thread takes a lock, with its knowledge before."""
        lock = self._held.get(thread)
        if lock is None:
            self._held[thread] = LooseLock(position, knowledge, own)
        else:
            lock.position, lock.own, lock.narrow = position, self._join(lock.own, own), False

    def learn(self, thread: int, knowledge: KnownTimes | None) -> None:
        """Record knowledge a thread gains from another source."""
        lock = self._held.get(thread)
        if lock is not None:
            lock.strict = self._join(lock.strict, knowledge)

    def fence(self, thread: int, *, wide: bool) -> None:
        """Record a thread's fence, of device scope or of block scope only."""
        if wide:
            self._held.pop(thread, None)
        elif thread in self._held:
            lock = self._held[thread]
            lock.strict, lock.narrow = self._join(lock.strict, lock.own), True

    def share(self, threads: list[int], known_times: list[KnownTimes | None]) -> None:
        """Share strict knowledge and fence-less locks among synced threads.

        Args:
            threads: The threads.
            known_times: The knowledge of each.
        """
        loose = [self._held[thread] for thread in threads if thread in self._held]
        if not loose:
            return
        strict: KnownTimes | None = None
        for times in {
            id(times): times
            for times in (
                self._held[thread].strict if thread in self._held else mine
                for thread, mine in zip(threads, known_times, strict=True)
            )
        }.values():
            strict = self._join(strict, times)
        first = loose[0]
        for thread in threads:
            self._held[thread] = LooseLock(first.position, strict, first.own, first.narrow)
