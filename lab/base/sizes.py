"""The size of a GEMM or of a batched GEMM, as passed to a tuned library."""

from __future__ import annotations

Size = tuple[int, ...]
"""The dimensions `AXES` of C = A B, or the dimensions `BATCH_AXES` of a batched GEMM.

C is m x n, A is m x k, B is k x n; a batch has `batch` matrices of each.
"""

AXES = ("m", "n", "k")
BATCH_AXES = (*AXES, "batch")

STRIDES = ("stride_a", "stride_b", "stride_c")
"""Distances in elements between consecutive matrices A, B and C of a batch."""


def extents(size: Size) -> tuple[int, int, int, int]:
    """Return m, n, k and the batch count of a size; the count is 1 for a single GEMM."""
    m, n, k = size[: len(AXES)]
    return m, n, k, size[len(AXES)] if len(size) > len(AXES) else 1
