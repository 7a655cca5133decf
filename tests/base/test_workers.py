"""Limits on worker processes: memory, CPU time, and exit when the parent dies."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import threading

import pytest

from lab.base import workers
from lab.base.executor import ProcessExecutor, WorkerLostError

MEGABYTE = 1 << 20
LIMIT = 1 << 30


def take(megabytes):
    return len(bytearray(megabytes * MEGABYTE))


def take_in_a_child(megabytes):
    """As a compiler that is run as a command would."""
    program = f"bytearray({megabytes} << 20)"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr


def limit():
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


def wait_for_a_child(file):
    """As for a compiler that is run as a command and hangs."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    file.write_text(str(child.pid))
    child.wait()


def kill_myself():
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.fixture(scope="module")
def pool():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "share_of_memory", lambda workers: LIMIT)
        executor = ProcessExecutor(1)
    with executor as pool:
        yield pool


def test_memory_beyond_the_share_is_this_tasks_failure_in_words(pool):
    assert pool.submit(take, 100, timeout_s=60).result() == 100 * MEGABYTE
    future = pool.submit(take, 2000, timeout_s=60)
    assert isinstance(future.exception(), MemoryError)
    assert pool.submit(limit, timeout_s=60).result() == LIMIT  # the worker goes on


def test_a_compiler_that_is_run_as_a_command_has_the_same_limit(pool):
    assert "MemoryError" in pool.submit(take_in_a_child, 2000, timeout_s=60).result()
    assert pool.submit(take_in_a_child, 100, timeout_s=60).result() == ""


def test_work_that_does_not_end_is_stopped(pool):
    future = pool.submit(signal.pause, timeout_s=0.5)
    assert isinstance(future.exception(), TimeoutError)
    assert pool.submit(limit, timeout_s=60).result() == LIMIT  # in a new worker


def test_a_command_is_stopped_with_the_worker_that_runs_it(pool, tmp_path):
    future = pool.submit(wait_for_a_child, tmp_path / "child", timeout_s=2)
    assert isinstance(future.exception(), TimeoutError)
    assert has_ended(int((tmp_path / "child").read_text()))


def has_ended(process):
    """Wait up to 10 s for a process that is not our child to exit; return False if it is still running."""
    try:
        watched = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    with os.fdopen(watched) as end:
        return bool(select.select([end], [], [], 10)[0])


def test_a_worker_that_dies_of_its_work_costs_that_work(pool):
    future = pool.submit(kill_myself, timeout_s=60)
    assert isinstance(future.exception(), WorkerLostError)
    assert pool.submit(take, 1, timeout_s=60).result() == MEGABYTE


def test_shares_are_twice_the_machines_part_and_never_too_little():
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert workers.share_of_memory(1) == max(4 << 30, 2 * memory)
    assert workers.share_of_memory(10**6) == 4 << 30


def test_a_process_that_is_started_has_this_ones_path(tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('planted')")
    before = dict(os.environ)
    with workers.handed_down():
        told = subprocess.run(
            [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path))"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert str(tmp_path) not in told.stdout
    assert dict(os.environ) == before


def test_a_limit_of_the_machines_own_is_not_raised():
    lower = MEGABYTE * 900
    program = (
        "import resource, sys\nfrom lab.base import workers\n"
        f"resource.setrlimit(resource.RLIMIT_DATA, ({lower}, {lower}))\n"
        "workers.begin(int(sys.argv[1]), {})\nprint(*resource.getrlimit(resource.RLIMIT_DATA))"
    )
    with workers.handed_down():
        for asked, given in ((LIMIT, lower), (lower - MEGABYTE, lower - MEGABYTE)):
            told = subprocess.run(
                [sys.executable, "-c", program, str(asked)], capture_output=True, text=True, check=False
            )
            assert told.stdout.split() == [str(given), str(lower)], told.stderr


def test_an_environment_is_that_of_no_moment_of_handing_down():
    environments, inside, leave = [], threading.Event(), threading.Event()

    def hand_down():
        with workers.handed_down():
            inside.set()
            leave.wait(60)

    before = dict(os.environ)
    holder, reader = (
        threading.Thread(target=hand_down),
        threading.Thread(target=lambda: environments.append(workers.environment())),
    )
    holder.start()
    inside.wait(60)
    assert os.environ["PYTHONSAFEPATH"] == "1"
    reader.start()
    reader.join(0.05)
    assert environments == []
    leave.set()
    holder.join()
    reader.join()
    assert environments == [before]


def test_processes_start_while_another_thread_hands_down():
    """Without an environment of their own, one in forty fails with a bad address."""
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            with workers.handed_down():
                pass

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(100):
            subprocess.run(["/bin/true"], env=workers.environment(), check=True)
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("limits", "allowed", "soft"),
    [
        ((64, 4096), True, 332),
        ((64, 128), False, 128),
        ((1024, 1024), True, 1024),
        ((64, -1), True, 332),
        ((-1, -1), True, -1),
    ],
)
def test_the_limit_of_open_files_is_raised_to_what_workers_take(monkeypatch, limits, allowed, soft):
    now = [limits]
    monkeypatch.setattr(resource, "getrlimit", lambda _: now[0])
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: now.__setitem__(0, given))
    assert workers.allow_files(100) == allowed
    assert now[0] == (soft, limits[1])


def test_workers_that_may_not_open_their_files_are_not_started(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (24, 24))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with pytest.raises(OSError, match="Too many open files"):
        ProcessExecutor(2)
