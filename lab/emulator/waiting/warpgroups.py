"""In-flight work of warpgroups: wgmma groups with their registers and memory; register limits.

A wgmma is executed at once. The state tracks that its registers must not be accessed before a `wgmma.wait_group` of the
warp, and its operands in shared memory not overwritten before one of any warp of the warpgroup: a wgmma group belongs
to the warpgroup, so a waiter for it knows that all four warps' reads are done. CUTLASS's pipelines rely on that: one
thread of a warpgroup releases a stage. The state also tracks the registers accessed since the warp's last
`wgmma.fence`. Register copies propagate these marks, and constants leave none: compilers move both across a fence, and
the assembler corrects that.

PTX ISA, Asynchronous Warpgroup Level Matrix Instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.emulator.arrays import Indices, Mask
from lab.emulator.batch import Batch
from lab.emulator.binding import WARPGROUP
from lab.emulator.findings import BatchFindings
from lab.emulator.lanes import Lanes, warp_of
from lab.emulator.memory.watch import AccessWatch
from lab.emulator.program import RegisterName

REGISTERS_OF_AN_SM = 65_536
_REGISTER_STEP = 8
_MOST_REGISTERS = 256


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """Shared memory still being read by a warpgroup's wgmma.

    Attributes:
        first: The first warp of the warpgroup.
        group: Number of the wgmma-group.
        position: Index of the instruction.
        cells: The cells its warps read.
        who: (cells,) the thread representing the reading warp.
    """

    first: int
    group: int
    position: int
    cells: Indices
    who: Indices


class Warpgroups:
    """The wgmma state of a batch."""

    def __init__(
        self, batch: Batch, watch: AccessWatch, findings: BatchFindings, *, registers: int | None = None
    ) -> None:
        """Start with nothing in flight.

        Args:
            batch: The threads.
            watch: The access checks of shared memory.
            findings: The collector of faults.
            registers: Registers per thread at kernel entry; None if unknown.
        """
        self._batch, self._watch, self._findings = batch, watch, findings
        self.groups: NDArray[np.int32] = np.zeros(batch.threads, np.int32)
        self._completed: NDArray[np.int32] = np.zeros(batch.threads, np.int32)
        self._fenced: Mask = np.zeros(batch.threads, np.bool_)
        self._sums: dict[RegisterName, NDArray[np.int32]] = {}  # the wgmma group of each register
        self._inputs: dict[RegisterName, NDArray[np.int32]] = {}
        self._touched: dict[RegisterName, Mask] = {}
        self._readings: list[_Reading] = []
        # by first warp: groups not all warps of the warpgroup have waited for, and the end time of their reads
        self._ended: dict[int, dict[int, np.int64]] = {}
        self._limits: NDArray[np.int64] | None = None
        self._registers = registers

    # --- participants -----------------------------------------------------------------------------------------

    def whole(self, position: int, lanes: Lanes) -> Indices:
        """Return the first warp of each complete warpgroup; report incomplete ones.

        Args:
            position: Index of the instruction.
            lanes: The threads.
        """
        warps = self._batch.warps // self._batch.blocks
        first = (np.arange(self._batch.blocks)[:, None] * warps + np.arange(0, warps, WARPGROUP)).reshape(-1)
        present = lanes.present().reshape(-1, WARP_SIZE).sum(axis=1)
        complete = []
        for start in first.tolist():
            end = min(start + WARPGROUP, start - start % warps + warps)
            count = int(present[start:end].sum())
            if count == WARPGROUP * WARP_SIZE:
                complete.append(start)
            elif count:
                members = lanes.indices()
                threads = members[(members >= start * WARP_SIZE) & (members < end * WARP_SIZE)]
                detail = f"{count} of a warpgroup's {WARPGROUP * WARP_SIZE} threads are here: all four warps take part"
                self._findings.add("wgmma-misuse", position, detail, threads)
        return np.array(complete, np.int64)

    # --- registers --------------------------------------------------------------------------------------------

    def touch(self, position: int, lanes: Lanes, names: Sequence[RegisterName], *, constant: bool = False) -> None:
        """Record register accesses by an instruction other than wgmma.

        Args:
            position: Index of the instruction.
            lanes: The threads.
            names: Registers used by some wgmma.
            constant: They are set to a constant.
        """
        for name in names:
            self._find_in_flight(position, lanes, name, self._sums, "an accumulator")
            self._find_in_flight(position, lanes, name, self._inputs, "an operand")
            self._touched.setdefault(name, np.zeros(self._batch.threads, np.bool_))[lanes.rows] = not constant

    def copy(self, lanes: Lanes, target: RegisterName, source: RegisterName) -> None:
        """Record a register copy, which propagates the wgmma state of the source."""
        for table in (self._sums, self._inputs):
            if source in table:
                self._of(table, target)[lanes.rows] = table[source][lanes.rows]
            elif target in table:
                table[target][lanes.rows] = 0
        marks = self._touched.get(source)
        mine = self._touched.setdefault(target, np.zeros(self._batch.threads, np.bool_))
        mine[lanes.rows] = False if marks is None else marks[lanes.rows]

    def _of(self, table: dict[RegisterName, NDArray[np.int32]], name: RegisterName) -> NDArray[np.int32]:
        return table.setdefault(name, np.zeros(self._batch.threads, np.int32))

    def _find_in_flight(
        self, position: int, lanes: Lanes, name: RegisterName, table: dict[RegisterName, NDArray[np.int32]], role: str
    ) -> None:
        groups = table.get(name)
        if groups is None:
            return
        late = np.flatnonzero(groups[lanes.rows] > self._completed[lanes.rows])
        if len(late):
            detail = f"{name[1]} is {role} of a wgmma that has not been waited for"
            remedy = "wgmma.wait_group before the access"
            if (groups[lanes.rows] > self.groups[lanes.rows]).any():  # no wait covers it, whatever its count
                detail = f"{name[1]} is {role} of a wgmma that no wgmma.commit_group has made part of a group"
                remedy = "wgmma.commit_group behind the wgmma, and wgmma.wait_group before the access"
            self._findings.add("async-not-waited", position, detail, lanes.indices()[late], remedy=remedy)

    def use(self, position: int, lanes: Lanes, sums: Sequence[RegisterName], inputs: Sequence[RegisterName]) -> None:
        """Record a wgmma with its registers.

        Args:
            position: Index of the instruction.
            lanes: The threads.
            sums: Registers of D.
            inputs: Registers of A, if it is in registers.
        """
        group = self.groups[lanes.rows] + np.int32(1)
        threads = lanes.indices()
        unfenced = np.flatnonzero(~self._fenced[lanes.rows])
        if len(unfenced):
            detail = "no wgmma.fence comes before the first wgmma"
            self._findings.add("wgmma-misuse", position, detail, threads[unfenced], remedy="wgmma.fence.sync.aligned")
        for name in (*sums, *inputs):
            marks = self._touched.get(name)
            if marks is not None and not len(unfenced) and marks[lanes.rows].any():
                late = np.flatnonzero(marks[lanes.rows])
                detail = f"{name[1]} was accessed, and no wgmma.fence came since"
                remedy = "wgmma.fence.sync.aligned between the access and the wgmma"
                self._findings.add("wgmma-misuse", position, detail, threads[late], remedy=remedy)
                break
        for name in inputs:
            self._find_in_flight(position, lanes, name, self._sums, "an accumulator")
            self._of(self._inputs, name)[lanes.rows] = group
        for name in sums:
            self._find_in_flight(position, lanes, name, self._inputs, "an operand")
            self._of(self._sums, name)[lanes.rows] = group

    # --- fences and groups ------------------------------------------------------------------------------------

    def fence(self, lanes: Lanes) -> None:
        """Order register accesses before the following wgmma."""
        self._fenced[lanes.rows] = True
        for marks in self._touched.values():
            marks[lanes.rows] = False

    def commit(self, lanes: Lanes) -> None:
        """Commit the started wgmma of threads as a group."""
        self.groups[lanes.rows] += 1

    def wait(self, lanes: Lanes, still: int) -> None:
        """Wait until all but the latest `still` groups of threads are complete."""
        self._completed[lanes.rows] = np.maximum(self._completed[lanes.rows], self.groups[lanes.rows] - np.int32(still))
        if self._watch.shadow is None or not (self._readings or self._ended):
            return
        warps = np.unique(warp_of(lanes.indices()))
        firsts = self._first_of(warps)
        for first in np.unique(firsts).tolist():
            self._end_reads(first, warps[firsts == first])

    def _first_of(self, warps: Indices) -> Indices:
        """Return the first warp of each warp's warpgroup."""
        within = warps % (self._batch.warps // self._batch.blocks)
        return warps - within % WARPGROUP

    def _end_reads(self, first: int, waiting: Indices) -> None:
        """Record for warps of one warpgroup that the reads of all four warps' completed groups are done."""
        shadow, clocks = self._watch.shadow, self._watch.clocks
        members = first + np.arange(WARPGROUP)
        latest = int(self._completed[waiting * WARP_SIZE].max())
        completed = [reading for reading in self._readings if reading.first == first and reading.group <= latest]
        if completed and shadow is not None:
            self._readings = [reading for reading in self._readings if reading not in completed]
            for reading in completed:
                shadow.end_async_read(reading.cells, reading.who, reading.position, warp=True)
            if clocks is not None:
                self._ended.setdefault(first, {})[latest] = clocks.arrival()
        times = self._ended.get(first, {})
        end_times = [time for group, time in times.items() if group <= latest]
        if end_times and clocks is not None:
            threads = (waiting[:, None] * WARP_SIZE + np.arange(WARP_SIZE)).reshape(-1)
            clocks.order_warps_reads(threads, members, max(end_times))
        least = int(self._completed[members * WARP_SIZE].min())
        self._ended[first] = {group: time for group, time in times.items() if group > least}

    # --- shared memory ----------------------------------------------------------------------------------------

    def read(self, position: int, firsts: Indices, places: Indices, offsets: Indices, width: int) -> None:
        """Check a wgmma's reads of shared memory, and track them until the wait.

        Args:
            position: Index of the instruction.
            firsts: (warpgroups,) the first warp of each executing warpgroup.
            places: (warpgroups, 4, pieces) byte offsets of each warp's pieces in the batch's shared memory.
            offsets: (warpgroups, 4, pieces) the same in the block's.
            width: Bytes of a piece.
        """
        shadow = self._watch.shadow
        if shadow is None:
            return
        undefined = self._watch.undefined
        warps = (firsts[:, None] + np.arange(WARPGROUP)).reshape(-1)
        async_read = shadow.begin_async_read(
            places.reshape(len(warps), -1),
            width,
            warps * WARP_SIZE,
            position,
            description="wgmma",
            warp=True,
            follow=undefined is not None and undefined.follows(position),
        )
        least = offsets.reshape(len(warps), -1).min(axis=1)
        self._watch.report_shared(position, async_read.who, least[async_read.reader], async_read.found)
        ends = np.searchsorted(async_read.reader, np.arange(0, len(warps) + 1, WARPGROUP))
        for i, first in enumerate(firsts.tolist()):
            span = slice(ends[i], ends[i + 1])
            group = int(self.groups[first * WARP_SIZE]) + 1
            self._readings.append(_Reading(first, group, position, async_read.cells[span], async_read.who[span]))

    def leave(self, lanes: Lanes) -> None:
        """Report wgmma that threads started and did not wait for before exiting."""
        warps, remaining = np.unique(warp_of(lanes.indices())), []
        for reading in self._readings:
            exiting = np.isin(warp_of(reading.who), warps)
            if exiting.any():
                detail = "these threads exit without waiting for this wgmma"
                self._findings.add("async-not-waited", reading.position, detail, reading.who[exiting][:1])
            if not exiting.all():
                remaining.append(replace(reading, cells=reading.cells[~exiting], who=reading.who[~exiting]))
        self._readings = remaining

    # --- register limits --------------------------------------------------------------------------------------

    def limit(self, position: int, lanes: Lanes, count: int, *, increase: bool) -> None:
        """Change the register limit of a warpgroup's threads (setmaxnreg).

        Args:
            position: Index of the instruction.
            lanes: The threads.
            count: The new number.
            increase: The limit must increase.
        """
        if self._limits is None:
            self._limits = np.zeros(self._batch.warps, np.int64)
        for first in self.whole(position, lanes).tolist():
            now = int(self._limits[first]) or self._registers or 0
            if now and (count < now if increase else count > now):
                detail = f"{count} registers are {'fewer' if increase else 'more'} than the {now} that the warp has"
                self._findings.add("wgmma-misuse", position, detail, np.array([first * WARP_SIZE]))
            self._limits[first : first + WARPGROUP] = count

    def short(self, lanes: Lanes, count: int) -> dict[int, int]:
        """Return the warpgroups whose register request exceeds their block's free registers.

        Args:
            lanes: The requesting threads.
            count: The requested registers per thread.

        Returns:
            For the first warp of each such warpgroup, the total registers its block would need.
        """
        if self._registers is None:
            return {}
        blocks, waiting = self._batch.blocks, dict[int, int]()
        current = np.zeros(self._batch.warps, np.int64) if self._limits is None else self._limits
        limits = np.where(current, current, self._registers)
        present = np.asarray(lanes.present().reshape(-1, WARP_SIZE).all(axis=1))
        warps_per_block = self._batch.warps // blocks
        for first in np.flatnonzero(present).tolist():
            block, within = divmod(first, warps_per_block)
            if (
                within % WARPGROUP
                or not present[first : first + WARPGROUP].all()
                or within + WARPGROUP > warps_per_block
            ):
                continue
            own = limits[block * warps_per_block : (block + 1) * warps_per_block]
            requested = own.copy()
            requested[within : within + WARPGROUP] = np.maximum(count, requested[within : within + WARPGROUP])
            if int(requested.sum()) > max(warps_per_block * self._registers, int(own.sum())):
                waiting[first] = int(requested.sum()) * WARP_SIZE
            else:
                own[:] = requested
        return waiting

    def never(self, position: int, short: dict[int, int]) -> None:
        """Report warpgroups that wait forever for registers, as returned by `short`."""
        total = (self._registers or 0) * self._batch.warps // self._batch.blocks * WARP_SIZE
        for first, demand in short.items():
            detail = (
                f"the warps of a block ask for {demand} registers in all, and it has {total}: they wait forever, since "
                "no warp that can go on gives some up"
            )
            self._findings.add("wgmma-misuse", position, detail, np.array([first * WARP_SIZE]))


def refused_count(count: int) -> str:
    """Return why setmaxnreg rejects a register count; empty if it does not."""
    if 24 <= count <= _MOST_REGISTERS and count % _REGISTER_STEP == 0:  # noqa: PLR2004  PTX's least
        return ""
    return f"{count} registers; expected a multiple of {_REGISTER_STEP} from 24 to {_MOST_REGISTERS}"


def registers_at_start(directives: dict[str, tuple[int, ...]], threads: int, largest: int) -> int | None:
    """Return the registers per thread at the entry of a kernel with `setmaxnreg`.

    The rule matches ptxas 13.0, which reports the registers of kernels with such instructions. Without `.maxnreg` or
    `.minnctapersm` it ignores `setmaxnreg` (warning C7508: the count at entry is unknown).

    Args:
        directives: The kernel's directives.
        threads: Threads per block, in whole warps.
        largest: The largest count of any `setmaxnreg` in the program.

    Returns:
        The minimum of `.maxnreg`, each thread's share for the declared block size and blocks per SM, and the largest
        `setmaxnreg` count; None if neither of the first two is declared.
    """
    bounds = list(directives.get("maxnreg", ())[:1])
    if "minnctapersm" in directives and ("maxntid" in directives or "reqntid" in directives):
        share = REGISTERS_OF_AN_SM // (threads * max(1, directives["minnctapersm"][0]))
        bounds.append(min(_MOST_REGISTERS, share) // _REGISTER_STEP * _REGISTER_STEP)
    return min(*bounds, largest) if bounds else None
