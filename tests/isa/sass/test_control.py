"""Scheduling bits of SASS, on words put together by hand."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.isa.sass.control import Control, read_control


def encoded(stall=0, stay=0, write=7, read=7, waits=0, reuse=0):
    bits = stall | stay << 4 | write << 5 | read << 8 | waits << 11 | reuse << 17
    return struct.pack("<QQ", 0x1122334455667788, bits << 41 | 0x3FF)


def test_every_field_has_its_place():
    code = encoded(stall=5, stay=1, write=2, read=0, waits=0b100001, reuse=0b0101)
    assert read_control(code, 0) == Control(5, False, 2, 0, (0, 5), (True, False, True, False))


def test_nothing_set():
    assert read_control(bytes(16) + encoded(), 16) == Control(0, True, None, None, (), (False,) * 4)


@given(
    st.integers(0, 15), st.integers(0, 1), st.integers(0, 7), st.integers(0, 7), st.integers(0, 63), st.integers(0, 15)
)
def test_fields_do_not_overlap(stall, stay, write, read, waits, reuse):
    found = read_control(encoded(stall, stay, write, read, waits, reuse), 0)
    assert (found.stall, found.yields) == (stall, not stay)
    assert found.write_barrier == (None if write == 7 else write)
    assert found.read_barrier == (None if read == 7 else read)
    assert sum(1 << i for i in found.waits) == waits
    assert sum(1 << i for i, kept in enumerate(found.reuse) if kept) == reuse


@pytest.mark.parametrize("address", [-16, 8, 16, 1 << 20])
def test_addresses_outside_are_refused(address):
    with pytest.raises(ValueError, match="no instruction"):
        read_control(encoded(), address)
