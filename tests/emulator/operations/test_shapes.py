import numpy as np
import pytest

from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.shapes import narrowed, take_shape


def test_a_shape_is_taken():
    op = Opcode("mma.sync.m16n8k16.row")
    assert take_shape(op) == (16, 8, 16)
    assert op.parts == ["sync", "row"]
    with pytest.raises(UnknownForm, match="no shape"):
        take_shape(op)


def test_integers_wrap_or_are_clamped():
    total = np.array([2.0**31, -(2.0**31) - 1, 5.0])
    assert narrowed(total, saturate=False).tolist() == [-(2.0**31), 2.0**31 - 1, 5]
    assert narrowed(total, saturate=True).tolist() == [2.0**31 - 1, -(2.0**31), 5]
