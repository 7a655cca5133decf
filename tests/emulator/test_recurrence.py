"""Cycles of states."""

import pytest

from lab.emulator.recurrence import Recurrence


@pytest.mark.parametrize("before", [0, 1, 5, 100])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 64])
def test_a_cycle_is_found_within_some_times_its_length(before, length):
    states, seen = Recurrence(), 0
    while not states.comes_back(str(seen if seen < before else before + (seen - before) % length).encode()):
        seen += 1
        assert seen < 3 * (before + length)
    assert seen >= before + length


def test_what_never_comes_back_is_no_cycle():
    states = Recurrence()
    assert not any(states.comes_back(str(i).encode()) for i in range(1000))
