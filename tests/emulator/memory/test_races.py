"""Which pairs of accesses are races: one word, threads of two blocks of two warps."""

import numpy as np
import pytest

from lab.emulator.batch import make_batch
from lab.emulator.memory.cells import Cells
from lab.emulator.memory.clocks import BatchClocks, LaunchClocks
from lab.emulator.memory.order import CTA, DATA, PLAIN, VOLATILE, WIDE, Order
from lab.emulator.memory.races import CheckedAccess, Races

FIRST = 3 * 64  # thread of the batch, in the launch
ATOMIC, BLOCK_ATOMIC, SHY = Order(WIDE), Order(CTA), Order(VOLATILE)


class Word:
    """One word that threads 0 to 63 of the first block and 64 to 127 of the second reach."""

    def __init__(self, *, own=False):
        self.clocks = BatchClocks(LaunchClocks(5, 64), make_batch((5, 1, 1), (64, 1, 1), 3, 2))
        self.races = Races(Cells(16, 1, 4), self.clocks, "global-race", own=own)

    def side(self, threads, order, position=1):
        return CheckedAccess(np.full((len(threads), 1), 1), np.array(threads), order, position)

    def read(self, *threads, order=PLAIN):
        return self.races.read(self.side(threads, order))

    def write(self, *threads, order=PLAIN, same=False, update=False, position=2):
        side = self.side(threads, order, position)
        return self.races.write(side, lambda at: np.full(len(at), same), update=update)[0]

    def barrier(self, block=0):
        self.clocks.order_blocks(slice(64 * block, 64 * block + 64), np.array([block]))


@pytest.mark.parametrize(
    ("first", "second", "racy"),
    [
        (("write", 0), ("read", 40), True),
        (("read", 0), ("write", 40), True),
        (("write", 0), ("write", 40), True),
        (("write", 0), ("read", 31), True),  # another lane of the same warp
        (("write", 0), ("read", 0), False),
        (("read", 0), ("read", 40), False),
    ],
)
def test_accesses_of_one_block(first, second, racy):
    for own in (True, False):
        word = Word(own=own)
        getattr(word, first[0])(first[1])
        assert bool(getattr(word, second[0])(second[1])) == racy
        word = Word(own=own)
        getattr(word, first[0])(first[1])
        word.barrier()
        assert not getattr(word, second[0])(second[1])


def test_a_barrier_orders_no_other_block():
    word = Word()
    word.write(64)
    word.barrier(0)
    word.barrier(1)
    (conflict,) = word.read(0)
    assert conflict.other_thread is not None
    assert conflict.other_instruction is not None
    assert (conflict.which.tolist(), conflict.other_thread.tolist()) == ([0], [FIRST + 64])
    assert (conflict.other_instruction.tolist(), conflict.other_kind) == ([2], "write")
    assert "different blocks" in conflict.detail
    assert "acquire" in conflict.remedy


@pytest.mark.parametrize(
    ("first", "second", "racy"),
    [
        ((0, ATOMIC), (64, ATOMIC), False),
        ((0, BLOCK_ATOMIC), (40, BLOCK_ATOMIC), False),
        ((0, BLOCK_ATOMIC), (64, ATOMIC), True),  # its scope leaves the other block out
        ((0, PLAIN), (64, ATOMIC), True),
        ((0, ATOMIC), (64, PLAIN), True),
        ((0, SHY), (40, SHY), True),  # both write, and one update may be lost
        ((0, SHY), (64, ATOMIC), False),
    ],
)
def test_strong_writes(first, second, racy):
    word = Word()
    word.write(first[0], order=first[1])
    assert bool(word.write(second[0], order=second[1])) == racy


@pytest.mark.parametrize(
    ("reader", "writer", "racy"),
    [
        ((0, PLAIN), (64, ATOMIC), True),  # a plain guard before an atomic
        ((0, ATOMIC), (64, ATOMIC), False),
        ((0, ATOMIC), (64, PLAIN), True),
        ((0, SHY), (64, SHY), False),  # a flag
        ((0, DATA), (1, SHY), True),  # lanes that believe in lockstep
        ((0, DATA), (64, SHY), True),  # overwritten, with nothing between the two
        ((0, DATA), (64, ATOMIC), False),
    ],
)
def test_strong_reads(reader, writer, racy):
    word = Word()
    word.read(reader[0], order=reader[1])
    assert bool(word.write(writer[0], order=writer[1])) == racy
    word = Word()
    word.write(writer[0], order=writer[1])
    assert bool(word.read(reader[0], order=reader[1])) == racy


def test_one_value_written_twice_is_no_race_until_someone_reads_it():
    word = Word()
    word.write(0)
    side = word.side([64], PLAIN)
    assert word.races.write(side, lambda at: np.ones(len(at), bool)) == ([], True)
    assert word.read(0)


@pytest.mark.parametrize("readers", [(0, 40, 5), (40, 0, 5), (0, 1, 40), (64, 0, 1), (0, 70, 1), (1, 0, 64)])
def test_the_reader_that_is_far_away_is_remembered(readers):
    together, one_by_one = Word(), Word()
    together.read(*sorted(readers))
    for reader in readers:
        one_by_one.read(reader)
    for word in (together, one_by_one):
        word.clocks.order_warps(np.arange(32), np.full(32, 2**32 - 1, np.uint32))
        if max(readers) < 64:
            assert word.write(5)  # of a reader's warp, which has met
        word.barrier(0)
        assert bool(word.write(5)) == (max(readers) >= 64)


def test_blocks_that_update_at_once_with_too_narrow_a_scope():
    assert Word().write(0, 1, 40, order=BLOCK_ATOMIC, update=True) == []
    assert Word().write(0, 64, order=ATOMIC, update=True) == []
    assert Word().write(0, 64, order=BLOCK_ATOMIC, update=True)


def test_lanes_of_one_store():
    word = Word()
    side = CheckedAccess(np.array([[0], [1], [1], [2]]), np.arange(4), PLAIN, 1)
    offsets = np.array([0, 4, 4, 8])
    word.races.write(side, lambda at: np.zeros(len(at), bool))
    assert word.races.collisions(side, offsets, [np.array([1, 2, 2, 3], np.uint32)]) == (None, True)
    clash, _ = word.races.collisions(side, offsets, [np.array([1, 2, 5, 3], np.uint32)])
    assert clash is not None
    assert clash.other_thread is not None
    assert (clash.which.tolist(), clash.other_thread.tolist()) == ([2], [FIRST + 1])


def test_an_update_says_when_it_may_be_lost():
    word = Word()
    word.read(0)
    assert word.write(64, order=ATOMIC, update=True)[0].other_kind == "read"
    assert word.races.threads_of(word.races.cells.updating()[0].stamps[[1]]).tolist() == [FIRST + 64]


@pytest.mark.parametrize(("order", "words", "kind"), [(SHY, "volatile write", "write"), (ATOMIC, "atomic", "atomic")])
def test_the_other_side_of_a_race_is_called_what_it_is(order, words, kind):
    """A plain read races with a volatile store by another thread; the store is not reported as an atomic."""
    word = Word()
    assert not word.write(0, order=order)
    (conflict,) = word.read(40)
    assert conflict.detail.startswith(f"a read and an unordered {words} by ")
    assert conflict.other_kind == kind
    assert not word.read(0)


def test_lanes_that_store_different_words_do_not_collide():
    word = Word()
    side = CheckedAccess(np.array([[0, 1], [2, 3]]), np.array([5, 6]), PLAIN, 1)
    values = [np.array([1, 2], np.uint32), np.array([3, 4], np.uint32)]
    assert word.races.collisions(side, np.array([0, 8]), values) == (None, False)
    clash, alike = word.races.collisions(side, np.array([0, 0]), values)
    assert clash is not None
    assert (clash.kind, clash.which.tolist()) == ("global-race", [1])
    assert clash.other_thread is not None
    assert clash.other_thread.tolist() == [FIRST + 5]
    assert not alike
