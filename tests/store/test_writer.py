from __future__ import annotations

import threading

import pytest

from lab.base.errors import StoreError
from lab.store.writer import MOST_PENDING, Writer


def test_work_is_done_in_order_on_another_thread_and_all_of_it_before_the_end():
    done = []
    with Writer() as writer:
        for number in range(3 * MOST_PENDING):
            writer.do(lambda number=number: done.append((number, threading.get_ident())))
    assert [number for number, _ in done] == list(range(3 * MOST_PENDING))
    assert threading.get_ident() not in {thread for _, thread in done}


def fail():
    raise StoreError("the disk is full")


def test_what_fails_is_told_and_nothing_behind_it_is_done():
    done = []

    def go_on():
        with Writer() as writer:
            writer.do(fail)
            while True:
                writer.do(done.append, 1)

    with pytest.raises(StoreError, match="the disk is full"):
        go_on()
    assert not done


def test_the_last_piece_is_heard_of_too():
    with pytest.raises(StoreError, match="the disk is full"), Writer() as writer:
        writer.do(fail)


def interrupted(done, free):
    with Writer() as writer:
        writer.do(free.wait, 10)
        writer.do(done.append, 1)
        threading.Timer(0.05, free.set).start()
        raise KeyboardInterrupt


def test_an_interruption_waits_for_what_was_given():
    done = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(done, threading.Event())
    assert done == [1]


def test_a_queue_that_is_full_waits():
    free, started = threading.Event(), threading.Event()
    with Writer() as writer:
        writer.do(free.wait, 10)
        for _ in range(MOST_PENDING - 1):
            writer.do(int)
        blocked = threading.Thread(target=lambda: (started.set(), writer.do(int)))
        blocked.start()
        started.wait(10)
        blocked.join(0.05)
        assert blocked.is_alive()
        free.set()
        blocked.join(10)
        assert not blocked.is_alive()
