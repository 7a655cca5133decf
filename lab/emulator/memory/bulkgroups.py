"""Bulk copies out of shared memory that threads have not waited for.

The bytes are copied at once. The state tracks that the source must not be overwritten before a wait for reads, and that
the destination is not visible before a wait for the whole copy.

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
    """An outgoing copy whose thread has not waited for it.

    Attributes:
        thread: The thread's index within the batch.
        group: The copy's group.
        position: Index of the instruction.
        cells: The cells of shared memory it reads.
        who: (cells,) the reading thread of each.
    """

    thread: int
    group: int
    position: int
    cells: Indices
    who: Indices


@dataclass(frozen=True, slots=True, eq=False)
class _Writing:
    """The writes of an outgoing copy, until its thread has waited for the whole copy.

    Attributes:
        thread: The thread's index within the batch.
        group: The copy's group.
        arrive: Records that the data has been written.
    """

    thread: int
    group: int
    arrive: Callable[[], None]


class BulkGroups:
    """The bulk groups of a batch's threads."""

    def __init__(self, threads: int, watch: AccessWatch, findings: BatchFindings) -> None:
        """Start without copies.

        Args:
            threads: Threads of the batch.
            watch: The shadow state of shared memory.
            findings: The collector of faults.
        """
        self._groups: NDArray[np.int64] = np.zeros(threads, np.int64)
        self._watch, self._findings = watch, findings
        self._outgoing: list[_Outgoing] = []
        self._writing: list[_Writing] = []

    def read(self, position: int, thread: int, places: Addresses, width: int, base: int) -> None:
        """Check the shared-memory reads of a copy, and track them until the thread has waited.

        Args:
            position: Index of the instruction.
            thread: The thread's index within the batch.
            places: (count,) byte offsets into the batch's shared memory.
            width: Bytes at each of them.
            base: Offset of the block's shared memory in the batch's.
        """
        shadow = self._watch.shadow
        if shadow is None or not len(places):
            return
        access = shadow.begin_async_read(places[None], width, np.array([thread]), position, description="bulk copy")
        self._watch.report_shared(position, access.who, access.cells * shadow.cells.granule - base, access.found)
        self._outgoing.append(_Outgoing(thread, int(self._groups[thread]) + 1, position, access.cells, access.who))

    def write(self, thread: int, arrive: Callable[[], None]) -> None:
        """Track a thread's outgoing write; `arrive` is called once the thread has waited for it."""
        self._writing.append(_Writing(thread, int(self._groups[thread]) + 1, arrive))

    def commit(self, lanes: Lanes) -> None:
        """Commit the copies of threads as a group."""
        self._groups[lanes.rows] += 1

    def wait(self, lanes: Lanes, still: int, *, reads: bool) -> None:
        """Wait until all but the latest `still` groups have completed, or have read their sources."""
        shadow = self._watch.shadow
        if shadow is None or not (self._outgoing or self._writing):
            return
        present = lanes.present()

        def waited(copy: _Outgoing | _Writing) -> bool:
            return bool(present[copy.thread]) and copy.group <= int(self._groups[copy.thread]) - still

        for outgoing in filter(waited, self._outgoing):
            shadow.end_async_read(outgoing.cells, outgoing.who, outgoing.position)
        self._outgoing = [copy for copy in self._outgoing if not waited(copy)]
        if reads:
            return
        for writing in filter(waited, self._writing):
            writing.arrive()
        self._writing = [copy for copy in self._writing if not waited(copy)]

    def leave(self, lanes: Lanes) -> None:
        """Report copies that threads issued and did not wait for before exiting."""
        if not self._outgoing:
            return
        present = lanes.present()
        for copy in self._outgoing:
            if present[copy.thread]:
                detail = "this thread exits without waiting for this copy out of shared memory"
                remedy = "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read"
                self._findings.add("async-not-waited", copy.position, detail, np.array([copy.thread]), remedy=remedy)
        self._outgoing = [copy for copy in self._outgoing if not present[copy.thread]]
