"""L1 and L2 hits of a launch's loads, from the reuse distances of a few blocks (`lab.emulator.memory.reuse`).

L1
    An SM's L1 is what shared memory leaves of 256 KB (sm_90). The resident blocks share it alike, and each keeps what
    it read last. A sector that is read again comes from L1 if the block has read fewer lines since than its share
    holds. Distances of at least half of what a block reads are those of passes over it: they grow with the block's
    work. Shorter ones belong to neighbouring elements and stay. So do those in tables, buffers whose size is the same
    for all problems, which a block of more work reads again instead of reading more of them.
L2
    All resident blocks share it, so that a sector comes back after what all of them read in its distance, and what they
    store meanwhile, since stores take lines of L2 too. Where that is more than L2 holds, DRAM sends the share that does
    not fit. Sectors of which neighbouring blocks use at most half are read at random: each use fetches one from DRAM,
    but for the share of those buffers that L2 holds.

    Whole rows that blocks pick at random stay in L2 until as many bytes have come after them as it holds (the
    characteristic time of an LRU cache: Che, Tung and Wang, IEEE J. on Selected Areas in Communications 20, 2002). What
    is streamed through, stores among it, shortens that time.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from lab.base.warp import LINE_BYTES, SECTOR_BYTES
from lab.emulator.results import ReuseCount
from lab.predict.work import Fetched

_UNSURE: Final = 4.0
"""Uncertainty factor of a block's share of L1: warps drift apart, and blocks start at different times."""


@dataclass(frozen=True, slots=True)
class Residence:
    """The cache capacity available to a launch's resident blocks.

    Attributes:
        lines: Lines of L1 that each resident block has.
        blocks: Resident blocks of the whole GPU.
        growth: The work of a block over that of a block that was counted.
        l2_bytes: Bytes of different lines that L2 holds.
    """

    lines: float
    blocks: float
    growth: float
    l2_bytes: float


def fetched(counted: ReuseCount, residence: Residence, sectors: float) -> Fetched | None:
    """Return the sectors that a launch fetches.

    Args:
        counted: What a few blocks read again.
        residence: The L1 and L2 that a block of the real launch has.
        sectors: Sectors of the launch's loads, summed over requests.

    Returns:
        None where no loads were counted.
    """
    if not counted.sectors:
        return None
    scale = sectors / counted.sectors
    first = counted.sectors - sum(counted.again)
    repeated = counted.table_first * (1 - 1 / residence.growth)  # what a block of more work reads again of tables
    likely, least, greatest = (
        first - repeated + missed(counted, residence.lines * factor, residence.growth)
        for factor in (1, _UNSURE, 1 / _UNSURE)
    )
    share = (first - repeated) / max(counted.read, 1) * scale  # blocks read the sectors that they share once each
    return Fetched(
        counted.lines * scale,
        likely * scale,
        least * scale,
        greatest * scale,
        counted.lonely * share,
        counted.lonely_used * share,
        counted.lonely_share,
        (_beyond(counted, residence) + _scattered(counted, residence, scale)) * scale,
        (SECTOR_BYTES * counted.read - counted.used) * share,
        (counted.passes or counted.lines) * scale,
    )


def missed(counted: ReuseCount, lines: float, growth: float) -> float:
    """Return the sectors read again that a cache of some lines per block no longer holds.

    A class of distances reaches over a factor of two; of one that begins below `lines` and ends beyond, the part beyond
    is missed.
    """
    return sum(count for count, _ in _missed(counted, lines, growth))


def _missed(counted: ReuseCount, lines: float, growth: float) -> Iterator[tuple[float, float]]:
    """Yield for each distance class the sectors that `lines` do not hold, and its longest distance in lines."""
    for power, (count, of_tables) in enumerate(zip_longest(counted.again, counted.table_again, fillvalue=0)):
        longest = 2.0**power
        passes = longest >= counted.held / 2 and growth > 1
        for sectors, distance in (
            (count - of_tables, growth * min(longest, counted.held) if passes else longest),
            (of_tables, longest),
        ):
            yield sectors * min(1.0, max(0.0, (distance - lines) / (distance / 2))), distance


def _beyond(counted: ReuseCount, residence: Residence) -> float:
    """Return the sectors read again that neither L1 nor L2 holds any more."""
    bytes_per_line = residence.blocks * (1 + counted.written / counted.sectors) * LINE_BYTES
    return sum(
        count * max(0.0, 1 - residence.l2_bytes / (bytes_per_line * longest))
        for count, longest in _missed(counted, residence.lines, residence.growth)
    )


def _scattered(counted: ReuseCount, residence: Residence, scale: float) -> float:
    """Return the sectors of buffers read at random places that L2 no longer holds, beyond each one's first time."""
    buffers = [(size / SECTOR_BYTES, scale * sectors, passes) for size, sectors, passes in counted.scattered if sectors]
    if not buffers:
        return 0.0
    first = counted.sectors - sum(counted.again)
    streamed = scale * (
        max(0.0, first - sum(sectors for _, sectors, passes in counted.scattered if passes == 1)) + counted.written
    )
    capacity = residence.l2_bytes / SECTOR_BYTES

    def held(share: float) -> float:
        """Return the distinct sectors of a share of the launch."""
        return share * streamed + sum(size * -math.expm1(-reads * share / size) for size, reads, _ in buffers)

    if held(1.0) <= capacity:
        return 0.0
    lasting = bisect.bisect_left(range(_PARTS), capacity, key=lambda part: held(part / _PARTS)) / _PARTS
    missed = 0.0
    for size, reads, passes in buffers:
        distinct = size * -math.expm1(-reads / size)
        missed += passes * max(0.0, reads * math.exp(-reads * lasting / size) - distinct)
    return missed / scale


_PARTS: Final = 1 << 20
"""Parts of a launch by which the time that a line stays in L2 is found."""
