"""Every template, executed on the CPU: right on awkward sizes, and free of races and bad accesses."""

from __future__ import annotations

import functools
import itertools

import pytest

from lab import kernels
from lab.emulation import EmulationTask, emulate
from lab.operators import operator
from lab.toolchain import CompileRequest, toolchain

ROOTS = kernels.search_path()
NAMES = [name for name in kernels.available(ROOTS) if name.startswith("gemm/")]
TILES = {
    "v5": {
        "block_m": 32,
        "block_n": 32,
        "block_k": 32,
        "thread_m": 4,
        "thread_n": 1,
        "unroll": 32,
        "double_buffer": False,
    },
    "64x64": {"block_m": 64, "block_n": 64, "block_k": 16, "thread_m": 4, "thread_n": 4, "unroll": 16, "padding": 4},
    "128x128": {},
    "narrow vectors": {"vector_width": 2, "padding": 2, "unroll": 2},
    "no vectors": {"vector_width": 1, "padding": 1, "unroll": 1, "double_buffer": False},
}
SGEMM = {
    "sgemm 32x32": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "stages": 4},
    "sgemm loop": {
        "block_m": 64,
        "block_n": 32,
        "block_k": 16,
        "thread_m": 8,
        "thread_n": 4,
        "stages": 3,
        "unroll": 4,
        "order": "row_zigzag",
        "group": 2,
        "early_loads": True,
        "branches": False,
    },
    "sgemm z-order": {
        "block_m": 32,
        "block_n": 64,
        "block_k": 32,
        "thread_m": 4,
        "thread_n": 8,
        "lane_map": "zorder",
        "unroll": 2,
        "order": "column_snake",
        "padding": 0,
        "streaming": True,
        "branches": False,
    },
}
VARIANTS = [(name, {}) for name in NAMES if "tiled" not in name]
VARIANTS += [("gemm/tiled.cu.j2", given) for given in TILES.values()]
VARIANTS += [("gemm/sgemm.cu.j2", given) for given in SGEMM.values()]
IDS = [name for name in NAMES if "tiled" not in name] + list(TILES) + list(SGEMM)
SIZES = [(1, 1, 1), (33, 31, 32), (37, 5, 67), (64, 128, 65), (129, 127, 9), (132, 68, 36)]
FACTORS = [(1.0, 0.0), (-1.5, 0.5), (0.0, 2.0)]


def executed(name, given, problem):
    template = kernels.load(name, ROOTS)
    parameters = kernels.complete(template, given)
    if kernels.unsupported(template, problem):
        pytest.skip("the template is not made for this type")
    if kernels.unmet(template, parameters, problem):
        pytest.skip("this point is outside the template's space for this type")
    source = kernels.render(template, parameters, problem)
    launch = kernels.launch(template, parameters, problem)
    return emulate(EmulationTask(launch, "gemm", problem, 0, None), ptx_of(source))


@functools.lru_cache(maxsize=4)
def ptx_of(source):
    return toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", "sm_90")).ptx


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("name", "given"), VARIANTS, ids=IDS)
def test_every_template_is_right_and_clean(name, given, layout, dtype):
    gemm = operator("gemm")
    for i, ((m, n, k), (alpha, beta)) in enumerate(itertools.product(SIZES, FACTORS)):
        if i % 4 != ["nn", "nt", "tn", "tt"].index(layout) and i >= 3:
            continue  # every layout sees the smallest size whole and a quarter of the others
        shape = {"m": m, "n": n, "k": k, "dtype": dtype, "layout": layout}
        # slack behind the columns: none, some that breaks the alignment of vectors, some that keeps it
        leading = {key: gemm.problem(shape)[key] + (0, 3, 4)[i % 3] for key in ("lda", "ldb", "ldc")}
        done = executed(name, given, gemm.problem({**shape, **leading, "alpha": alpha, "beta": beta}))
        assert done.unsupported == ""
        assert done.fault == "", f"{shape} {leading} alpha={alpha} beta={beta}: {done.fault}"
        assert done.verification.passed
