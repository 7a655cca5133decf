"""The time that is left, by a clock that the test sets."""

from __future__ import annotations

import pytest
from live_support import Clock

from lab.cli.live.pace import WINDOW, WorkPace


@pytest.fixture
def clock():
    return Clock()


def test_nothing_is_known_before_the_first_piece_and_after_the_last(clock):
    pace = WorkPace(clock)
    assert pace.left_s(5) is None
    pace.add()
    assert pace.left_s(0) is None


def test_the_rest_takes_as_long_a_piece_as_what_is_finished(clock):
    pace = WorkPace(clock)
    for now in (2.0, 4.0, 6.0):
        clock.now = now
        pace.add()
    assert pace.left_s(10) == pytest.approx(20)


def test_it_grows_while_nothing_is_finished(clock):
    pace = WorkPace(clock)
    clock.now = 1.0
    pace.add()
    clock.now = 9.0
    assert pace.left_s(1) == pytest.approx(9)


def test_only_the_last_pieces_count(clock):
    pace = WorkPace(clock)
    for _ in range(WINDOW):
        clock.now += 100
        pace.add()
    for _ in range(WINDOW):
        clock.now += 1
        pace.add()
    assert pace.left_s(3) == pytest.approx(3)
    assert pace.counted == WINDOW


def test_what_was_before_the_beginning_does_not_count(clock):
    pace = WorkPace(clock)
    clock.now = 50
    pace.add()
    pace.begin()
    assert pace.left_s(1) is None
    clock.now = 53
    pace.add()
    assert pace.left_s(2) == pytest.approx(6)
