"""Shuffles, votes, matches and reductions, with lanes missing."""

import numpy as np
import pytest
from small_ptx import execute

from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.lanes import Lanes
from lab.emulator.operations.warp import as_mask, by_warp, company, pick

LANE = np.arange(32, dtype=np.uint32)


def test_masks_have_lane_0_in_the_lowest_bit():
    bits = np.zeros((2, 32), bool)
    bits[0, 0] = bits[1, 31] = True
    assert as_mask(bits).tolist() == [1, 2**31]


def test_values_of_chosen_threads_by_warp_and_back():
    lanes = Lanes(64, np.array([1, 40]))
    spread = by_warp(lanes, np.array([7, 9], np.uint32))
    assert (spread.shape, spread[0, 1], spread[1, 8], spread.sum()) == ((2, 32), 7, 9, 16)
    assert pick(lanes, spread).tolist() == [7, 9]


def test_company_leaves_out_absent_lanes():
    lanes = Lanes(32, np.array([0, 2]))
    together = company(lanes, np.array([0b111], np.uint32))
    assert np.flatnonzero(together[0, 0]).tolist() == [0, 2]
    assert not together[0, 1].any()


@pytest.mark.parametrize(
    ("mode", "b", "c", "wanted", "hit"),
    [
        ("up", 3, 0, np.where(LANE >= 3, LANE - 3, LANE), LANE >= 3),
        ("down", 30, 31, np.where(LANE < 2, LANE + 30, LANE), LANE < 2),
        ("bfly", 31, 31, LANE ^ 31, LANE >= 0),
        ("idx", 33, 31, np.full(32, 1), LANE >= 0),  # lane numbers are taken modulo 32
        ("idx", 5, 0x1807, LANE // 8 * 8 + 5, LANE >= 0),  # segments of 8 lanes
        ("down", 4, 0x1807, np.where(LANE % 8 < 4, LANE + 4, LANE), LANE % 8 < 4),
    ],
)
def test_shuffles(mode, b, c, wanted, hit):
    body = f"shfl.sync.{mode}.b32 %o0|%p0, %i0, {b}, {c}, -1; selp.u32 %o1, 1, 0, %p0;"
    emulation, found = execute(body, LANE + np.uint32(100), outputs=2)
    assert emulation.clean
    np.testing.assert_array_equal(found[0], 100 + wanted)
    np.testing.assert_array_equal(found[1], hit)


def test_votes_in_a_partial_warp():
    body = """
    setp.ge.u32 %p0, %i0, 2; mov.b32 %o0, 0; mov.b32 %o1, 0; mov.b32 %o2, 0;
    activemask.b32 %r0; vote.sync.ballot.b32 %o0, %p0, %r0; vote.sync.all.pred %p1, %p0, %r0;
    vote.sync.uni.pred %p2, %p0, %r0; vote.sync.any.pred %p3, !%p0, %r0;
    selp.u32 %o1, 1, 0, %p1; selp.u32 %o2, 1, 0, %p2; selp.u32 %o3, 1, 0, %p3;
    """
    emulation, (ballot, every, same, some) = execute(body, np.arange(37, dtype=np.uint32), outputs=4)
    assert emulation.clean
    assert ballot[:32].tolist() == [0xFFFFFFFC] * 32
    assert ballot[32:].tolist() == [0x1F] * 5
    np.testing.assert_array_equal(every, [0] * 32 + [1] * 5)
    np.testing.assert_array_equal(same, every)
    np.testing.assert_array_equal(some, 1 - every)


def test_matches():
    x = np.array([5, 6] * 16, np.uint32)
    body = "match.any.sync.b32 %o0, %i0, -1; match.all.sync.b32 %o1|%p0, %i0, -1; match.all.sync.b32 %o2, 3, -1;"
    _, found = execute(body, x, outputs=3)
    np.testing.assert_array_equal(found[0], np.where(x == 5, 0x55555555, 0xAAAAAAAA))
    assert not found[1].any()
    np.testing.assert_array_equal(found[2], 2**32 - 1)


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ("add.s32", -16),
        ("min.s32", -16),
        ("max.s32", 15),
        ("min.u32", 0),
        ("or.b32", -1),
        ("and.b32", 0),
        ("xor.b32", 0),
    ],
)
def test_reductions(operation, wanted):
    x = (np.arange(32) - 16).astype(np.int32)
    _, found = execute(f"redux.sync.{operation} %o0, %i0, -1;", x)
    np.testing.assert_array_equal(found.view(np.int32), wanted)


NAN = 0x7FC01234  # not the canonical one
ZEROS = np.where(LANE % 2, 0x80000000, 0).astype(np.uint32)
MIXED = np.linspace(-4, 3, 32, dtype=np.float32).view(np.uint32)
WITH_NAN = np.where(LANE == 5, np.uint32(NAN), MIXED)


@pytest.mark.parametrize(
    ("operation", "values", "wanted"),
    [
        ("min", MIXED, np.float32(-4)),
        ("max", MIXED, np.float32(3)),
        ("max.abs", MIXED, np.float32(4)),
        ("min.abs", MIXED, np.abs(MIXED.view(np.float32)).min()),
        ("min", ZEROS, np.float32(-0.0)),
        ("max", ZEROS, np.float32(0.0)),
        ("min.abs", ZEROS, np.float32(0.0)),
        ("min", WITH_NAN, np.float32(-4)),
        ("max", WITH_NAN, np.float32(3)),
        ("min.NaN", WITH_NAN, np.uint32(0x7FFFFFFF)),
        ("max.abs.NaN", WITH_NAN, np.uint32(0x7FFFFFFF)),
        ("max.NaN", MIXED, np.float32(3)),
        ("max", np.full(32, NAN, np.uint32), np.uint32(0x7FFFFFFF)),
        ("max", np.full(32, 0xFF800000, np.uint32), np.float32(-np.inf)),
    ],
)
def test_reductions_of_floats(operation, values, wanted):
    emulation, found = execute(f"redux.sync.{operation}.f32 %o0, %i0, -1;", values)
    assert emulation.clean
    np.testing.assert_array_equal(found, np.asarray(wanted).view(np.uint32))


def test_a_reduction_of_floats_takes_the_lanes_of_its_mask():
    body = """setp.ge.u32 %p1, %i0, 0x80000000; mov.u32 %o0, 0; @!%p1 bra END;
    redux.sync.max.f32 %o0, %i0, 0x0007ffff;\nEND:\n"""
    values = np.where(LANE < 19, -1.0 - LANE, LANE).astype(np.float32).view(np.uint32)
    _, found = execute(body, values)
    np.testing.assert_array_equal(found.view(np.float32), np.where(LANE < 19, -1.0, 0))


def test_the_lowest_lane_of_the_mask_is_elected():
    body = """setp.ge.u32 %p1, %i0, 6; mov.u32 %o0, 99; mov.u32 %o1, 99; @!%p1 bra END;
    elect.sync %o0|%p0, 0xFFFFFFC0; selp.u32 %o1, 1, 0, %p0;\nEND:\n"""
    emulation, (leader, leads) = execute(body, LANE, outputs=2)
    assert emulation.clean
    np.testing.assert_array_equal(leader, np.where(LANE >= 6, 6, 99))
    np.testing.assert_array_equal(leads, np.where(LANE >= 6, LANE == 6, 99))


@pytest.mark.parametrize(
    "instruction",
    [
        "bar.warp.arrive 0;",
        "redux.sync.add.f32 %r0, %r1, -1;",
        "redux.sync.max.abs.u32 %r0, %r1, -1;",
        "shfl.sync.ring.b32 %r0, %r1, 1, 2, -1;",
    ],
)
def test_unknown_forms(instruction):
    with pytest.raises(UnsupportedInstruction):
        execute(instruction)


@pytest.mark.parametrize(
    ("lane", "mask", "detail"),
    [
        ("%r1", "0x0000ffff", None),
        ("16", "0x0000ffff", "lane 0 reads lane 16, which is not in its mask 0x0000ffff"),
        ("%r1", "0x0000fffe", "these lanes are not in their own member mask (lane 0, mask 0x0000fffe)"),
    ],
)
def test_shuffles_outside_of_their_mask(lane, mask, detail):
    body = f"and.b32 %r1, %r63, 7; shfl.sync.idx.b32 %o0, %r63, {lane}, 31, {mask};"
    for options in ({}, {"check": False}, {"engine": "compiled"}):
        emulation, _ = execute(body, block=16, **options)
        assert [finding.detail.partition(", and")[0] for finding in emulation.findings] == ([detail] if detail else [])


def test_what_nobody_uses_of_a_lane_outside_of_the_mask():
    """Lanes that are active together reduce, and leave out what they read beyond them."""
    body = """setp.ge.u32 %p0, %r63, 12; @%p0 exit; activemask.b32 %r1; shfl.sync.down.b32 %r2, %r63, 8, 31, %r1;
    add.u32 %r3, %r63, 8; setp.lt.u32 %p1, %r3, 12; selp.b32 %o0, %r2, 0, %p1;"""
    emulation, out = execute(body)
    assert emulation.clean
    assert out[:4].tolist() == [8, 9, 10, 11]
    assert not execute(body.replace("%r3, 12", "%r3, 13"))[0].clean


@pytest.mark.parametrize(
    "instruction",
    [
        "vote.sync.ballot.b32 %o0, %p0, MASK;",
        "match.any.sync.b32 %o0, %r63, MASK;",
        "redux.sync.add.u32 %o0, %r63, MASK;",
        "elect.sync %o0|%p1, MASK;",
    ],
)
@pytest.mark.parametrize(("mask", "kinds"), [("0x0000ffff", set()), ("0x0000fffe", {"warp-divergence"})])
@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_lanes_that_their_own_mask_leaves_out(instruction, mask, kinds, engine):
    body = "setp.ge.u32 %p0, %r63, 3;" + instruction.replace("MASK", mask)
    emulation, _ = execute(body, block=16, engine=engine)
    assert {finding.kind for finding in emulation.findings} == kinds


DOWN = "shfl.sync.down.b32 %r1, %r63, 8, 31, -1;"
SHARED = ".shared .align 4 .b32 s[32];"
SAVE = """mov.u32 %r2, s; shl.b32 %r3, %r63, 2; add.u32 %r2, %r2, %r3; st.shared.b32 [%r2], %r1; bar.sync 0;
    ld.shared.b32 %o0, [%r2];"""
TWICE = """mov.u32 %r2, %r63; shfl.sync.down.b32 %r2, %r2, 8, 31, -1; shfl.sync.down.b32 %r2, %r2, 1, 31, -1;
    setp.eq.u32 %p1, %r63, 7; selp.b32 %o0, %r2, 0, %p1;"""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"{DOWN} mov.u32 %o0, %r1;", "lane 8 reads lane 16, which the block does not have"),
        (f"{DOWN} add.u32 %o0, %r1, %r63;", "lane 8 reads lane 16, which the block does not have"),
        (f"{DOWN} setp.lt.u32 %p1, %r63, 8; mov.u32 %o0, 1; @%p1 mov.u32 %o0, %r1;", None),  # nobody uses it
        (f"{DOWN} setp.lt.u32 %p1, %r63, 8; selp.b32 %o0, %r1, 7, %p1;", None),
        ("shfl.sync.down.b32 %o0, %r63, 8, 15, -1;", None),  # the clamp gives lanes their own value back
        (f"{DOWN} {SAVE}", "lane 8 reads lane 16, which the block does not have"),
        (f"{DOWN} setp.eq.u32 %p2, %r1, 5; mov.u32 %o0, 1; @%p2 mov.u32 %o0, 2;", "lane 8 reads lane 16"),
        (TWICE, "lane 8 reads lane 16"),  # by way of lane 8
    ],
)
@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_shuffles_read_lanes_that_are_not_there(body, words, engine):
    emulation, _ = execute(body, block=16, declarations=SHARED, engine=engine)
    assert [(finding.kind, finding.text.split(".")[0]) for finding in emulation.findings] == (
        [("warp-divergence", "shfl")] if words else []
    )
    assert all(words in finding.detail for finding in emulation.findings)


def test_shuffles_read_lanes_that_have_exited():
    body = f"setp.ge.u32 %p1, %r63, 12; @%p1 exit; {DOWN} mov.u32 %o0, %r1;"
    emulation, _ = execute(body)
    (finding,) = emulation.findings
    assert (finding.kind, finding.count) == ("warp-divergence", 8)
    assert "lane 4 reads lane 12, which has exited" in finding.detail
    assert execute(body, check=False)[0].clean
