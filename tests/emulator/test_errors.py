"""The message of an unsupported instruction."""

from small_ptx import kernel

from lab.base.errors import LabError
from lab.emulator.errors import UnsupportedInstruction, text_of, unsupported
from lab.isa.ptx.module import read_ptx


def test_it_names_line_instruction_and_reason():
    error = UnsupportedInstruction(7, "vadd.u32 %r1, %r2", "unknown opcode")
    assert isinstance(error, LabError)
    assert (error.line, error.why) == (7, "unknown opcode")
    assert "PTX line 7: the emulator cannot execute `vadd.u32 %r1, %r2` (unknown opcode)" in str(error)
    assert "(" not in str(UnsupportedInstruction(1, "x"))


def test_instructions_as_text():
    first, second, *_ = read_ptx(kernel("@!%p3 add.u32 %r0, %r1, 2;\nret;")).kernels[0].instructions
    assert text_of(first) == "@!%p3 add.u32 %r0, %r1, 2"
    assert text_of(second) == "ret"
    assert (unsupported(first, "why").line, unsupported(first, "why").text) == (first.line, text_of(first))
