"""CUTLASS's product for Hopper as a kernel of the bench, executed on the CPU: right on awkward sizes, free of races."""

from __future__ import annotations

from functools import lru_cache

import pytest
from hgemm_cases import template

from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates.instance import Instance
from lab.toolchain import locate
from lab.toolchain.base import Build, CompileRequest
from lab.toolchain.select import toolchain

needs_cutlass = pytest.mark.skipif(locate.cutlass() is None, reason="CUTLASS's headers are not installed")
SMALL = {"block_m": 64, "block_n": 64, "stages": 3, "schedule": "pingpong", "blocks": 2}
SHARED = {"block_m": 128, "block_n": 64, "stages": 2, "schedule": "cooperative", "blocks": 4}
SETTINGS = {
    "ping-pong": (SMALL, {"dtype": "bfloat16"}),
    "ping-pong, C of float32": ({**SMALL, "adds_c": True, "swizzle": 4}, {"dtype": "bfloat16", "out_dtype": "float32"}),
    "ping-pong, deep": ({**SMALL, "block_m": 128, "block_k": 128, "stages": 2}, {"dtype": "float16", "layout": "tt"}),
    "cooperative": ({**SHARED, "adds_c": True}, {"dtype": "bfloat16", "layout": "tn"}),
    "cooperative, along m": ({**SHARED, "raster": "m", "swizzle": 2}, {"dtype": "float16", "layout": "nn"}),
    "cooperative, no clusters": ({**SHARED, "cluster": 1, "blocks": 3}, {"dtype": "bfloat16", "layout": "nt"}),
    "as it is": ({"blocks": 2}, {"dtype": "bfloat16"}),
}
"""Parameters and types."""

POINTS = (((8, 1, 1), 1.0, 0.0, 0), ((264, 260, 136), -1.5, 0.0, 3), ((520, 130, 200), 2.0, 0.5, 8))
"""Sizes, factors, and elements behind each column: blocks take several tiles, and go round their ring of stages."""


def made(given, **values):
    problem = operator("gemm").problem({"m": 64, "n": 64, "k": 64, "dtype": "bfloat16", "layout": "tn", **values})
    return Instance.of(template("cutlass"), given, problem)


@lru_cache(maxsize=1)
def compiled(source: str) -> Build:
    return toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", "sm_90a"))


@needs_cutlass
@pytest.mark.thorough  # NVRTC takes 25 to 35 s of processor time for each
@pytest.mark.parametrize(("given", "types"), SETTINGS.values(), ids=SETTINGS)
def test_cutlass_is_right_and_clean(given, types):
    for (m, n, k), alpha, beta, slack in POINTS:
        shape = {"m": m, "n": n, "k": k, "alpha": alpha, "beta": beta if given.get("adds_c") else 0.0, **types}
        whole = {key: -(-(made(given, **shape).problem[key] + slack) // 8) * 8 for key in ("lda", "ldb", "ldc")}
        instance = made(given, **shape, **whole)
        assert (instance.unsupported(), instance.unmet()) == (None, None)
        built = compiled(instance.source)
        done = emulate(EmulationTask(instance.launches, "gemm", instance.problem, 0, {}), built.ptx)
        assert (done.unsupported, done.fault) == ("", ""), shape
        assert done.verification.passed, f"{shape}: {done.verification}"
    assert ".extern .func" not in built.ptx  # with a call, each wgmma would be waited for
    assert "serialized" not in built.log
    assert all(one.spill_store_bytes == 0 for one in built.resources.values())


@pytest.mark.parametrize(
    ("given", "values", "why"),
    [
        ({}, {"m": 60, "ldc": 64}, "bulk copies write whole pieces of 16 bytes"),
        ({}, {"k": 60}, "columns of a tensor map begin at multiples of 16 bytes"),
        ({}, {"beta": 0.5}, "without adds_c, C is not read"),
        ({}, {"alpha": 0.0}, "CUTLASS reads A and B whatever alpha is"),
        ({"block_m": 64}, {}, "each of two warpgroups multiplies rows of 64"),
        ({"block_m": 256}, {}, "sums must fit into its registers"),
        ({"stages": 5}, {}, "227 KiB"),
        ({"blocks": 3}, {}, "whole clusters"),
    ],
)
def test_what_cutlass_cannot_compute_is_refused(given, values, why):
    assert why in made(given, **values).unmet().because


def test_clusters_follow_each_other_along_one_dimension_of_the_grid():
    shape = {"m": 1024, "n": 512}
    (along_n,) = made({"blocks": 8}, **shape).launches.steps
    (along_m,) = made({"blocks": 8, "raster": "m"}, **shape).launches.steps
    (few,) = made({"blocks": 8}, m=8, n=8).launches.steps
    assert [one.grid for one in (along_n, along_m, few)] == [(2, 4, 1), (8, 1, 1), (2, 1, 1)]
