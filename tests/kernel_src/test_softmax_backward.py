"""The softmax gradient, emulated: correct on awkward sizes, free of faults, and with the expected traffic."""

from __future__ import annotations

import pytest
from compiling import ptx_of

from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance

BACKWARD = operator("softmax_backward")
TEMPLATE = kernels.load("softmax_backward/fused.cu.j2", kernels.search_path())
VARIANTS: dict[str, dict[str, Scalar]] = {
    "part of a warp": {"threads": 8, "rows_per_block": 16, "items": 16, "vector_width": 2},
    "warp": {"threads": 32, "rows_per_block": 2, "items": 12},
    "block": {"threads": 64, "items": 6, "streaming": True, "persistent": "occupancy"},
    "block, two rows": {"threads": 64, "rows_per_block": 2, "items": 14, "persistent": 2},
    "block of 1024": {"threads": 1024, "items": 1, "vector_width": 2},
    "shifted": {"threads": 96, "items": 4, "shifted": True, "persistent": 3},
    "shifted, a warp a row": {"threads": 32, "rows_per_block": 4, "items": 8, "shifted": True, "streaming": True},
}
SIZES: list[dict[str, Scalar]] = [
    {"m": 1, "n": 1},
    {"m": 23, "n": 7},
    {"m": 21, "n": 129, "ldy": 130, "lddy": 133, "lddx": 131},
    {"m": 22, "n": 256, "lddx": 264},
    {"m": 5, "n": 1004, "ldy": 1008, "lddy": 1012},
    {"m": 9, "n": 203, "ldy": 211, "lddy": 207},
]


def executed(given, problem):
    """None where the template leaves this point out."""
    made = Instance.of(TEMPLATE, given, problem)
    if made.unmet():
        return None
    return emulate(EmulationTask(made.launches, "softmax_backward", problem, 0, {}), ptx_of(made.source))


def turns():
    """Every variant in float32 or in a type of 16 bits, which differ in how values are converted, in turn."""
    for number, variant in enumerate(VARIANTS):
        for turn, dtype in enumerate(("float32", "float16", "bfloat16")):
            marks = [] if turn == number % 3 else [pytest.mark.thorough]
            yield pytest.param(variant, dtype, id=f"{variant}-{dtype}", marks=marks)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("variant", "dtype"), list(turns()))
def test_the_gradient_is_right_and_clean(variant, dtype):
    checked = 0
    for size in reversed(SIZES):
        emulation = executed(VARIANTS[variant], BACKWARD.problem({**size, "dtype": dtype}))
        if emulation is None:
            continue
        checked += 1
        assert emulation.unsupported == ""
        assert emulation.fault == "", f"{size}: {emulation.fault}"
        assert emulation.verification.passed, emulation.verification.worst
    assert checked >= len(SIZES) - 1


def test_both_rows_are_read_once_and_the_result_is_written_once():
    problem = BACKWARD.problem({"m": 16, "n": 1024})
    memory = executed({"threads": 128, "items": 2}, problem).executed.memory
    assert memory["global.load"].bytes_used == memory["global.load"].bytes_moved == 2 * 4 * 16 * 1024
    assert memory["global.store"].bytes_used == memory["global.store"].bytes_moved == 4 * 16 * 1024


def test_shifted_vectors_move_rows_of_any_length_in_few_sectors():
    m, n, given = 16, 1021, {"threads": 64, "items": 4, "shifted": True}
    problem = BACKWARD.problem({"m": m, "n": n})
    assert Instance.of(TEMPLATE, given, problem).launches.entries == ("softmax_backward_shifted",)
    memory = executed(given, problem).executed.memory
    assert memory["global.load"].bytes_used == 2 * memory["global.store"].bytes_used == 2 * 4 * m * n
    # twice are touched only sectors that vectors share with the elements before and behind them
    assert memory["global.load"].sectors <= 2 * m * (4 * n // 32 + 3)
    assert memory["global.store"].sectors <= m * (4 * n // 32 + 3)


def test_rows_of_unequal_alignment_have_no_shifted_form():
    given, problem = {"threads": 64, "items": 4, "shifted": True}, {"m": 4, "n": 777, "ldy": 778, "lddy": 778}
    assert Instance.of(TEMPLATE, given, BACKWARD.problem(problem)).launches.entries == ("softmax_backward_scalar",)
