"""Shared memory of a block that another block of the cluster uses before it has begun, or after it has ended."""

import numpy as np
import pytest
from small_ptx import HEADER

from lab.emulator.api import launch

SYNC = "barrier.cluster.arrive; barrier.cluster.wait;\n"
USE = "mapa.shared::cluster.u32 %r3, %r1, %r2; ld.shared::cluster.u32 %r4, [%r3];\n"
FILL = "st.shared.u32 [%r1], %r0;\n"


def findings(body, blocks=4, threads=32, **options):
    ptx = f"""{HEADER}.visible .entry k(.param .u64 out) .reqnctapercluster 2, 1, 1 {{
        .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>; .shared .b32 s[64];
        mov.u32 %r0, %tid.x; mov.u32 %r1, s; mad.lo.u32 %r1, %r0, 4, %r1;
        mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1; mov.u32 %r4, 0; setp.eq.u32 %p0, %r2, 0;
        {body}
        ld.param.u64 %rd0, [out]; mov.u32 %r5, %ctaid.x; mad.lo.u32 %r5, %r5, {threads}, %r0;
        mad.wide.u32 %rd0, %r5, 4, %rd0; st.global.u32 [%rd0], %r4; ret; }}"""
    return launch(ptx, "k", blocks, threads, [np.zeros(blocks * threads, np.uint32)], **options).findings


def kinds(*arguments, **options):
    every = findings(*arguments, **options)
    return {(found.kind, found.detail.rpartition(" block ")[2], found.remedy) for found in every}


@pytest.mark.parametrize("threads", [32, 64])
def test_the_users_and_the_block_are_named(threads):
    second_cluster = f"mov.u32 %r6, %ctaid.x; setp.lt.u32 %p3, %r6, 2; {FILL}{SYNC}@%p3 bra END; {USE} END:"
    (found,) = findings(second_cluster, threads=threads)
    assert "the shared memory of block (2, 0, 0)" in found.detail
    assert (found.block, found.thread, found.count) == ((3, 0, 0), (0, 0, 0), 2 * threads)


@pytest.mark.parametrize("schedule", [None, 1, 2])
@pytest.mark.parametrize("threads", [32, 64])
def test_a_cluster_that_meets_before_and_behind_is_clean(schedule, threads):
    assert kinds(FILL + SYNC + USE + SYNC, threads=threads, schedule=schedule) == set()


def test_arriving_behind_and_waiting_at_the_end_is_enough():
    assert kinds(FILL + SYNC + USE + "barrier.cluster.arrive; mov.u32 %r6, 1; barrier.cluster.wait;") == set()


@pytest.mark.parametrize("schedule", [None, 1, 2])
@pytest.mark.parametrize("arrive", ["arrive", "arrive.relaxed"])
def test_to_arrive_without_waiting_keeps_no_memory(arrive, schedule):
    found = kinds(FILL + SYNC + USE + f"barrier.cluster.{arrive};", schedule=schedule)
    assert {kind for kind, *_ in found} == {"missing-cluster-sync"}
    one_waits = f"barrier.cluster.{arrive}; setp.ne.u32 %p1, %r0, 5; @%p1 bra END; barrier.cluster.wait; END:"
    assert kinds(FILL + SYNC + USE + one_waits, schedule=schedule) == set()  # its block stays as long as it


@pytest.mark.parametrize("schedule", [None, 1, 2, 3])
def test_a_block_that_may_end_too_early_is_found_in_every_order(schedule):
    emulated = kinds(FILL + SYNC + USE, schedule=schedule)
    assert {kind for kind, *_ in emulated} == {"missing-cluster-sync"}
    assert all("cluster.sync() after the last access" in remedy for *_, remedy in emulated)


def test_only_those_that_wait_keep_their_memory():
    one_leaves = "@%p0 bra END;\n" + USE + "END:\n"
    assert {kind for kind, *_ in kinds(FILL + SYNC + one_leaves)} == {"missing-cluster-sync"}


def test_a_block_that_may_not_have_begun_is_found():
    found = kinds(USE + SYNC)
    assert "missing-cluster-sync" in {kind for kind, *_ in found}


def test_the_own_memory_needs_nobody():
    assert kinds(FILL + "mov.u32 %r2, %cluster_ctarank;\n" + USE) == set()


ARRIVE = """setp.eq.u32 %p1, %r0, 0; mov.u32 %r1, bar; mapa.shared::cluster.u32 %r3, %r1, %r2;
@%p1 mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster; BEFORE
@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3]; BEHIND"""
AWAIT = "AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [%r1], 0; @!%p2 bra AGAIN;\n"


@pytest.mark.parametrize(
    ("before", "behind", "why"),
    [
        (SYNC, SYNC, set()),
        (SYNC, AWAIT, set()),
        (SYNC, "", {"may have ended already", "has ended"}),
        ("", SYNC, {"may not have started yet"}),
    ],
)
def test_an_arrival_at_the_mbarrier_of_a_block_needs_that_block(before, behind, why):
    body = ".shared .align 8 .b64 bar;" + ARRIVE.replace("BEFORE", before).replace("BEHIND", behind)
    found = kinds(body)
    ends = {detail for kind, detail, _ in found if kind == "missing-cluster-sync"}
    assert bool(why) == bool(ends)
    assert all(any(one in detail for one in why) for detail in ends)


COPY = """setp.eq.u32 %p1, %r0, 0; mov.u32 %r1, bar; mov.u32 %r6, t; ld.param.u64 %rd1, [out];
@%p1 mbarrier.init.shared.b64 [%r1], 1; @%p1 fence.mbarrier_init.release.cluster; BEFORE
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16; mov.u16 %h0, 3; and.pred %p1, %p1, %p0;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
    [%r6], [%rd1], 16, [%r1], %h0;"""


def test_a_block_that_waits_for_a_peers_copy_may_end():
    declared = ".reg .b16 %h<2>; .shared .align 8 .b64 bar; .shared .align 16 .b8 t[16];"
    assert kinds(declared + COPY.replace("BEFORE", SYNC) + AWAIT, blocks=2) == set()
    early = kinds(declared + COPY.replace("BEFORE", "bar.sync 0;") + AWAIT)
    assert "missing-cluster-sync" in {kind for kind, *_ in early}


def test_a_race_between_blocks_of_a_cluster_names_what_would_order_it():
    found = kinds(SYNC + FILL + USE + SYNC)
    assert any("cluster.sync() between" in remedy for kind, _, remedy in found if kind == "shared-race")
