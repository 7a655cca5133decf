"""The register file."""

import hashlib

import numpy as np
from small_ptx import kernel

from lab.emulator.program import STACK_POINTER, Program
from lab.emulator.registers import RegisterFile
from lab.isa.ptx.module import read_ptx

DECLARED = ".reg .s16 %one; .reg .f64 %many<3>; .reg .pred %flag;"


def registers(threads=64):
    return RegisterFile(Program(read_ptx(kernel("", (), DECLARED)), "k"), threads)


def test_registers_are_unsigned_arrays_of_their_width():
    register_file = registers()
    assert register_file.array(0, "%one").dtype == np.uint16
    assert register_file.array(0, "%many2").dtype == np.uint64
    assert register_file.array(0, "%flag").dtype == np.bool_
    assert register_file.array(0, "%many1").shape == (64,)


def test_a_register_is_one_array_and_no_other_register_is():
    register_file = registers()
    register_file.array(0, "%many1")[3] = 9
    assert register_file.array(0, "%many1")[3] == 9
    assert not register_file.array(0, "%many0").any()


def test_types_of_names():
    register_file = registers()
    assert register_file.type_of(0, "%one") == "s16"
    assert register_file.type_of(0, "%many0") == "f64"
    assert register_file.type_of(0, "%many") is None
    assert register_file.type_of(0, "%one1") is None
    assert register_file.array(0, "tile") is None


def test_components_of_vectors_are_registers():
    program = Program(read_ptx(kernel("", (), ".reg .v2 .f32 %pair; .reg .v4 .b32 %quad;")), "k")
    register_file = RegisterFile(program, 32)
    assert [register_file.type_of(0, f"%pair.{i}") for i in "xyz"] == ["f32", "f32", None]
    assert [register_file.type_of(0, f"%quad.{i}") for i in "xyzw"] == ["b32"] * 4
    assert register_file.type_of(0, "%pair") is None


def test_the_stack_pointer_belongs_to_no_function():
    program = Program(read_ptx(kernel("alloca.u64 %rd0, 16, 16;")), "k")
    register_file = RegisterFile(program, 32)
    assert register_file.type_of(-1, STACK_POINTER) == "b64"
    assert register_file.type_of(0, STACK_POINTER) is None
    assert register_file.type_of(1, STACK_POINTER) is None
    pointer = register_file.array(-1, STACK_POINTER)
    assert pointer is not None
    assert pointer.tolist() == [program.stack_start] * 32
    assert registers().array(-1, STACK_POINTER) is None


def test_registers_of_a_function_and_their_digest():
    register_file = registers()
    register_file.array(0, "%flag")
    register_file.array(0, "%many1")
    assert [name for name, _ in register_file.of(0)] == ["%flag", "%many1"]
    assert register_file.of(1) == []
    digests = []
    for change in (None, register_file.carry, register_file.array(0, "%many1")):
        if change is not None:
            change[63] = 1
        digest = hashlib.sha256()
        register_file.hash_into(digest)
        digests.append(digest.digest())
    assert len(set(digests)) == 3
