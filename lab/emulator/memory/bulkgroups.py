"""Bulk copies out of shared memory: which of them threads have not waited for.

The bytes are copied at once. What is remembered is that the source may not be overwritten before a wait for reads, and
that what is written has not arrived before a wait for the whole copy.

PTX ISA, cp.async.bulk.commit_group, cp.async.bulk.wait_group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Addresses, Indices
from lab.emulator.findings import BatchFindings
from lab.emulator.lanes import Lanes
from lab.emulator.memory.watch import AccessWatch


@dataclass(frozen=True, slots=True, eq=False)
class _Outgoing:
    """One copy that a thread has not waited for.

    Attributes:
        thread: The batch's index of the thread.
        group: The group that the copy is part of.
        position: Index of the instruction.
        cells: Cells of shared memory that it reads.
        who: (cells,) thread that reads each of them.
    """

    thread: int
    group: int
    position: int
    cells: Indices
    who: Indices


@dataclass(frozen=True, slots=True, eq=False)
class _Writing:
    """What one copy writes, until its thread has waited for more than its reads.

    Attributes:
        thread: The batch's index of the thread.
        group: The group that the copy is part of.
        arrive: Notes that it has been written.
    """

    thread: int
    group: int
    arrive: Callable[[], None]


class BulkGroups:
    """The bulk groups of a batch's threads."""

    def __init__(self, threads: int, watch: AccessWatch, findings: BatchFindings) -> None:
        """Begin without copies.

        Args:
            threads: Threads of the batch.
            watch: What is known about shared memory.
            findings: Where faults are noted.
        """
        self._groups: NDArray[np.int64] = np.zeros(threads, np.int64)
        self._watch, self._findings = watch, findings
        self._outgoing: list[_Outgoing] = []
        self._writing: list[_Writing] = []

    def read(self, position: int, thread: int, places: Addresses, width: int, base: int) -> None:
        """Check what a copy reads from shared memory, and remember it until the thread has waited.

        Args:
            position: Index of the instruction.
            thread: The batch's index of the thread.
            places: (count,) byte offsets into the batch's shared memory.
            width: Bytes at each of them.
            base: Where the block's shared memory begins in the batch's.
        """
        shadow = self._watch.shadow
        if shadow is None or not len(places):
            return
        read = shadow.begin_async_read(places[None], width, np.array([thread]), position, what="bulk copy")
        self._watch.report_shared(position, read.who, read.cells * shadow.cells.granule - base, read.found)
        self._outgoing.append(_Outgoing(thread, int(self._groups[thread]) + 1, position, read.cells, read.who))

    def write(self, thread: int, arrive: Callable[[], None]) -> None:
        """Remember what a copy of a thread writes; `arrive` is called when the thread has waited for it."""
        self._writing.append(_Writing(thread, int(self._groups[thread]) + 1, arrive))

    def commit(self, lanes: Lanes) -> None:
        """Make a group of the copies that threads have asked for."""
        self._groups[lanes.rows] += 1

    def wait(self, lanes: Lanes, still: int, *, reads: bool) -> None:
        """Wait until all but the latest `still` groups of threads are complete, or have read their sources."""
        shadow = self._watch.shadow
        if shadow is None or not (self._outgoing or self._writing):
            return
        here = lanes.present()

        def waited(one: _Outgoing | _Writing) -> bool:
            return bool(here[one.thread]) and one.group <= int(self._groups[one.thread]) - still

        for read in filter(waited, self._outgoing):
            shadow.end_async_read(read.cells, read.who, read.position)
        self._outgoing = [one for one in self._outgoing if not waited(one)]
        if reads:
            return
        for written in filter(waited, self._writing):
            written.arrive()
        self._writing = [one for one in self._writing if not waited(one)]

    def leave(self, lanes: Lanes) -> None:
        """Note the copies that threads have asked for and leave without waiting for."""
        if not self._outgoing:
            return
        here = lanes.present()
        for one in self._outgoing:
            if here[one.thread]:
                detail = "this thread ends before it has waited for this copy out of shared memory"
                remedy = "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read"
                self._findings.add("async-not-waited", one.position, detail, np.array([one.thread]), remedy=remedy)
        self._outgoing = [one for one in self._outgoing if not here[one.thread]]
