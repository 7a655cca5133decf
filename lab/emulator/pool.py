"""The pool of runnable groups of threads and their locations.

A group is a set of threads at one location: the same basic block, with the same call stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lab.emulator.arrays import Indices, Mask
from lab.emulator.batch import Batch
from lab.emulator.lanes import Lanes, warp_of

_SHARE = 0.5  # share of a group's warps that run at a time under a random schedule


class Caller(NamedTuple):
    """The call site of an active call.

    Attributes:
        back: Block at which the caller resumes; negative at the end of its function.
        position: The call instruction.
        callee: Number of the called function.
    """

    back: int
    position: int
    callee: int


Stack = tuple[Caller, ...]
"""A group's call stack, outermost call first."""

Location = tuple[Stack, int]
"""A call stack, and the block to execute next; a negative block is the end of a function."""


class Pool:
    """The runnable groups of a batch.

    Attributes:
        alive: (threads,) whether the thread has not exited.
    """

    def __init__(
        self,
        batch: Batch,
        ranks: Sequence[int],
        leave: Callable[[Stack, Lanes], None],
        dice: np.random.Generator | None = None,
    ) -> None:
        """Start without groups.

        Args:
            batch: The threads.
            ranks: Rank of each block of the program; lower ranks run first.
            leave: Called with the stack and threads that reach the end of a function.
            dice: Chooses the next group and its warps at random; None for program order.
        """
        self.alive: Mask = batch.exists.copy()
        self._ranks, self._leave, self._dice = ranks, leave, dice
        self._ready: dict[Location, Lanes] = {}
        self._parked: dict[Location, Lanes] = {}
        self._resting: dict[Location, Lanes] = {}
        self._keys: dict[Location, tuple[float, ...]] = {}
        self._unparked: Location | None = None

    def __bool__(self) -> bool:
        """Return whether any group can run."""
        return bool(self._ready)

    def arrive(self, at: Location, lanes: Lanes) -> None:
        """Add threads to a location, merging them with threads already there."""
        if not lanes.count:
            return
        if at[1] < 0:
            self._leave(at[0], lanes)
            return
        parts = [group for group in (self._ready.get(at), self._parked.pop(at, None), lanes) if group is not None]
        self._ready[at] = Lanes.union(parts)

    def take(self) -> tuple[Location, Lanes]:
        """Remove and return the group unparked last, whole, or the first group in the program's block order."""
        ready, unparked = self._ready, self._unparked
        if unparked is not None:
            self._unparked = None
            return unparked, ready.pop(unparked)
        if self._dice is not None:
            return self._any(self._dice)
        at = min(ready, key=self._key) if len(ready) > 1 else next(iter(ready))
        return at, ready.pop(at)

    def _any(self, dice: np.random.Generator) -> tuple[Location, Lanes]:
        """Remove and return some warps of a random group, with the threads parked there."""
        at = list(self._ready)[int(dice.integers(len(self._ready)))]
        lanes = self._ready.pop(at)
        warps = warp_of(lanes.indices())
        chosen = dice.random(lanes.warps) < _SHARE
        running, waiting = lanes.split(chosen[np.cumsum(np.diff(warps, prepend=warps[0]) != 0)])
        if running.count and waiting.count:
            self._ready[at], lanes = waiting, running
        parked = self._parked.pop(at, None)
        return at, lanes if parked is None else Lanes.union([parked, lanes])

    def rest(self, at: Location, lanes: Lanes) -> None:
        """Suspend threads until all others have run."""
        parts = [group for group in (self._resting.pop(at, None), lanes) if group is not None]
        self._resting[at] = Lanes.union(parts)

    @property
    def ready(self) -> dict[Location, Lanes]:
        """The runnable groups."""
        return self._ready

    @property
    def resting(self) -> dict[Location, Lanes]:
        """The suspended groups."""
        return self._resting

    def wake(self) -> None:
        """Make all suspended groups runnable again."""
        resting, self._resting = self._resting, {}
        for at, lanes in resting.items():
            self.arrive(at, lanes)

    def end_all(self) -> None:
        """End the threads of all groups, wherever they are."""
        for groups in (self._ready, self._parked, self._resting):
            for lanes in groups.values():
                self.end(lanes.rows)
            groups.clear()

    def park(self, at: Location, lanes: Lanes) -> None:
        """Park threads until others join them or nothing else can run."""
        parts = [group for group in (self._parked.get(at), lanes) if group is not None]
        self._parked[at] = Lanes.union(parts)

    def unpark(self) -> Location | None:
        """Make the first parked group the next to run; return its location, or None if there is none."""
        if not self._parked:
            return None
        at = min(self._parked, key=self._key)
        self.arrive(at, self._parked.pop(at))
        self._unparked = at
        return at

    def end(self, threads: Indices | slice) -> None:
        """Mark threads as exited, (count,) indices or a full slice."""
        self.alive[threads] = False

    def _key(self, at: Location) -> tuple[float, ...]:
        key = self._keys.get(at)
        if key is None:
            stack, block = at
            # A caller resumes after everything in its callee: the callee counts as just before the return.
            key = self._keys[at] = (*(self._rank(call.back) - 0.5 for call in stack), float(self._ranks[block]))
        return key

    def _rank(self, block: int) -> float:
        """Return a block's rank; the end of a function ranks after all its blocks."""
        return float(self._ranks[block]) if block >= 0 else float(len(self._ranks))


def living(batch: Batch, pool: Pool) -> Indices:
    """Return the number of live threads in each block of the batch, (blocks,)."""
    return np.bincount(batch.block_of[pool.alive], minlength=batch.blocks)
