"""Which strong writes a thread has observed: threads 0 to 63 are of one block, those from 64 on of another."""

import numpy as np
import pytest

from lab.emulator.batch import make_batch
from lab.emulator.memory.cells import Cells
from lab.emulator.memory.clocks import BatchClocks, LaunchClocks
from lab.emulator.memory.observed import _LATEST
from lab.emulator.memory.order import CTA, PLAIN, VOLATILE, WIDE, Order
from lab.emulator.memory.races import CheckedAccess, Races

ATOMIC, BLOCK_ATOMIC, SHY = Order(WIDE), Order(CTA), Order(VOLATILE)


class Words:
    """Some words that threads of two blocks reach."""

    def __init__(self):
        self.clocks = BatchClocks(LaunchClocks(5, 64), make_batch((5, 1, 1), (64, 1, 1), 3, 2))
        self.races = Races(Cells(64, 1, 4), self.clocks, "global-race", own=False)

    def read(self, *threads, order=PLAIN, at=1):
        return self.races.read(self.side(threads, order, at))

    def write(self, *threads, order=PLAIN, at=1, update=False):
        return self.races.write(self.side(threads, order, at), lambda at: np.zeros(len(at), bool), update=update)[0]

    def update(self, *threads, order=ATOMIC, at=1, returns=True):
        found = self.write(*threads, order=order, at=at, update=True)
        if returns:
            self.races.observe(self.side(threads, order, at))
        return found

    @staticmethod
    def side(threads, order, at):
        return CheckedAccess(np.full((len(threads), 1), at), np.array(threads), order, 1)


@pytest.mark.parametrize("reset", ["read", "write"])
def test_who_observes_updates_comes_behind_them(reset):
    words = Words()
    words.update(0, returns=False)
    assert getattr(words, reset)(64)
    words = Words()
    words.update(0, returns=False)
    words.update(64)
    assert not getattr(words, reset)(64)
    assert getattr(words, reset)(65)  # another thread has observed nothing


@pytest.mark.parametrize("order", [ATOMIC, SHY])
def test_a_strong_read_observes_as_well(order):
    words = Words()
    words.write(0, order=ATOMIC)
    assert not words.read(64, order=order)
    assert not words.write(64)


def test_what_follows_the_observation_is_not_part_of_it():
    words = Words()
    words.update(64)
    words.update(0, returns=False)
    assert words.write(64)


def test_an_update_whose_value_nobody_gets_observes_nothing():
    words = Words()
    words.update(0, returns=False)
    words.update(64, returns=False)
    assert words.write(64)


def test_updates_of_one_instruction_observe_the_lanes_before_them():
    for thread, behind in ((64, True), (0, False)):
        words = Words()
        words.update(0, 64)
        assert bool(words.write(thread)) != behind


def test_nothing_is_learnt_of_another_place():
    words = Words()
    words.update(0, at=2, returns=False)
    words.update(0, at=1, returns=False)
    words.update(64, at=1)
    assert not words.write(64, at=1)
    assert words.write(64, at=2)


@pytest.mark.parametrize("order", [ATOMIC, PLAIN])
def test_a_store_ends_the_chain(order):
    words = Words()
    words.update(0, returns=False)
    words.write(1, order=order)
    words.update(64)
    assert words.write(64)


def test_a_scope_that_leaves_out_the_other_block():
    words = Words()
    words.update(0, order=BLOCK_ATOMIC, returns=False)
    words.read(64, order=ATOMIC)
    assert words.write(64)


def test_who_waits_for_the_observer_comes_behind_as_well():
    words = Words()
    words.update(0, returns=False)
    words.update(64)
    words.clocks.order_blocks(slice(64, 128), np.array([1]))
    assert not words.write(100)


def test_a_thread_goes_on_knowing_though_others_observe_later():
    words = Words()
    words.update(0, returns=False)
    words.read(64, order=ATOMIC)
    words.read(65, order=ATOMIC)
    assert not words.read(64)
    for at in range(2, 2 + _LATEST):  # it remembers its latest observations
        words.read(64, order=ATOMIC, at=at)
    assert words.read(64)


def test_accesses_of_several_cells():
    words = Words()
    both = np.array([[1, 2]])
    words.races.write(CheckedAccess(both, np.array([0]), ATOMIC, 1), lambda at: np.zeros(len(at), bool), update=True)
    words.races.read(CheckedAccess(both, np.array([64]), ATOMIC, 1))
    assert not words.write(64, at=1)
    assert not words.write(64, at=2)
