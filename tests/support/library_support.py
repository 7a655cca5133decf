"""Test data: kernels that do not exist, with invented times. Nothing here was measured."""

from __future__ import annotations

import math

import numpy as np

from lab.base.sizes import Size
from lab.library.grid import Grid, Loss
from lab.library.package import Library, LibraryBuffer, LibraryKernel, LibraryLaunch, LibraryMap, TimesKind
from lab.library.tree import BATCH_SPLIT, Exact, Logic, Split, build, evaluate

TILES = ((16, 16), (32, 64), (64, 32), (128, 128), (256, 128))

ARGUMENTS = tuple(
    {"alpha": "float32", "beta": "float32", "A": "float32*", "B": "float32*", "C": "float32*"}.get(name, "int32")
    for name in ("m", "n", "k", "alpha", "A", "lda", "B", "ldb", "beta", "C", "ldc")
)
NAMED = tuple(zip(("m", "n", "k", "alpha", "A", "lda", "B", "ldb", "beta", "C", "ldc"), ARGUMENTS, strict=True))


def invented_ms(tile: tuple[int, int], size: Size) -> float:
    """Waves of tiles over 132 imagined SMs; larger tiles are more efficient, and pay for their edges."""
    tile_m, tile_n = tile
    m, n, k = size
    waves = math.ceil(math.ceil(m / tile_m) * math.ceil(n / tile_n) / 132)
    return 1e-3 + waves * k * (tile_m * tile_n + 40 * (tile_m + tile_n)) * 1e-8


def invented_grid(along: tuple[int, ...], depths: tuple[int, ...] = (64, 3104)) -> Grid:
    """All tiles at all sizes."""
    times: dict[Size, dict[str, float]] = {}
    for m in along:
        for n in along:
            for k in depths:
                times[m, n, k] = {f"tile_{a}x{b}": invented_ms((a, b), (m, n, k)) for a, b in TILES}
    return Grid.of(times)


def invented_kernel(name: str) -> LibraryKernel:
    """One with a condition, a scratch buffer and two launches."""
    step = LibraryLaunch(
        "part", ("ceil_div(m, 128)", "n // 3 + 1", "4"), ("256", "1", "1"), "65536", NAMED, "(k % 4) == 0"
    )
    last = LibraryLaunch(
        "reduce",
        ("max(m, n)", "1", "1"),
        ("32", "1", "1"),
        "0",
        (("partial", "float32*"), ("C", "float32*"), ("ldc", "int64")),
    )
    scratch = (
        LibraryBuffer("partial", "float32", "(m * n) * 4", zero=True),
        LibraryBuffer("more", "float64", "m if k > 9 else 1"),
    )
    return LibraryKernel(name, f"{name}.cubin", "invented.cu.j2", {"tile": 1}, (step, last), scratch)


def invented_library(logic: Logic, grid: Grid, layout: str = "nn") -> Library:
    """A library of invented kernels."""
    kernels = tuple(invented_kernel(name) for name in logic.kernels)
    loss = evaluate(logic, grid)
    source = 'invented for a test; "quoted" */ and \\ survive'
    return Library("sgemm", "float32", layout, "sm_90", TimesKind.PREDICTED, source, kernels, logic, loss)  # type: ignore[arg-type]


def small_library() -> Library:
    """With ranges and exact sizes, and thresholds on what 4 leaves of a dimension."""
    sizes = (16, 48, 128, 400, 1000, 3000, 5632)
    grid = invented_grid(sizes)
    odd = {
        (m - 1, n, k): {
            name: ms * (1 if name == "tile_16x16" else 9) for name, ms in zip(grid.kernels, row, strict=True)
        }
        for (m, n, k), row in zip(grid.sizes, grid.times, strict=True)
    }
    both = Grid.of(
        odd | {s: dict(zip(grid.kernels, row, strict=True)) for s, row in zip(grid.sizes, grid.times, strict=True)}
    )
    exact = invented_grid((35, 700, 5124), depths=(2560,))
    return invented_library(build(both, exact, edges=(sizes, sizes, (64, 3104))), grid)


def random_sizes(count: int, seed: int) -> np.ndarray:
    """Sizes of all magnitudes, and some at the very thresholds' scale."""
    rng = np.random.default_rng(seed)
    return np.exp(rng.uniform(0, math.log(2**20), size=(count, 3))).astype(np.int64).clip(1)


ADDRESS = 1 << 20


class OnGpu:
    """An array's interface without a GPU: what dispatch reads, over memory that is never touched."""

    def __init__(self, array, *, address=ADDRESS, strides=True, read_only=False, stream=None):
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (address, read_only),
            "strides": array.strides if strides else None,
            "version": 3,
            "stream": stream,
        }


def fortran(rows, columns, dtype="float32"):
    return np.zeros((rows, columns), dtype, order="F")


def mapped_kernel() -> LibraryKernel:
    """One whose blocks stay, with maps of A and of a scratch buffer; it takes columns of whole 16 bytes alone."""
    maps = (
        LibraryMap("a_map", "A", "float32", ("m", "k"), "lda", (32, 8)),
        LibraryMap("b_map", "packed", "float32", ("n", "k"), "(ceil_div(n, 4) * 4)", (16, 8), 64),
    )
    arguments = (("m", "int32"), ("a_map", "tensor_map"), ("b_map", "tensor_map"), ("C", "float32*"))
    grid = ("min((ceil_div(m, 32) * ceil_div(n, 16)), resident_blocks)", "1", "1")
    step = LibraryLaunch("mapped", grid, ("64", "2", "1"), "65536", arguments)
    scratch = (LibraryBuffer("packed", "float32", "((ceil_div(n, 4) * 4) * k)"),)
    return LibraryKernel(
        "mapped", "mapped.cubin", "invented.cu.j2", {}, (step,), scratch, maps, "((lda % 4) == 0) and ((ldc % 4) == 0)"
    )


def mapped_library(layout: str = "nn") -> Library:
    """The mapped kernel for all sizes; where it cannot take the operands, one of two that can, by m."""
    names = ("mapped", "small", "large")
    logic, general = Logic(names, ~0), Logic(names, 0, (Split(0, 300, ~1, ~2),), (Exact(1, 2, 3, 2),))
    kernels = (mapped_kernel(), invented_kernel("small"), invented_kernel("large"))
    return Library(
        "sgemm", "float32", layout, "sm_90a", TimesKind.PREDICTED, "invented", kernels, logic,  # type: ignore[arg-type]
        Loss(0.0, 0.0, (1, 1, 1), 1), general=general,
    )  # fmt: skip


STRIDED = (*NAMED, ("batch", "int32"), ("stride_a", "int32"), ("stride_b", "int32"), ("stride_c", "int32"))


def batched_library(layout: str = "nn", logic: Logic | None = None) -> Library:
    """Kernels that compute batches in one launch: one for few products, one for many, whose C may need scratch.

    Args:
        layout: BLAS letters of A and B.
        logic: What picks among kernels of its own, all alike; None has the second one require strides of whole vectors.
    """
    kernels: tuple[LibraryKernel, ...]
    few = LibraryLaunch("strided", ("ceil_div(m, 16) * batch", "ceil_div(n, 16)", "1"), ("64", "1", "1"), "0", STRIDED)
    many = LibraryLaunch("strided", ("batch", "1", "1"), ("32", "1", "1"), "0", STRIDED)
    scratch = (LibraryBuffer("partial", "float32", "m * n * batch", zero=True),)
    if logic is None:
        names = ("few", "many")
        kernels = (
            LibraryKernel("few", "few.cubin", "invented.cu.j2", {}, (few,)),
            LibraryKernel("many", "many.cubin", "invented.cu.j2", {}, (many,), scratch, (), "(stride_a % 4) == 0"),
        )
        logic = Logic(names, 0, (Split(BATCH_SPLIT, 8, ~0, ~1),), (Exact(4, 6, 8, 1, 1), Exact(4, 6, 8, 1, 3)))
        general = Logic(names, ~0)
    else:
        kernels = tuple(
            LibraryKernel(kernel, f"{kernel}.cubin", "invented.cu.j2", {}, (few,)) for kernel in logic.kernels
        )
        general = None
    return Library(
        "sgemm", "float32", layout, "sm_90", TimesKind.PREDICTED, "invented", kernels, logic,  # type: ignore[arg-type]
        Loss(0.0, 0.0, (1, 1, 1, 1), 1), general=general, batched=True,
    )  # fmt: skip


def random_batches(count: int, seed: int) -> list[Size]:
    """Sizes of all magnitudes, with up to 1000 products."""
    rng = np.random.default_rng(seed)
    drawn = np.exp(rng.uniform(0, np.log([5000, 5000, 5000, 1000]), size=(count, 4)))
    return [tuple(size) for size in drawn.astype(np.int64).tolist()]
