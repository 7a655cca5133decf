"""A product of 16-bit matrices by persistent programs that fetch and store whole tiles by tensor descriptors (TMA)."""

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
    HALVES: tl.constexpr,
    SPECIALISE: tl.constexpr = 0,
):
    """Compute c = a b^T, row-major: a is m x k, b n x k, c m x n. Tiles are walked in bands of GROUP rows of tiles.

    With HALVES, a tile of c is stored as two, one after the other. With SPECIALISE and num_warps = 4, four warps fetch
    tiles and twice four multiply them. The descriptors lie in memory that Triton asks its launcher for.
    """
    rows_of_a = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BLOCK_M, BLOCK_K])
    rows_of_b = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BLOCK_N, BLOCK_K])
    part: tl.constexpr = BLOCK_N // 2 if HALVES else BLOCK_N
    rows_of_c = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BLOCK_M, part])
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(
        tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=FLATTEN, warp_specialize=SPECIALISE
    ):
        band = tile // (GROUP * tiles_n) * GROUP
        height = min(GROUP, tiles_m - band)
        rest = tile % (GROUP * tiles_n)
        row, column = (band + rest % height) * BLOCK_M, rest // height * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(tl.cdiv(k, BLOCK_K)):
            y = rows_of_b.load([column, step * BLOCK_K])
            x = rows_of_a.load([row, step * BLOCK_K])
            sums = tl.dot(x, y.T, sums)
        if HALVES:
            left, right = sums.reshape(BLOCK_M, 2, part).permute(0, 2, 1).split()
            rows_of_c.store([row, column], left.to(c.dtype.element_ty))
            rows_of_c.store([row, column + part], right.to(c.dtype.element_ty))
        else:
            rows_of_c.store([row, column], sums.to(c.dtype.element_ty))
