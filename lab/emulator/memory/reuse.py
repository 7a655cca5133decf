"""Which sectors of global memory a few blocks read again, and how much else they read in between.

A cache keeps what was read lately. Whether a sector that a block reads again is still there depends on the lines that
the block has read since: its distance. A cache of the least-recently-used kind serves every distance up to the lines
that it holds, so that the distances say for caches of any size what they would serve.

`AccessTrace` takes down the first accesses of the first blocks, and `counted` makes a `ReuseCount` of them. All warps
of a block go forward together, but each issues the loads of a basic block one after the other, as on an SM, where
nothing keeps a warp from its next load until it needs the value of an earlier one: of experiments/micro/l1_reuse, whose
rows are far larger than what shared memory leaves of L1, no variant waits for L2.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import BANK_BYTES, LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from lab.emulator.arrays import Addresses, Indices
from lab.emulator.memory.memory import SEGMENT_SHIFT, Region
from lab.emulator.memory.samples import AccessSamples
from lab.emulator.results import ReuseCount

THREADS: Final = 256
"""Threads of the blocks whose accesses are taken down; at least one block."""
MOST_LANES: Final = 60_000
"""Accesses of lanes after which a trace ends."""
MOST_LINES: Final = 6_000
"""Lines that are looked up after which a trace ends: some milliseconds of work."""
_CLASSES: Final = 24


class TraceFull(Exception):  # noqa: N818  a way out of the execution, not an error
    """The trace holds as many accesses as it may."""


@dataclass(frozen=True, slots=True, eq=False)
class _Noted:
    """One instruction's accesses, (count,) each, in the `group`-th basic block that was executed."""

    group: int
    addresses: Addresses
    warps: Indices
    blocks: Indices
    width: int


class _Accesses(NamedTuple):
    """Accesses in the order of execution, one entry a lane; (count,) each."""

    addresses: Addresses
    requests: Indices
    blocks: Indices
    widths: Indices


class AccessTrace:
    """The accesses to global memory that were taken down.

    Attributes:
        samples: Addresses of each instruction's first requests.
    """

    def __init__(self) -> None:
        self.samples = AccessSamples()
        self._loads: list[_Noted] = []
        self._stores: list[_Noted] = []
        self._lanes, self._group = 0, 0
        self._sizes: dict[int, int] = {}

    def begin(self) -> None:
        """Note that some threads begin with a basic block."""
        self._group += 1

    def note(
        self, verb: str, region: Region, offsets: Addresses, *, width: int, warps: Indices, blocks: Indices
    ) -> None:
        """Take down one instruction.

        Args:
            verb: `load` or `store`; others are left out.
            region: The buffer.
            offsets: (count,) byte offsets in it.
            width: Bytes of each lane's access.
            warps: (count,) each lane's warp.
            blocks: (count,) each lane's block.

        Raises:
            TraceFull: No more is taken down.
        """
        if verb not in ("load", "store"):
            return
        self._sizes[region.base] = region.size
        noted = _Noted(self._group, region.base + offsets, warps, blocks, width)
        (self._loads if verb == "load" else self._stores).append(noted)
        self._lanes += len(offsets)
        if self._lanes > MOST_LANES:
            raise TraceFull

    def counted(self) -> ReuseCount | None:
        """Return what is read again; None where nothing was taken down."""
        if not self._loads and not self._stores:
            return None
        loads, stores = _joined(self._loads), _joined(self._stores)
        sectors, lines, again, held, requests = _reused(loads)
        read, used = _filled(loads)
        written, filled = _filled(stores)
        lonely = used <= SECTOR_BYTES // 2
        random = np.unique(read[lonely] * SECTOR_BYTES >> SEGMENT_SHIFT << SEGMENT_SHIFT)
        return ReuseCount(
            sectors,
            lines,
            again,
            held,
            read=len(read),
            used=int(used.sum()),
            lonely=int(lonely.sum()),
            lonely_used=int(used[lonely].sum()),
            lonely_share=sum(self._sizes[base] for base in random.tolist()) / max(1, sum(self._sizes.values())),
            stored=len(_looked_up(stores, SECTOR_BYTES)[0]),
            written=len(written),
            filled=int(filled.sum()),
            passes=_passes(loads, requests),
        )


def _joined(noted: list[_Noted]) -> _Accesses:
    """Join instructions; a request is one warp's part of one. Requests are numbered in the order of issue."""
    if not noted:
        nothing = np.zeros(0, np.int64)
        return _Accesses(nothing, nothing, nothing, nothing)
    widest = 1 + max(int(one.warps.max()) for one in noted)
    return _Accesses(
        np.concatenate([one.addresses for one in noted]),
        np.concatenate([(one.group * widest + one.warps) * len(noted) + i for i, one in enumerate(noted)]),
        np.concatenate([one.blocks for one in noted]),
        np.concatenate([np.full(len(one.addresses), one.width) for one in noted]),
    )


def _looked_up(found: _Accesses, size: int) -> tuple[NDArray[np.int64], Indices, Indices]:
    """Return the pieces of `size` bytes that requests touch, in order: (count,) requests, pieces, and their blocks."""
    if not len(found.addresses):
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    pairs = np.stack([found.requests, found.addresses // size])
    order = np.lexsort(pairs[::-1])
    pairs, blocks = pairs[:, order], found.blocks[order]
    new = np.concatenate([[True], (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)])
    return pairs[0, new], pairs[1, new], blocks[new]


def _passes(loads: _Accesses, most: int) -> int:
    """Return the passes through the 32 banks of L1 that the requests up to the number `most` take, all together."""
    counted = loads.requests <= most
    words = loads.addresses[counted] // BANK_BYTES
    pairs = np.concatenate(
        [
            np.stack([loads.requests[counted][wide], words[wide] + step])
            for step in range(max(1, int(loads.widths.max(initial=0)) // BANK_BYTES))
            if (wide := loads.widths[counted] > step * BANK_BYTES).any()
        ]
        or [np.zeros((2, 0), np.int64)],
        axis=1,
    )
    requests, distinct = np.unique(pairs, axis=1)
    _, number = np.unique(requests, return_inverse=True)
    at_banks = np.bincount(
        number * WARP_SIZE + distinct % WARP_SIZE, minlength=WARP_SIZE * (number.max(initial=-1) + 1)
    )
    return int(at_banks.reshape(-1, WARP_SIZE).max(axis=1).sum())


def _reused(loads: _Accesses) -> tuple[int, int, tuple[int, ...], float, int]:
    """Return sectors and lines of the requests, sectors by the power of two of their distance, and lines a block.

    The last figure is the number of the last request that was looked at.
    """
    requests, sectors, blocks = _looked_up(loads, SECTOR_BYTES)
    if not len(sectors):
        return 0, 0, (), 0.0, -1
    lines = sectors * SECTOR_BYTES // LINE_BYTES
    starts = np.flatnonzero(np.concatenate([[True], (requests[1:] != requests[:-1]) | (lines[1:] != lines[:-1])]))
    if len(starts) > MOST_LINES:
        kept = int(starts[MOST_LINES])
        requests, sectors, lines, blocks = (x[:kept] for x in (requests, sectors, lines, blocks))
        starts = starts[:MOST_LINES]
    ends = np.append(starts[1:], len(sectors))
    again = np.zeros(_CLASSES, np.int64)
    stacks: dict[int, _Stack] = {}
    listed = sectors.tolist()
    for start, end, line, block in zip(
        starts.tolist(), ends.tolist(), lines[starts].tolist(), blocks[starts].tolist(), strict=True
    ):
        stack = stacks.setdefault(block, _Stack())
        stack.read(line, listed[start:end], again)
    held = sum(len(stack.kept) for stack in stacks.values()) / len(stacks)
    least = int(np.flatnonzero(again)[-1]) + 1 if again.any() else 0
    return len(sectors), len(starts), tuple(again[:least].tolist()), held, int(requests[-1])


class _Stack:
    """The lines that a block has read, by when it did so last.

    Attributes:
        kept: By line: for each of its sectors the largest distance of the line since the sector was read.
    """

    def __init__(self) -> None:
        self.kept: dict[int, dict[int, int]] = {}
        self._last: dict[int, int] = {}
        self._times: list[int] = []
        self._now = 0

    def read(self, line: int, sectors: list[int], again: NDArray[np.int64]) -> None:
        """Read sectors of a line, and add those that were read before to `again`, by the class of their distance."""
        last = self._last.get(line)
        held = self.kept.setdefault(line, {})
        if last is not None:
            at = bisect_left(self._times, last)
            distance = len(self._times) - at  # with the line itself: the lines that a cache must hold
            del self._times[at]
            for sector, most in held.items():
                if distance > most:
                    held[sector] = distance
        for sector in sectors:
            most = held.get(sector, 0)
            if most:
                again[min((most - 1).bit_length(), _CLASSES - 1)] += 1
            held[sector] = 1
        self._times.append(self._now)
        self._last[line] = self._now
        self._now += 1


def _filled(found: _Accesses) -> tuple[Indices, Indices]:
    """Return the distinct sectors that blocks touch, and the bytes of each that they use, all together; (count,)."""
    if not len(found.addresses):
        return found.addresses, found.addresses
    grain = int(found.widths.min())
    pieces = [
        found.addresses[found.widths > step] // grain + step // grain
        for step in range(0, int(found.widths.max()), grain)
    ]
    sectors, counts = np.unique(np.unique(np.concatenate(pieces)) * grain // SECTOR_BYTES, return_counts=True)
    return sectors, counts * grain
