from __future__ import annotations

import threading
from functools import partial
from unittest import mock

import pytest

from lab.base.errors import StoreError
from lab.store.writer import MOST_PENDING, Writer


def test_work_is_done_in_order_on_another_thread_and_all_of_it_before_the_end():
    executed: list[tuple[int, int]] = []

    def note(number):
        executed.append((number, threading.get_ident()))

    with Writer() as writer:
        for number in range(3 * MOST_PENDING):
            writer.do(note, number)
    assert [number for number, _ in executed] == list(range(3 * MOST_PENDING))
    assert threading.get_ident() not in {thread for _, thread in executed}


def wait(event):
    event.wait()


def fail():
    raise StoreError("the disk is full")


def test_what_fails_is_told_and_nothing_behind_it_is_done():
    executed: list[int] = []

    def go_on():
        with Writer() as writer:
            writer.do(fail)
            while True:
                writer.do(executed.append, 1)

    with pytest.raises(StoreError, match="the disk is full"):
        go_on()
    assert not executed


def test_what_stood_in_the_queue_behind_a_failure_is_not_done():
    """The failure happens while later pieces wait already, so that `do` could not refuse them."""
    executed, free = list[int](), threading.Event()

    def fail_later():
        free.wait()
        fail()

    def fill_the_queue():
        with Writer() as writer:
            writer.do(fail_later)
            for number in range(MOST_PENDING - 1):
                writer.do(executed.append, number)
            free.set()

    with pytest.raises(StoreError, match="the disk is full"):
        fill_the_queue()
    assert not executed


def test_the_last_piece_is_heard_of_too():
    with pytest.raises(StoreError, match="the disk is full"), Writer() as writer:
        writer.do(fail)


def test_an_interruption_waits_for_what_was_given():
    executed, leaving = list[int](), threading.Event()

    def let_go(**how):
        leaving.set()
        end(**how)

    writer = Writer().__enter__()
    writer.do(wait, leaving)
    writer.do(executed.append, 1)
    end = writer._thread.shutdown
    with mock.patch.object(writer._thread, "shutdown", let_go):
        writer.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert executed == [1]


def nothing():
    pass


def signalled(event, call):
    event.set()
    return call()


def test_a_queue_that_is_full_waits():
    free, waits = threading.Event(), threading.Event()
    with Writer() as writer:
        writer.do(wait, free)
        for _ in range(MOST_PENDING - 1):
            writer.do(nothing)
        oldest = writer._pending[0]
        with mock.patch.object(oldest, "result", side_effect=partial(signalled, waits, oldest.result)):
            blocked = threading.Thread(target=writer.do, args=(nothing,))
            blocked.start()
            assert waits.wait(60)  # for room in the queue
            assert len(writer._pending) == MOST_PENDING - 1  # and adds nothing before there is some
            free.set()
            blocked.join(60)
        assert not blocked.is_alive()
        assert len(writer._pending) <= MOST_PENDING
