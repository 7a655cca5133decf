from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base import structures

C_TYPES = {
    "int8": ctypes.c_int8,
    "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "float32*": ctypes.c_void_p,
}


@given(st.lists(st.sampled_from(sorted(C_TYPES)), min_size=1, max_size=9))
def test_members_lie_where_c_puts_them(kinds):
    fields = [(f"m{i}", C_TYPES[kind]) for i, kind in enumerate(kinds)]
    wanted = type("Wanted", (ctypes.Structure,), {"_fields_": fields})
    places, size, alignment = structures.offsets([structures.bytes_of(kind) for kind in kinds])
    assert places == tuple(getattr(wanted, name).offset for name, _ in fields)
    assert (size, alignment) == (ctypes.sizeof(wanted), ctypes.alignment(wanted))


def test_a_type_is_written_and_read():
    members = (("data", "{T}*"), ("rows", "int32"))
    kind = structures.structure_of(members)
    assert kind == "struct({T}* data, int32 rows)"
    assert structures.is_structure(kind)
    assert structures.members_of(kind) == members


@pytest.mark.parametrize("kind", ["float32*", "int32", "tensor_map", "structure"])
def test_other_types_are_no_structures(kind):
    assert not structures.is_structure(kind)
