"""A worker that is started before it is known what for, with a device that is played."""

from __future__ import annotations

import pytest
from fake_device import FakeDevice
from gpu_jobs import QUIET, job

from lab.gpu.process import ahead
from lab.gpu.process.session import GpuSession


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """A machine that seems to have a driver; what was prepared and not used ends with the test."""
    monkeypatch.setattr(ahead, "_DRIVERS", (str(tmp_path),))
    yield tmp_path
    if (left := ahead.take()) is not None:
        process, connection = left
        connection.close()
        process.join()


def test_a_session_takes_the_worker_that_was_prepared_and_the_next_one_starts_its_own(driver):
    ahead.prepare()
    ahead.prepare()  # there is one already
    assert ahead._spare is not None
    prepared = ahead._spare[0].pid
    with GpuSession(FakeDevice) as session:
        session.start()
        assert session.process_id == prepared
        assert session.run(job(), QUIET).failure is None
        session.restart()
        assert session.process_id != prepared
        assert session.run(job(), QUIET).failure is None


def test_a_prepared_worker_that_was_killed_is_not_used(driver):
    ahead.prepare()
    assert ahead._spare is not None
    process = ahead._spare[0]
    process.kill()
    process.join()
    assert ahead.take() is None


def test_a_worker_that_nobody_uses_ends_with_its_pipe(driver):
    ahead.prepare()
    taken = ahead.take()
    assert taken is not None
    process, connection = taken
    connection.close()
    process.join()
    assert process.exitcode == 0


def test_without_a_driver_nothing_starts(monkeypatch):
    monkeypatch.setattr(ahead, "_DRIVERS", ("/nowhere",))
    ahead.prepare()
    assert ahead.take() is None
