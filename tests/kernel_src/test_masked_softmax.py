"""The masked softmax, emulated: correct on awkward sizes, free of faults, and with the expected memory traffic."""

from __future__ import annotations

import pytest
from compiling import ptx_of

from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance

MASKED = operator("masked_softmax")
TEMPLATE = kernels.load("masked_softmax/fused.cu.j2", kernels.search_path())
VARIANTS: dict[str, dict[str, Scalar]] = {
    "part of a warp": {"threads": 8, "rows_per_block": 16, "items": 16, "vector_width": 2},
    "shifted, a warp a row": {"threads": 32, "rows_per_block": 4, "items": 8, "shifted": True, "streaming": True},
    "three warps": {"threads": 96, "items": 3, "persistent": 3, "exponential": "expf"},
    "shifted cluster": {"threads": 32, "cluster": 2, "items": 4, "shifted": True},
}
SIZES: list[dict[str, Scalar]] = [
    {"m": 1, "n": 1, "scale": -2.5},
    {"m": 23, "n": 7},
    {"m": 18, "n": 203, "queries": 9, "scale": -0.125, "ldx": 211, "ldm": 205, "ldy": 207},
    {"m": 9, "n": 256, "queries": 4, "scale": 0.0, "ldm": 260},
    {"m": 10, "n": 131, "queries": 8, "scale": 3, "ldx": 135, "ldm": 139, "ldy": 135},
]


def made_of(parameters, **fields):
    return Instance.of(TEMPLATE, parameters, MASKED.problem(fields))


def executed(parameters, **fields):
    """None where the template leaves this point out."""
    made = made_of(parameters, **fields)
    if made.unmet():
        return None
    return emulate(EmulationTask(made.launches, "masked_softmax", made.problem, 0, {}), ptx_of(made.source))


def combinations():
    """Yield every variant with every mask, cycling through the types; the rest are marked thorough."""
    for number, variant in enumerate(VARIANTS):
        for i, mask in enumerate(("none", "causal", "additive")):
            for j, dtype in enumerate(("float32", "float16", "bfloat16")):
                marks = [] if j == (number + i) % 3 else [pytest.mark.thorough]
                yield pytest.param(variant, mask, dtype, id=f"{variant}-{mask}-{dtype}", marks=marks)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("variant", "mask", "dtype"), list(combinations()))
def test_rows_are_right_and_clean(variant, mask, dtype):
    checked = 0
    for size in reversed(SIZES):
        emulation = executed(VARIANTS[variant], **size, mask=mask, dtype=dtype)
        if emulation is None:
            continue
        checked += 1
        assert emulation.unsupported == ""
        assert emulation.fault == "", f"{size}: {emulation.fault}"
        assert emulation.verification.passed, f"{size}: {emulation.verification.worst}"
    assert checked >= len(SIZES) - 1


def test_a_causal_row_asks_only_for_what_it_may_see():
    m, n = 12, 64
    parameters: dict[str, Scalar] = {"threads": 32, "rows_per_block": 4, "items": 1}
    memory = executed(parameters, m=m, n=n, queries=m).executed.memory
    vectors = sum(-(-(n - m + i + 1) // 4) for i in range(m))
    assert memory["global.load"].bytes_used == 16 * vectors < 4 * m * n
    assert memory["global.store"].bytes_used == 4 * m * n


def test_an_additive_mask_is_an_argument_of_its_own():
    parameters: dict[str, Scalar] = {"threads": 32, "rows_per_block": 4, "items": 8, "shifted": True}
    arguments = dict(made_of(parameters, m=8, n=256, queries=4, mask="additive").launches.steps[0].arguments)
    assert (arguments["M"], arguments["ldm"]) == ("float32*", "int32")
    assert "M" not in dict(made_of(parameters, m=8, n=256, mask="causal").launches.steps[0].arguments)


def test_rows_whose_mask_lies_otherwise_have_no_shifted_form():
    parameters: dict[str, Scalar] = {"threads": 32, "rows_per_block": 4, "items": 8, "shifted": True}

    def entry(**fields):
        return made_of(parameters, m=8, n=203, queries=4, **fields).launches.entries

    assert entry(mask="additive") == entry(mask="causal", ldm=205) == ("masked_softmax_shifted",)
    assert entry(mask="additive", ldm=205) == ("masked_softmax_scalar",)
    assert made_of(parameters, m=9, n=203, queries=3, mask="additive").launches.entries == ("masked_softmax_scalar",)
