"""Arrivals that may count in the phase before; whole kernels are in tests/wholes/test_async_faults.py."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lab.emulator.waiting.arrivals import ArrivalTurns

FIRST = 1 << 35


class Clocks:
    """Threads that know of what each other did as far as `known` says: (thread, other)."""

    def __init__(self):
        self.known = set()

    def stamps(self, who, _order):
        return FIRST + 1 + np.asarray(who)

    def unordered(self, stamps, who):
        pairs = zip((stamps - FIRST - 1).tolist(), who.tolist(), strict=True)
        return np.flatnonzero([other != one and (one, other) not in self.known for other, one in pairs])


@pytest.fixture
def turns():
    batch: Any = SimpleNamespace(threads=4, blocks=1, block_of=np.zeros(4, np.int64))
    bulk: Any = SimpleNamespace(seen=np.zeros((2, 4), np.int64))
    clocks: Any = Clocks()
    made: Any = ArrivalTurns(batch, clocks, bulk)
    made.grow(2)
    return made


def test_nothing_comes_before_the_first_phase(turns):
    assert turns.arrive(0, 0, 0, np.arange(4)).tolist() == []


def test_a_thread_that_knows_the_phase_before_to_be_complete_is_in_its_own(turns):
    turns.arrive(0, 0, 0, np.arange(3))
    turns.complete(0, 0)
    turns._bulk.seen[0, :2] = 1
    assert turns.arrive(0, 0, 1, np.arange(4)).tolist() == [2, 3]


def test_a_thread_that_comes_behind_all_arrivals_is_in_its_own_where_no_bytes_are_awaited(turns):
    turns.arrive(0, 0, 0, np.arange(3))
    turns.complete(0, 0)
    turns._clocks.known = {(3, 0), (3, 1)}
    assert turns.arrive(0, 0, 1, np.array([3])).tolist() == [3]
    turns._clocks.known.add((3, 2))
    assert turns.arrive(0, 0, 1, np.array([3])).tolist() == []
    turns.expect(7, 0, 0, np.zeros(0, np.int64))
    turns.complete(0, 0)
    assert turns.arrive(0, 0, 2, np.array([3])).tolist() == [3]


def test_bytes_that_are_announced_without_an_arrival_are_told_once(turns):
    turns.expect(7, 1, 0, np.array([2]))
    assert turns.complete(0, 0) is None
    assert turns.complete(1, 0) == [(7, 2, FIRST + 3)]
    assert turns.complete(1, 0) is None
    turns.expect(7, 1, 0, np.array([2]))
    turns.forget(1, 0)
    assert turns.complete(1, 0) is None
