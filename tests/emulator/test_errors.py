"""The message of an unsupported instruction."""

from lab.base.errors import LabError
from lab.emulator.errors import UnsupportedInstruction


def test_it_names_line_instruction_and_reason():
    error = UnsupportedInstruction(7, "vadd.u32 %r1, %r2", "unknown opcode")
    assert isinstance(error, LabError)
    assert (error.line, error.why) == (7, "unknown opcode")
    assert "PTX line 7: the emulator cannot execute `vadd.u32 %r1, %r2` (unknown opcode)" in str(error)
    assert "(" not in str(UnsupportedInstruction(1, "x"))
