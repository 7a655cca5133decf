"""A product of 16-bit matrices by programs that stay and take tiles in turn, as many as the GPU holds at once."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    c,
    a,
    b,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """Compute c = a b^T, row-major: a is m x k, b n x k, c m x n. Tiles are walked in bands of GROUP rows of tiles."""
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    along_k = tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=FLATTEN):
        band = tile // (GROUP * tiles_n) * GROUP
        height = min(GROUP, tiles_m - band)
        rest = tile % (GROUP * tiles_n)
        rows = (band + rest % height) * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = rest // height * BLOCK_N + tl.arange(0, BLOCK_N)
        # rows beyond the last are read from the first on: their sums are not stored
        from_a = a + (rows % m)[:, None] * k + along_k[None, :]
        from_b = b + (columns % n)[:, None] * k + along_k[None, :]
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(tl.cdiv(k, BLOCK_K)):
            inside = along_k[None, :] < k - step * BLOCK_K
            x = tl.load(from_a + step * BLOCK_K, mask=inside, other=0.0)
            y = tl.load(from_b + step * BLOCK_K, mask=inside, other=0.0)
            sums = tl.dot(x, y.T, sums)
        there = (rows < m)[:, None] & (columns < n)[None, :]
        tl.store(c + rows[:, None] * n + columns[None, :], sums.to(c.dtype.element_ty), mask=there)
