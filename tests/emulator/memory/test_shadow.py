"""Findings of the shadow memory."""

import numpy as np

from lab.emulator.batch import make_batch
from lab.emulator.memory.clocks import BatchClocks, LaunchClocks
from lab.emulator.memory.order import PLAIN
from lab.emulator.memory.shadow import Shadow, SharedShadow


def kinds(conflicts):
    return [conflict.kind for conflict in conflicts]


def test_a_buffer_is_readable_where_it_was_written():
    shadow = Shadow(16, initialised=False)
    shadow.write(np.array([0, 8]), 4)
    assert shadow.read(np.array([0, 8]), 4) == []
    (conflict,) = shadow.read(np.array([0, 5, 8]), 4)
    assert conflict.which.tolist() == [1]
    assert shadow.read(np.array([7]), 1)[0].kind == "uninitialised-read"


def test_an_output_with_contents_is_readable_but_not_written():
    shadow = Shadow(4, initialised=False, readable=True)
    assert shadow.read(np.array([0]), 4) == []
    assert not shadow.written.any()


def shared(row_bytes=16, threads=96):
    batch = make_batch((5, 1, 1), (threads, 1, 1), 3, 1)
    return SharedShadow(row_bytes, 1, 4, BatchClocks(LaunchClocks(5, threads), batch))


class Cell:
    """Accesses to one word of a block of three warps."""

    def __init__(self):
        self.shadow = shared()
        self.shadow.write(np.array([0, 4, 8, 12]), 4, np.zeros(4, np.int64), 0, never)
        self.barrier()

    def barrier(self):
        self.shadow.clocks.order_blocks(slice(None), np.array([0]))
        self.shadow.order_blocks(slice(None), slice(None))

    def read(self, thread, order=PLAIN):
        return kinds(self.shadow.read(np.array([4]), 4, np.array([thread]), 1, order))

    def write(self, thread, order=PLAIN, *, same=False, group=None):
        check = always if same else never
        return kinds(self.shadow.write(np.array([4]), 4, np.array([thread]), 2, check, order=order, group=group)[0])


def never(at):
    return np.zeros(len(at), bool)


def always(at):
    return np.ones(len(at), bool)


def test_unwritten_words():
    (conflict,) = shared(threads=32).read(np.array([0, 8]), 8, np.array([0, 1]), 1)
    assert (conflict.kind, sorted(set(conflict.which.tolist()))) == ("uninitialised-read", [0, 1])


def test_races_are_those_of_its_cells():
    cell = Cell()
    cell.write(7)
    (conflict,) = cell.shadow.read(np.array([0, 4]), 4, np.array([40, 41]), 3)
    assert (conflict.kind, conflict.which.tolist()) == ("shared-race", [1])
    cell.barrier()
    assert cell.read(41) == []
    assert cell.write(41) == []
    assert cell.write(3, same=True) == ["shared-race"]  # one value twice is no race, but thread 41 reads it


def test_asynchronous_writes_wait_for_their_group():
    cell = Cell()
    shadow, thread = cell.shadow, np.array([3])
    cell.write(3, group=np.array([2], np.int32))
    assert cell.read(3) == ["async-not-waited"]
    shadow.wait_groups(thread, np.array([1], np.int32))
    assert cell.read(3) == ["async-not-waited"]
    shadow.wait_groups(thread, np.array([2], np.int32))
    assert cell.read(3) == []
    assert "async-not-waited" in cell.read(40)  # not yet visible to others
    cell.barrier()
    assert cell.read(40) == []


def test_an_ordinary_write_replaces_a_pending_copy():
    cell = Cell()
    cell.write(3, group=np.array([1], np.int32))
    cell.write(3)
    assert cell.read(3) == []


def test_an_asynchronous_read_is_remembered_when_it_ends():
    batch = make_batch((5, 1, 1), (64, 1, 1), 3, 1)
    shadow = SharedShadow(16, 1, 4, BatchClocks(LaunchClocks(5, 64), batch), bulk=True)
    places = np.array([0, 4, 8, 12])
    shadow.write(places, 4, np.zeros(4, np.int64), 0, never)
    read = shadow.begin_async_read(np.array([[0]]), 16, np.array([0]), 1, description="wgmma", warp=True)
    assert read.cells.tolist() == [0, 1, 2, 3]
    meanwhile, _ = shadow.write(places[:1], 4, np.array([40]), 2, never)
    assert "async-not-waited" in kinds(meanwhile)
    assert shadow.cells.readers is None  # nothing to compare a write with that is told already
    shadow.end_async_read(read.cells, read.who, 1, warp=True)
    later, _ = shadow.write(places[1:2], 4, np.array([40]), 3, never)
    assert [(one.kind, one.other_kind) for one in later][-1] == ("shared-race", "read")


def test_a_race_is_told_by_the_threads_that_are_furthest_apart():
    shadow = shared()
    shadow.write(np.array([0, 4]), 4, np.array([0, 33]), 0, never)
    (race,) = shadow.read(np.array([0, 4]), 4, np.array([1, 2]), 1)
    assert "by warps of one block, with no barrier" in race.detail
    assert race.which.tolist() == [1, 0]
    assert race.other_thread.tolist() == [3 * 96 + 33, 3 * 96]


def test_bytes_that_nobody_wrote():
    shadow = shared()
    shadow.write(np.array([4]), 4, np.array([0]), 0, never)
    assert shadow.fresh(np.array([4]), 4).tolist() == [[False] * 4]
    found = shadow.fresh(np.array([0, 4]), 8)
    assert found.tolist() == [[True] * 4 + [False] * 4, [False] * 4 + [True] * 4]
    assert shadow.fresh(np.array([6]), 2).tolist() == [[False] * 2]
    assert [conflict.which.tolist() for conflict in shadow.unwritten(np.array([4, 8, 12]), 4)] == [[1, 2]]
    shadow.forget(np.array([4]), 4)
    assert shadow.fresh(np.array([4]), 4).all()


def copied(prepare):
    """Return the kinds of conflicts of a bulk copy by thread 5 over the first two of four cells."""
    batch = make_batch((5, 1, 1), (64, 1, 1), 3, 1)
    shadow = SharedShadow(16, 1, 4, BatchClocks(LaunchClocks(5, 64), batch), bulk=True)
    assert shadow.bulk is not None
    shadow.bulk.grow(1)
    prepare(shadow)
    found = shadow.copy_bulk(shadow.bulk, 0, 8, 5, 7, mbarrier=0, phase=0)
    assert not len(shadow.unwritten(np.array([0, 4]), 4))
    assert len(shadow.bulk.unseen(np.array([0, 1]), np.array([0, 0]))) == 2
    return sorted(kinds(found))


def write_by(thread, offset):
    return lambda shadow: shadow.write(np.array([offset]), 4, np.array([thread]), 1, never)


def read_by(thread, offset):
    read = np.array([[offset]])
    return lambda shadow: shadow.begin_async_read(read, 4, np.array([thread]), 1, description="bulk copy")


def test_conflicts_of_bulk_copies():
    assert copied(lambda shadow: None) == []
    assert copied(write_by(40, 0)) == ["missing-proxy-fence", "shared-race"]
    assert copied(write_by(5, 4)) == ["missing-proxy-fence"]
    assert copied(write_by(40, 8)) == []
    assert "async-not-waited" in copied(read_by(5, 4))
    assert copied(lambda shadow: shadow.bulk.note_copy(np.array([1]), 5, 6, 0, 0)) == ["async-not-waited"]
    assert copied(lambda shadow: shadow.bulk.mark(np.array([1]), live=True)) == ["mbarrier-misuse"]
