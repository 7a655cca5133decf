"""What warpgroups have on their way: groups of wgmma, the registers and the memory that these use; register limits.

A wgmma is executed at once. What is remembered is that its registers may not be touched before a `wgmma.wait_group` of
the warp, and its operands in shared memory may not be overwritten before one of any warp of the warpgroup: a group of
wgmma is the warpgroup's, so whoever waits for it knows that all four warps' reads are done. CUTLASS's pipelines rely on
that: one thread of a warpgroup tells that a stage has been read. Also remembered is which registers were touched since
the warp's last `wgmma.fence`. Copies from register to register pass these marks on, and constants leave none: compilers
move both across a fence, and the assembler puts them right.

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
    """Shared memory that a wgmma of one warpgroup still reads.

    Attributes:
        first: The first warp of the warpgroup.
        group: Number of the wgmma-group.
        position: Index of the instruction.
        cells: Cells that its warps read.
        who: (cells,) thread that stands for the warp that reads it.
    """

    first: int
    group: int
    position: int
    cells: Indices
    who: Indices


class Warpgroups:
    """The wgmma of a batch."""

    def __init__(
        self, batch: Batch, watch: AccessWatch, findings: BatchFindings, *, registers: int | None = None
    ) -> None:
        """Begin with nothing on its way.

        Args:
            batch: The threads.
            watch: What is known about shared memory.
            findings: Where faults are noted.
            registers: Registers of each thread when the kernel begins; None where nothing says how many.
        """
        self._batch, self._watch, self._findings = batch, watch, findings
        self.groups: NDArray[np.int32] = np.zeros(batch.threads, np.int32)
        self._completed: NDArray[np.int32] = np.zeros(batch.threads, np.int32)
        self._fenced: Mask = np.zeros(batch.threads, np.bool_)
        self._sums: dict[RegisterName, NDArray[np.int32]] = {}  # the group that a register's wgmma belongs to
        self._inputs: dict[RegisterName, NDArray[np.int32]] = {}
        self._touched: dict[RegisterName, Mask] = {}
        self._readings: list[_Reading] = []
        # by the first warp of a warpgroup: groups that not all of its warps have waited for, and when the reads ended
        self._ended: dict[int, dict[int, np.int64]] = {}
        self._limits: NDArray[np.int64] | None = None
        self._registers = registers

    # --- who takes part ---------------------------------------------------------------------------------------

    def whole(self, position: int, lanes: Lanes) -> Indices:
        """Return the first warp of each warpgroup of which all threads are here; note a fault of the others.

        Args:
            position: Index of the instruction.
            lanes: The threads.
        """
        warps = self._batch.warps // self._batch.blocks
        first = (np.arange(self._batch.blocks)[:, None] * warps + np.arange(0, warps, WARPGROUP)).reshape(-1)
        here = lanes.present().reshape(-1, WARP_SIZE).sum(axis=1)
        found = []
        for start in first.tolist():
            end = min(start + WARPGROUP, start - start % warps + warps)
            count = int(here[start:end].sum())
            if count == WARPGROUP * WARP_SIZE:
                found.append(start)
            elif count:
                members = lanes.indices()
                threads = members[(members >= start * WARP_SIZE) & (members < end * WARP_SIZE)]
                detail = f"{count} of a warpgroup's {WARPGROUP * WARP_SIZE} threads are here: all four warps take part"
                self._findings.add("wgmma-misuse", position, detail, threads)
        return np.array(found, np.int64)

    # --- registers --------------------------------------------------------------------------------------------

    def touch(self, position: int, lanes: Lanes, names: Sequence[RegisterName], *, constant: bool = False) -> None:
        """Note that threads access registers by an instruction that is not a wgmma.

        Args:
            position: Index of the instruction.
            lanes: The threads.
            names: Registers that some wgmma uses.
            constant: They are set to a constant.
        """
        for name in names:
            self._find_in_flight(position, lanes, name, self._sums, "an accumulator")
            self._find_in_flight(position, lanes, name, self._inputs, "an operand")
            self._touched.setdefault(name, np.zeros(self._batch.threads, np.bool_))[lanes.rows] = not constant

    def copy(self, lanes: Lanes, target: RegisterName, source: RegisterName) -> None:
        """Note that threads copy one register that wgmma may use to another one: what is known of it goes along."""
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
        self, position: int, lanes: Lanes, name: RegisterName, table: dict[RegisterName, NDArray[np.int32]], what: str
    ) -> None:
        held = table.get(name)
        if held is None:
            return
        late = np.flatnonzero(held[lanes.rows] > self._completed[lanes.rows])
        if len(late):
            detail = f"{name[1]} is {what} of a wgmma that has not been waited for"
            remedy = "wgmma.wait_group before the access"
            if (held[lanes.rows] > self.groups[lanes.rows]).any():  # no wait covers it, whatever its number
                detail = f"{name[1]} is {what} of a wgmma that no wgmma.commit_group has made part of a group"
                remedy = "wgmma.commit_group behind the wgmma, and wgmma.wait_group before the access"
            self._findings.add("async-not-waited", position, detail, lanes.indices()[late], remedy=remedy)

    def use(self, position: int, lanes: Lanes, sums: Sequence[RegisterName], inputs: Sequence[RegisterName]) -> None:
        """Note a wgmma with its registers.

        Args:
            position: Index of the instruction.
            lanes: The threads.
            sums: Registers of D.
            inputs: Registers of A, where it is in registers.
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
        """Order what threads did with their registers before the wgmma that follow."""
        self._fenced[lanes.rows] = True
        for marks in self._touched.values():
            marks[lanes.rows] = False

    def commit(self, lanes: Lanes) -> None:
        """Make a group of the wgmma that threads have begun."""
        self.groups[lanes.rows] += 1

    def wait(self, lanes: Lanes, still: int) -> None:
        """Wait until all but the latest `still` groups of threads are complete."""
        self._completed[lanes.rows] = np.maximum(self._completed[lanes.rows], self.groups[lanes.rows] - np.int32(still))
        if self._watch.shadow is None or not (self._readings or self._ended):
            return
        here = np.unique(warp_of(lanes.indices()))
        firsts = self._first_of(here)
        for first in np.unique(firsts).tolist():
            self._end_reads(first, here[firsts == first])

    def _first_of(self, warps: Indices) -> Indices:
        """Return the first warp of each warp's warpgroup."""
        within = warps % (self._batch.warps // self._batch.blocks)
        return warps - within % WARPGROUP

    def _end_reads(self, first: int, waiting: Indices) -> None:
        """Let warps of one warpgroup know that what all four read by complete groups has been read."""
        shadow, clocks = self._watch.shadow, self._watch.clocks
        members = first + np.arange(WARPGROUP)
        seen = int(self._completed[waiting * WARP_SIZE].max())
        done = [one for one in self._readings if one.first == first and one.group <= seen]
        if done and shadow is not None:
            self._readings = [one for one in self._readings if one not in done]
            for one in done:
                shadow.end_async_read(one.cells, one.who, one.position, warp=True)
            if clocks is not None:
                self._ended.setdefault(first, {})[seen] = clocks.arrival()
        times = self._ended.get(first, {})
        known = [time for group, time in times.items() if group <= seen]
        if known and clocks is not None:
            threads = (waiting[:, None] * WARP_SIZE + np.arange(WARP_SIZE)).reshape(-1)
            clocks.order_warps_reads(threads, members, max(known))
        least = int(self._completed[members * WARP_SIZE].min())
        self._ended[first] = {group: time for group, time in times.items() if group > least}

    # --- shared memory ----------------------------------------------------------------------------------------

    def read(self, position: int, firsts: Indices, places: Indices, offsets: Indices, width: int) -> None:
        """Check what a wgmma reads from shared memory, and remember it until the wait.

        Args:
            position: Index of the instruction.
            firsts: (warpgroups,) the first warp of each warpgroup that executes it.
            places: (warpgroups, 4, pieces) bytes in the batch's shared memory at which the pieces of each warp begin.
            offsets: (warpgroups, 4, pieces) the same in the block's.
            width: Bytes of a piece.
        """
        shadow = self._watch.shadow
        if shadow is None:
            return
        undefined = self._watch.undefined
        warps = (firsts[:, None] + np.arange(WARPGROUP)).reshape(-1)
        read = shadow.begin_async_read(
            places.reshape(len(warps), -1),
            width,
            warps * WARP_SIZE,
            position,
            what="wgmma",
            warp=True,
            follow=undefined is not None and undefined.follows(position),
        )
        least = offsets.reshape(len(warps), -1).min(axis=1)
        self._watch.report_shared(position, read.who, least[read.reader], read.found)
        ends = np.searchsorted(read.reader, np.arange(0, len(warps) + 1, WARPGROUP))
        for i, first in enumerate(firsts.tolist()):
            part = slice(ends[i], ends[i + 1])
            group = int(self.groups[first * WARP_SIZE]) + 1
            self._readings.append(_Reading(first, group, position, read.cells[part], read.who[part]))

    def leave(self, lanes: Lanes) -> None:
        """Note the wgmma that threads have begun and leave without waiting for."""
        here, kept = np.unique(warp_of(lanes.indices())), []
        for one in self._readings:
            gone = np.isin(warp_of(one.who), here)
            if gone.any():
                detail = "these threads end before they have waited for this wgmma"
                self._findings.add("async-not-waited", one.position, detail, one.who[gone][:1])
            if not gone.all():
                kept.append(replace(one, cells=one.cells[~gone], who=one.who[~gone]))
        self._readings = kept

    # --- register limits --------------------------------------------------------------------------------------

    def limit(self, position: int, lanes: Lanes, count: int, *, more: bool) -> None:
        """Change the registers of a warpgroup's threads (setmaxnreg).

        Args:
            position: Index of the instruction.
            lanes: The threads.
            count: The new number.
            more: It is to be larger than before.
        """
        if self._limits is None:
            self._limits = np.zeros(self._batch.warps, np.int64)
        for first in self.whole(position, lanes).tolist():
            now = int(self._limits[first]) or self._registers or 0
            if now and (count < now if more else count > now):
                detail = f"{count} registers are {'fewer' if more else 'more'} than the {now} that the warp has"
                self._findings.add("wgmma-misuse", position, detail, np.array([first * WARP_SIZE]))
            self._limits[first : first + WARPGROUP] = count

    def short(self, lanes: Lanes, count: int) -> dict[int, int]:
        """Return the warpgroups that cannot take more registers yet, since their block has not enough that are free.

        Args:
            lanes: Threads that take them.
            count: The number that each is to have.

        Returns:
            The first warp of each such warpgroup, to the registers that the warps of its block would have in all.
        """
        if self._registers is None:
            return {}
        blocks, found = self._batch.blocks, dict[int, int]()
        known = np.zeros(self._batch.warps, np.int64) if self._limits is None else self._limits
        limits = np.where(known, known, self._registers)
        here = np.asarray(lanes.present().reshape(-1, WARP_SIZE).all(axis=1))
        each = self._batch.warps // blocks
        for first in np.flatnonzero(here).tolist():
            block, within = divmod(first, each)
            if within % WARPGROUP or not here[first : first + WARPGROUP].all() or within + WARPGROUP > each:
                continue
            own = limits[block * each : (block + 1) * each]
            wanted = own.copy()
            wanted[within : within + WARPGROUP] = np.maximum(count, wanted[within : within + WARPGROUP])
            if int(wanted.sum()) > max(each * self._registers, int(own.sum())):
                found[first] = int(wanted.sum()) * WARP_SIZE
            else:
                own[:] = wanted
        return found

    def never(self, position: int, short: dict[int, int]) -> None:
        """Note the warpgroups that wait forever for registers, as `short` returns them."""
        held = (self._registers or 0) * self._batch.warps // self._batch.blocks * WARP_SIZE
        for first, wanted in short.items():
            detail = (
                f"the warps of a block ask for {wanted} registers in all, and it has {held}: they wait forever, since "
                "no warp that can go on gives some up"
            )
            self._findings.add("wgmma-misuse", position, detail, np.array([first * WARP_SIZE]))


def refused_count(count: int) -> str:
    """Return why setmaxnreg does not take a number of registers; nothing where it does."""
    if 24 <= count <= _MOST_REGISTERS and count % _REGISTER_STEP == 0:  # noqa: PLR2004  PTX's least
        return ""
    return f"{count} registers; accepted are multiples of {_REGISTER_STEP} from 24 to {_MOST_REGISTERS}"


def registers_at_start(directives: dict[str, tuple[int, ...]], threads: int, most: int) -> int | None:
    """Return the registers of each thread when a kernel with `setmaxnreg` begins.

    The rule was read from ptxas 13.0, which reports the registers of kernels with such instructions. Without either of
    `.maxnreg` and `.minnctapersm` it ignores `setmaxnreg` (its warning C7508: the count at entry is unknown).

    Args:
        directives: The kernel's.
        threads: Threads of a block, whole warps.
        most: The largest count that a `setmaxnreg` of the program gives.

    Returns:
        The least of what `.maxnreg` says, each thread's share where the kernel says how large its blocks are and how
        many of them an SM holds, and `most`; None where the kernel says neither of the first two.
    """
    bounds = list(directives.get("maxnreg", ())[:1])
    if "minnctapersm" in directives and ("maxntid" in directives or "reqntid" in directives):
        share = REGISTERS_OF_AN_SM // (threads * max(1, directives["minnctapersm"][0]))
        bounds.append(min(_MOST_REGISTERS, share) // _REGISTER_STEP * _REGISTER_STEP)
    return min(*bounds, most) if bounds else None
