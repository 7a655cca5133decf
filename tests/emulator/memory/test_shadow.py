"""What shadows find."""

import numpy as np
import pytest

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


class Cell:
    """Accesses to one word of a block of three warps."""

    def __init__(self, **options):
        self.shadow = SharedShadow(16, 1, 4, 96, **options)
        self.shadow.write(np.array([0, 4, 8, 12]), 4, np.zeros(4, np.int64), 0, never, strong=False)
        self.barrier()

    def barrier(self):
        self.shadow.order_blocks(slice(None), slice(None))

    def read(self, thread, *, strong=False):
        return kinds(self.shadow.read(np.array([4]), 4, np.array([thread]), 1, strong=strong))

    def write(self, thread, *, same=False, strong=False):
        check = always if same else never
        return kinds(self.shadow.write(np.array([4]), 4, np.array([thread]), 2, check, strong=strong))


def never(at):
    return np.zeros(len(at), bool)


def always(at):
    return np.ones(len(at), bool)


def test_unwritten_words():
    shadow = SharedShadow(16, 1, 4, 32)
    (conflict,) = shadow.read(np.array([0, 8]), 8, np.array([0, 1]), 1, strong=False)
    assert (conflict.kind, sorted(set(conflict.which.tolist()))) == ("uninitialised-read", [0, 1])


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (("write", 0), ("read", 40), ["shared-race"]),
        (("read", 0), ("write", 40), ["shared-race"]),
        (("write", 0), ("write", 40), ["shared-race"]),
        (("write", 0), ("read", 31), []),  # of the same warp
        (("read", 0), ("read", 40), []),
    ],
)
def test_races_between_warps(first, second, found):
    cell = Cell()
    getattr(cell, first[0])(first[1])
    assert getattr(cell, second[0])(second[1]) == found
    cell = Cell()
    getattr(cell, first[0])(first[1])
    cell.barrier()
    assert getattr(cell, second[0])(second[1]) == []


def test_the_same_value_written_twice_is_no_race():
    cell = Cell()
    cell.write(0)
    assert cell.write(40, same=True) == []


def test_atomics_race_with_ordinary_accesses_only():
    cell = Cell()
    cell.write(0, strong=True)
    assert cell.write(40, strong=True) == []
    assert cell.read(70) == ["shared-race"]


def test_a_reader_of_a_third_warp_is_remembered():
    cell = Cell()
    cell.read(0)
    cell.read(40)
    assert cell.write(5) == ["shared-race"]  # thread 40 read, although thread 0 is of the writer's warp


def test_the_other_side_of_a_race_is_named():
    cell = Cell()
    cell.write(7)
    (conflict,) = cell.shadow.read(np.array([0, 4]), 4, np.array([40, 41]), 3, strong=False)
    assert conflict.which.tolist() == [1]
    assert (conflict.other_thread.tolist(), conflict.other_instruction.tolist()) == ([7], [2])
    assert conflict.other_kind == "write"


def test_lanes_that_write_different_values_to_one_place():
    offsets, threads = np.array([0, 4, 4, 8]), np.arange(4)
    same = SharedShadow.collisions(offsets, threads, [np.array([1, 2, 2, 3], np.uint32)])
    assert same is None
    clash = SharedShadow.collisions(offsets, threads, [np.array([1, 2, 5, 3], np.uint32)])
    assert (clash.which.tolist(), clash.other_thread.tolist()) == ([2], [1])


def test_asynchronous_writes_wait_for_their_group():
    cell = Cell()
    shadow, thread = cell.shadow, np.array([3])
    shadow.write(np.array([4]), 4, thread, 5, never, strong=False, group=np.array([2], np.int32))
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
    cell.shadow.write(np.array([4]), 4, np.array([3]), 5, never, strong=False, group=np.array([1], np.int32))
    cell.write(3)
    assert cell.read(3) == []
