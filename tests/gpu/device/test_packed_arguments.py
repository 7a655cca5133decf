import ctypes
import struct

import numpy as np
import pytest

from lab.gpu.device.backend import RefusedError
from lab.gpu.device.packed_arguments import marshal
from lab.operators.base import Inputs

INPUTS = Inputs(
    scalars={"m": 7, "big": 2**40, "alpha": 1.1, "layout": "nn", "flag": True, "minus": -1},
    arrays={"A": np.zeros(3, np.float32), "H": np.zeros(3, np.float16)},
    outputs=("A",),
)
POINTERS = {"A": 0x7F0012345600, "H": 0x7F00ABCDEF00}


WORDS = tuple(range(100, 116))


def pack_with_map(arguments, offsets):
    codes, values = marshal(arguments, INPUTS, POINTERS, {}, {"map": WORDS}, offsets=offsets)
    return struct.pack(codes, *values)


def pack(*arguments):
    codes, values = marshal(arguments, INPUTS, POINTERS)
    return struct.pack(codes, *values)


def test_what_the_compiler_added_gets_a_null_pointer():
    class Parameters(ctypes.Structure):
        _fields_ = (("m", ctypes.c_int32), ("hidden", ctypes.c_void_p))

    assert pack(("m", "int32"), ("hidden 0", "null*")) == bytes(Parameters(7, None))


def test_packed_arguments_have_the_layout_of_the_c_parameter_list():
    class Parameters(ctypes.Structure):
        _fields_ = (
            ("m", ctypes.c_int32),
            ("a", ctypes.c_void_p),
            ("alpha", ctypes.c_float),
            ("beta", ctypes.c_double),
            ("half", ctypes.c_uint16),
            ("flag", ctypes.c_bool),
            ("big", ctypes.c_int64),
            ("minus", ctypes.c_int8),
        )

    half = int(np.float16(1.1).view(np.uint16))
    expected = bytes(Parameters(7, POINTERS["A"], 1.1, 1.1, half, True, 2**40, -1))
    got = pack(
        ("m", "int32"),
        ("A", "float32*"),
        ("alpha", "float32"),
        ("alpha", "float64"),
        ("alpha", "float16"),
        ("flag", "bool"),
        ("big", "int64"),
        ("minus", "int8"),
    )
    assert got == expected[: len(got)]
    assert len(got) == Parameters.minus.offset + 1


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (("Z", "float32*"), "argument Z: the operator has no such array; it has A, H"),
        (("A", "float64*"), "argument A: the kernel takes float64*, the array holds float32"),
        (("z", "int32"), "argument z: the operator has no such scalar"),
        (("m", "int"), "argument m: unknown type 'int'; accepted: bool, int8"),
        (("big", "int32"), "argument big: 1099511627776 is not a value of int32 (-2147483648 to 2147483647)"),
        (("alpha", "int32"), "argument alpha: 1.1 is not a value of int32"),
        (("minus", "uint32"), "argument minus: -1 is not a value of uint32 (0 to 4294967295)"),
        (("layout", "int32"), "argument layout: 'nn' is text; the kernel expects int32"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(argument, words):
    with pytest.raises(RefusedError) as caught:
        pack(argument)
    assert str(caught.value).startswith(words)


def test_an_integer_goes_to_a_floating_parameter():
    assert pack(("m", "float32")) == struct.pack("f", 7.0)


def test_tensor_maps_lie_where_the_kernel_has_them():
    arguments = ("m", "int32"), ("map", "tensor_map"), ("flag", "bool"), ("map", "tensor_map"), ("m", "int32")
    got = pack_with_map(arguments, (0, 48, 176, 240, 368))
    assert len(got) == 372
    assert struct.unpack_from("16Q", got, 48) == struct.unpack_from("16Q", got, 240) == WORDS
    assert struct.unpack_from("i", got, 368) == (7,)


def test_a_tensor_map_that_nobody_made_is_refused():
    with pytest.raises(RefusedError, match="argument other: the launches have no tensor map of this name"):
        pack_with_map((("other", "tensor_map"),), (0,))


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ((0, 48, 176), "the kernel has 3 parameters, the launch has 2 arguments"),
        ((0, 2), "argument map: parameter 1 of the kernel begins 2 bytes earlier"),
    ],
)
def test_arguments_that_are_not_the_kernels_are_refused(offsets, words):
    with pytest.raises(RefusedError) as caught:
        pack_with_map((("m", "int32"), ("map", "tensor_map")), offsets)
    assert str(caught.value) == words


@pytest.mark.parametrize(("before", "kind"), [("int8", "int8"), ("int32", "int32"), ("double", "float64")])
def test_a_structure_lies_as_in_c(before, kind):
    class View(ctypes.Structure):
        _fields_ = (("m", ctypes.c_int8), ("a", ctypes.c_void_p), ("flag", ctypes.c_bool))

    class Parameters(ctypes.Structure):
        _fields_ = (
            ("before", getattr(ctypes, f"c_{before}")),
            ("view", View),
            ("after", ctypes.c_int8),
        )

    arguments = (("m", kind), ("view", "struct(int8 m, float32* A, bool flag)"), ("minus", "int8"))
    offsets = (0, Parameters.view.offset, Parameters.after.offset)
    codes, values = marshal(arguments, INPUTS, POINTERS, offsets=offsets)
    packed = struct.pack(codes, *values)
    assert packed == bytes(Parameters(7, View(7, POINTERS["A"], True), -1))[: len(packed)]
    assert len(packed) == Parameters.after.offset + 1
