"""Races whose reader does nothing with what it read: held back until its thread uses the value, if it ever does.

Compilers of tiles let several threads hold the same element: all of them load and compute, and one of them stores.
Where that happens in place, the loads of the others race with the store, and nothing depends on what they read.
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
"""Races of one instruction that are held back one by one."""

Sinks = frozenset[int]
"""Positions of the stores and atomics that take a value."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldRace:
    """A race that is a fault once one of its readers uses what it read.

    Attributes:
        position: Index of the instruction that is at fault.
        region: The memory.
        threads: (count,) the threads of the access.
        offsets: (count,) where they access it.
        conflict: The race.
        width: Bytes of an element.
        readers: (pieces,) the batch's index of the thread that read, for each piece at fault.
        sinks: What uses the value.
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
    """The races of a batch that are held back.

    Attributes:
        held: Those that no reader has made a fault.
    """

    def __init__(self, sinks_of: Callable[[int], Sinks | None], threads: int, base: int) -> None:
        """Begin with none.

        Args:
            sinks_of: Returns what uses the value of a load, by its position; None where it may matter otherwise.
            threads: Threads of the batch.
            base: The first of them in the launch.
        """
        self._sinks_of, self._threads, self._base = sinks_of, threads, base
        self._executed: dict[int, Mask] = {}
        self.held: list[HeldRace] = []

    def execute(self, position: int, threads: Indices) -> list[HeldRace]:
        """Note that threads execute a store or an atomic; return the races that are faults from now on."""
        if position not in self._executed:
            self._executed[position] = np.zeros(self._threads, np.bool_)
        self._executed[position][threads] = True
        if not self.held:
            return []
        used = [one for one in self.held if position in one.sinks and np.isin(one.readers, threads).any()]
        self.held = [one for one in self.held if one not in used]
        return used

    def by_reader(self, race: HeldRace) -> bool:
        """Hold back a race that a load has found, with an earlier write; return whether that is possible."""
        sinks = self._sinks_of(race.position)
        if sinks is None:
            return False
        readers = race.threads[race.conflict.which]
        self._hold(replace(race, readers=readers, sinks=sinks))
        return True

    def by_writer(self, race: HeldRace) -> bool:
        """Hold back a race that a write has found, with earlier loads; return whether that is possible."""
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
        """Hold a race back; of many at one instruction the first ones stay, and the readers of all."""
        alike = [one for one in self.held if one.position == race.position and one.conflict.kind == race.conflict.kind]
        if len(alike) >= _FEW:
            last = alike[-1]
            self.held.remove(last)
            readers, sinks = np.union1d(last.readers, race.readers), last.sinks | race.sinks
            race = replace(last, readers=readers, sinks=sinks)
        self.held.append(race)
