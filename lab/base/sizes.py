"""The size of a matrix product or of a batch of them, as a tuned library is asked for it."""

from __future__ import annotations

Size = tuple[int, ...]
"""The dimensions of `AXES` for C = A B, or those of `BATCH_AXES` for many such products of one size.

C is m x n, A is m x k, B is k x n, and a batch has `batch` of each.
"""

AXES = ("m", "n", "k")
BATCH_AXES = (*AXES, "batch")

STRIDES = ("stride_a", "stride_b", "stride_c")
"""Elements from one member of A, B and C to the next, of a batch."""


def extents(size: Size) -> tuple[int, int, int, int]:
    """Return m, n, k and the number of products of a size, 1 where it is of no batch."""
    m, n, k = size[: len(AXES)]
    return m, n, k, size[len(AXES)] if len(size) > len(AXES) else 1
