"""Layer norm and RMS norm, emulated: correct on awkward sizes, free of faults, and with the expected traffic."""

from __future__ import annotations

import pytest
from compiling import quiet_ptx_of

from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance

VARIANTS: dict[str, dict[str, Scalar]] = {
    "part of a warp": {"threads": 8, "rows_per_block": 16, "items": 16, "vector_width": 2},
    "warp": {"threads": 32, "rows_per_block": 2, "items": 12},
    "block, two rows": {"threads": 64, "rows_per_block": 2, "items": 6, "persistent": 2, "streaming": True},
    "block of 1024": {"threads": 1024, "items": 1, "vector_width": 2},
    "shifted": {"threads": 96, "items": 3, "shifted": True, "persistent": 3},
    "shifted, a warp a row": {"threads": 32, "rows_per_block": 4, "items": 8, "shifted": True, "streaming": True},
}
SIZES: list[dict[str, Scalar]] = [
    {"m": 1, "n": 1},
    {"m": 23, "n": 7},
    {"m": 21, "n": 129, "ldx": 130, "ldy": 133},
    {"m": 5, "n": 1004, "ldx": 1008},
    {"m": 9, "n": 203, "ldx": 211, "ldy": 207},
]


def executed(name, given, **fields):
    """None where the template leaves this point out."""
    problem = operator(name).problem(fields)
    made = Instance.of(kernels.load(f"{name}/fused.cu.j2", kernels.search_path()), given, problem)
    if made.unmet():
        return None
    return emulate(EmulationTask(made.launches, name, problem, 0, {}), quiet_ptx_of(made.source))


def turns():
    """Yield both norms with every variant, cycling through the types; the rest are marked thorough."""
    for first, name in enumerate(("layer_norm", "rms_norm")):
        for number, variant in enumerate(VARIANTS):
            for turn, dtype in enumerate(("float32", "float16", "bfloat16")):
                marks = [] if turn == (first + number) % 3 else [pytest.mark.thorough]
                yield pytest.param(name, variant, dtype, id=f"{name}-{variant}-{dtype}", marks=marks)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("name", "variant", "dtype"), list(turns()))
def test_rows_are_right_and_clean(name, variant, dtype):
    checked = 0
    for size in reversed(SIZES):
        emulation = executed(name, VARIANTS[variant], **size, dtype=dtype)
        if emulation is None:
            continue
        checked += 1
        assert emulation.unsupported == ""
        assert emulation.fault == "", f"{size}: {emulation.fault}"
        assert emulation.verification.passed, emulation.verification.worst
    assert checked >= len(SIZES) - 1


@pytest.mark.parametrize(("name", "weights"), [("layer_norm", 2), ("rms_norm", 1)])
def test_a_row_is_read_once_and_written_once(name, weights):
    memory = executed(name, {"threads": 128, "items": 2}, m=16, n=1024).executed.memory
    assert memory["global.load"].bytes_used == (1 + weights) * 4 * 16 * 1024  # each row asks for the weights anew
    assert memory["global.store"].bytes_used == memory["global.store"].bytes_moved == 4 * 16 * 1024


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_shifted_vectors_move_rows_of_any_length_in_few_requests_and_sectors(name):
    m, n, given = 16, 1021, {"threads": 64, "items": 4}
    shifted = executed(name, {**given, "shifted": True}, m=m, n=n).executed.memory["global.store"]
    single = executed(name, given, m=m, n=n).executed.memory["global.store"]
    assert shifted.bytes_used == single.bytes_used == 4 * m * n
    assert shifted.requests < 0.3 * single.requests
    # twice are touched only sectors that vectors share with the elements before and behind them
    assert shifted.sectors <= m * (4 * n // 32 + 3) < 0.9 * single.sectors
