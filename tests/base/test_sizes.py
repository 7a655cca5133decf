from __future__ import annotations

from lab.base.sizes import AXES, BATCH_AXES, extents


def test_a_size_without_a_batch_is_of_one_product() -> None:
    assert extents((5, 7, 9)) == (5, 7, 9, 1)
    assert extents((5, 7, 9, 4)) == (5, 7, 9, 4)
    assert BATCH_AXES[: len(AXES)] == AXES
