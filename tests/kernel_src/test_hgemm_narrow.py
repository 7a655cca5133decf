"""Products of TF32, of floats of eight bits and of int8 on the rungs with wgmma, executed on the CPU."""

from __future__ import annotations

import pytest
from compiling import compile_text
from hgemm_cases import ALL_POINTS, HALVES, NARROW, PROMOTED, SETTINGS, narrow, problems, template

from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates.instance import Instance

WGMMA = {key: setting for key, setting in SETTINGS.items() if "v3" <= setting[0] < "v9"}
GEMM = operator("gemm")


def settings():
    """Every second setting, and those that promote; types take turns, and each other one is thorough.

    The other settings differ as they do with 16 bits, in test_hgemm.py; they are thorough. So are the points that do
    not take turns with the settings, which execute the same text once more.
    """
    for number, (key, (name, given)) in enumerate(WGMMA.items()):
        for turn, types in enumerate(NARROW):
            case, shown = (name, narrow(given, types[0]), types), f"{key}-{'-'.join(types[:2])}"
            if turn != number % len(NARROW):
                yield pytest.param(*case, ALL_POINTS, id=shown, marks=pytest.mark.thorough)
                continue
            half, marks = number // 2 % 2, [pytest.mark.thorough] if number % 2 else []
            yield pytest.param(*case, HALVES[half], id=shown, marks=marks)
            yield pytest.param(*case, HALVES[1 - half], id=f"{shown}-other points", marks=pytest.mark.thorough)
    for number, (key, (name, given)) in enumerate(PROMOTED.items()):
        for turn, dtype in enumerate(("float8_e4m3fn", "float8_e5m2")):
            marks = [] if turn == number % 2 else [pytest.mark.thorough]
            types, points = (dtype, "float32", ""), ALL_POINTS
            yield pytest.param(name, given, types, points, id=f"{key}-{dtype}", marks=marks)


def turned():
    """Layouts that have an operand along m or n, with types and points in turn; the others are thorough."""
    for number, layout in enumerate(("nn", "nt", "tt")):
        for turn, types in enumerate(NARROW):
            in_turn = turn == (2 * number) % len(NARROW)
            shown, marks = f"{layout}-{'-'.join(types[:2])}", [] if in_turn else [pytest.mark.thorough]
            yield pytest.param(layout, types, HALVES[number % 2] if in_turn else ALL_POINTS, id=shown, marks=marks)
            if in_turn:
                other = HALVES[1 - number % 2]
                yield pytest.param(layout, types, other, id=f"{shown}-other points", marks=pytest.mark.thorough)


@pytest.mark.parametrize(("layout", "types", "points"), list(turned()))
def test_operands_that_do_not_lie_along_k_are_transposed_first(layout, types, points):
    name, given = WGMMA["epilogue"]
    ptx = ""
    for aligned in problems(name, layout, *types, points=points):
        # no column of such an operand need begin at a multiple of 16 bytes
        loose = {key for key, letter, lies in zip(("lda", "ldb"), layout, "nt", strict=True) if letter == lies}
        problem = GEMM.problem({**aligned, **{key: aligned[key] + 1 for key in loose}})
        instance = Instance.of(template(name), narrow(given, types[0]), problem)
        assert instance.unmet() is None
        steps = [step.entry for step in instance.launches.steps]
        wanted = ["transpose_a"] * (layout[0] == "n") + ["transpose_b"] * (layout[1] == "t")
        assert steps[:-1] == (wanted if problem.alpha else [])
        ptx = ptx or compile_text(instance.source, "--generate-line-info", arch="compute_90a")
        done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), ptx)
        assert (done.unsupported, done.fault) == ("", ""), problem
        assert done.verification.passed, f"{problem}: {done.verification}"


@pytest.mark.parametrize(("name", "given", "types", "points"), list(settings()))
def test_every_rung_is_right_and_clean(name, given, types, points):
    ptx = ""
    for problem in problems(name, "tn", *types, points=points):
        instance = Instance.of(template(name), given, problem)
        assert (instance.unsupported(), instance.unmet()) == (None, None)
        ptx = ptx or compile_text(instance.source, "--generate-line-info", arch="compute_90a")
        done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), ptx)
        assert done.unsupported == ""
        assert done.fault == "", f"{problem}: {done.fault}"
        assert done.verification.passed, f"{problem}: {done.verification}"


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
