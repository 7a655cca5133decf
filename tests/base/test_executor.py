"""Work in processes of this machine: results, and the errors of work that does not end well."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import sys
import threading
import time
import traceback

import pytest

from lab.base import workers
from lab.base.executor import ProcessExecutor, WorkerLostError


def double(value):
    return 2 * value


def fail():
    raise ValueError("not today")


def use_up_the_memory():
    raise MemoryError


def hang():
    threading.Event().wait()


def open_and_hang(fifo):
    with fifo.open("w"):
        hang()


def end_by(number):
    os.kill(os.getpid(), number)


def end_with(code):
    os._exit(code)


def want_to_end():
    sys.exit(0)


def close_everything():
    os.closerange(3, 256)
    threading.Event().wait()


class UnreadableError(Exception):
    """Can be pickled, and not read again."""

    def __init__(self, one, other):
        super().__init__(f"{one} {other}")


def fail_unreadably():
    raise UnreadableError(1, 2)


def never_written():
    return threading.Lock()


def process_group():
    return os.getpid(), os.getpgid(0)


@pytest.fixture(scope="module")
def executor():
    with ProcessExecutor(1) as working:
        yield working


def test_a_result_and_an_error_are_the_futures(executor):
    assert executor.workers == 1
    assert executor.submit(double, 21, timeout_s=60).result() == 42
    assert isinstance(executor.submit(fail, timeout_s=60).exception(), ValueError)
    assert isinstance(executor.submit(use_up_the_memory, timeout_s=60).exception(), MemoryError)


def test_work_that_does_not_end_is_stopped_and_the_next_goes_on(executor):
    assert isinstance(executor.submit(hang, timeout_s=0.2).exception(), TimeoutError)
    assert executor.submit(double, 1, timeout_s=60).result() == 2


@pytest.mark.parametrize(("number", "killed"), [(signal.SIGSEGV, False), (signal.SIGKILL, True)])
def test_a_lost_worker_is_told_from_one_that_was_killed(executor, number, killed):
    error = executor.submit(end_by, number, timeout_s=60).exception()
    assert isinstance(error, WorkerLostError)
    assert error.killed is killed
    assert executor.submit(double, 1, timeout_s=60).result() == 2


@pytest.mark.parametrize("code", [0, 3])
def test_a_worker_that_ends_is_noticed_at_once_whatever_its_exit_code(executor, code):
    error = executor.submit(end_with, code, timeout_s=600).exception(timeout=60)
    assert isinstance(error, WorkerLostError)
    assert str(error) == f"exit code {code}"
    assert executor.submit(double, 1, timeout_s=60).result() == 2


def test_a_worker_that_cannot_be_heard_is_ended(executor):
    error = executor.submit(close_everything, timeout_s=600).exception(timeout=60)
    assert isinstance(error, WorkerLostError)
    assert executor.submit(double, 1, timeout_s=60).result() == 2


def test_work_that_wants_to_end_the_process_ends_nothing(executor):
    error = executor.submit(want_to_end, timeout_s=60).exception()
    assert isinstance(error, WorkerLostError)
    assert str(error) == "SystemExit: 0"


def test_an_error_says_where_in_the_worker_it_was_raised(executor):
    error = executor.submit(fail, timeout_s=60).exception()
    assert 'raise ValueError("not today")' in "".join(traceback.format_exception(error))


def test_what_cannot_cross_a_process_is_an_error(executor):
    assert isinstance(executor.submit(never_written, timeout_s=60).exception(), TypeError)
    error = executor.submit(fail_unreadably, timeout_s=60).exception()
    assert (type(error), str(error)) == (RuntimeError, "UnreadableError: 1 2")
    assert isinstance(executor.submit(lambda: None, timeout_s=60).exception(), (AttributeError, pickle.PicklingError))


@pytest.mark.parametrize("jump_s", [1e6, -1e6])
def test_setting_the_clock_ends_no_work_and_lets_none_go_on(executor, monkeypatch, jump_s):
    now, calls = time.time(), itertools.count()
    monkeypatch.setattr(time, "time", lambda: now + jump_s * next(calls))
    begun = executor.submit(hang, timeout_s=0.2)
    after = executor.submit(double, 4, timeout_s=60)
    assert isinstance(begun.exception(timeout=60), TimeoutError)
    assert after.result(timeout=60) == 8


def test_each_worker_leads_a_group_which_a_terminal_does_not_interrupt(executor):
    process, group = executor.submit(process_group, timeout_s=60).result()
    assert process == group != os.getpgid(0)


def test_several_work_at_a_time_and_no_more_than_there_are():
    with ProcessExecutor(2) as working:
        futures = [working.submit(process_group, timeout_s=60) for _ in range(8)]
        assert 1 <= len({future.result() for future in futures}) <= 2
    assert isinstance(working.submit(double, 1, timeout_s=60).exception(), WorkerLostError)


def parent():
    return os.getppid()


def test_the_server_of_processes_may_be_killed(executor, tmp_path):
    server = executor.submit(parent, timeout_s=60).result()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    begun = executor.submit(open_and_hang, fifo, timeout_s=600)
    waiting = executor.submit(parent, timeout_s=60)
    assert server != os.getpid()
    with fifo.open():  # opens once the work has begun: work that no process has is handed out again, and would hang
        pass
    os.kill(server, signal.SIGKILL)
    error = begun.exception(timeout=60)
    assert isinstance(error, WorkerLostError)
    assert (str(error), error.killed) == ("the server of worker processes was killed", True)
    assert waiting.result(timeout=60) not in {server, os.getpid()}


def test_leaving_in_order_waits_for_what_was_handed_in():
    with ProcessExecutor(1) as working:
        futures = [working.submit(double, number, timeout_s=60) for number in range(3)]
    assert [future.result(timeout=0) for future in futures] == [0, 2, 4]


def test_a_worker_that_cannot_be_started_costs_its_work(monkeypatch):
    monkeypatch.setattr("lab.base.executor._PAUSE_S", 0)
    with ProcessExecutor(1) as working:
        monkeypatch.setattr(working, "_start", lambda: (_ for _ in ()).throw(OSError(11, "no more processes")))
        error = working.submit(double, 1, timeout_s=60).exception(timeout=60)
    assert "no worker process could be started: [Errno 11] no more processes" in str(error)


def test_a_mistake_of_the_watching_thread_leaves_nobody_waiting(monkeypatch):
    with ProcessExecutor(1) as working:
        monkeypatch.setattr(working, "_hand_out", lambda: 1 / 0)
        assert isinstance(working.submit(double, 1, timeout_s=60).exception(timeout=60), ZeroDivisionError)


def test_leaving_after_an_error_does_not_wait_for_what_is_under_way():
    def press_ctrl_c():
        with ProcessExecutor(1) as working:
            working.submit(hang, timeout_s=600)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()


def leave_it_open():
    assert ProcessExecutor(1).submit(double, 2, timeout_s=60).result(timeout=60) == 4


def test_a_process_ends_whose_executor_nobody_left():
    process = workers.context().Process(target=leave_it_open)  # type: ignore[attr-defined]  # each kind has its own
    process.start()
    process.join(60)
    ended = process.exitcode
    process.kill()
    assert ended == 0


def test_the_error_can_cross_a_process():
    copied = pickle.loads(pickle.dumps(WorkerLostError("gone", killed=True)))  # noqa: S301 - our own bytes
    assert (str(copied), copied.killed) == ("gone", True)
