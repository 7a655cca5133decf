"""The register file."""

import numpy as np
from small_ptx import kernel

from lab.emulator.program import Program
from lab.emulator.registers import RegisterFile
from lab.isa.ptx.module import read_ptx

DECLARED = ".reg .s16 %one; .reg .f64 %many<3>; .reg .pred %flag;"


def registers(threads=64):
    return RegisterFile(Program(read_ptx(kernel("", (), DECLARED)), "k"), threads)


def test_registers_are_unsigned_arrays_of_their_width():
    found = registers()
    assert found.array(0, "%one").dtype == np.uint16
    assert found.array(0, "%many2").dtype == np.uint64
    assert found.array(0, "%flag").dtype == np.bool_
    assert found.array(0, "%many1").shape == (64,)


def test_a_register_is_one_array_and_no_other_register_is():
    found = registers()
    found.array(0, "%many1")[3] = 9
    assert found.array(0, "%many1")[3] == 9
    assert not found.array(0, "%many0").any()


def test_types_of_names():
    found = registers()
    assert found.type_of(0, "%one") == "s16"
    assert found.type_of(0, "%many0") == "f64"
    assert found.type_of(0, "%many") is None
    assert found.type_of(0, "%one1") is None
    assert found.array(0, "tile") is None
