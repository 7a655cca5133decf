"""Races whose reader may discard the value: held back until its thread uses the value.

Tile compilers replicate an element over several threads: all of them load and compute, and one of them stores. For
in-place updates, the loads of the others race with the store, but nothing depends on the values they read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lab.emulator.arrays import Addresses, Indices, Mask
from lab.emulator.memory.memory import Region
from lab.emulator.memory.races import Conflict

NOBODY: Indices = np.zeros(0, np.int64)
"""No threads."""

_FEW = 4
"""The number of races per instruction that are held back individually."""

Sinks = frozenset[int]
"""Positions of the stores and atomics that use a value."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldRace:
    """A race that becomes a fault once one of its readers uses the value.

    Attributes:
        position: Index of the faulty instruction.
        region: The memory.
        threads: (count,) the threads of the access.
        offsets: (count,) their offsets in it.
        conflict: The race.
        width: Bytes of an element.
        readers: (pieces,) the reading thread's index within the batch, for each faulty piece.
        sinks: The uses of the value.
    """

    position: int
    region: Region
    threads: Indices
    offsets: Addresses
    conflict: Conflict
    width: int
    readers: Indices
    sinks: Sinks


class DiscardedReads:
    """The held-back races of a batch.

    Attributes:
        held: Races that are not faults so far.
    """

    def __init__(self, sinks_of: Callable[[int], Sinks | None], threads: int, base: int) -> None:
        """Start without races.

        Args:
            sinks_of: Returns the uses of a load's value, by position; None where it may have other effects.
            threads: Threads of the batch.
            base: The launch-wide number of the first one.
        """
        self._sinks_of, self._threads, self._base = sinks_of, threads, base
        self._executed: dict[int, Mask] = {}
        self.held: list[HeldRace] = []

    def execute(self, position: int, threads: Indices) -> list[HeldRace]:
        """Record threads executing a store or atomic; return the races that thereby become faults."""
        if position not in self._executed:
            self._executed[position] = np.zeros(self._threads, np.bool_)
        self._executed[position][threads] = True
        if not self.held:
            return []
        used = [race for race in self.held if position in race.sinks and np.isin(race.readers, threads).any()]
        self.held = [race for race in self.held if race not in used]
        return used

    def by_reader(self, race: HeldRace) -> bool:
        """Hold back a load's race with an earlier write; return whether that is possible."""
        sinks = self._sinks_of(race.position)
        if sinks is None:
            return False
        readers = race.threads[race.conflict.which]
        self._hold(replace(race, readers=readers, sinks=sinks))
        return True

    def by_writer(self, race: HeldRace) -> bool:
        """Hold back a write's race with earlier loads; return whether that is possible."""
        conflict = race.conflict
        if conflict.other_thread is None or conflict.other_instruction is None:
            return False
        readers = np.asarray(conflict.other_thread, np.int64) - self._base
        if readers.min() < 0 or readers.max() >= self._threads:
            return False
        sinks: Sinks = frozenset()
        for position in np.unique(conflict.other_instruction).tolist():
            mine = self._sinks_of(position)
            if mine is None:
                return False
            at = readers[np.asarray(conflict.other_instruction) == position]
            if any(self._executed[sink][at].any() for sink in mine if sink in self._executed):
                return False
            sinks |= mine
        self._hold(replace(race, readers=readers, sinks=sinks))
        return True

    def _hold(self, race: HeldRace) -> None:
        """Hold a race back; of many at one instruction, keep the first ones and the readers of all."""
        alike = [
            earlier
            for earlier in self.held
            if earlier.position == race.position and earlier.conflict.kind == race.conflict.kind
        ]
        if len(alike) >= _FEW:
            last = alike[-1]
            self.held.remove(last)
            readers, sinks = np.union1d(last.readers, race.readers), last.sinks | race.sinks
            race = replace(last, readers=readers, sinks=sinks)
        self.held.append(race)
