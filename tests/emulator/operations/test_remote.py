"""Clusters: st.async, red.async, copies and arrivals that go to another block."""

import numpy as np
import pytest
from small_ptx import HEADER

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction

SETUP = """
.reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<16>;
.shared .align 128 .b8 tile[512]; .shared .align 8 .b64 bar;
mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, bar; setp.eq.u32 %p0, %r0, 0;
mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1; shl.b32 %r5, %r0, 4;
add.u32 %r6, %r1, %r5; mapa.shared::cluster.u32 %r7, %r6, %r4; mapa.shared::cluster.u32 %r8, %r2, %r4;
mapa.shared::cluster.u32 %r11, %r1, %r4;
@%p0 mbarrier.init.shared.b64 [%r2], 1; @%p0 fence.proxy.async;
st.shared.v4.u32 [%r6], {0, 0, 0, 0};
barrier.cluster.arrive; barrier.cluster.wait;
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], BYTES;
mad.lo.u32 %r9, %r3, 100, %r0;
"""
WAIT = """
AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra AGAIN;
ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r6];
ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r3, 512; add.u64 %rd0, %rd0, %rd1; mul.wide.u32 %rd1, %r0, 16;
add.u64 %rd0, %rd0, %rd1; st.global.v4.u32 [%rd0], {%r20, %r21, %r22, %r23};
"""
END = "barrier.cluster.arrive; barrier.cluster.wait;"


def run(body, size, wait=WAIT):
    setup = SETUP.replace("BYTES", str(size))
    cluster = ".explicitcluster .reqnctapercluster 2, 1, 1"
    ptx = f"{HEADER}.visible .entry k(.param .u64 out) {cluster}\n{{ {setup} {body} {wait} {END} ret; }}\n"
    out = np.zeros((2, 32, 4), np.uint32)
    return launch(ptx, "k", 2, 32, [out]), out


STORE = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r7], {%r9, %r9, 7, %r9}, [%r8];"
PEERS = np.stack([100 + np.arange(32), np.arange(32)])


def test_stores_arrive_at_the_peer():
    emulation, out = run(STORE, 512)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out[:, :, 0], PEERS)
    assert (out[:, :, 2] == 7).all()


def test_updates_arrive_at_the_peer():
    update = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r11], %r9, [%r8];"
    emulation, out = run(update, 128)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out[:, 0, 0], PEERS.sum(axis=1))


@pytest.mark.parametrize(
    ("body", "wait", "kind"),
    [
        (STORE, WAIT[WAIT.index("ld.shared") :], "async-not-waited"),
        (STORE.replace("[%r8]", "[%r2]"), "", "mbarrier-misuse"),
        (STORE.replace("[%r7]", "[%r7+4]"), "", "misaligned"),
        (STORE.replace("[%r7]", "[%r7+65536]"), "", "out-of-bounds"),
    ],
)
def test_wrong_uses_are_found(body, wait, kind):
    emulation, _ = run(body, 512, wait)
    assert kind in {finding.kind for finding in emulation.findings}, emulation.findings


COPY = """
setp.lt.u32 %p3, %r0, 16; @%p3 st.shared.v4.u32 [%r6], {%r9, %r9, %r9, %r9}; fence.proxy.async; bar.sync 0;
add.u32 %r12, %r11, 256;
@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r12], [%r1], 256, [%r8];
"""


def test_a_bulk_copy_between_blocks():
    emulation, out = run(COPY, 256)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out[:, 16:, 0], PEERS[:, :16])


def test_a_reduction_between_blocks():
    add = COPY.replace("cp.async.bulk", "cp.reduce.async.bulk").replace("bytes [", "bytes.add.u32 [")
    emulation, out = run(add, 256)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(out[:, 16:, 0], PEERS[:, :16])


def test_an_arrival_at_the_peer_ends_its_wait():
    body = """
    @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];
    AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r2], 1; @!%p1 bra AGAIN;
    """
    setup = SETUP.replace("@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], BYTES;", "")
    body = body.replace(", 1; @!", ", 0; @!")
    cluster = ".explicitcluster .reqnctapercluster 2, 1, 1"
    ptx = f"{HEADER}.visible .entry k(.param .u64 out) {cluster}\n{{ {setup} {body} {END} ret; }}\n"
    emulation = launch(ptx, "k", 2, 32, [np.zeros(1, np.uint64)])
    assert emulation.clean, emulation.findings
    without = ptx.replace("@%p0 mbarrier.arrive.release", "@!%p1 bra AGAIN; @%p0 mbarrier.arrive.release")
    lost = launch(without, "k", 2, 32, [np.zeros(1, np.uint64)])
    assert "mbarrier-deadlock" in {finding.kind for finding in lost.findings}


@pytest.mark.parametrize(
    "instruction",
    [
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b64 [%r7], {%rd1, %rd1, %rd1, %rd1}, [%r8];",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r7], {%r9}, [%r8];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.f32 [%r7], %r9, [%r8];",
        "cp.async.bulk.shared::cta.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r1], 16, [%r2];",
        "cp.async.bulk.shared::cluster.global.bulk_group [%r1], [%rd1], 16;",
    ],
)
def test_what_does_not_exist(instruction):
    with pytest.raises(UnsupportedInstruction):
        run(instruction, 0, "")
