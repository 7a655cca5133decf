"""Block-wide barriers on small PTX kernels."""

import numpy as np
import pytest
from small_ptx import execute, kernel

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.waiting.barriers import BarrierForm, form_of

SHARED = """.shared .align 4 .b32 s[128]; mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; mov.u32 %r2, s;
add.u32 %r3, %r2, %r1; st.shared.u32 [%r3], %r0; xor.b32 %r1, %r1, 128; add.u32 %r3, %r2, %r1;\n"""
READ = "ld.shared.u32 %o0, [%r3];"


@pytest.mark.parametrize(
    ("opcode", "operands", "form"),
    [
        ("bar.sync", ("0",), BarrierForm("0", None, waits=True)),
        ("barrier.cta.sync.aligned", ("%r1", "64"), BarrierForm("%r1", "64", waits=True)),
        ("bar.arrive", ("1", "64"), BarrierForm("1", "64", waits=False)),
        (
            "bar.red.popc.u32",
            ("%r0", "1", "64", "%p0"),
            BarrierForm("1", "64", waits=True, reduction="popc", result="%r0", predicate="%p0"),
        ),
        (
            "barrier.cta.red.or.pred",
            ("%p1", "0", "!%p0"),
            BarrierForm("0", None, waits=True, reduction="or", result="%p1", predicate="!%p0", aligned=False),
        ),
        ("bar.arrive", ("1",), None),
        ("bar.sync", (), None),
        ("bar.red.xor.pred", ("%p0", "0", "%p1"), None),
    ],
)
def test_forms(opcode, operands, form):
    assert form_of(opcode, operands) == form


@pytest.mark.parametrize(
    ("barrier", "kinds"), [("bar.sync 0;", []), ("", ["shared-race"]), ("bar.warp.sync -1;", ["shared-race"])]
)
def test_a_barrier_orders_shared_memory(barrier, kinds):
    emulation, found = execute(SHARED + barrier + READ, block=128)
    assert sorted({finding.kind for finding in emulation.findings}) == kinds
    if not kinds:
        np.testing.assert_array_equal(found, np.arange(128) ^ 32)


def test_producers_arrive_without_waiting():
    body = (
        SHARED
        + """setp.lt.u32 %p0, %r0, 32; @%p0 bra LATE;\nbar.arrive 3, 128;\nmov.u32 %o0, 7;\nbra END;\nLATE:
bar.sync 3, 128;\nld.shared.u32 %o0, [%r3];\nEND:\n"""
    )
    emulation, found = execute(body, block=128)
    assert emulation.clean
    np.testing.assert_array_equal(found, np.where(np.arange(128) < 32, np.arange(128) + 32, 7))


def test_two_halves_of_a_block_meet_at_barriers_of_their_own():
    body = SHARED + "shr.u32 %r5, %r0, 6; add.u32 %r5, %r5, 1; bar.sync %r5, 64;" + READ
    emulation, found = execute(body, block=128)
    assert emulation.clean
    np.testing.assert_array_equal(found, np.arange(128) ^ 32)


def test_two_halves_of_a_block_cannot_share_a_barrier():
    emulation, _ = execute(SHARED + "bar.sync 1, 64;" + READ, block=128)
    (finding,) = (finding for finding in emulation.findings if finding.kind == "barrier-divergence")
    assert "128 threads arrive at once, and 64 complete this barrier" in finding.detail


def test_reductions_count_all_threads_that_live():
    body = """setp.lt.u32 %p0, %i0, 40; setp.ge.u32 %p1, %i0, 0; bar.red.popc.u32 %o0, 0, %p0;
    bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, !%p1; selp.u32 %o1, 1, 0, %p2; selp.u32 %o2, 1, 0, %p3;"""
    emulation, found = execute(body, np.arange(70, dtype=np.uint32), outputs=3)
    assert emulation.clean
    np.testing.assert_array_equal(found, np.repeat([[40], [1], [0]], 70, axis=1))


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("setp.lt.u32 %p0, %i0, 32; @%p0 exit;\nbar.sync 1, 64;", "32 threads wait here forever"),
        (
            "setp.lt.u32 %p0, %i0, 32; @%p0 bra A;\nbar.sync 0;\nbra E;\nA:\nbar.sync 0;\nE:\n",
            "wait at different barrier instructions",
        ),
        ("setp.lt.u32 %p0, %i0, 32; @%p0 bra E;\nbar.sync 1, 64;\nE:\n", "32 threads wait here forever"),
    ],
)
def test_threads_that_do_not_meet(body, detail):
    emulation, _ = execute(body, np.arange(64, dtype=np.uint32), outputs=0)
    (finding,) = emulation.findings
    assert finding.kind == "barrier-divergence"
    assert detail in finding.detail
    assert finding.text.startswith("bar.sync")


@pytest.mark.parametrize(("target", "kinds"), [("sm_60", ["barrier-divergence"]), ("sm_70", []), ("sm_90a", [])])
def test_a_warp_may_lose_threads_before_a_barrier_from_volta_on(target, kinds):
    body = "setp.lt.u32 %p0, %r0, 16; @%p0 exit;\nst.shared.u32 [s], 1; bar.sync 0;\nld.shared.u32 %r3, [s];"
    shared = ".shared .align 4 .b32 s; mov.u32 %r0, %tid.x;"
    text = kernel(shared + body.replace("st.", "setp.eq.u32 %p1, %r0, 63; @%p1 st."))
    emulation = launch(text.replace("sm_90", target), "k", 1, 64, [])
    assert [finding.kind for finding in emulation.findings] == kinds


@pytest.mark.parametrize(
    ("early", "barrier", "kinds"),
    [
        ("@%p0 exit;", "bar.sync 0;", []),
        ("@%p0 exit;", "", ["shared-race"]),
        ("@%p0 bra E;", "bar.sync 0;", ["barrier-divergence"]),  # they store what they have before they end
    ],
)
def test_threads_that_have_ended_hold_up_no_barrier_of_the_block(early, barrier, kinds):
    """The producer warp exits early; the consumer warps still meet at the barrier."""
    body = SHARED + f"mov.u32 %o0, 7; setp.lt.u32 %p0, %r0, 64; {early}\n{barrier}\n{READ}\nE:\n"
    emulation, found = execute(body, block=128)
    assert [finding.kind for finding in emulation.findings] == kinds
    if barrier:
        np.testing.assert_array_equal(found[64:], np.arange(64, 128) ^ 32)


@pytest.mark.parametrize(("one", "other"), [("barrier.sync", "barrier.sync"), ("barrier.cta.sync", "bar.sync")])
def test_warps_may_wait_at_different_barriers_that_are_not_aligned(one, other):
    """Triton's warps that fetch and those that multiply meet so."""
    body = f"setp.lt.u32 %p0, %r0, 64; @%p0 bra A;\n{one} 1;\nbra E;\nA:\n{other} 1;\nE:\n"
    emulation, found = execute(SHARED + body + READ, block=128)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(found, np.arange(128) ^ 32)


def test_a_count_is_extended_to_a_wide_register():
    i = np.arange(48, dtype=np.uint32)
    _, out = execute("setp.lt.u32 %p0, %i0, 40; bar.red.popc.u32 %rd1, 0, %p0; mov.b64 %o0, %rd1;", i, out="u8")
    assert out.tolist() == [40] * 48


@pytest.mark.parametrize(("name", "clean"), [(15, True), (16, False)])
def test_a_block_has_sixteen_barriers(name, clean):
    emulation, _ = execute(f"mov.u32 %o0, 0; bar.sync {name}, 64;", block=64)
    assert [finding.detail for finding in emulation.findings] == (
        [] if clean else ["barrier 16: a block has barriers 0 to 15"]
    )


def test_warps_that_give_different_counts():
    body = "mov.u32 %r1, 64; setp.lt.u32 %p0, %i0, 32; @%p0 mov.u32 %r1, 96;\nbar.sync 1, %r1;"
    emulation, _ = execute(body, np.arange(96, dtype=np.uint32), outputs=0)
    details = [finding.detail for finding in emulation.findings]
    assert "threads that meet at one barrier say that 96 and 64 threads complete it" in details


def test_a_form_that_does_not_exist():
    with pytest.raises(UnsupportedInstruction, match="this form of barrier"):
        execute("bar.arrive 1; mov.u32 %o0, 0;")


NEXT = """setp.lt.u32 %p0, %r0, 64; setp.lt.u32 %p1, %r0, 32; @%p0 bra FIRST;
BETWEEN
setp.ge.u32 %p2, %r0, 96; bar.sync 1, 64; bra END;
FIRST: bar.sync 1, 64; BEHIND
END: mov.u32 %o0, 0;"""


@pytest.mark.parametrize(
    ("between", "behind", "clean"), [("", "", False), ("bar.sync 2, 128;", "bar.sync 2, 128;", True)]
)
def test_other_warps_use_a_barrier_again_only_when_its_phase_is_over(between, behind, clean):
    body = "mov.u32 %r0, %tid.x;" + NEXT.replace("BETWEEN", between).replace("BEHIND", behind)
    emulation, _ = execute(body, block=128)
    assert emulation.clean == clean
    if not clean:
        assert {finding.kind for finding in emulation.findings} == {"barrier-divergence"}
        assert "before the phase of barrier 1 that was before is complete: warps" in emulation.findings[0].detail


def test_blocks_meet_by_themselves():
    """Odd blocks are late; the last warp of each is part of one."""
    body = """ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 80, %r0;
    and.b32 %r3, %r1, 1; setp.eq.u32 %p0, %r3, 1; setp.lt.u32 %p1, %r0, %r1; mov.u32 %r5, 0; @!%p0 bra MEET;
    mov.u32 %r5, 1;\nMEET: bar.red.popc.u32 %r4, 3, 96, %p1; mad.lo.u32 %r4, %r5, 1000, %r4;
    mad.wide.u32 %rd0, %r2, 4, %rd0; st.global.u32 [%rd0], %r4;"""
    out = np.zeros((7, 80), np.uint32)
    emulation = launch(kernel(body.replace("3, 96", "3"), ["p"]), "k", 7, 80, [out])
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out, np.repeat([[0], [1001], [2], [1003], [4], [1005], [6]], 80, axis=1))


@pytest.mark.parametrize(("before", "behind", "kinds"), [("STORE", "", []), ("", "STORE", ["shared-race"])])
def test_what_a_thread_stores_behind_its_arrival_is_not_ordered(before, behind, kinds):
    store = "mov.u32 %r6, 9; st.shared.u32 [%r5], %r6;"
    body = f"""setp.lt.u32 %p0, %r0, 64; xor.b32 %r1, %r0, 64; shl.b32 %r1, %r1, 2; add.u32 %r4, %r2, %r1;
    shl.b32 %r5, %r0, 2; add.u32 %r5, %r2, %r5; mov.u32 %o0, 0; @%p0 bra LATE;
    {before} bar.arrive 3, 128; {behind} bra END; LATE: bar.sync 3, 128; ld.shared.u32 %o0, [%r4]; END:"""
    emulation, _ = execute(SHARED + body.replace("STORE", store), block=128)
    assert sorted({finding.kind for finding in emulation.findings}) == kinds
