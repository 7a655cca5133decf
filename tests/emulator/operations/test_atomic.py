"""Atomic operations, one thread after another."""

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.operations.atomic import compare_and_swap


def run(operation, cell, threads=40, value="%r0", *more):
    """Apply ``atom.global.OP [cell], value`` in every thread; return what each found."""
    t = operation.split(".")[-1]
    bits = 64 if t.endswith("64") else 32
    register, move = ("%rd1", "cvt.u64.u32 %rd1, %r0;") if bits == 64 else ("%r1", "mov.b32 %r1, %r0;")
    previous = np.zeros(threads, f"u{bits // 8}")
    last = ", ".join((register if value == "%r0" else value, *more))
    body = f"""
    ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; {move}
    atom.global.{operation} {register}, [%rd0], {last};
    ld.param.u64 %rd2, [q]; mad.wide.u32 %rd2, %r0, {bits // 8}, %rd2; st.global.b{bits} [%rd2], {register};
    """
    emulation = launch(kernel(body, ["p", "q"]), "k", 1, threads, [cell, previous])
    assert emulation.clean
    return previous


def test_a_sum_wraps_and_each_thread_finds_what_was_there():
    cell = np.array([2**32 - 10], np.uint32)
    previous = run("add.u32", cell, 40, "1")
    assert cell[0] == 30
    np.testing.assert_array_equal(previous, (2**32 - 10 + np.arange(40)) % 2**32)


@pytest.mark.parametrize(
    ("operation", "start", "end"),
    [
        ("min.s32", 5, 0),
        ("max.u32", 5, 39),
        ("max.s32", -7, 39),
        ("and.b32", 0xFF, 0),
        ("or.b32", 0, 63),
        ("xor.b32", 1, 1),
        ("exch.b32", 5, 39),
        ("min.u64", 2**40, 0),
        ("add.u64", 2**64 - 1, 779),
    ],
)
def test_operations(operation, start, end):
    cell = np.array([start], ("i" if ".s" in operation else "u") + ("8" if "64" in operation else "4"))
    run(operation, cell)
    assert cell[0] == end


def test_increments_and_decrements_wrap_at_their_limit():
    cell = np.array([0], np.uint32)
    previous = run("inc.u32", cell, 10, "3")
    assert previous.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    cell = np.array([9], np.uint32)  # above the limit: goes to it
    assert run("dec.u32", cell, 6, "2").tolist() == [9, 2, 1, 0, 2, 1]


def test_compare_and_swap_succeeds_once():
    cell = np.array([0], np.uint32)
    previous = run("cas.b32", cell, 33, "0", "77")
    assert cell[0] == 77
    assert previous.tolist() == [0] + [77] * 32


def test_single_precision_sums_flush_subnormals_in_global_memory():
    body = "ld.param.u64 %rd0, [p]; atom.global.add.f32 %f0, [%rd0], 0f00000001;"
    cell = np.array([0.0], np.float32)
    launch(kernel(body, ["p"]), "k", 1, 32, [cell])
    assert cell.view(np.uint32)[0] == 0
    body = """.shared .align 4 .b32 s; mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.b32 [s], 0;
    bar.sync 0; red.shared.add.f32 [s], 0f00000001; bar.sync 0; ld.shared.b32 %r1, [s];
    ld.param.u64 %rd0, [p]; st.global.b32 [%rd0], %r1;"""
    launch(kernel(body, ["p"]), "k", 1, 32, [cell])
    assert cell.view(np.uint32)[0] == 32  # shared memory keeps them


def test_halves_are_added_with_one_rounding_each():
    cell = np.array([2048.0, 1.0], np.float16)
    body = "ld.param.u64 %rd0, [p]; red.global.add.noftz.f16x2 [%rd0], 0x3C003C00;"
    launch(kernel(body, ["p"]), "k", 1, 4, [cell])
    assert cell.tolist() == [2048.0, 5.0]  # 2049 is no half; ties go to even


def test_predicated_off_lanes_do_not_take_part():
    cell = np.zeros(1, np.uint32)
    body = """ld.param.u64 %rd0, [p]; mov.u32 %r0, %laneid; setp.lt.u32 %p0, %r0, 5;
    @!%p0 red.global.add.u32 [%rd0], 1;"""
    emulation = launch(kernel(body, ["p"]), "k", 3, 37, [cell])
    assert cell[0] == 3 * 27
    assert emulation.counts is not None
    assert emulation.counts.memory["global.atomic"].requests == 3


@pytest.mark.parametrize("instruction", ["atom.global.add.b32", "red.global.cas.u32", "atom.global.inc.s32"])
def test_unknown_types(instruction):
    with pytest.raises(UnsupportedInstruction):
        launch(kernel(f"{instruction} %r0, [%rd0], 1;"), "k", 1, 32, [])


def test_compare_and_swap_is_one_thread_after_another():
    rng = np.random.default_rng(5)
    memory = rng.integers(0, 3, 6).astype(np.uint32)
    index = rng.integers(0, 6, 40)
    compare, new = (rng.integers(0, 3, 40).astype(np.uint32) for _ in range(2))
    expected_memory, seen = memory.copy(), []
    for at, expected, value in zip(index, compare, new, strict=True):
        seen.append(expected_memory[at])
        expected_memory[at] = value if expected_memory[at] == expected else expected_memory[at]
    previous = compare_and_swap(memory, index, compare, new)
    np.testing.assert_array_equal(previous, seen)
    np.testing.assert_array_equal(memory, expected_memory)


def test_vectors_are_updated_element_by_element():
    x = np.zeros(4, np.float32)
    body = """
    ld.param.u64 %rd0, [p]; mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1;
    atom.global.add.v2.f32 {%f4, %f5}, [%rd0], {%f1, 0f3F800000};
    red.global.add.v4.f32 [%rd0], {%f1, %f1, %f1, 0f40000000};
    """
    assert launch(kernel(body, ["p"]), "k", 1, 8, [x]).clean
    assert x.tolist() == [56, 36, 28, 16]


def test_halves_have_minima_and_maxima():
    x = np.array([0, 0x7BFF, 0, 0x7BFF], np.uint16)  # 0 and 65504
    body = """
    ld.param.u64 %rd0, [p]; mov.u32 %r1, %tid.x; cvt.rn.f16.u32 %h1, %r1; mov.b32 %r2, {%h1, %h1};
    atom.global.max.noftz.f16 %h2, [%rd0], %h1; red.global.min.noftz.v2.f16 [%rd0], {%h1, %h1};
    """
    one = body.replace("red.global.min.noftz.v2.f16 [%rd0], {%h1, %h1};", "red.global.min.noftz.f16 [%rd0+2], %h1;")
    assert launch(kernel(one, ["p"]), "k", 1, 8, [x]).clean
    assert x.view(np.float16)[:2].tolist() == [7, 0]


@pytest.mark.parametrize(
    "instruction",
    [
        "red.global.add.v2.u32 [%rd0], {%r1, %r2};",
        "red.shared.add.v2.f32 [0], {%f1, %f2};",
        "red.global.add.v2.f32 [%rd0], {%f1, %f2, %f3};",
        "atom.global.add.v2.f32 %f1, [%rd0], {%f1, %f2};",
    ],
)
def test_vectors_that_there_are_not(instruction):
    with pytest.raises(UnsupportedInstruction, match="PTX line"):
        launch(kernel(instruction, ["p"]), "k", 1, 1, [np.zeros(4, np.float32)])
