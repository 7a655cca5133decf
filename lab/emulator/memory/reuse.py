"""Data reuse in global memory: the sectors a few blocks read again, and the reuse distances.

A cache keeps recently read data. Whether a sector read again by a block is still cached depends on the lines the block
has read since: its reuse distance. An LRU cache hits at every distance up to its number of lines, so the distances give
the hits for caches of any size.

`AccessTrace` records the first accesses of the first blocks, and `counted` computes a `ReuseCount` from them. All warps
of a block advance together, but each issues the loads of a basic block one after another, as on an SM, where a warp can
issue its next load until it needs the value of an earlier one: of experiments/micro/l1_reuse, whose
rows are far larger than what shared memory leaves of L1, no variant waits for L2.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
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
"""The number of threads whose blocks are traced; at least one block."""
MOST_LANES: Final = 60_000
"""The lane accesses after which a trace ends."""
MOST_LINES: Final = 6_000
"""The line look-ups after which a trace ends: some milliseconds of work."""
_CLASSES: Final = 24


class TraceFull(Exception):  # noqa: N818  a way out of the execution, not an error
    """Raised when the trace is full."""


@dataclass(frozen=True, slots=True, eq=False)
class _Noted:
    """One instruction's accesses, (count,) each, in the `group`-th executed basic block."""

    group: int
    addresses: Addresses
    warps: Indices
    blocks: Indices
    width: int


class _Accesses(NamedTuple):
    """Accesses in execution order, one entry per lane; (count,) each."""

    addresses: Addresses
    requests: Indices
    blocks: Indices
    widths: Indices


class AccessTrace:
    """A trace of global-memory accesses.

    Attributes:
        samples: Addresses of each instruction's first requests.
    """

    def __init__(self, tables: Collection[str] = (), *, scale: int = 1) -> None:
        """Begin a trace.

        Args:
            tables: Names of the buffers whose size is the same for all problems.
            scale: Factor of `MOST_LANES` and `MOST_LINES`.
        """
        self._most_lanes, self._most_lines = scale * MOST_LANES, scale * MOST_LINES
        self.samples = AccessSamples()
        self._tables, self._table_segments = tables, set[int]()
        self._noted: dict[str, list[_Noted]] = {"load": [], "store": [], "atomic": []}
        self._lanes, self._group = 0, 0
        self._sizes: dict[int, int] = {}

    def begin(self) -> None:
        """Record that some threads start a basic block."""
        self._group += 1

    def note(
        self, verb: str, region: Region, offsets: Addresses, *, width: int, warps: Indices, blocks: Indices
    ) -> None:
        """Record one instruction.

        Args:
            verb: `load`, `store` or `atomic`; others are ignored.
            region: The buffer.
            offsets: (count,) byte offsets in it.
            width: Bytes of each lane's access.
            warps: (count,) each lane's warp.
            blocks: (count,) each lane's block.

        Raises:
            TraceFull: The trace is full.
        """
        if verb not in self._noted:
            return
        self._sizes[region.base] = region.size
        if region.name in self._tables:
            self._table_segments.add(region.base >> SEGMENT_SHIFT)
        noted = _Noted(self._group, region.base + offsets, warps, blocks, width)
        self._noted[verb].append(noted)
        self._lanes += len(offsets)
        if self._lanes > self._most_lanes:
            raise TraceFull

    def counted(self) -> ReuseCount | None:
        """Return the data reuse; None if nothing was recorded."""
        if not any(self._noted.values()):
            return None
        loads, stores, atomics = (_joined(noted) for noted in self._noted.values())
        reused = _reused(loads, self._table_segments, self._most_lines)
        read_sectors, used = _filled(loads)
        written_sectors, filled = _filled(stores)
        lonely = (used <= SECTOR_BYTES // 2) & ~np.isin(read_sectors ^ 1, read_sectors)
        segments, lonely_count = np.unique(read_sectors[lonely] * SECTOR_BYTES >> SEGMENT_SHIFT, return_counts=True)
        # the first and last sectors of a stream are partly used, too
        random = segments[lonely_count > _EDGES * lonely_count.sum()] << SEGMENT_SHIFT
        return ReuseCount(
            reused.sectors,
            reused.lines,
            reused.again,
            reused.lines_per_block,
            read=len(read_sectors),
            used=int(used.sum()),
            lonely=int(lonely.sum()),
            lonely_used=int(used[lonely].sum()),
            lonely_share=sum(self._sizes[base] for base in random.tolist()) / max(1, sum(self._sizes.values())),
            stored=len(_looked_up(stores, SECTOR_BYTES)[0]),
            stored_alone=_stored_alone(stores),
            written=len(written_sectors),
            filled=int(filled.sum()),
            passes=_passes(loads, reused.last_request),
            table_first=reused.table_sectors - sum(reused.table_again),
            table_again=reused.table_again,
            scattered=(
                *_scattered(loads, read_sectors[lonely], self._sizes),
                *_scattered(atomics, read_sectors[:0], self._sizes, passes=2),
            ),
        )


def _joined(noted: list[_Noted]) -> _Accesses:
    """Concatenate instructions; a request is one warp's part of one, numbered in issue order."""
    if not noted:
        nothing = np.zeros(0, np.int64)
        return _Accesses(nothing, nothing, nothing, nothing)
    widest = 1 + max(int(instruction.warps.max()) for instruction in noted)
    return _Accesses(
        np.concatenate([instruction.addresses for instruction in noted]),
        np.concatenate(
            [(instruction.group * widest + instruction.warps) * len(noted) + i for i, instruction in enumerate(noted)]
        ),
        np.concatenate([instruction.blocks for instruction in noted]),
        np.concatenate([np.full(len(instruction.addresses), instruction.width) for instruction in noted]),
    )


def _looked_up(accesses: _Accesses, size: int) -> tuple[NDArray[np.int64], Indices, Indices]:
    """Return the `size`-byte pieces of each request, in order: (count,) requests, pieces and blocks."""
    if not len(accesses.addresses):
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    pairs = np.stack([accesses.requests, accesses.addresses // size])
    order = np.lexsort(pairs[::-1])
    pairs, blocks = pairs[:, order], accesses.blocks[order]
    new = np.concatenate([[True], (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)])
    return pairs[0, new], pairs[1, new], blocks[new]


def _passes(loads: _Accesses, last_request: int) -> int:
    """Return the passes through L1's 32 banks of all requests up to `last_request`."""
    counted = loads.requests <= last_request
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


class _Reused(NamedTuple):
    """Counts of `ReuseCount`, up to the last request counted."""

    sectors: int = 0
    lines: int = 0
    again: tuple[int, ...] = ()
    lines_per_block: float = 0.0
    last_request: int = -1
    table_sectors: int = 0
    table_again: tuple[int, ...] = ()


def _reused(loads: _Accesses, table_segments: Collection[int], most_lines: int) -> _Reused:
    """Count sectors and lines, and the sectors read again by power of two of their distance."""
    requests, sectors, blocks = _looked_up(loads, SECTOR_BYTES)
    if not len(sectors):
        return _Reused()
    lines = sectors * SECTOR_BYTES // LINE_BYTES
    starts = np.flatnonzero(np.concatenate([[True], (requests[1:] != requests[:-1]) | (lines[1:] != lines[:-1])]))
    if len(starts) > most_lines:
        limit = int(starts[most_lines])
        requests, sectors, lines, blocks = (x[:limit] for x in (requests, sectors, lines, blocks))
        starts = starts[:most_lines]
    ends = np.append(starts[1:], len(sectors))
    streamed, of_tables = np.zeros(_CLASSES, np.int64), np.zeros(_CLASSES, np.int64)
    stacks: dict[int, _Stack] = {}
    listed = sectors.tolist()
    in_table = np.isin(sectors * SECTOR_BYTES >> SEGMENT_SHIFT, list(table_segments))
    for start, end, line, block, table in zip(
        *(column.tolist() for column in (starts, ends, lines[starts], blocks[starts], in_table[starts])), strict=True
    ):
        stack = stacks.setdefault(block, _Stack())
        stack.read(line, listed[start:end], of_tables if table else streamed)
    mean_lines = sum(len(stack.kept) for stack in stacks.values()) / len(stacks)
    again, table_again = _without_zeros(streamed + of_tables), _without_zeros(of_tables)
    table_sectors = int(in_table.sum())
    return _Reused(len(sectors), len(starts), again, mean_lines, int(requests[-1]), table_sectors, table_again)


def _stored_alone(stores: _Accesses) -> int:
    """Count the sectors that are the only ones of their line in a request."""
    requests, sectors, _ = _looked_up(stores, SECTOR_BYTES)
    lines = np.stack([requests, sectors * SECTOR_BYTES // LINE_BYTES])
    return int((np.unique(lines, axis=1, return_counts=True)[1] == 1).sum())


def _scattered(
    accesses: _Accesses, lonely: Indices, sizes: Mapping[int, int], *, passes: int = 1
) -> Iterator[tuple[int, int, int]]:
    """Yield the rows of `ReuseCount.scattered`, with the passes through DRAM of a sector that L2 does not hold."""
    if not len(accesses.addresses):
        return
    pairs = np.unique(np.stack([accesses.blocks, accesses.addresses // SECTOR_BYTES]), axis=1)
    pairs = pairs[:, ~np.isin(pairs[1], lonely)]
    for base, size in sizes.items():
        first = base // SECTOR_BYTES
        sectors = pairs[1, (pairs[1] >= first) & (pairs[1] * SECTOR_BYTES < base + size)]
        gaps = np.diff(np.unique(sectors * SECTOR_BYTES // LINE_BYTES))
        gaps = gaps[gaps > 1]
        wide = gaps.sum() * LINE_BYTES >= size * _WIDE
        if len(gaps) >= _FEWEST_GAPS and wide and gaps.std() > _IRREGULAR * gaps.mean():
            yield size, len(sectors), passes


_EDGES: Final = 0.1
"""Share of all lonely sectors below which those of a buffer are the edges of what blocks read of it."""
_WIDE: Final = 0.5
_FEWEST_GAPS: Final = 3
_IRREGULAR: Final = 0.4
"""A share of a buffer, a number of gaps between its lines, and their deviation over their mean: of random places 1,
at a stride 0."""


def _without_zeros(classes: NDArray[np.int64]) -> tuple[int, ...]:
    """Return the classes up to the last one that is not empty."""
    return tuple(np.trim_zeros(classes, "b").tolist())


class _Stack:
    """The lines a block has read, ordered by last use.

    Attributes:
        kept: By line and sector: the line's largest distance since the sector was read.
    """

    def __init__(self) -> None:
        self.kept: dict[int, dict[int, int]] = {}
        self._last: dict[int, int] = {}
        self._times: list[int] = []
        self._now = 0

    def read(self, line: int, sectors: list[int], again: NDArray[np.int64]) -> None:
        """Read sectors of a line; count re-read sectors in `again`, by class of their distance."""
        last = self._last.get(line)
        distances = self.kept.setdefault(line, {})
        if last is not None:
            at = bisect_left(self._times, last)
            distance = len(self._times) - at  # including the line itself: the lines a cache must hold
            del self._times[at]
            for sector, largest in distances.items():
                if distance > largest:
                    distances[sector] = distance
        for sector in sectors:
            largest = distances.get(sector, 0)
            if largest:
                again[min((largest - 1).bit_length(), _CLASSES - 1)] += 1
            distances[sector] = 1
        self._times.append(self._now)
        self._last[line] = self._now
        self._now += 1


def _filled(accesses: _Accesses) -> tuple[Indices, Indices]:
    """Return the distinct sectors blocks access, and the bytes used of each; (count,)."""
    if not len(accesses.addresses):
        return accesses.addresses, accesses.addresses
    grain = int(accesses.widths.min())
    pieces = [
        accesses.addresses[accesses.widths > step] // grain + step // grain
        for step in range(0, int(accesses.widths.max()), grain)
    ]
    sectors, counts = np.unique(np.unique(np.concatenate(pieces)) * grain // SECTOR_BYTES, return_counts=True)
    return sectors, counts * grain
