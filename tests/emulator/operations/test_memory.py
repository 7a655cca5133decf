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
        "ld.global.u32 [%rd0], %r1;",
        "mapa.u32 %r1, %r2, %r3;",
        "cvta.shared.u32 %r1, %r2;",
    ],
)
def test_unknown_forms_name_their_line(instruction):
    with pytest.raises(UnsupportedInstruction, match="PTX line"):
        launch(kernel(instruction), "k", 1, 32, [])


def test_cache_policies_change_no_value():
    x = np.arange(32, dtype=np.uint32)
    body = """
    .reg .b64 %policy; createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %policy, 0.25;
    createpolicy.range.L2::evict_last.L2::evict_first.b64 %rd10, [p], 64, 128; createpolicy.cvt.L2.b64 %rd11, 5;
    ld.param.u64 %rd0, [p]; cvta.to.global.u64 %rd0, %rd0; mov.u32 %r1, %tid.x; mad.wide.u32 %rd0, %r1, 4, %rd0;
    ld.global.L1::no_allocate.L2::cache_hint.b32 %r2, [%rd0], %policy; add.u32 %r2, %r2, 1;
    st.global.L2::cache_hint.b32 [%rd0], %r2, %rd10; atom.global.add.L2::cache_hint.u32 %r3, [%rd0], 5, %rd11;
    red.global.add.L2::cache_hint.u32 [%rd0], %r3, %policy; prefetch.global.L2::evict_last [%rd0]; prefetchu.L1 [%rd0];
    applypriority.global.L2::evict_normal [%rd0], 128; prefetch.L1 [%rd0];
    """
    assert launch(kernel(body, ["p"]), "k", 1, 32, [x]).clean
    np.testing.assert_array_equal(x, 2 * (np.arange(32) + 1) + 5)


def test_textures_are_refused_in_words():
    body = "ld.param.u64 %rd0, [p]; tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd0, {%r1}];"
    with pytest.raises(UnsupportedInstruction, match=r"PTX line .*tex\.1d.*textures and surfaces need hardware"):
        launch(kernel(body, ["p"]), "k", 1, 1, [np.zeros(1)])
    text = kernel("mov.u32 %r1, 1;").replace("entry k()", "entry k(.param .texref t)")
    with pytest.raises(UnsupportedInstruction, match=r"PTX line .*texref t.*textures and surfaces"):
        launch(text, "k", 1, 1, [0])


def test_local_memory_is_allocated_and_given_back():
    i = np.arange(32, dtype=np.uint32)
    body = """
    stacksave.u64 %rd1; mad.lo.u32 %r1, %i0, 4, 4; cvt.u64.u32 %rd2, %r1; alloca.u64 %rd3, %rd2, 32;
    mul.lo.u32 %r2, %i0, 4; cvt.u64.u32 %rd4, %r2; add.u64 %rd4, %rd4, %rd3; st.local.u32 [%rd4], %i0;
    alloca.u64 %rd5, 8; st.local.u32 [%rd5], 77; ld.local.u32 %o0, [%rd4]; ld.local.u32 %r3, [%rd5];
    add.u32 %o0, %o0, %r3; stackrestore.u64 %rd1; alloca.u64 %rd6, 8; sub.u64 %rd6, %rd6, %rd1; cvt.u32.u64 %o1, %rd6;
    cvt.u32.u64 %r4, %rd3; and.b32 %o2, %r4, 31;
    """
    emulation, (total, again, alignment) = execute(body, i, outputs=3, check=False)
    assert emulation.clean
    np.testing.assert_array_equal(total, i + 77)
    assert not again.any()
    assert not alignment.any()
    emulation, _ = execute("alloca.u64 %rd1, 0x7fffffffffffffff; mov.u32 %o0, 0;")
    assert [(finding.kind, finding.count) for finding in emulation.findings] == [("out-of-bounds", 32)]


def test_shared_memory_of_another_block_has_a_generic_address():
    body = """
    .shared .align 4 .u32 mine[4]; mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, %tid.x; add.u32 %r2, %r0, 100;
    setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [mine+4], %r2;
    barrier.cluster.arrive; barrier.cluster.wait;
    cvta.shared.u64 %rd1, mine; xor.b32 %r3, %r0, 1; mapa.u64 %rd2, %rd1, %r3; ld.u32 %r4, [%rd2+4];
    isspacep.shared::cluster %p2, %rd2; selp.u32 %r5, 1000, 0, %p2; add.u32 %r4, %r4, %r5;
    barrier.cluster.arrive; barrier.cluster.wait;
    ld.param.u64 %rd3, [out]; mad.wide.u32 %rd3, %r0, 4, %rd3; @%p1 st.global.u32 [%rd3], %r4;
    """
    text = kernel(body.replace(".shared .align", ".shared .align", 1), ["out"])
    text = text.replace(
        "entry k(.param .u64 out)", "entry k(.param .u64 out) .reqnctapercluster 2, 1, 1 .explicitcluster"
    )
    out = np.zeros(2, np.uint32)
    assert launch(text, "k", 2, 32, [out]).clean
    assert out.tolist() == [1101, 1100]
    away = text.replace("xor.b32 %r3, %r0, 1", "add.u32 %r3, %r0, 7")
    (found,) = launch(away, "k", 2, 32, [out]).findings
    assert (found.kind, found.detail) == ("out-of-bounds", "load of 4 bytes in a block that the cluster does not have")


def test_in_a_cluster_the_address_of_a_shared_variable_has_the_rank_of_the_block():
    body = """
    .shared .align 16 .b32 pad[4]; .shared .align 16 .b32 mine[8]; mov.u32 %r0, %cluster_ctarank;
    mov.u32 %r1, mine; mov.u64 %rd1, mine+4; cvta.shared.u64 %rd2, %rd1; add.u32 %r2, %r0, 100;
    st.shared.u32 [%r1], %r2; st.u32 [%rd2], %r2; st.shared.u32 [mine+8], %r2; atom.shared.add.u32 %r9, [%r1], 1;
    ld.shared::cta.v2.u32 {%r3, %r4}, [%r1]; ld.u32 %r5, [%rd2+4]; ld.shared::cluster.u32 %r6, [%r1];
    shr.u32 %r7, %r1, 24; shr.u64 %rd4, %rd1, 24; cvt.u32.u64 %r8, %rd4; and.b32 %r1, %r1, 0xffffff;
    barrier.cluster.arrive; barrier.cluster.wait;
    ld.param.u64 %rd3, [out]; mad.wide.u32 %rd3, %r0, 32, %rd3; st.global.v4.u32 [%rd3], {%r3, %r4, %r5, %r6};
    st.global.v4.u32 [%rd3+16], {%r7, %r8, %r1, %r9};
    """
    text, clusters = kernel(body, ["out"]), " .reqnctapercluster 2, 1, 1 .explicitcluster"
    out = np.zeros((2, 8), np.uint32)
    assert launch(text.replace("(.param .u64 out)", f"(.param .u64 out){clusters}"), "k", 2, 1, [out]).clean
    assert out.tolist() == [[101, 100, 100, 101, 1, 1, 16, 100], [102, 101, 101, 102, 2, 2, 16, 101]]
    launch(text.replace("%cluster_ctarank", "%ctaid.x"), "k", 2, 1, [out])
    assert out[:, 4:7].tolist() == [[0, 0, 16], [0, 0, 16]]


@pytest.mark.parametrize(
    "text",
    [
        "multimem.ld_reduce.relaxed.sys.global.add.f32 %f0, [%rd0];",
        "multimem.st.relaxed.sys.global.f32 [%rd0], %f0;",
        "multimem.red.release.sys.global.add.f32 [%rd0], %f0;",
    ],
)
def test_memory_of_several_gpus_is_refused_with_its_line(text):
    source = kernel(f"mov.u64 %rd0, 0;\n{text}")
    with pytest.raises(UnsupportedInstruction) as caught:
        launch(source, "k", 1, 32, [])
    assert caught.value.line == source.split("\n").index(text) + 1
    assert text[:-1] in str(caught.value)
    assert "memory of several GPUs, and the emulator has one" in str(caught.value)


@pytest.mark.parametrize("alignment", ["0", "3", "-8", "8, 8", "%r1"])
def test_allocations_are_aligned_to_a_power_of_two(alignment):
    with pytest.raises(UnsupportedInstruction, match="alignment"):
        execute(f"alloca.u64 %rd1, 8, {alignment}; mov.u32 %o0, 0;")


def test_allocations_lie_behind_each_other():
    body = """alloca.u32 %r1, 8; alloca.u32 %r2, 8, 1; alloca.u32 %r3, 9, 64; alloca.u32 %r4, 0; alloca.u32 %r5, 16;
    sub.u32 %o0, %r2, %r1; and.b32 %o1, %r3, 63; sub.u32 %o2, %r4, %r3; sub.u32 %o3, %r5, %r4;"""
    _, found = execute(body, outputs=4)
    assert found[:, 7].tolist() == [8, 0, 16, 0]
