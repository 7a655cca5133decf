"""Planted faults: a kernel, what is replaced in its source, and the kinds of finding that may report it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cases

RACE = ("shared-race",)
SHARED = ("shared-race", "uninitialised-read")
BOUNDS = ("out-of-bounds",)
WAIT = ("async-not-waited",)
WRONG = ("wrong-result",)  # nothing illegal happens; the comparison with NumPy finds it
UNWRITTEN = ("never-written",)


@dataclass(frozen=True)
class Mutant:
    name: str
    kernel: str
    case: Callable[[str], cases.Outcome]
    old: str
    new: str
    kinds: tuple[str, ...]
    occurrence: int = 0

    def apply(self, text: str) -> str:
        parts = text.split(self.old)
        assert len(parts) > self.occurrence + 1, self.old
        head = self.old.join(parts[: self.occurrence + 1])
        return head + self.new + self.old.join(parts[self.occurrence + 1 :])


_SYNC = "__syncthreads();"
MUTANTS = [
    # naive
    Mutant("no row test", "gemm_naive", cases.naive, "row >= m || col >= n", "col >= n", (*BOUNDS, *WRONG)),
    Mutant("no column test", "gemm_naive", cases.naive, "row >= m || col >= n", "row >= m", BOUNDS),
    Mutant("k one too far", "gemm_naive", cases.naive, "i < k;", "i <= k;", BOUNDS),
    Mutant("row one short", "gemm_naive", cases.naive, "row >= m", "row >= m - 1", WRONG),
    # tiled
    Mutant("no barrier after fill", "gemm_tiled", cases.tiled, _SYNC + "  // tiles are filled", "", SHARED),
    Mutant("no barrier after use", "gemm_tiled", cases.tiled, _SYNC + "  // tiles are read", "", RACE),
    Mutant("tile index shifted", "gemm_tiled", cases.tiled, "tile_b[i][tx]", "tile_b[i + 1][tx]", (*SHARED, *BOUNDS)),
    Mutant("no bounds on A", "gemm_tiled", cases.tiled, "row < m && k0 + tx < k ?", "k0 + tx < k ?", BOUNDS),
    Mutant("no bounds on store", "gemm_tiled", cases.tiled, "if (row < m && col < n) c", "if (col < n) c", BOUNDS),
    Mutant("store skips a column", "gemm_tiled", cases.tiled, "col < n) c[", "col < n - 1) c[", UNWRITTEN),
    Mutant(
        "barrier in a branch",
        "gemm_tiled",
        cases.tiled,
        _SYNC + "  // tiles are read",
        "if (threadIdx.y < 16) __syncthreads();",
        ("barrier-divergence",),
    ),
    Mutant(
        "tile not filled",
        "gemm_tiled",
        cases.tiled,
        "tile_a[ty][tx] = row",
        "if (tx < 31) tile_a[ty][tx] = row",
        ("uninitialised-read",),
    ),
    # double-buffered
    Mutant("no first barrier", "gemm_128", cases.double_buffered, _SYNC + "  // first tile is filled", "", SHARED),
    Mutant("no next barrier", "gemm_128", cases.double_buffered, _SYNC + "  // next tile is filled", "", SHARED),
    Mutant("one buffer", "gemm_128", cases.double_buffered, "buffer ^= 1;", "", RACE),
    Mutant(
        "read the other buffer",
        "gemm_128",
        cases.double_buffered,
        "&tile_b[buffer][i][tc]",
        "&tile_b[buffer ^ 1][i][tc]",
        SHARED,
    ),
    Mutant(
        "fragment shifted",
        "gemm_128",
        cases.double_buffered,
        "&tile_a[buffer][i][tr + 64]",
        "&tile_a[buffer][i][tr + 65]",
        ("misaligned",),
    ),
    Mutant("store row test dropped", "gemm_128", cases.double_buffered, "row < m && col < n", "col < n", BOUNDS),
    Mutant("vector load past the edge", "gemm_128", cases.double_buffered, "if (row >= rows) return v;", "", BOUNDS),
    Mutant(
        "transposed store shifted",
        "gemm_128",
        cases.double_buffered,
        "tile_a[0][a_col + 3][a_row]",
        "tile_a[0][a_col + 2][a_row]",
        SHARED,
    ),
    # cp.async
    Mutant("wait shrunk", "gemm_async", cases.multi_stage, "wait_prior(STAGES - 2)", "wait_prior(STAGES - 1)", WAIT),
    Mutant("no wait", "gemm_async", cases.multi_stage, "__pipeline_wait_prior(STAGES - 2);", "", WAIT),
    Mutant(
        "wait after barrier",
        "gemm_async",
        cases.multi_stage,
        "__pipeline_wait_prior(STAGES - 2);\n        __syncthreads();",
        "__syncthreads();\n        __pipeline_wait_prior(STAGES - 2);",
        WAIT,
    ),
    Mutant("no barrier", "gemm_async", cases.multi_stage, _SYNC, "", (*RACE, *WAIT)),
    Mutant(
        "stage too near",
        "gemm_async",
        cases.multi_stage,
        "int ahead = t + STAGES - 1;",
        "int ahead = t + STAGES;",
        (*RACE, *SHARED),
    ),
    Mutant("no commit", "gemm_async", cases.multi_stage, "__pipeline_commit();\n        int s", "int s", WAIT),
    Mutant(
        "source not guarded",
        "gemm_async",
        cases.multi_stage,
        "fetch(&sa[r][c], inside ? a + (row0 + r) * k + k0 + c : a, inside)",
        "fetch(&sa[r][c], a + (row0 + r) * k + k0 + c, true)",
        BOUNDS,
    ),
    # softmax
    Mutant("partials not awaited", "softmax", cases.softmax, _SYNC + "  // partial results are there", "", SHARED),
    Mutant("result not awaited", "softmax", cases.softmax, _SYNC + "  // the result is there", "", RACE),
    Mutant("result overwritten", "softmax", cases.softmax, _SYNC + "  // the result is read", "", RACE),
    Mutant("column one too far", "softmax", cases.softmax, "i < columns", "i <= columns", BOUNDS, 2),
    Mutant(
        "partials of absent warps",
        "softmax",
        cases.softmax,
        "lane < warps ?",
        "lane <= warps ?",
        ("uninitialised-read",),
    ),
    Mutant(
        "endless",
        "softmax",
        cases.softmax,
        "d /= 2) v = combine<MAX>(v, __shfl_xor",
        "d /= 1) v = combine<MAX>(v, __shfl_xor",
        ("endless-loop",),
    ),
    # split-k
    Mutant("no barrier after fill (split)", "gemm_split_k", cases.split_k, _SYNC + "  // tiles are filled", "", SHARED),
    Mutant("no barrier after use (split)", "gemm_split_k", cases.split_k, _SYNC + "  // tiles are read", "", RACE),
    Mutant(
        "atomic outside",
        "gemm_split_k",
        cases.split_k,
        "if (row < m && col < n) atomicAdd",
        "if (col < n) atomicAdd",
        BOUNDS,
    ),
    Mutant(
        "slices overlap", "gemm_split_k", cases.split_k, "min(k, first + slice)", "min(k, first + slice + 1)", WRONG
    ),
    # transpose
    Mutant("no barrier (transpose)", "transpose", cases.transpose, _SYNC, "", SHARED),
    Mutant(
        "swapped bounds",
        "transpose",
        cases.transpose,
        "out_row + i < cols && out_col < rows",
        "out_row + i < rows && out_col < cols",
        (*BOUNDS, *UNWRITTEN, "uninitialised-read"),
    ),
    Mutant(
        "tile row past the end",
        "transpose",
        cases.transpose,
        "tile[threadIdx.x][threadIdx.y + i]",
        "tile[threadIdx.x + 1][threadIdx.y + i]",
        ("uninitialised-read", *BOUNDS),
    ),
    Mutant(
        "read off by one",
        "transpose",
        cases.transpose,
        "a[(row + i) * cols + col]",
        "a[(row + i) * cols + col + 1]",
        BOUNDS,
    ),
    # halves
    Mutant("no bounds (half2)", "axpy_half", cases.axpy_half2, "if (i < pairs)", "if (i < pairs + 1)", BOUNDS),
    Mutant("one short (bf16)", "axpy_half", cases.axpy_bfloat16, "if (i < n)", "if (i < n - 1)", UNWRITTEN),
    # wmma: one warp, so what matters is what it reads and writes
    Mutant("no row test (wmma)", "gemm_wmma", cases.wmma, "row0 + r < m && k0 + s < k ?", "k0 + s < k ?", BOUNDS),
    Mutant("half the tile filled", "gemm_wmma", cases.wmma, "i < 256", "i < 128", ("uninitialised-read",)),
    Mutant(
        "no column test (wmma)",
        "gemm_wmma",
        cases.wmma,
        "row0 + r < m && col0 + s < n) c",
        "row0 + r < m) c",
        (*BOUNDS, *WRONG),
    ),
]
