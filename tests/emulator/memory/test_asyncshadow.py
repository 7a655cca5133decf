"""TMA loads and stores and mbarriers in shared memory: two blocks of two warps, 16 cells each."""

import numpy as np

from lab.emulator.batch import make_batch
from lab.emulator.memory.asyncshadow import AsyncShadow
from lab.emulator.memory.cells import Cells
from lab.emulator.memory.clocks import BatchClocks, LaunchClocks
from lab.emulator.memory.order import PLAIN


def at(*numbers):
    return np.array(numbers, np.int64)


def fresh():
    cells = Cells(64, 2, 4)
    clocks = BatchClocks(LaunchClocks(5, 64), make_batch((5, 1, 1), (64, 1, 1), 3, 2))
    shadow = AsyncShadow(cells, clocks, 2)
    shadow.grow(2)
    return cells, clocks, shadow


def test_a_copy_is_unseen_until_its_phase_is_seen_complete():
    _, _, shadow = fresh()
    shadow.note_copy(at(3, 4), 5, 9, 1, 0)
    assert shadow.unseen(at(2, 3, 4), at(0, 0, 0)).tolist() == [1, 2]
    thread, instruction = shadow.copier(at(3))
    assert (thread.tolist(), instruction.tolist()) == ([3 * 64 + 5], [9])
    shadow.see(at(1), at(0), at(0), at(0))
    assert not len(shadow.unseen(at(3), at(0)))
    assert not len(shadow.unseen(at(3), at(31), warp=True))  # as part of a warp whose lane 0 has seen it
    assert len(shadow.unseen(at(3), at(31)))  # by itself, it has seen nothing
    assert len(shadow.unseen(at(3), at(32), warp=True))


def test_lanes_that_meet_share_what_they_have_seen():
    _, _, shadow = fresh()
    shadow.note_copy(at(3), 5, 9, 1, 0)
    shadow.see(at(1), at(0), at(0), at(0))
    lanes = np.arange(32)
    shadow.order_warps(lanes[:9], np.full(9, 0xFF, np.uint32))  # lane 8 meets lanes 0 to 7, which do not meet it
    assert len(shadow.unseen(at(3), at(9)))
    assert not len(shadow.unseen(at(3, 3), at(7, 8)))
    shadow.order_warps(lanes, np.full(32, 0xFFFFFFFF, np.uint32))
    assert not len(shadow.unseen(at(3), at(31)))


def test_copies_whose_phase_no_thread_has_seen_are_in_flight():
    _, _, shadow = fresh()
    shadow.note_copy(at(3, 4), 5, 9, 1, 0)
    shadow.note_copy(at(6), 7, 8, 0, 0)
    shadow.see(at(0), at(0), at(0), at(0))
    threads, instructions = shadow.in_flight(0)
    assert (threads.tolist(), instructions.tolist()) == ([5, 5], [9, 9])
    assert not len(shadow.in_flight(0)[0])  # told once


def test_a_wait_for_the_parity_before_teaches_nothing():
    _, _, shadow = fresh()
    shadow.note_copy(at(3), 5, 9, 1, 0)
    shadow.see(at(1), at(1), at(0), at(0))  # parity 1 is that of the phase before the first
    assert len(shadow.unseen(at(3), at(0)))


def test_barriers_share_what_threads_know():
    _, _, shadow = fresh()
    shadow.note_copy(at(3), 5, 9, 0, 0)
    shadow.see(at(0), at(0), at(0), at(0))
    shadow.order_blocks(at(1))
    assert len(shadow.unseen(at(3), at(40)))
    shadow.order_threads(at(0, 40))
    assert not len(shadow.unseen(at(3), at(40)))
    shadow.order_blocks(slice(None))
    assert shadow.seen[:, ::32].tolist() == [[1, 1, 0, 0], [0, 0, 0, 0]]


def test_arrivals_carry_what_a_thread_has_seen():
    _, _, shadow = fresh()
    shadow.note_copy(at(3), 5, 9, 0, 0)
    shadow.see(at(0), at(0), at(0), at(0))
    shadow.arrive(at(1), at(0), at(0))  # thread 0 arrives at mbarrier 1 ...
    shadow.see(at(1), at(0), at(40), at(0))  # ... whose phase thread 40 sees
    assert not len(shadow.unseen(at(3), at(40)))


def test_fences_cover_the_threads_and_what_barriers_ordered():
    cells, clocks, shadow = fresh()
    shadow.note_writers(at(1, 2, 3), at(0, 1, 2))
    cells.write.stamps[at(1, 2)] = clocks.stamps(at(0, 1), PLAIN)
    shadow.fence(at(0), at(0), mbarriers=False)
    assert shadow.unfenced(at(1, 2, 3)).tolist() == [1]  # thread 1 did not fence; cell 3 was ordered by a barrier
    assert shadow.writer_of(at(2)).tolist() == [1]
    shadow.fence(at(1), at(1), mbarriers=False)  # another block
    assert len(shadow.unfenced(at(2)))


def test_a_fence_of_mbarriers_leaves_other_memory():
    _, _, shadow = fresh()
    shadow.note_writers(at(1, 2), at(0, 0))
    shadow.mark(at(2), live=True)
    shadow.fence(at(0), at(0), mbarriers=True)
    assert shadow.unfenced(at(1, 2)).tolist() == [0]
    assert shadow.of_mbarriers(at(1, 2)).tolist() == [1]


def test_invalidated_mbarriers_retire_their_copies():
    _, _, shadow = fresh()
    shadow.note_copy(at(3), 5, 9, 0, 0)
    shadow.retire(0, 0, 0)
    assert len(shadow.unseen(at(3), at(0)))  # not seen complete: still a copy
    shadow.see(at(0), at(0), at(0), at(0))
    shadow.retire(0, 0, 0)
    shadow.forget(0, 0)
    assert not shadow.seen.any()
    assert not len(shadow.unseen(at(3), at(0)))


def test_the_last_thread_fences_what_it_wrote():
    cells, clocks, shadow = fresh()
    shadow.note_writers(at(20, 21), at(127, 126))
    cells.write.stamps[at(20, 21)] = clocks.stamps(at(127, 126), PLAIN)
    shadow.fence(at(127), at(1), mbarriers=False)
    assert shadow.unfenced(at(20, 21)).tolist() == [1]
    pending = np.zeros(cells.total, bool)
    pending[21] = True
    shadow.fence(at(126), at(1), mbarriers=False, pending=pending)
    assert shadow.unfenced(at(20, 21)).tolist() == [1]  # what is not written yet stays unfenced
    shadow.fence(at(126), at(1), mbarriers=False)
    assert not len(shadow.unfenced(at(20, 21)))


def test_a_fence_announces_mbarriers_and_nothing_else():
    cells, clocks, shadow = fresh()
    shadow.mark(at(2, 18), live=True)
    cells.write.stamps[at(18)] = clocks.stamps(at(64), PLAIN)
    shadow.fence(at(0), at(0, 1), mbarriers=True)
    assert shadow.announced(at(1, 2, 18)).tolist() == [False, True, False]  # thread 64 wrote the last one
    shadow.mark(at(2), live=True)
    assert not shadow.announced(at(2)).any()


def test_readers_are_counted_and_the_latest_one_is_named():
    _, _, shadow = fresh()
    shadow.begin_read(at(3, 3, 4), at(7, 8, 9), 11)
    assert shadow.reading[2:6].tolist() == [0, 2, 1, 0]
    thread, instruction = shadow.reader(at(3, 4))
    assert (thread.tolist(), instruction.tolist()) == ([192 + 8, 192 + 9], [11, 11])
    shadow.end_read(at(3, 4))
    assert shadow.reading[2:6].tolist() == [0, 1, 0, 0]


def test_arrivals_of_several_threads_are_told_apart_by_mbarrier_and_block():
    _, _, shadow = fresh()
    shadow.grow(3)
    shadow.note_copy(at(3), 5, 9, 0, 0)
    shadow.note_copy(at(20), 70, 9, 0, 0)
    shadow.see(at(0), at(0), at(0), at(0))
    shadow.see(at(0), at(0), at(64), at(1))
    shadow.arrive(at(1, 2, 1), at(0, 1, 65), at(0, 0, 1))  # thread 1 and thread 65 have seen nothing
    shadow.see(at(2, 1), at(0, 0), at(40, 100), at(0, 1))
    assert len(shadow.unseen(at(3), at(40)))
    assert len(shadow.unseen(at(20), at(100)))
    shadow.see(at(1), at(0), at(41), at(0))
    assert not len(shadow.unseen(at(3), at(41)))


def test_copies_in_flight_are_those_of_the_block():
    _, _, shadow = fresh()
    shadow.note_copy(at(15), 5, 8, 1, 0)
    shadow.await_copies(at(16, 31), 1, 1, 70, np.array([9, 10], np.int32))
    shadow.see(at(1), at(0), at(64), at(1))  # the phase before theirs
    threads, instructions = shadow.in_flight(1)
    assert (threads.tolist(), instructions.tolist()) == ([70, 70], [9, 10])
    assert [part.tolist() for part in shadow.in_flight(0)] == [[5], [8]]


def test_an_invalidated_mbarrier_retires_no_others_copies():
    _, _, shadow = fresh()
    shadow.note_copy(at(3), 5, 9, 0, 0)
    shadow.note_copy(at(4), 5, 9, 1, 0)
    shadow.note_copy(at(5), 5, 9, 0, 1)
    for mbarrier in (0, 1):
        shadow.see(at(mbarrier), at(0), at(0), at(0))
    shadow.retire(0, 0, 0)
    assert shadow.unseen(at(3, 4, 5), at(1, 1, 1)).tolist() == [1, 2]
