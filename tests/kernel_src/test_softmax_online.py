"""The softmax that computes while its row arrives: right on awkward sizes, free of faults, and moving what it must."""

from __future__ import annotations

import pytest
from compiling import ptx_of

from lab.base.elements import ELEMENT_BYTES
from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance

SOFTMAX = operator("softmax")
TEMPLATE = kernels.load("softmax/online.cu.j2", kernels.search_path())
VARIANTS: dict[str, dict[str, Scalar]] = {
    "one warp": {"threads": 32, "items": 12, "batch": 4, "persistent": 4},
    "three warps, partly in shared memory": {"threads": 96, "items": 3, "shared_items": 4, "persistent": 3},
    "cluster": {"threads": 32, "cluster": 4, "items": 3, "shared_items": 1, "batch": 1, "persistent": 8},
    "shifted cluster": {"threads": 32, "cluster": 2, "items": 2, "shared_items": 5, "shifted": True, "persistent": 6},
    "not refilled": {"threads": 64, "items": 4, "shared_items": 3, "shifted": True, "refill": False, "streaming": True},
}
SIZES: list[dict[str, Scalar]] = [
    {"m": 1, "n": 1},
    {"m": 11, "n": 7, "values": "special"},
    {"m": 21, "n": 129, "ldx": 130, "ldy": 133, "values": "special"},
    {"m": 5, "n": 1004, "ldx": 1008, "ldy": 1012},
    {"m": 11, "n": 203, "values": "special"},
]


def made_of(given, **fields):
    return Instance.of(TEMPLATE, given, SOFTMAX.problem(fields))


def executed(given, **fields):
    made = made_of(given, **fields)
    assert made.unmet() is None
    return emulate(EmulationTask(made.launches, "softmax", made.problem, 0, {}), ptx_of(made.source))


def variants_and_types():
    """Every variant with a type in turn; the types of 16 bits differ in how values are converted."""
    for number, variant in enumerate(VARIANTS):
        for i, dtype in enumerate(("float32", "float16", "bfloat16")):
            marks = [] if i == number % 3 else [pytest.mark.thorough]
            yield pytest.param(variant, dtype, id=f"{variant}-{dtype}", marks=marks)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("variant", "dtype"), list(variants_and_types()))
def test_rows_are_right_and_clean(variant, dtype):
    for size in reversed(SIZES):
        done = executed(VARIANTS[variant], **size, dtype=dtype)
        assert done.unsupported == ""
        assert done.fault == "", f"{size}: {done.fault}"
        assert done.verification.passed, f"{size}: {done.verification.worst}"


def test_exponentials_may_take_their_elements_place():
    given: dict[str, Scalar] = {"threads": 64, "items": 2, "shared_items": 3, "in_place": True, "persistent": 2}
    done = executed(given, m=11, n=203, values="special")
    assert done.fault == ""
    assert done.verification.passed
    refused = made_of(given, m=11, n=203, dtype="float16").unmet()
    assert "rounded twice" in refused.because


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_row_is_read_once_and_written_once_in_whole_sectors(dtype):
    m, n = 9, 1021
    given: dict[str, Scalar] = {"threads": 64, "items": 2, "shared_items": 2, "shifted": True, "persistent": 2}
    memory = executed(given, m=m, n=n, dtype=dtype).executed.memory
    size = ELEMENT_BYTES[dtype]
    loaded = [memory[key] for key in ("global.load", "global.copy") if key in memory]
    assert sum(one.bytes_used for one in loaded) == memory["global.store"].bytes_used == m * n * size
    # twice are touched only sectors that vectors share with the elements before and behind them
    assert memory["global.store"].sectors <= m * (n * size // 32 + 3)
    assert sum(one.sectors for one in loaded) <= m * (n * size // 32 + 3)


def test_a_row_that_fits_without_its_edges_has_the_shifted_form_alone():
    given: dict[str, Scalar] = {"threads": 64, "items": 4, "shifted": True, "persistent": 2}
    assert made_of(given, m=3, n=1027).launches.entries == ("softmax_online_shifted",)
    assert "fit" in made_of(given, m=3, n=1028).unmet().because
    assert "fit" in made_of(given, m=3, n=1027, ldx=1030).unmet().because
    done = executed(given, m=3, n=1027)
    assert done.fault == ""
    assert done.verification.passed
