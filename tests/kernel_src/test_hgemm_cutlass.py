"""CUTLASS's Hopper GEMM as a kernel of the bench, emulated: correct on awkward sizes, and free of races."""

from __future__ import annotations

from functools import lru_cache

import pytest
from hgemm_cases import CUTLASS, cutlass_problems, template

from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates.instance import Instance
from lab.toolchain import locate
from lab.toolchain.base import Build, CompileRequest
from lab.toolchain.select import toolchain

needs_cutlass = pytest.mark.skipif(locate.cutlass() is None, reason="CUTLASS's headers are not installed")


def made(given, **values):
    problem = operator("gemm").problem({"m": 64, "n": 64, "k": 64, "dtype": "bfloat16", "layout": "tn", **values})
    return Instance.of(template("cutlass"), given, problem)


@lru_cache(maxsize=1)
def compiled(source: str) -> Build:
    return toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", "sm_90a"))


@needs_cutlass
@pytest.mark.usefixtures("conditions")
@pytest.mark.thorough  # NVRTC takes 25 to 35 s of processor time for each
@pytest.mark.parametrize(("given", "types"), CUTLASS.values(), ids=CUTLASS)
def test_cutlass_is_right_and_clean(given, types):
    for problem in cutlass_problems(given, types):
        instance = Instance.of(template("cutlass"), given, problem)
        assert (instance.unsupported(), instance.unmet()) == (None, None)
        built = compiled(instance.source)
        done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), built.ptx)
        assert (done.unsupported, done.fault) == ("", ""), problem
        assert done.verification.passed, f"{problem}: {done.verification}"
    assert ".extern .func" not in built.ptx  # with a call, each wgmma would be waited for
    assert "serialized" not in built.log
    assert all(resource.spill_store_bytes == 0 for resource in built.resources.values())


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
