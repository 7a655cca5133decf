"""The size of a matrix product, as a tuned library is asked for it."""

from __future__ import annotations

Size = tuple[int, int, int]
"""m, n and k of C = A B: C is m x n, A is m x k, B is k x n."""
