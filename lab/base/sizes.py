"""The size of a matrix product: what a tuned library is asked for."""

from __future__ import annotations

Size = tuple[int, int, int]
"""m, n and k of C = A B: C is m x n, A is m x k, B is k x n."""
