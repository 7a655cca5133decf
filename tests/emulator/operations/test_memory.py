"""Loads, stores and addresses."""

import numpy as np
import pytest
from small_ptx import execute, kernel

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction

BYTES = np.array([0x7F, 0x80, 0xFF, 0x00], np.uint8)
LOAD = "ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; cvt.u64.u32 %rd1, %r0; add.s64 %rd0, %rd0, %rd1;"
STORE = "ld.param.u64 %rd2, [q]; mad.wide.u32 %rd2, %r0, 4, %rd2; st.global.u32 [%rd2], %r1;"


@pytest.mark.parametrize(
    ("t", "wanted"),
    [("s8", [0x7F, 0xFFFFFF80, 0xFFFFFFFF, 0]), ("u8", [0x7F, 0x80, 0xFF, 0]), ("b8", [127, 128, 255, 0])],
)
def test_narrow_loads_are_extended(t, wanted):
    out = np.zeros(4, np.uint32)
    launch(kernel(f"{LOAD} ld.global.{t} %r1, [%rd0]; {STORE}", ["p", "q"]), "k", 1, 4, [BYTES, out])
    assert out.tolist() == wanted


def test_a_narrow_store_takes_the_low_bits():
    out = np.zeros(8, np.uint8)
    ptx = kernel("ld.param.u64 %rd0, [p]; mov.u32 %r0, 0x1234; st.global.u8 [%rd0+3], %r0;", ["p"])
    launch(ptx, "k", 1, 1, [out])
    assert out.tolist() == [0, 0, 0, 0x34, 0, 0, 0, 0]


def test_vectors_are_one_access():
    data = np.arange(32, dtype=np.uint32)
    body = """
    ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd0, %r0, 16, %rd0;
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0]; st.global.v4.u32 [%rd0], {%r4, %r3, %r2, %r1};
    """
    emulation = launch(kernel(body, ["p"]), "k", 1, 8, [data])
    np.testing.assert_array_equal(data.reshape(8, 4), np.arange(32).reshape(8, 4)[:, ::-1])
    assert emulation.counts is not None
    loads = emulation.counts.memory["global.load"]
    assert (loads.requests, loads.bytes_used, loads.sectors) == (1, 128, 4)


def test_generic_addresses_know_their_space():
    body = """
    .shared .align 4 .b32 s[32]; .local .align 4 .b32 l[1];
    mov.u32 %r0, %tid.x; mov.u64 %rd0, s; cvta.shared.u64 %rd1, %rd0; mad.wide.u32 %rd1, %r0, 4, %rd1;
    mov.u64 %rd2, l; cvta.local.u64 %rd3, %rd2;
    st.u32 [%rd1], %r0; st.u32 [%rd3], 7;
    isspacep.shared %p0, %rd1; isspacep.local %p1, %rd3; isspacep.global %p2, %rd1; isspacep.const %p3, %rd1;
    selp.u32 %o0, 1, 0, %p0; selp.u32 %o1, 1, 0, %p1; selp.u32 %o2, 1, 0, %p2; selp.u32 %o3, 1, 0, %p3;
    cvta.to.shared.u64 %rd4, %rd1; ld.shared.u32 %o4, [%rd4]; ld.local.u32 %o5, [l];
    """
    emulation, found = execute(body, outputs=6)
    assert emulation.clean
    assert found[:4, 5].tolist() == [1, 1, 0, 0]
    np.testing.assert_array_equal(found[4], np.arange(32))
    np.testing.assert_array_equal(found[5], 7)


def test_hints_change_nothing():
    body = (
        "ld.param.u64 %rd0, [p]; prefetch.global.L2 [%rd0]; nanosleep.u32 20; membar.gl; ld.global.ca.u32 %r0, [%rd0];"
    )
    data = np.array([5], np.uint32)
    assert launch(kernel(body, ["p"]), "k", 1, 32, [data]).clean
    assert data[0] == 5


@pytest.mark.parametrize(
    "instruction",
    [
        "ld.global.v8.u32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd0];",
        "ld.global.v2.u32 {%r1, %r2, %r3}, [%rd0];",
        "st.global.u32 [%rd0], %r1, %rd1;",
        "ld.global.L2::cache_hint.u32 %r1, [%rd0];",
        "ld.global.u32 [%rd0], %r1;",
        "mapa.u32 %r1, %r2, %r3;",
        "cvta.shared.u32 %r1, %r2;",
    ],
)
def test_unknown_forms_name_their_line(instruction):
    with pytest.raises(UnsupportedInstruction, match="PTX line"):
        launch(kernel(instruction), "k", 1, 32, [])
