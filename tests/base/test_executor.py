"""Work in processes of this machine: results, and the errors of work that does not end well."""

from __future__ import annotations

import os
import pickle
import signal
import threading

import pytest

from lab.base.executor import ProcessExecutor, WorkerLostError


def double(value):
    return 2 * value


def fail():
    raise ValueError("not today")


def use_up_the_memory():
    raise MemoryError


def hang():
    threading.Event().wait()


def end_by(number):
    os.kill(os.getpid(), number)


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


def test_leaving_after_an_error_does_not_wait_for_what_is_under_way():
    def press_ctrl_c():
        with ProcessExecutor(1) as working:
            working.submit(hang, timeout_s=600)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()


def test_the_error_can_cross_a_process():
    copied = pickle.loads(pickle.dumps(WorkerLostError("gone", killed=True)))  # noqa: S301 - our own bytes
    assert (str(copied), copied.killed) == ("gone", True)
