"""Emulated TF32, FP8 and int8 GEMMs on the ladder rungs that use wgmma."""

from __future__ import annotations

import itertools

import pytest
from compiling import compile_text
from covering import gated, pairs
from hgemm_cases import HALVES, NARROW, PROMOTED, SETTINGS, narrow, problems, template

from lab.base.elements import ELEMENT_BYTES
from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates.instance import Instance

WGMMA = {key: setting for key, setting in SETTINGS.items() if "v3" <= setting[0] < "v9"}
GEMM = operator("gemm")


def features(key, types, points):
    """Every rung; its settings differ as they do with 16 bits, in test_hgemm.py."""
    return {WGMMA[key][0], *pairs(types, points)}


def turned(layout, types, points):
    """Every layout; elements of a width are moved alike."""
    return {layout, ELEMENT_BYTES[types[0]], points}


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(
    ("layout", "types", "points"), gated(itertools.product(("nn", "nt", "tt"), NARROW, HALVES), turned)
)
def test_operands_that_do_not_lie_along_k_are_transposed_first(layout, types, points):
    name, parameters = WGMMA["epilogue"]
    ptx = ""
    for aligned in problems(name, layout, *types, points=points):
        # no column of such an operand need begin at a multiple of 16 bytes
        loose = {key for key, letter, lies in zip(("lda", "ldb"), layout, "nt", strict=True) if letter == lies}
        problem = GEMM.problem({**aligned, **{key: aligned[key] + 1 for key in loose}})
        instance = Instance.of(template(name), narrow(parameters, types[0]), problem)
        assert instance.unmet() is None
        steps = [step.entry for step in instance.launches.steps]
        wanted = ["transpose_a"] * (layout[0] == "n") + ["transpose_b"] * (layout[1] == "t")
        assert steps[:-1] == (wanted if problem.alpha else [])
        ptx = ptx or compile_text(instance.source, "--generate-line-info", arch="compute_90a")
        done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), ptx)
        assert (done.unsupported, done.fault) == ("", ""), problem
        assert done.verification.passed, f"{problem}: {done.verification}"


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("key", "types", "points"), gated(itertools.product(WGMMA, NARROW, HALVES), features))
def test_every_rung_is_right_and_clean(key, types, points):
    name, given = WGMMA[key]
    check(name, narrow(given, types[0]), types, points)


def check(name, given, types, points):
    ptx = ""
    for problem in problems(name, "tn", *types, points=points):
        instance = Instance.of(template(name), given, problem)
        assert (instance.unsupported(), instance.unmet()) == (None, None)
        ptx = ptx or compile_text(instance.source, "--generate-line-info", arch="compute_90a")
        done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), ptx)
        assert done.unsupported == ""
        assert done.fault == "", f"{problem}: {done.fault}"
        assert done.verification.passed, f"{problem}: {done.verification}"


def promoted(key, dtype, points):
    """Every setting, and the pairs of the type and the points."""
    return {key, *pairs(dtype, points)}


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(
    ("key", "dtype", "points"),
    gated(itertools.product(PROMOTED, ("float8_e4m3fn", "float8_e5m2"), HALVES), promoted),
)
def test_rungs_that_promote_are_right_and_clean(key, dtype, points):
    check(*PROMOTED[key], (dtype, "float32", ""), points)


@pytest.mark.parametrize("name", ["v3_wgmma", "v6_persistent", "v8_epilogue"])
@pytest.mark.parametrize(
    ("given", "values", "words"),
    [
        ({"block_k": 32}, {"dtype": "float32"}, "precision: tf32"),
        ({"block_k": 128}, {"dtype": "float8_e4m3fn"}, "precision: fast_accumulation"),
        ({"block_k": 64}, {"dtype": "int8"}, "128 bytes"),
        ({"block_k": 32}, {"dtype": "float32", "precision": "tf32", "lda": 65}, "16 bytes|multiple of that"),
        ({"block_k": 128}, {"dtype": "int8", "ldb": 72}, "16 bytes|multiple of that"),
    ],
)
def test_what_a_rung_does_not_multiply_is_refused_with_the_reason(name, given, values, words):
    problem = GEMM.problem({"m": 64, "n": 64, "k": 64, "layout": "tn", **values})
    unmet = Instance.of(template(name), given, problem).unmet()
    assert unmet is not None
    assert any(word in unmet.because for word in words.split("|"))


def test_other_layouts_are_refused_by_rungs_that_do_not_transpose():
    problem = GEMM.problem({"m": 64, "n": 64, "k": 64, "layout": "nn", "dtype": "int8"})
    assert "along k only" in Instance.of(template("v6_persistent"), {"block_k": 128}, problem).unmet().because
