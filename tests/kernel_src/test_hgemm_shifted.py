"""Emulated GEMMs with unaligned operands: they are shifted correctly, and surrounding data does not leak in."""

from __future__ import annotations

import numpy as np
import pytest
from hgemm_cases import executed_with, template

from lab.base.expressions import Scalar
from lab.operators.bfloat16 import BF16_NAN
from lab.operators.builtin import operator
from lab.operators.gemm import Gemm, GemmProblem, tolerance_of
from lab.operators.matrices import matrix
from lab.operators.stored import widened
from lab.templates.instance import Instance

GEMM = operator("gemm")
LAYOUTS = ("nn", "nt", "tn", "tt")
SETTINGS: dict[str, dict[str, Scalar]] = {
    "several lines a warp": {"block_m": 32, "block_n": 32, "warp_n": 16, "block_k": 32, "stages": 3, "split_k": 1},
    "eight blocks": {"block_m": 64, "block_n": 16, "warp_m": 32, "warp_n": 16, "block_k": 64, "split_k": 8},
    "one warp": {"block_m": 32, "block_n": 16, "warp_m": 32, "warp_n": 16, "block_k": 128, "stages": 2, "split_k": 1},
    "more threads than pieces": {"block_m": 32, "block_n": 64, "warp_n": 16, "block_k": 16, "split_k": 2},
}
"""What decides how threads share lines out: lines of a warp, of all threads at once, and how often."""

PACKED: dict[str, Scalar] = {"block_m": 64, "block_n": 64, "warpgroups": 1, "stages": 2, "blocks": 2}

SIZES = ((77, 85, 141), (45, 33, 21), (37, 42, 1), (42, 38, 150), (68, 52, 72))
REMAINDERS = ((5, 5), (3, 7), (2, 6), (4, 4), (1, 0), (0, 3))
"""Of the leading dimensions by 8. The first two are odd, the last two leave one operand aligned."""


def problem_of(layout: str, size: tuple[int, int, int], remainders: tuple[int, int], **other: Scalar) -> GemmProblem:
    """Return a problem whose leading dimensions are the least that leave these remainders."""
    m, n, k = size
    shape = {"m": m, "n": n, "k": k, "dtype": "bfloat16", "layout": layout, **other}
    least = GEMM.problem(shape)
    wanted = zip(("lda", "ldb"), remainders, strict=True)
    return GEMM.problem({**shape, **{key: least[key] + (rest - least[key]) % 8 for key, rest in wanted}})


@pytest.fixture
def borders_of_nan(monkeypatch):
    """Make the first and the last row of op(A) and column of op(B) NaN; those of C must be NaN then, and nothing else.

    Whatever the layout, the elements before a line and behind it are NaN: those of its neighbours or of the padding.
    """
    drawn = Gemm.inputs

    def inputs(self, problem, seed):
        made = drawn(self, problem, seed)
        for name, turned in (("A", problem.layout[0] == "t"), ("B", problem.layout[1] == "n")):
            view = matrix(made.arrays[name], *problem.shapes[name])
            (view.T if turned else view)[[0, -1]] = BF16_NAN
        return made

    def verify(self, problem, reference, found):
        got = widened(matrix(found["C"], problem.m, problem.n, problem.ldc), problem.out_dtype)
        error = np.abs(got - reference["C"].values) / reference["C"].scale
        inner = np.zeros(got.shape, bool)
        inner[1:-1, 1:-1] = True
        right = (np.isnan(got) != inner).all()
        return float(error[inner].max()) if right else np.inf, tolerance_of(problem), ""

    monkeypatch.setattr(Gemm, "inputs", inputs)
    monkeypatch.setattr(Gemm, "verify", verify)


def cases():
    """Yield every layout with all remainders, cycling through sizes and settings; the rest are marked thorough."""
    for i, layout in enumerate(LAYOUTS):
        for r, remainders in enumerate(REMAINDERS):
            for s, (key, given) in enumerate(SETTINGS.items()):
                marks = [] if s == (i + r) % len(SETTINGS) else [pytest.mark.thorough]
                size = SIZES[(i + r + s) % len(SIZES)]
                yield pytest.param(given, layout, size, remainders, id=f"{key}-{layout}-{remainders}", marks=marks)


@pytest.mark.usefixtures("conditions")
@pytest.mark.usefixtures("borders_of_nan")
@pytest.mark.parametrize(("given", "layout", "size", "remainders"), list(cases()))
def test_only_a_lines_own_elements_are_added_up(given, layout, size, remainders):
    problem = problem_of(layout, size, remainders)
    assert Instance.of(template("split"), given, problem).launches.entries == ("hgemm_split_any",)
    done = executed_with("split", given, problem)
    assert (done.fault, done.findings) == ("", ())
    assert done.verification.passed, done.verification


@pytest.mark.usefixtures("borders_of_nan")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("remainders", [(1, 5), (2, 0), (0, 4)])
def test_only_a_lines_own_elements_are_packed(layout, remainders):
    done = executed_with("packed", PACKED, problem_of(layout, (73, 85, 45), remainders))
    assert (done.fault, done.findings) == ("", ())
    assert done.verification.passed, done.verification


@pytest.mark.parametrize(("k", "stages"), [(1, 1), (64 * 8, 1), (64 * 8 + 1, 2), (5000, 4)])
def test_short_products_take_no_more_stages_than_they_have_steps(k, stages):
    instance = Instance.of(template("split"), {"split_k": 8}, problem_of("tn", (65, 33, k), (1, 3)))
    (step,) = instance.launches.steps
    assert step.dynamic_shared_bytes == max(stages * (64 + 32) * (64 + 8) * 2, 4 * 64 * 32)


def test_stages_of_longer_lines_are_as_many_as_fit():
    given = {"block_m": 64, "block_n": 32, "block_k": 128, "warp_m": 32, "stages": 8}
    (step,) = Instance.of(template("split"), given, problem_of("tn", (65, 33, 5000), (1, 8))).launches.steps
    assert step.dynamic_shared_bytes == 8 * 96 * 136 * 2
    given |= {"block_m": 128, "block_n": 16, "warp_n": 16, "stages": 6}
    instance = Instance.of(template("split"), given, problem_of("tn", (65, 33, 5000), (1, 8)))
    assert instance.unmet() is None
    assert instance.launches.steps[0].dynamic_shared_bytes == 5 * 144 * 136 * 2


FAULTS = (  # what is wrong, text in its place, kind of the finding
    ("read before all have arrived", "__syncwarp();  // the warp's own", "// the warp's own", "shared-race"),
    ("written while the warp reads", "__syncwarp();  // the warp has", "// the warp has", "shared-race"),
    ("multiplied before all have written", "__syncthreads();  // the tiles have arrived", "//", "shared-race"),
    ("a group too many left", "cp.async.wait_group 1;", "cp.async.wait_group 2;", "async-not-waited"),
    ("whole pieces at the edge", '"r"(count * 2)', '"r"(count ? 16 : 0)', "out-of-bounds"),
    ("tiles taken for whole", "rest > 32 + (along_k ? 7 : 0)", "rest > 0", "wrong result"),
    ("lines of others", "l < (along_k ? there : rest)", "true", "out-of-bounds"),
    ("too little behind a line", "across, behind", "across, at", "wrong result"),
)


FAULTS_OF_PACKING = (
    ("another shift", "both[1], begin % 8", "both[1], begin % 4", "wrong result"),
    ("the matrix ends before", "begin / 8 * 8 + 16 <= end", "true", "out-of-bounds"),
)


def planted():
    for name, given, problem, faults in (
        ("split", SETTINGS["several lines a warp"], problem_of("tn", (77, 45, 141), (5, 5)), FAULTS),
        ("packed", PACKED, problem_of("nt", (73, 85, 45), (1, 5)), FAULTS_OF_PACKING),
    ):
        yield from (pytest.param(name, given, problem, *rest, id=what) for what, *rest in faults)


@pytest.mark.usefixtures("borders_of_nan")
@pytest.mark.parametrize(("name", "given", "problem", "old", "new", "kind"), list(planted()))
def test_a_planted_fault_is_found(name, given, problem, old, new, kind):
    done = executed_with(name, given, problem, old, new)
    if kind == "wrong result":
        assert done.findings == ()
        assert not done.verification.passed
    else:
        assert kind in {finding.kind for finding in done.findings}
