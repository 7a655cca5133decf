"""Execution of a task payload on a Dask worker."""

from __future__ import annotations

import errno
import operator
import pickle
from dataclasses import replace

import pytest
from fake_device import FakeDevice

from lab.base.errors import MissingToolError
from lab.base.executor import WorkerLostError
from lab.cluster import letters, remote
from lab.cluster.contents import Contents
from lab.cluster.host_version import identity
from lab.toolchain.nvrtc.compiler import find_nvrtcs


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    remote_host = remote._Here()
    remote_host.contents, remote_host.jobs, remote_host.backend = Contents(tmp_path), 1, FakeDevice
    monkeypatch.setattr(remote, "here", remote_host)
    yield remote_host
    if remote_host.executor is not None:
        remote_host.executor.__exit__(KeyboardInterrupt, None, None)
    for name in tuple(remote_host.sessions):
        remote.end_session(name)


def result(answer):
    assert answer.value is not None
    return pickle.loads(answer.value)  # noqa: S301 - our own


def direct(monkeypatch):
    monkeypatch.setattr(remote, "_in_subprocess", lambda function, args, timeout_s: function(*args))


def test_work_is_done_in_a_process_of_its_own(here) -> None:
    letter, parts = letters.write((operator.add, (2, 3)))
    assert result(remote.work(identity(), letter, parts, 60.0)) == 5
    assert here.executor is not None


def test_a_host_that_lacks_a_part_says_so_and_takes_it(monkeypatch) -> None:
    direct(monkeypatch)
    letter, parts = letters.write((len, ("s" * 9000,)))
    assert remote.work(identity(), letter, {}, 1.0).missing == letter.parts
    remote.keep(parts)
    assert result(remote.work(identity(), letter, {}, 1.0)) == 9000


def test_another_lab_gets_no_work() -> None:
    letter, parts = letters.write((len, ("s",)))
    other = replace(identity(), code="0")
    assert remote.work(other, letter, parts, 1.0).refused == identity()


def refuses(number):
    raise OSError(number, "no")


def lost():
    raise WorkerLostError("signal 9", killed=True)


def test_an_error_comes_back_with_where_it_was_raised(monkeypatch) -> None:
    direct(monkeypatch)
    letter, parts = letters.write((lost, ()))
    answer = remote.work(identity(), letter, parts, 1.0)
    assert answer.error is not None
    text, trace = answer.error
    assert isinstance(pickle.loads(text), WorkerLostError)  # noqa: S301 - our own
    assert "in lost" in trace


@pytest.mark.parametrize(("number", "disk"), [(errno.ENOSPC, True), (errno.EACCES, False)])
def test_a_full_disk_is_the_hosts_error(number, disk, monkeypatch) -> None:
    direct(monkeypatch)
    letter, parts = letters.write((refuses, (number,)))
    assert (remote.work(identity(), letter, parts, 1.0).lacks is remote.Lack.DISK) is disk


def test_a_host_without_the_compiler_says_which_it_has() -> None:
    (nvrtc, *_) = find_nvrtcs()
    letter, parts = letters.write((len, ([replace(nvrtc, version="1.2.3")],)))
    answer = remote.work(identity(), letter, parts, 1.0)
    assert answer.lacks is remote.Lack.TOOLCHAIN
    assert answer.error is not None
    error = pickle.loads(answer.error[0])  # noqa: S301 - our own
    assert isinstance(error, MissingToolError)
    assert str(error).startswith(f"{remote.host()} cannot take part: it lacks nvrtc 1.2.3")


def test_each_client_has_a_session_and_idle_ones_of_others_end(here) -> None:
    first = remote.session("one")
    assert remote.session("one") is first
    second = remote.session("two")
    assert second is not first
    assert set(here.sessions) == {"one", "two"}
    here.sessions["one"].used -= 2 * remote._IDLE_S
    remote.session("two")
    assert set(here.sessions) == {"two"}


def test_a_card_is_described_or_the_reason_given(here) -> None:
    here.described = lambda: ("GPU-1", FakeDevice().describe())
    assert remote.card().id == "GPU-1"
    here.described = lambda: "Nothing was measured: no driver."
    assert remote.card() == "Nothing was measured: no driver."
