"""Chosen threads of a batch."""

import numpy as np
import pytest

from lab.emulator.lanes import Lanes, warp_of

ALL = Lanes(64)
SOME = Lanes(64, np.array([1, 31, 32, 63]))
VALUES = np.arange(64, dtype=np.float32) * 10


def test_all_threads_are_not_copied():
    assert ALL.select(VALUES) is VALUES
    assert ALL.spread(VALUES) is VALUES
    assert ALL.take(np.arange(64)).whole
    assert (ALL.count, ALL.warps, ALL.present().sum()) == (64, 2, 64)
    np.testing.assert_array_equal(ALL.indices(), np.arange(64))


def test_chosen_threads_are_gathered_and_scattered():
    assert SOME.select(VALUES).tolist() == [10, 310, 320, 630]
    spread = SOME.spread(np.array([1, 2, 3, 4], np.uint32))
    assert spread.dtype == np.uint32
    assert (spread.sum(), spread[31]) == (10, 2)
    target = np.zeros(64)
    target[SOME.rows] = 1
    np.testing.assert_array_equal(target.astype(bool), SOME.present())


def test_values_of_some_threads_are_spread_over_all():
    values = np.array([5, 6], np.uint16)
    assert Lanes(2).spread(values) is values
    found = Lanes(4, np.array([0, 3])).spread(values)
    assert found.tolist() == [5, 0, 0, 6]
    assert found.dtype == np.uint16


def test_one_value_fills_all_places():
    assert SOME.fill(np.array([7])).tolist() == [7, 7, 7, 7]
    assert SOME.fill(np.array([1, 2, 3, 4])).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("mask", "hit", "rest"),
    [([1, 0, 0, 1], [1, 63], [31, 32]), ([1, 1, 1, 1], [1, 31, 32, 63], []), ([0, 0, 0, 0], [], [1, 31, 32, 63])],
)
def test_split_is_relative_to_the_chosen(mask, hit, rest):
    taken, others = SOME.split(np.array(mask, bool))
    assert (taken.indices().tolist(), others.indices().tolist()) == (hit, rest)
    assert (taken.count, others.count) == (len(hit), len(rest))


def test_split_of_all():
    even, odd = ALL.split(np.arange(64) % 2 == 0)
    assert (even.indices()[3], odd.indices()[3]) == (6, 7)
    assert Lanes.union([odd, even]).whole


def test_positions_are_those_among_the_chosen():
    assert SOME.take(np.array([1, 2])).indices().tolist() == [31, 32]
    assert SOME.among(Lanes(4)) is SOME
    assert SOME.among(Lanes(4, np.array([0, 3]))).indices().tolist() == [1, 63]
    assert ALL.among(Lanes(64, np.array([5]))).indices().tolist() == [5]


def test_same_threads():
    assert SOME.same(Lanes(64, np.array([1, 31, 32, 63])))
    assert not SOME.same(Lanes(64, np.array([1, 31, 32])))
    assert not SOME.same(ALL)
    assert ALL.same(Lanes(64, np.arange(64)))


@pytest.mark.parametrize(("threads", "warps"), [([], 0), ([5], 1), ([0, 31], 1), ([31, 32], 2), ([0, 33, 34, 63], 2)])
def test_warps(threads, warps):
    assert Lanes(64, np.array(threads, np.int64)).warps == warps


def test_warp_of_keeps_the_dtype_and_knows_nobody():
    found = warp_of(np.array([-1, 0, 31, 32], np.int32))
    assert found.tolist() == [-1, 0, 0, 1]
    assert found.dtype == np.int32


def test_threads_are_left_out():
    assert SOME.without(Lanes(64, np.array([31, 63]))).indices().tolist() == [1, 32]
    assert SOME.without(Lanes(64, np.zeros(0, np.int64))) is SOME
    assert ALL.without(SOME).count == 60


def test_the_difference_is_in_ascending_order():
    assert ALL.without(Lanes(64, np.arange(1, 63))).indices().tolist() == [0, 63]
    assert SOME.without(Lanes(64, np.array([31, 63]))).indices().tolist() == [1, 32]
    assert SOME.without(Lanes(64, np.array([], np.int64))) is SOME
