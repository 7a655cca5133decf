"""Locks that are taken by an atomic that names no order, with no fence behind it.

`atomicCAS` and `atomicExch` are relaxed: what follows may be done before the lock is held. They count as acquires here,
since most code is written so; this module keeps what a thread would know otherwise, so that an access that relies on it
is noticed.
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
    """A lock that a thread has taken without a fence since.

    Attributes:
        position: Index of the atomic.
        strict: What the thread knows without it.
        own: What it learnt of its own block, of which a fence of the block's scope is an acquire.
        narrow: A fence of the block's scope has followed, and none of a wider one.
    """

    position: int
    strict: KnownTimes | None
    own: KnownTimes | None
    narrow: bool = False


class LooseLocks:
    """The locks that threads of a launch have taken so.

    Attributes:
        used: Atomics without whose leniency some access would be a race, in order.
    """

    def __init__(self, join: Join) -> None:
        """Begin with none; `join` puts together what is known."""
        self._join = join
        self._held: dict[int, LooseLock] = {}
        self.used: dict[int, None] = {}

    def __bool__(self) -> bool:
        """Return whether a thread has taken a lock."""
        return bool(self._held)

    def __contains__(self, thread: int) -> bool:
        return thread in self._held

    def held_by(self, thread: int) -> LooseLock:
        """Return what a thread of the launch has taken."""
        return self._held[thread]

    def take(self, thread: int, position: int, known: KnownTimes | None, own: KnownTimes | None) -> None:
        """Note that a thread takes a lock; `known` is what it knew before."""
        held = self._held.get(thread)
        if held is None:
            self._held[thread] = LooseLock(position, known, own)
        else:
            held.position, held.own, held.narrow = position, self._join(held.own, own), False

    def learn(self, thread: int, knowledge: KnownTimes | None) -> None:
        """Note that a thread learns something otherwise."""
        held = self._held.get(thread)
        if held is not None:
            held.strict = self._join(held.strict, knowledge)

    def fence(self, thread: int, *, wide: bool) -> None:
        """Note a fence of a thread, of the device's scope or of the block's alone."""
        if wide:
            self._held.pop(thread, None)
        elif thread in self._held:
            held = self._held[thread]
            held.strict, held.narrow = self._join(held.strict, held.own), True

    def share(self, threads: list[int], known: list[KnownTimes | None]) -> None:
        """Note that threads meet: each one knows what all know, and of what locks taken so tell, as loosely.

        Args:
            threads: The threads.
            known: What each of them knows.
        """
        loose = [self._held[thread] for thread in threads if thread in self._held]
        if not loose:
            return
        strict: KnownTimes | None = None
        for one in {
            id(one): one
            for one in (
                self._held[thread].strict if thread in self._held else mine
                for thread, mine in zip(threads, known, strict=True)
            )
        }.values():
            strict = self._join(strict, one)
        first = loose[0]
        for thread in threads:
            self._held[thread] = LooseLock(first.position, strict, first.own, first.narrow)
