"""Groups of threads that can run."""

import numpy as np
import pytest

from lab.emulator.batch import make_batch
from lab.emulator.lanes import Lanes
from lab.emulator.pool import Caller, Pool, living

BATCH = make_batch((5, 1, 1), (40, 1, 1), 3, 2)


def lanes(*threads):
    return Lanes(BATCH.threads, np.array(threads, np.int64))


def pool(left=None, ranks=(2, 0, 1, 3)):
    return Pool(BATCH, ranks, lambda stack, gone: left.append((stack, gone.indices().tolist())))


def test_the_group_of_the_lowest_rank_runs_first():
    ready_pool = pool()
    ready_pool.arrive(((), 0), lanes(0))
    ready_pool.arrive(((), 1), lanes(1))
    ready_pool.arrive(((), 2), lanes(2))
    assert [ready_pool.take()[0][1] for _ in range(3)] == [1, 2, 0]
    assert not ready_pool


def test_threads_of_a_callee_run_before_the_return_and_after_what_precedes_it():
    ready_pool = pool()
    ready_pool.arrive(((), 3), lanes(0))
    ready_pool.arrive(((Caller(3, 0, 1),), 1), lanes(1))  # called from before block 3
    ready_pool.arrive(((), 0), lanes(2))
    assert [ready_pool.take()[0] for _ in range(3)] == [((), 0), ((Caller(3, 0, 1),), 1), ((), 3)]


def test_threads_join_those_that_are_ready_or_parked():
    ready_pool = pool()
    ready_pool.arrive(((), 1), lanes(7, 9))
    ready_pool.park(((), 1), lanes(2))
    ready_pool.arrive(((), 1), lanes(8))
    assert ready_pool.take()[1].indices().tolist() == [2, 7, 8, 9]
    assert not ready_pool.unpark()


def test_warps_that_dice_set_apart_meet_where_they_are_parked():
    batch = make_batch((1, 1, 1), (256, 1, 1), 0, 1)
    ready_pool = Pool(batch, (0,), lambda stack, gone: None, np.random.default_rng(3))
    ready_pool.arrive(((), 0), Lanes(batch.threads, np.arange(256)))
    turns = 0
    while ready_pool:
        at, taken = ready_pool.take()
        turns += 1
        if taken.count < batch.threads:
            ready_pool.park(at, taken)
    assert taken.count == batch.threads
    assert turns > 2


def test_a_parked_group_runs_when_it_is_unparked():
    ready_pool = pool()
    ready_pool.park(((), 0), lanes(1))
    ready_pool.park(((), 2), lanes(2))
    assert not ready_pool
    assert ready_pool.unpark() == ((), 2)
    assert ready_pool.take()[0] == ((), 2)


@pytest.mark.parametrize("seed", range(4))
def test_an_unparked_group_runs_next_and_whole_in_any_order(seed):
    batch = make_batch((1, 1, 1), (256, 1, 1), 0, 1)
    ready_pool = Pool(batch, (0, 1), lambda stack, gone: None, np.random.default_rng(seed))
    ready_pool.arrive(((), 0), Lanes(batch.threads, np.arange(128)))
    ready_pool.park(((), 1), Lanes(batch.threads, np.arange(128, 256)))
    assert ready_pool.unpark() == ((), 1)
    at, taken = ready_pool.take()
    assert (at, taken.count) == (((), 1), 128)


def test_the_end_of_a_function_is_left_at_once():
    left: list[tuple[tuple[Caller, ...], list[int]]] = []
    ready_pool = pool(left)
    ready_pool.arrive(((Caller(4, 0, 1),), -1), lanes(3, 5))
    ready_pool.arrive(((), -1), lanes())
    assert left == [((Caller(4, 0, 1),), [3, 5])]
    assert not ready_pool


def test_living_threads_of_each_block():
    ready_pool = pool()
    ready_pool.end(np.array([0, 1, 70]))
    assert living(BATCH, ready_pool).tolist() == [38, 39]
    assert BATCH.exists.sum() == 80  # the batch does not change
