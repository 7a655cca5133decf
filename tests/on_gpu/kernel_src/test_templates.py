"""Every template against NumPy on a real GPU: awkward sizes, every layout, every special alpha and beta."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from gpu_support import CHECK

from lab.gpu.process.job import Job
from lab.operators.builtin import operator
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache, default_folder
from lab.toolchain.select import build, toolchain

pytestmark = pytest.mark.gpu

ROOTS = kernels.search_path(Path(__file__).parents[3])
CLASSIC = "gemm/classic.cu.j2"  # takes whole tiles and the layout nn alone: test_classic.py
NAMES = [name for name in kernels.available(ROOTS) if name.startswith("gemm/") and name != CLASSIC]
TILES: dict[str, dict[str, Any]] = {
    "v5": {"block_m": 32, "block_n": 32, "block_k": 32, "thread_m": 4, "thread_n": 1, "unroll": 32},
    "64x64": {"block_m": 64, "block_n": 64, "block_k": 16, "thread_m": 4, "thread_n": 4, "unroll": 16},
    "128x128": {},
    "narrow vectors": {"vector_width": 2, "padding": 2, "unroll": 2},
    "no vectors": {"vector_width": 1, "padding": 1, "unroll": 1, "double_buffer": False},
    "padded, one buffer": {"padding": 4, "double_buffer": False},
    "tall": {"block_m": 256, "block_n": 32, "thread_m": 8, "thread_n": 4, "vector_width": 1},
}
VARIANTS: list[tuple[str, str, dict[str, Any]]] = [(name, "", {}) for name in NAMES if "tiled" not in name]
THIN: dict[str, dict[str, Any]] = {
    "elements=1": {"threads": 64, "elements": 1},
    "elements=64": {"elements": 64, "columns": 4},
    "a sum a thread": {"along": "m", "threads": 128, "elements": 128, "rows": 2, "columns": 8, "unroll": 4},
}
VARIANTS += [("gemm/thin.cu.j2", label, given) for label, given in THIN.items()]
VARIANTS += [("gemm/tiled.cu.j2", label, given) for label, given in TILES.items()]
SGEMM: dict[str, dict[str, Any]] = {
    "32x32": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "stages": 4},
    "short loop": {
        "block_m": 64,
        "block_n": 64,
        "block_k": 16,
        "thread_n": 4,
        "unroll": 2,
        "early_loads": True,
        "branches": False,
    },
    "4 x 20": {
        "block_m": 128,
        "block_n": 40,
        "block_k": 32,
        "thread_m": 4,
        "thread_n": 20,
        "lanes_m": 16,
        "split_k": 6,
    },
    "packed": {"block_m": 64, "block_n": 48, "thread_n": 12, "pack": "both", "block_k": 16},
    "transposed first": {"block_m": 64, "block_n": 64, "thread_n": 8, "pack": "transposed", "stages": 3},
    "packed split-k": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "pack": "both", "split_k": 2},
    "split-k": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "split_k": 3},
    "through shared memory": {"block_m": 32, "block_n": 64, "thread_m": 4, "thread_n": 8, "epilogue": "shared"},
    "stream-k": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "workers": 7, "group": 2},
    "stream-k shared": {"block_m": 32, "block_n": 32, "thread_n": 4, "workers": 132, "epilogue": "shared"},
    "bulk": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "copies": "bulk", "stages": 3},
    "bulk packed": {"block_m": 64, "block_n": 48, "thread_n": 12, "copies": "bulk", "pack": "both", "branches": False},
    "bulk split-k": {"block_m": 64, "block_n": 64, "thread_n": 8, "copies": "bulk", "pack": "transposed", "split_k": 2},
    "bulk stream-k": {
        "block_m": 32,
        "block_n": 32,
        "thread_n": 4,
        "copies": "bulk",
        "pack": "both",
        "workers": 132,
        "epilogue": "shared",
        "stages": 4,
    },
}
VARIANTS += [("gemm/sgemm.cu.j2", label, given) for label, given in SGEMM.items()]
SIZES = [(1, 1, 1), (1, 37, 5), (37, 1, 5), (5, 7, 1), (31, 33, 32), (32, 32, 33), (127, 129, 65), (128, 128, 64)]
SIZES += [(131, 67, 257), (132, 68, 260)]
FACTORS = [(1.0, 0.0), (0.0, 0.0), (0.0, 2.0), (-1.5, 0.5)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("name", "label", "given"), VARIANTS, ids=[f"{n} {label}" for n, label, _ in VARIANTS])
def test_every_template_is_right(session, name, label, given, layout, dtype):
    del label
    template, gemm = kernels.load(name, ROOTS), operator("gemm")
    parameters = template.completed(given)
    failures = []
    for i, ((m, n, k), (alpha, beta)) in enumerate(itertools.product(SIZES, FACTORS)):
        shape = {"m": m, "n": n, "k": k, "dtype": dtype, "layout": layout}
        # slack behind the columns: none, some that breaks the alignment of vectors, some that keeps it
        leading = {key: int(gemm.problem(shape)[key]) + (0, 3, 4)[i % 3] for key in ("lda", "ldb", "ldc")}
        problem = gemm.problem({**shape, **leading, "alpha": alpha, "beta": beta})
        if template.unsupported(problem):
            pytest.skip("the template is not made for this type")
        if Instance(template, parameters, problem).unmet():
            pytest.skip("this point is outside the template's space for this type")
        failures += failure_of(session, template, parameters, problem)
    assert not failures, "\n".join(failures)


def failure_of(session, template, parameters, problem):
    """Why one launch failed, as a list; empty where it was right."""
    source = Instance(template, parameters, problem).source
    request = CompileRequest(source, "kernel.cu", session.start().arch)
    built = build(toolchain("nvrtc"), request, Cache(default_folder()))
    job = Job(
        variant=template.name,
        cubin=built.build.cubin,
        launches=Instance(template, parameters, problem).launches,
        operator=template.declares.operator,
        problem=problem,
    )
    failure = session.run(job, CHECK).failure
    return [f"{problem}: {failure.stage}: {failure.reason}"] if failure else []


TALL = "cyclic2d(width=(4, 1), items=(8, 2), threads=(8, 4))"
MOVES = [
    ("copy/linear.cu.j2", {}),
    ("copy/linear.cu.j2", {"mapping": "[3, 2] | [(5, 3), 7] => [t1, -i0, t0, i1]", "vector": False, "blocks": 3}),
    ("copy/tiles.cu.j2", {"mapping": TALL, "tile_m": 64, "vector": True}),
    ("transpose/direct.cu.j2", {"mapping": "[5] | [3, (9, 7)] => [-t1, i0, -t0]", "tile_m": 21}),
    ("transpose/shared.cu.j2", {"load": TALL, "store": TALL, "tile_m": 32, "vector": True}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("name", "given"), MOVES)
def test_every_move_is_right(session, name, given, dtype):
    template, move = kernels.load(name, ROOTS), operator(name.partition("/")[0])
    parameters, failures = template.completed(given), []
    for i, (m, n) in enumerate([(1, 1), (31, 33), (32, 64), (129, 68), (1000, 1), (3, 257), (1024, 512)]):
        shape = {"m": m, "n": n, "dtype": dtype}
        leading = {key: int(move.problem(shape)[key]) + (0, 3, 8)[i % 3] for key in ("lda", "ldb")}
        failures += failure_of(session, template, parameters, move.problem({**shape, **leading}))
    assert not failures, "\n".join(failures)
