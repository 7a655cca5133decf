from __future__ import annotations

from lab.base import warp


def test_the_sizes_fit_together() -> None:
    """A warp of 4-byte accesses fills all banks, and side by side one line of whole sectors."""
    row = warp.BANKS * warp.BANK_BYTES
    assert row == warp.LINE_BYTES == warp.WARP_SIZE * 4
    assert warp.LINE_BYTES % warp.SECTOR_BYTES == 0
