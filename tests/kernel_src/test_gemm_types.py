"""Emulated GEMMs (Tensile's and the thin kernels) for every element type of BLAS and tensor cores."""

from __future__ import annotations

import pytest
from compiling import quiet_ptx_of

from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance

ROOTS = kernels.search_path()
GEMM = operator("gemm")
TENSILE, THIN = "gemm/tensile.cu.j2", "gemm/thin.cu.j2"
SETTINGS = {
    "tile": (TENSILE, {"work_group_0": 8, "work_group_1": 8, "thread_tile_0": 4, "thread_tile_1": 4, "loop_unroll": 4}),
    "vectors of 16 bytes": (
        TENSILE,
        {"work_group_0": 4, "work_group_1": 8, "thread_tile_0": 8, "thread_tile_1": 8, "loop_unroll": 2},
    ),
    "odd": (
        TENSILE,
        {"work_group_0": 8, "work_group_1": 4, "thread_tile_0": 2, "thread_tile_1": 6, "vector_width": 2,
         "loop_unroll": 3, "prefetch_global_read": False, "prefetch_local_read": False},
    ),
    "workspace": (
        TENSILE,
        {"work_group_0": 8, "work_group_1": 4, "local_split_u": 2, "thread_tile_0": 2, "thread_tile_1": 4,
         "loop_unroll": 2, "global_split_u": 3, "global_split_u_algorithm": "workspace"},
    ),
    "atomic": (
        TENSILE,
        {"work_group_0": 8, "work_group_1": 8, "thread_tile_0": 2, "thread_tile_1": 2, "loop_unroll": 4,
         "global_split_u": 3, "local_split_u": 2},
    ),
    "thin": (THIN, {"threads": 64, "elements": 8, "rows": 2, "unroll": 2}),
    "thin along n": (THIN, {"along": "n", "threads": 64, "elements": 32, "columns": 2, "unroll": 1}),
}  # fmt: skip
TYPES = ("float16", "bfloat16", "complex64", "complex128")
LAYOUTS = ("nn", "tt", "tn", "nt")
PROBLEMS = [  # size, α and β, imaginary parts, slack behind the columns
    ((37, 5, 19), (-1.5, 0.5), (0.25, -2.0), 3),
    ((32, 31, 33), (0.0, 1.0), (0.0, 0.0), 8),
    ((33, 64, 12), (0.0, 0.0), (-1.0, 1.5), 8),
    ((1, 1, 1), (1.0, 0.0), (0.0, 0.0), 0),
]


def settings():
    """Each setting with a type of 16 bits and a complex one in turn; so do layouts, and the others are thorough."""
    for number, (key, (name, parameters)) in enumerate(SETTINGS.items()):
        for turn, dtype in enumerate(TYPES):
            for place, layout in enumerate(LAYOUTS):
                in_turn = place == (number + turn) % len(LAYOUTS) and turn % 2 == number % 2
                marks = [] if in_turn else [pytest.mark.thorough]
                yield pytest.param(name, parameters, dtype, layout, id=f"{key}-{dtype}-{layout}", marks=marks)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("name", "given", "dtype", "layout"), list(settings()))
def test_every_type_is_right_and_clean(name, given, dtype, layout):
    template, ptx = kernels.load(name, ROOTS), ""
    for size, (alpha, beta), imaginary, slack in PROBLEMS:
        values = {**dict(zip("mnk", size, strict=True)), "dtype": dtype, "layout": layout, "alpha": alpha, "beta": beta}
        if dtype.startswith("complex"):
            values |= dict(zip(("alpha_imag", "beta_imag"), imaginary, strict=True))
        least = GEMM.problem(values)
        problem = GEMM.problem({**values, **{key: least[key] + slack for key in ("lda", "ldb", "ldc")}})
        instance = Instance.of(template, given, problem)
        if given.get("global_split_u_algorithm") is None and given.get("global_split_u") and dtype in TYPES[:2]:
            assert "16 bits" in instance.unmet().because
            return
        assert instance.unmet() is None
        ptx = ptx or quiet_ptx_of(instance.source)
        done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), ptx)
        assert done.unsupported == ""
        assert done.fault == "", f"{problem}: {done.fault}"
        assert done.verification.passed, f"{problem}: {done.verification}"


def test_sixteen_bytes_move_at_once_where_the_thread_tile_has_them():
    names = {
        dtype: Instance.of(
            kernels.load(TENSILE, ROOTS), {}, GEMM.problem({"m": 1, "n": 1, "k": 1, "dtype": dtype})
        ).names
        for dtype in (*TYPES, "float32", "float64")
    }
    assert {dtype: found["vw"] * found["element_bytes"] for dtype, found in names.items()} == dict.fromkeys(names, 16)
    assert names["float16"]["S"] == names["float32"]["T"]


BATCHES = [  # size and products, α and β, slack behind the columns
    ((37, 5, 19), 3, (-1.5, 0.5), 3),
    ((32, 20, 12), 5, (1.0, 0.0), 4),
    ((1, 1, 1), 1, (1.0, 0.0), 0),
    ((16, 16, 8), 2, (0.0, 0.5), 0),
]


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(
    ("given", "dtype", "layout"),
    [
        (SETTINGS[key][1], dtype, layout)
        for key, dtype, layout in [
            ("tile", "float32", "nn"),
            ("odd", "float32", "tt"),
            ("atomic", "float32", "tn"),
            ("workspace", "bfloat16", "nt"),
            ("vectors of 16 bytes", "complex64", "nn"),
        ]
    ],
)
def test_a_batch_is_one_launch_of_the_same_tiles(given, dtype, layout):
    template, ptx = kernels.load(TENSILE, ROOTS), ""
    for size, batch, (alpha, beta), slack in BATCHES:
        values = {
            **dict(zip("mnk", size, strict=True)), "batch": batch, "dtype": dtype, "layout": layout, "alpha": alpha,
            "beta": beta,
        }  # fmt: skip
        least = GEMM.problem(values)
        problem = GEMM.problem({**values, **{key: least[key] + slack for key in ("lda", "ldb", "ldc")}})
        instance = Instance.of(template, given, problem)
        assert sum(step.entry.startswith("gemm_") for step in instance.launches.steps) == 1
        ptx = ptx or quiet_ptx_of(instance.source)
        done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), ptx)
        assert (done.unsupported, done.fault) == ("", "")
        assert done.verification.passed, f"{problem}: {done.verification}"
