"""Layouts of fragments against a few places written out from the PTX ISA, and as a whole."""

import numpy as np
import pytest

from lab.emulator.opcodes import UnknownForm
from lab.emulator.operations import fragments

SHAPES = [
    (fragments.operand_a(16, 16, "f16"), (5, 6), (9, 10)),  # element 6 of lane 5: register 3, row 8 + 1, column 2 + 8
    (fragments.operand_a(16, 8, "tf32"), (5, 1), (9, 1)),
    (fragments.operand_a(16, 16, "f64"), (6, 5), (9, 10)),
    (fragments.operand_a(8, 32, "s4"), (7, 3), (1, 27)),
    (fragments.operand_b(16, 8, "f16"), (6, 3), (13, 1)),
    (fragments.operand_b(32, 8, "s8"), (6, 5), (25, 1)),
    (fragments.accumulator(16, 8), (7, 3), (9, 7)),
    (fragments.accumulator(16, 32), (7, 6), (9, 14)),
    (fragments.accumulator(8, 8), (7, 1), (1, 7)),
]


@pytest.mark.parametrize(("layout", "which", "place"), SHAPES)
def test_places(layout, which, place):
    assert (int(layout.rows[which]), int(layout.columns[which])) == place


@pytest.mark.parametrize("layout", [one for one, _, _ in SHAPES])
def test_every_element_has_one_place(layout):
    held = np.zeros(layout.size, int)
    np.add.at(held, (layout.rows, layout.columns), 1)
    assert (held == 1).all()
    matrices = np.random.default_rng(1).normal(size=(3, *layout.size))
    np.testing.assert_array_equal(layout.gather(layout.scatter(matrices)), matrices)


@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("which", ["a", "b"])
def test_quads_hold_four_matrices(which, by_row):
    layout = fragments.volta_operand(which, by_row=by_row)
    assert layout.tiles == 4
    matrices = np.random.default_rng(1).normal(size=(8, *layout.size))
    np.testing.assert_array_equal(layout.gather(layout.scatter(matrices)), matrices)
    assert (layout.tile[[0, 3, 4, 16, 20], 0] == [0, 0, 1, 0, 1]).all()


@pytest.mark.parametrize("t", ["f16", "f32"])
def test_quads_hold_four_accumulators(t):
    layout = fragments.volta_accumulator(t)
    matrices = np.random.default_rng(1).normal(size=(4, 8, 8))
    np.testing.assert_array_equal(layout.gather(layout.scatter(matrices)), matrices)


def test_registers_are_counted():
    with pytest.raises(UnknownForm, match=r"2 registers for a fragment of 8 \.f16"):
        fragments._check_count(["%r0", "%r1"], "f16", fragments.operand_a(16, 16, "f16"))


@pytest.mark.parametrize(
    ("layout", "which", "place"),
    [  # PTX ISA, matrix fragments for mma.m8n8k4 with .f16
        (fragments.volta_operand("a", by_row=True), (18, 1), (6, 1)),
        (fragments.volta_operand("a", by_row=False), (18, 1), (5, 2)),
        (fragments.volta_operand("b", by_row=True), (18, 1), (2, 5)),
        (fragments.volta_operand("b", by_row=False), (18, 1), (1, 6)),
        (fragments.volta_accumulator("f16"), (18, 5), (6, 5)),
        (fragments.volta_accumulator("f16"), (3, 5), (3, 5)),
        (fragments.volta_accumulator("f32"), (19, 6), (7, 6)),
        (fragments.volta_accumulator("f32"), (2, 3), (2, 3)),
    ],
)
def test_places_of_quads(layout, which, place):
    assert (int(layout.rows[which]), int(layout.columns[which])) == place
