"""mbarrier instructions on small PTX kernels; test_bulk.py covers bulk copies (cp.async.bulk)."""

import numpy as np
import pytest
from small_ptx import execute, kernel

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction

INIT = """.shared .align 8 .b64 m; .shared .align 4 .b32 s[64]; mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0;
@%p0 mbarrier.init.shared.b64 [m], COUNT; bar.sync 0;\n"""
WAIT = "AGAIN:\nmbarrier.try_wait.parity.shared.b64 %p1, [m], 0;\n@!%p1 bra AGAIN;\n"


def test_an_arrival_gives_the_phase_that_it_is_part_of():
    body = (
        INIT.replace("COUNT", "64")
        + "mbarrier.arrive.shared.b64 %o0, [m]; bar.sync 0; mbarrier.arrive.shared.b64 %o1, [m];"
    )
    emulation, found = execute(body, block=64, out="u8", outputs=2)
    assert emulation.clean
    np.testing.assert_array_equal(found, [[0] * 64, [1] * 64])


def test_arrivals_of_several_threads_count_as_many():
    body = INIT.replace("COUNT", "6") + "setp.lt.u32 %p2, %r0, 3; @%p2 mbarrier.arrive.shared.b64 _, [m], 2;\n"
    emulation, _ = execute(body + WAIT + "mov.u32 %o0, 1;", block=64)
    assert emulation.clean


def test_what_was_written_before_an_arrival_is_seen_after_the_wait():
    body = (
        INIT.replace("COUNT", "64")
        + """
    shl.b32 %r1, %r0, 2; mov.u32 %r2, s; add.u32 %r3, %r2, %r1; st.shared.u32 [%r3], %r0;
    mbarrier.arrive.shared.b64 _, [m];
    """
        + WAIT
        + "xor.b32 %r1, %r1, 252; add.u32 %r3, %r2, %r1; ld.shared.u32 %o0, [%r3];"
    )
    emulation, found = execute(body, block=64)
    assert emulation.clean
    np.testing.assert_array_equal(found, 63 - np.arange(64))


def test_missing_arrivals_are_a_deadlock_that_says_how_many():
    emulation, _ = execute(
        INIT.replace("COUNT", "70") + "mbarrier.arrive.shared.b64 _, [m];\n" + WAIT, block=64, outputs=0
    )
    (finding,) = emulation.findings
    assert finding.kind == "mbarrier-deadlock"
    assert finding.count == 64
    assert finding.detail.endswith("lacks 6 of 70 arrivals")
    assert finding.remedy.startswith("an arrival; or parity 1 here")


def test_a_wait_whose_parity_was_not_flipped_is_told_as_such():
    arrive = "mbarrier.arrive.shared.b64 _, [m];\n"
    again = WAIT.replace("AGAIN", "ONCE_MORE")
    body = INIT.replace("COUNT", "64") + arrive + WAIT + "bar.sync 0;\n" + arrive + again
    emulation, _ = execute(body, block=64, outputs=0)
    (finding,) = emulation.findings
    assert "64 of 64 arrivals, after one of parity 1 that is complete and that they have not waited" in finding.detail
    assert finding.remedy == "a wait of parity 1 here, if it is meant for that phase"


def test_memory_is_ordinary_again_after_inval():
    body = INIT.replace("COUNT", "1") + "@%p0 mbarrier.inval.shared.b64 [m]; @%p0 st.shared.b64 [m], 5;"
    assert execute(body, block=64, outputs=0)[0].clean
    emulation, _ = execute(INIT.replace("COUNT", "1") + "@%p0 st.shared.b64 [m], 5;", block=64, outputs=0)
    assert [finding.kind for finding in emulation.findings] == ["mbarrier-misuse"]


@pytest.mark.parametrize("instruction", ["mbarrier.init.b64 [m], 1;", "mbarrier.arrive.drop.shared.b64 %rd0, [m];"])
def test_unknown_forms(instruction):
    with pytest.raises(UnsupportedInstruction):
        execute(".shared .align 8 .b64 m;" + instruction)


DROPPED = """
.shared .align 8 .b64 bar; mov.u32 %r0, %tid.x; mov.u32 %r2, bar; setp.eq.u32 %p0, %r0, 0; setp.lt.u32 %p2, %r0, 16;
@%p0 mbarrier.init.shared.b64 [%r2], 32; bar.sync 0;
@%p2 mbarrier.arrive_drop.shared.b64 _, [%r2]; @!%p2 mbarrier.arrive.shared.b64 _, [%r2];
A: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra A;
@!%p2 mbarrier.arrive.shared.b64 _, [%r2];
B: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p1, [%r2], 1, 0x989680; @!%p1 bra B;
"""
BYTES = """
.shared .align 8 .b64 bar; mov.u32 %r0, %tid.x; mov.u32 %r2, bar; setp.eq.u32 %p0, %r0, 0;
@%p0 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;
@%p0 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r2], 64; @%p0 mbarrier.arrive.shared.b64 %rd1, [%r2];
@%p0 mbarrier.complete_tx.relaxed.cta.shared.b64 [%r2], COUNT;
A: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra A;
"""


@pytest.mark.parametrize(
    ("body", "clean"),
    [
        (DROPPED, True),
        (DROPPED.replace("arrive_drop", "arrive"), False),
        (BYTES.replace("COUNT", "64"), True),
        (BYTES.replace("COUNT", "48"), False),
    ],
    ids=["dropped", "not dropped", "all bytes", "too few bytes"],
)
def test_arrivals_and_bytes_by_hand(body, clean):
    emulation = launch(kernel(body), "k", 1, 32, [])
    assert emulation.clean == clean, emulation.findings
    if not clean:
        assert {finding.kind for finding in emulation.findings} == {"mbarrier-deadlock"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (BYTES.replace("COUNT", "48"), "a phase that lacks 16 bytes"),
        (BYTES.replace("COUNT", "80"), "a phase in which 16 bytes more arrived than were expected"),
        (BYTES.replace("[%r2], 1;", "[%r2], 2;").replace("COUNT", "48"), "lacks 1 of 2 arrivals and 16 bytes"),
        (BYTES.replace("[%r2], 1;", "[%r2], 2;").replace("COUNT", "64"), "a phase that lacks 1 of 2 arrivals"),
        (BYTES.replace("[%r2], 1;", "[%r2], 2;").replace("COUNT", "80"), "arrivals, in which 16 bytes more arrived"),
    ],
)
def test_a_deadlock_says_what_is_missing_or_too_much(body, said):
    (finding,) = launch(kernel(body), "k", 1, 32, []).findings
    assert said in finding.detail
    assert " 0 " not in finding.detail
    assert "-" not in finding.detail


@pytest.mark.parametrize(
    "instruction",
    ["mbarrier.pending_count.b64 %r1, %rd1;", "mbarrier.arrive.noComplete.shared.b64 %rd1, [%r2], 1;"],
)
def test_forms_that_are_refused(instruction):
    with pytest.raises(UnsupportedInstruction, match="mbarrier"):
        launch(kernel(instruction), "k", 1, 32, [])


FILLED = """.shared .align 16 .b8 t[16]; .shared .align 8 .b64 m; mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0;
mov.u32 %r1, t; ld.param.u64 %rd0, [p]; @%p0 mbarrier.init.shared.b64 [m], 1; @%p0 fence.mbarrier_init.release.cluster;
@%p0 st.shared.u32 [%r1], 1; FENCE bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [m], 16;
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 16, [m];
AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [m], 0; @!%p1 bra AGAIN;"""


@pytest.mark.parametrize(
    ("fence", "kinds"),
    [
        ("fence.proxy.async;", set()),
        ("fence.proxy.async.shared::cta;", set()),
        ("fence.proxy.async.global;", {"missing-proxy-fence"}),
        ("fence.proxy.alias;", {"missing-proxy-fence"}),
        ("fence.acq_rel.cta;", {"missing-proxy-fence"}),
        ("", {"missing-proxy-fence"}),
    ],
)
def test_which_fence_orders_a_store_before_a_bulk_copy(fence, kinds):
    body = FILLED.replace("FENCE", fence)
    emulation = launch(kernel(body, ["p"]), "k", 1, 32, [np.zeros(4, np.uint32)])
    assert {finding.kind for finding in emulation.findings} == kinds
    assert launch(kernel(body, ["p"]), "k", 1, 32, [np.zeros(4, np.uint32)], check=False).clean


OUT = FILLED.replace("st.shared.u32 [%r1], 1", "st.global.u32 [%rd0], 1")


@pytest.mark.parametrize(
    ("fence", "kinds"),
    [
        ("fence.proxy.async;", set()),
        ("fence.proxy.async.global;", set()),
        ("fence.proxy.async.shared::cta;", {"missing-proxy-fence"}),
        ("", {"missing-proxy-fence"}),
    ],
)
def test_which_fence_orders_a_store_to_global_memory_before_a_bulk_copy_from_there(fence, kinds):
    body = OUT.replace("FENCE", fence)
    emulation = launch(kernel(body, ["p"]), "k", 1, 32, [np.zeros(4, np.uint32)])
    assert {finding.kind for finding in emulation.findings} == kinds
