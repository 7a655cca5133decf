"""The complete tables of operations."""

import pytest

from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.table import ALU


@pytest.mark.parametrize(
    "opcode", ["add.rq.f32", "fma.rn.relu.f32", "cvt.f32.s32", "setp.ltu.s32", "mul.hi.b32", "add.sat.u32"]
)
def test_unknown_forms_are_refused(opcode):
    op = Opcode(opcode)
    with pytest.raises(UnknownForm):
        ALU[op.family](op, 3)
