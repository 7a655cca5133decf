"""Libraries of real kernels for tests on a GPU, their operands, and the check of a product."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from lab.base.sizes import Size
from lab.library.emit import write
from lab.library.grid import Grid
from lab.library.package import Library, TimesKind
from lab.library.specialise import kernel
from lab.library.tree import build, evaluate
from lab.operators.matrices import tolerance_of_sums
from lab.store.tuning_model import ProblemType
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain
from lab.tuning.product import product

KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    "tiled": ("gemm/tiled.cu.j2", {"block_m": 64, "block_n": 64, "block_k": 16, "thread_m": 4, "thread_n": 4}),
    "split": ("gemm/sgemm.cu.j2", {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "split_k": 3}),
    "packed": ("gemm/sgemm.cu.j2", {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "pack": "both"}),
    "atomics": ("gemm/tensile.cu.j2", {"thread_tile_0": 4, "thread_tile_1": 4, "global_split_u": 6}),
    "workspace": ("gemm/tensile.cu.j2", {"global_split_u": 4, "global_split_u_algorithm": "workspace"}),
}
"""Several launches, scratch buffers, zeroed ones, more shared memory than the default, clusters."""

MAPPED: dict[str, tuple[str, dict[str, Any]]] = {
    "bulk": ("gemm/sgemm.cu.j2", {"block_m": 64, "block_n": 64, "block_k": 16, "copies": "bulk", "pack": "transposed"}),
    "bulk_packed": (
        "gemm/sgemm.cu.j2",
        {"block_m": 64, "block_n": 64, "block_k": 16, "copies": "bulk", "pack": "both"},
    ),
}
"""With tensor maps of operands and of scratch buffers, which cards have from 9.0 on."""


def kernels_for(arch: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the kernels that an architecture can run, by name."""
    return KERNELS | (MAPPED if int(arch.removeprefix("sm_").rstrip("af")) >= 90 else {})


BATCHED: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("gemm/tensile.cu.j2", {"thread_tile_0": 4, "thread_tile_1": 4}),
    "atomics": KERNELS["atomics"],
    "workspace": KERNELS["workspace"],
}
"""Those that compute a batch in one launch of each of their functions."""

SIZES = [(1, 1, 1), (31, 67, 129), (64, 64, 64), (257, 130, 1000), (512, 36, 4096)]
BATCHES = [(1, 1, 1, 5), (31, 67, 129, 3), (64, 64, 64, 40), (130, 36, 500, 7)]
FACTORS = [(1.0, 0.0), (-1.5, 0.5), (0.0, 2.0)]


def write_library(layout: str, arch: str, folder: Path, *, batched: bool = False) -> tuple[Size, ...]:
    """Compile a library in which every kernel is the pick of some sizes; return these."""
    of, kept = ProblemType("float32", layout, batched), BATCHED if batched else kernels_for(arch)
    names, problem = list(kept), product(of, of.least)
    cubins, shipped = {}, {}
    for name, (file, given) in kept.items():
        template = kernels.load(file, kernels.search_path())
        parameters = template.completed(given)
        source = Instance(template, parameters, problem).source
        cubins[name] = toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", arch)).cubin
        shipped[name] = kernel(
            name,
            cubin=f"{name}.cubin",
            template=template,
            parameters=parameters,
            dtype="float32",
            layout=layout,
            batched=batched,
        )
    grid = Grid.of(
        {(m + i, *rest): {name: 1.0 + (i != j) for j, name in enumerate(names)}
         for (m, *rest) in (BATCHES if batched else SIZES) for i in range(len(names))}
    )  # fmt: skip
    logic = build(grid, grid)
    assert set(logic.kernels) == set(names)
    library = Library(
        name="sgemm",
        dtype="float32",
        layout=layout,  # type: ignore[arg-type]
        arch=arch,
        times=TimesKind.PREDICTED,
        source="invented for a test",
        kernels=tuple(shipped[name] for name in logic.kernels),
        logic=logic,
        loss=evaluate(logic, grid),
        batched=batched,
    )
    write(library, cubins, folder)
    return grid.sizes


def operands(layout, m, n, k):
    rng = np.random.default_rng(m * 31 + n * 7 + k)
    shapes = (m, k) if layout[0] == "n" else (k, m), (k, n) if layout[1] == "n" else (n, k)
    return tuple(np.asfortranarray(rng.standard_normal(shape, dtype=np.float32)) for shape in shapes)


def check(layout, a, b, factors, before, got):
    """Against float64; with beta = 0 what C held does not matter, not even NaN."""
    (alpha, beta), stored = factors, (a.astype(np.float64), b.astype(np.float64))
    op_a, op_b = (x if way == "n" else x.T for x, way in zip(stored, layout, strict=True))
    expected = alpha * (op_a @ op_b) + (beta * before.astype(np.float64) if beta else 0)
    scale = np.linalg.norm(op_a, axis=1)[:, None] * np.linalg.norm(op_b, axis=0)[None, :] * abs(alpha)
    scale += np.abs(beta * before) if beta else 0
    assert (np.abs(got - expected) <= tolerance_of_sums("float32") * np.maximum(scale, 1e-30)).all()


def cases(sizes):
    for i, (size, factors) in enumerate(itertools.product(sizes, FACTORS)):
        if i % 2 == 0:
            yield size, factors


def poisoned(m, n, beta):
    fill = np.random.default_rng(0).standard_normal((m, n), dtype=np.float32) if beta else np.full((m, n), np.nan)
    return np.asfortranarray(fill.astype(np.float32))
