"""Shared memory of a block that another block of the cluster uses before it has begun, or after it has ended."""

import numpy as np
import pytest
from small_ptx import HEADER

from lab.emulator.api import launch

SYNC = "barrier.cluster.arrive; barrier.cluster.wait;\n"
USE = "mapa.shared::cluster.u32 %r3, %r1, %r2; ld.shared::cluster.u32 %r4, [%r3];\n"
FILL = "st.shared.u32 [%r1], %r0;\n"


def kinds(body, blocks=4, threads=32, **options):
    ptx = f"""{HEADER}.visible .entry k(.param .u64 out) .reqnctapercluster 2, 1, 1 {{
        .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>; .shared .b32 s[64];
        mov.u32 %r0, %tid.x; mov.u32 %r1, s; mad.lo.u32 %r1, %r0, 4, %r1;
        mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1; mov.u32 %r4, 0; setp.eq.u32 %p0, %r2, 0;
        {body}
        ld.param.u64 %rd0, [out]; mov.u32 %r5, %ctaid.x; mad.lo.u32 %r5, %r5, {threads}, %r0;
        mad.wide.u32 %rd0, %r5, 4, %rd0; st.global.u32 [%rd0], %r4; ret; }}"""
    emulation = launch(ptx, "k", blocks, threads, [np.zeros(blocks * threads, np.uint32)], **options)
    return {(found.kind, found.detail.rpartition(" block ")[2], found.remedy[:14]) for found in emulation.findings}


@pytest.mark.parametrize("schedule", [None, 1, 2])
@pytest.mark.parametrize("threads", [32, 64])
def test_a_cluster_that_meets_before_and_behind_is_clean(schedule, threads):
    assert kinds(FILL + SYNC + USE + SYNC, threads=threads, schedule=schedule) == set()


def test_arriving_behind_and_waiting_at_the_end_is_enough():
    assert kinds(FILL + SYNC + USE + "barrier.cluster.arrive; mov.u32 %r6, 1; barrier.cluster.wait;") == set()


@pytest.mark.parametrize("schedule", [None, 1, 2, 3])
def test_a_block_that_may_end_too_early_is_found_in_every_order(schedule):
    emulated = kinds(FILL + SYNC + USE, schedule=schedule)
    assert {kind for kind, *_ in emulated} == {"missing-cluster-sync"}
    assert all("cluster.sync()" in remedy for *_, remedy in emulated)


def test_only_those_that_wait_keep_their_memory():
    one_leaves = "@%p0 bra END;\n" + USE + "END:\n"
    assert {kind for kind, *_ in kinds(FILL + SYNC + one_leaves)} == {"missing-cluster-sync"}


def test_a_block_that_may_not_have_begun_is_found():
    found = kinds(USE + SYNC)
    assert "missing-cluster-sync" in {kind for kind, *_ in found}


def test_the_own_memory_needs_nobody():
    assert kinds(FILL + "mov.u32 %r2, %cluster_ctarank;\n" + USE) == set()


def test_a_race_between_blocks_of_a_cluster_names_what_would_order_it():
    found = kinds(SYNC + FILL + USE + SYNC)
    assert ("shared-race", "cluster.sync()") in {(kind, remedy) for kind, _, remedy in found}
