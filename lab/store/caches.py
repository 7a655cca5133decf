"""What L1 and L2 serve of the loads of a launch, from what a few blocks read again (`lab.emulator.memory.reuse`).

L1
    An SM's L1 is what shared memory leaves of 256 KB (sm_90). The resident blocks share it alike, and each keeps what
    it read last. A sector that is read again comes from L1 if the block has read fewer lines since than its share
    holds. Distances of at least half of what a block reads are those of passes over it: they grow with the block's
    work. Shorter ones belong to neighbouring elements and stay.
L2
    What L1 misses of sectors that were read before comes from L2, unless what all resident blocks read together is more
    than L2 holds; then DRAM sends the share that does not fit. Sectors of which neighbouring blocks use at most half
    are read at random: each use fetches one from DRAM, but for the share of those buffers that L2 holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lab.base.warp import LINE_BYTES, SECTOR_BYTES
from lab.emulator.results import ReuseCount
from lab.predict.score import Fetched

_UNSURE: Final = 4.0
"""Factor by which a block's share of L1 may be smaller or larger: warps do not go forward together, and blocks begin at
different times."""


@dataclass(frozen=True, slots=True)
class Residence:
    """What the blocks of an SM share.

    Attributes:
        lines: Lines of L1 that each resident block has.
        blocks: Resident blocks of the whole GPU.
        growth: The work of a block over that of a block that was counted.
        l2_bytes: Bytes of L2.
    """

    lines: float
    blocks: float
    growth: float
    l2_bytes: float


def fetched(counted: ReuseCount, residence: Residence, sectors: float) -> Fetched | None:
    """Say what a launch fetches.

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
    likely, least, most = (
        first + missed(counted, residence.lines * factor, residence.growth) for factor in (1, _UNSURE, 1 / _UNSURE)
    )
    together = residence.blocks * counted.held * residence.growth * LINE_BYTES
    lost = max(0.0, 1 - residence.l2_bytes / together) if together else 0.0
    share = first / max(counted.read, 1) * scale  # blocks read the sectors that they share once each
    return Fetched(
        counted.lines * scale,
        likely * scale,
        least * scale,
        most * scale,
        counted.lonely * share,
        counted.lonely_used * share,
        counted.lonely_share,
        (likely - first) * lost * scale,
        (SECTOR_BYTES * counted.read - counted.used) * share,
    )


def missed(counted: ReuseCount, lines: float, growth: float) -> float:
    """Return the sectors that were read before and that a cache of some lines a block no longer holds.

    A class of distances reaches over a factor of two; of one that begins below `lines` and ends beyond, the part beyond
    is missed.
    """
    found = 0.0
    for power, count in enumerate(counted.again):
        longest = 2.0**power
        passes = longest >= counted.held / 2 and growth > 1
        longest *= growth if passes else 1.0
        found += count * min(1.0, max(0.0, (longest - lines) / (longest / 2)))
    return found
