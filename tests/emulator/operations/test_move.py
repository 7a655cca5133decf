"""mov: literals, symbols, vectors."""

import numpy as np
import pytest
from small_ptx import execute

from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.opcodes import UnknownForm
from lab.emulator.operations.move import elementwise, packing, unpacking


def test_literals_keep_their_bits():
    body = "mov.b32 %o0, 0f80000000; mov.b32 %o1, -1; mov.u32 %o2, 0xFFU; mov.b32 %o3, 1.5;"
    _, found = execute(body, outputs=4)
    assert found[:, 0].tolist() == [0x80000000, 0xFFFFFFFF, 0xFF, 0x3FC00000]


def test_vectors_are_packed_from_the_low_end():
    a, b = np.array([1, 2**32 - 1], np.uint32), np.array([7, 2**31], np.uint32)
    _, found = execute("mov.b64 %o0, {%i0, %i1};", a, b, out="u8")
    np.testing.assert_array_equal(found, a + (b.astype(np.uint64) << np.uint64(32)))
    _, (low, high) = execute("mov.b64 {%o0, %o1}, %i0;", found, outputs=2)
    np.testing.assert_array_equal([low, high], [a, b])


def test_a_vector_may_swap_its_own_parts():
    x = np.array([0x0001_0002], np.uint32)
    _, found = execute("mov.b32 {%h0, %h1}, %i0; mov.b32 %o0, {%h1, %h0};", x)
    assert found[0] == 0x0002_0001


def test_an_unpacked_part_may_be_discarded():
    _, found = execute("mov.b64 {_, %o0}, %i0;", np.array([2**63 + 5], np.uint64))
    assert found[0] == 2**31


@pytest.mark.parametrize(("t", "count"), [("f32", 2), ("b32", 3), ("b32", 8)])
def test_vectors_that_do_not_exist(t, count):
    with pytest.raises(UnknownForm):
        packing(t, count)
    with pytest.raises(UnknownForm):
        unpacking(t, count)


def test_only_some_threads_move():
    x = np.arange(40, dtype=np.uint32)
    _, found = execute("mov.u32 %o0, 99; setp.lt.u32 %p0, %i0, 35; @%p0 mov.u32 %o0, %i0;", x)
    np.testing.assert_array_equal(found, np.where(x < 35, x, 99))


def test_a_predicate_cannot_hold_a_number():
    with pytest.raises(UnsupportedInstruction, match="PTX line"):
        execute("mov.u32 %p0, 1;")


def test_elements_are_moved_one_by_one():
    alu = elementwise("u16", 2)
    assert (alu.outs, alu.ins) == (("u16", "u16"), ("u16", "u16"))
    outs = np.zeros((2, 3), np.uint16)
    alu.compute(*outs, np.array([1, 2, 3], np.uint16), np.array([9], np.uint16))
    assert outs.tolist() == [[1, 2, 3], [9, 9, 9]]


@pytest.mark.parametrize(("t", "count", "element"), [("b64", 4, "b16"), ("b32", 4, "b8"), ("b32", 2, "b16")])
def test_types_of_parts(t, count, element):
    pack, unpack = packing(t, count), unpacking(t, count)
    assert (pack.outs, pack.ins) == ((t,), (element,) * count)
    assert (unpack.outs, unpack.ins) == ((element,) * count, (t,))
    size, whole = f"u{int(element[1:]) // 8}", f"u{int(t[1:]) // 8}"
    parts = [np.array([i + 1], size) for i in range(count)]
    out = np.zeros(1, whole)
    pack.compute(out, *parts)
    assert out.view(size).tolist() == list(range(1, count + 1))
    again = [np.zeros(1, size) for _ in range(count)]
    unpack.compute(*again, out)
    assert [one[0] for one in again] == list(range(1, count + 1))
