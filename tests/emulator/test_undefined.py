"""Values that nothing has written, followed to where they matter."""

import numpy as np
import pytest
from small_ptx import execute

LOCAL = ".local .align 4 .b32 l[4];"
SHARED = ".shared .align 4 .b32 s[64];"
ODD = "and.b32 %r0, %r63, 1; setp.eq.u32 %p0, %r0, 1;"  # %r63 is the thread


def found(body, **options):
    emulation, _ = execute(body, **options)
    return [(finding.kind, finding.count) for finding in emulation.findings]


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %o0, %r9;",
        "add.u32 %o0, %r9, 1;",
        "mul.wide.u32 %rd1, %r9, 4; cvt.u32.u64 %o0, %rd1;",
        "shr.u32 %r1, %r9, 3; and.b32 %o0, %r1, 255;",
        "shfl.sync.idx.b32 %o0, %r9, 0, 31, -1;",
        "redux.sync.max.u32 %o0, %r9, -1;",
        "mov.u32 %r1, 7; setp.eq.u32 %p1, %r63, 3; @%p1 mov.u32 %r1, %r9; redux.sync.add.u32 %o0, %r1, -1;",
        "redux.sync.or.b32 %o0, %r9, -1;",
        "mov.b64 %rd1, {%r9, %r10}; cvt.u32.u64 %o0, %rd1;",
        "mov.u32 %o0, 0; setp.eq.u32 %p1, %r9, 3; @%p1 mov.u32 %o0, 1;",
        "mov.u32 %o0, 0; setp.eq.u32 %p1, %r9, 3; @%p1 bra END; mov.u32 %o0, 1; END:",
        "setp.eq.u32 %p1, %r9, 3; selp.b32 %o0, 1, 2, %p1;",
        "setp.eq.u32 %p2, %r63, 0; setp.eq.u32 %p1, %r9, 3; or.pred %p3, %p1, %p2; selp.b32 %o0, 1, 2, %p3;",
    ],
)
def test_an_unwritten_register_that_decides_is_found(body):
    kinds = {kind for kind, _ in found(body)}
    assert kinds == {"uninitialised-register"}


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r1, %r9; mov.u32 %o0, 1;",  # moved about
        "setp.ge.u32 %p1, %r63, 0; selp.b32 %o0, %r63, %r9, %p1;",  # chosen away
        "mov.b64 %rd1, {%r63, %r9}; cvt.u32.u64 %o0, %rd1;",  # packed beside a defined word
        "setp.lt.u32 %p2, %r63, 0; setp.eq.u32 %p1, %r9, 3; and.pred %p3, %p1, %p2; selp.b32 %o0, 1, 2, %p3;",
        "shfl.sync.idx.b32 %o0, %r63, 0, 31, -1; add.u32 %r1, %r9, %o0;",
        "setp.eq.u32 %p1, %r63, 0; @%p1 bra END; END: mov.u32 %o0, 1;",
        "redux.sync.max.u32 %o0, %r63, -1; add.u32 %r1, %r9, %o0;",
        "mov.u32 %r1, 7; setp.eq.u32 %p1, %r63, 3; @%p1 mov.u32 %r1, %r9; redux.sync.or.b32 %o0, %r1, -1;",
        "bar.red.popc.u32 %r9, 0, 1; mov.u32 %o0, %r9;",
        "mov.u32 %r9, 3; add.u32 %o0, %r9, 1;",
    ],
)
def test_an_unwritten_register_that_decides_nothing_is_not_found(body):
    assert found(body) == []


FRAGMENT = """
.shared .align 32 .b16 s[256]; .shared .align 32 .b16 t[256];
mov.u32 %r1, s; mov.u32 %r2, t; shl.b32 %r3, %r63, 4; add.u32 %r4, %r1, %r3; add.u32 %r5, %r2, %r3; mov.u32 %r0, 0;
setp.lt.u32 %p0, %r63, FILLED; @%p0 st.shared.v4.b32 [%r4], {%r0, %r0, %r0, %r0}; bar.sync 0;
LOAD
setp.lt.u32 %p1, %r63, READ; mov.u32 %o0, 0; @%p1 ld.shared.b32 %o0, [%r5];
"""
KINDS = ["%r10", "%r11", "%r12", "%r13", "%r14", "%r15", "%r16", "%r17"]
WAYS = {
    "fragments": f"""wmma.load.c.sync.aligned.row.m16n16k16.shared.f16 {{{", ".join(KINDS[:4])}}}, [%r1], 16;
        wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [%r2], {{{", ".join(KINDS[:4])}}}, 16; bar.sync 0;""",
    "products": f"""wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {{{", ".join(KINDS)}}}, [%r1], 16;
        mov.u32 %r20, 0; wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16
        {{%r21, %r22, %r23, %r24}}, {{{", ".join(KINDS)}}}, {{{", ".join(["%r20"] * 8)}}}, {{%r20, %r20, %r20, %r20}};
        wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [%r2], {{%r21, %r22, %r23, %r24}}, 16; bar.sync 0;""",
    "matrices": """ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r4];
        stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5], {%r10, %r11, %r12, %r13}; bar.sync 0;""",
    "turned": """ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10, %r11, %r12, %r13}, [%r4];
        movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r10; movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r11;
        movmatrix.sync.aligned.m8n8.trans.b16 %r12, %r12; movmatrix.sync.aligned.m8n8.trans.b16 %r13, %r13;
        stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5], {%r10, %r11, %r12, %r13}; bar.sync 0;""",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("filled", "read", "kinds"), [(26, 26, set()), (32, 32, set()), (26, 27, {"uninitialised-read"})]
)
def test_rows_of_matrices_that_nothing_wrote_count_where_they_are_stored(way, filled, read, kinds):
    body = FRAGMENT.replace("FILLED", str(filled)).replace("READ", str(read)).replace("LOAD", WAYS[way])
    assert {kind for kind, _ in found(body)} == kinds


@pytest.mark.parametrize(
    ("use", "count"),
    [
        ("mov.u32 %o0, %r10;", 8),
        ("mov.u32 %r20, 5; mov.b64 %rd1, {%r10, %r20}; cvt.u32.u64 %o0, %rd1;", 8),  # not even beside a defined word
        ("mov.u32 %r20, 255; and.b32 %o0, %r10, %r20;", 8),
        ("shfl.sync.idx.b32 %o0, %r10, 31, 31, -1;", 32),
        ("redux.sync.max.u32 %o0, %r10, -1;", 8),  # whose result counts as defined
        ("mov.u32 %o0, 0; setp.eq.u32 %p1, %r10, 3; @%p1 mov.u32 %o0, 1;", 8),
        ("setp.lt.u32 %p1, %r63, 24; selp.b32 %o0, %r10, 7, %p1;", 0),
        ("shfl.sync.idx.b32 %o0, %r10, 23, 31, -1;", 0),
    ],
)
def test_what_becomes_of_an_undefined_register_of_a_matrix(use, count):
    body = ".shared .align 16 .b16 s[64]; mov.u32 %r1, s; and.b32 %r2, %r63, 7; mad.lo.u32 %r1, %r2, 16, %r1;"
    body += "mov.u32 %r0, 0; setp.lt.u32 %p0, %r63, 6; @%p0 st.shared.v4.b32 [%r1], {%r0, %r0, %r0, %r0}; bar.sync 0;"
    body += "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r1];"
    kinds = found(body + use)
    assert kinds == ([("uninitialised-read", count)] if count else [])


@pytest.mark.parametrize(("filled", "kinds"), [(32, {"endless-loop"}), (31, {"endless-loop", "uninitialised-read"})])
def test_what_a_stuck_kernel_read_unwritten_is_told(filled, kinds):
    """An endless loop still reports the uninitialised reads before it."""
    load = WAYS["matrices"].split("stmatrix")[0] + "setp.eq.u32 %p2, %r63, %r63; LOOP: @%p2 bra LOOP;"
    body = FRAGMENT.replace("FILLED", str(filled)).replace("READ", "0").replace("LOAD", load)
    assert {kind for kind, _ in found(body)} == kinds


def test_only_the_threads_on_whose_path_nothing_wrote_are_at_fault():
    body = ODD + "@%p0 bra END; mov.u32 %r9, 4; END: add.u32 %o0, %r9, 1;"
    emulation, _ = execute(body)
    (finding,) = emulation.findings
    assert (finding.kind, finding.count, finding.thread) == ("uninitialised-register", 16, (1, 0, 0))
    assert "%r9" in finding.detail
    assert finding.text.startswith("st.global")


def test_an_unwritten_address_is_found_once():
    body = "mov.u64 %rd9, 0; ld.shared.u32 %o0, [%r9];"
    assert found("st.shared.u32 [s], %r63; " + body, block=1, declarations=SHARED)[0] == ("uninitialised-register", 1)


def test_unwritten_local_memory_is_found_where_it_decides():
    body = "cvt.u64.u32 %rd1, %r63; and.b64 %rd1, %rd1, 3; shl.b64 %rd1, %rd1, 2; mov.u64 %rd2, l;"
    body += "add.u64 %rd2, %rd2, %rd1; st.local.u32 [l], %r63; ld.local.u32 %o0, [%rd2];"
    emulation, _ = execute(body, declarations=LOCAL)
    (finding,) = emulation.findings
    assert (finding.kind, finding.count, finding.thread) == ("uninitialised-read", 24, (1, 0, 0))
    assert finding.text.startswith("ld.local")
    assert finding.variable == "l[1] of l[4], elements of 4 bytes"


def test_local_memory_that_was_written_is_defined():
    body = "st.local.v2.u32 [l], {%r63, %r63}; ld.local.u32 %o0, [l+4];"
    assert found(body, declarations=LOCAL) == []


def test_an_undefined_value_stays_undefined_in_local_memory():
    body = "st.local.u32 [l], %r9; ld.local.u32 %o0, [l];"
    assert found(body, declarations=LOCAL) == [("uninitialised-read", 32)]


def test_a_generic_address_reaches_local_memory():
    body = "mov.u64 %rd1, l; cvta.local.u64 %rd1, %rd1; ld.u32 %o0, [%rd1];"
    assert found(body, declarations=LOCAL) == [("uninitialised-read", 32)]


def test_shared_memory_that_nothing_wrote_is_found_where_it_decides():
    read = "mul.lo.u32 %r1, %r63, 4; mov.u32 %r2, s; add.u32 %r1, %r1, %r2; ld.shared.u32 %r3, [%r1];"
    assert found(read + "mov.u32 %o0, %r3;", declarations=SHARED) == [("uninitialised-read", 32)]
    away = read + "setp.lt.u32 %p1, %r63, 0; selp.b32 %o0, %r3, %r63, %p1;"
    assert found(away, declarations=SHARED) == []


def test_an_undefined_value_stays_undefined_in_shared_memory():
    body = "st.shared.u32 [s], %r9; ld.shared.u32 %r3, [s]; mov.u32 %o0, %r3;"
    kinds = found(body, block=1, declarations=SHARED)
    assert kinds == [("uninitialised-read", 1)]


def test_an_undefined_value_in_an_atomic_update_is_found():
    body = "st.shared.u32 [s], 0; bar.sync 0; atom.shared.add.u32 %o0, [s], %r9;"
    assert ("uninitialised-register", 1) in found(body, block=1, declarations=SHARED)


def test_undefined_values_move_with_a_shuffle():
    body = ODD + "@%p0 bra END; mov.u32 %r9, 4; END: shfl.sync.bfly.b32 %o0, %r9, 1, 31, -1;"
    emulation, out = execute(body)
    (finding,) = emulation.findings
    assert (finding.count, finding.thread) == (16, (0, 0, 0))
    assert out[1] == 4


def test_nothing_is_followed_without_checks():
    assert found("mov.u32 %o0, %r9;", check=False) == []


def test_a_choice_by_sign_follows_what_it_chooses():
    body = "sub.u32 %r1, %r63, 16; slct.b32.s32 %o0, %r63, %r9, %r1;"
    assert found(body) == [("uninitialised-register", 16)]


def test_the_lanes_of_a_store_that_are_defined_are_not_at_fault():
    body = "selp.b32 %r1, %r63, %r9, %p0; mov.u32 %o0, %r1;"
    emulation, _ = execute(ODD + body)
    (finding,) = emulation.findings
    assert (finding.count, finding.thread) == (16, (0, 0, 0))
    assert np.all(np.array(finding.block) == 0)
