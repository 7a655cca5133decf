"""The client's side of a cluster whose scheduler and workers are played."""

from __future__ import annotations

import logging
import operator
from dataclasses import replace

import pytest
from played_cluster import PlayedClient, a_worker

from lab.base.errors import ClusterError
from lab.base.executor import WorkerLostError
from lab.cluster import remote
from lab.cluster.client import _LOGGERS, _MOST_ASKED, Cluster, _look_at_workers, connected
from lab.cluster.contents import Contents
from lab.cluster.host_version import identity
from lab.cluster.remote import WorkerAnswer

TWO = {"tls://a:1": a_worker("a-cpu", cpus=4), "tls://b:1": a_worker("b-cpu", cpus=2)}


@pytest.fixture(autouse=True)
def in_this_process(tmp_path, monkeypatch):
    made = remote._Here()
    made.contents = Contents(tmp_path)
    monkeypatch.setattr(remote, "here", made)
    monkeypatch.setattr(remote, "_in_subprocess", lambda function, args, timeout_s: function(*args))


def ask(client, *what):
    with Cluster(client, "tls://s:8786") as cluster:
        return cluster.submit(remote.work, what, 1.0).result(timeout=30)


def test_a_result_comes_back_and_large_parts_travel_beside_the_letter() -> None:
    client = PlayedClient(TWO)
    client.answers["introduce"] = lambda address: (identity(), remote.host())
    assert ask(client, len, ("s" * 100_000,)) == 100_000
    assert client.ran["keep"] == 1
    assert all(not args[2] and len(args[1].text) < 1000 for _, args, _ in client.sent)
    assert [options["resources"] for _, _, options in client.sent] == [{"CPU": 1}] * 2


def test_a_host_has_its_parts_once() -> None:
    client = PlayedClient(TWO)
    client.answers["introduce"] = lambda address: (identity(), remote.host())
    with Cluster(client, "s") as cluster:
        for _ in range(3):
            assert cluster.submit(remote.work, (len, ("s" * 9000,)), 1.0).result(timeout=30) == 9000
    assert client.ran["keep"] == 1


def test_a_host_that_keeps_nothing_gets_parts_with_the_letter() -> None:
    client = PlayedClient(TWO)
    client.answers |= {"introduce": lambda address: (identity(), remote.host()), "keep": lambda *_: None}
    assert ask(client, len, ("s" * 9000,)) == 9000
    assert len(client.sent) == _MOST_ASKED + 2
    assert client.sent[-1][1][2]


def test_an_error_is_raised_with_its_place() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        ask(PlayedClient(TWO), operator.truediv, (1, 0))
    assert "ZeroDivisionError" in str(caught.value.__cause__)


def test_a_piece_that_costs_three_workers_is_lost_with_them() -> None:
    distributed = pytest.importorskip("distributed")
    killed = distributed.scheduler.KilledWorker("work-1", None, 2)
    with pytest.raises(WorkerLostError, match="3 workers") as caught:
        ask(PlayedClient(TWO, lambda *_: ("error", killed)), len, ("",))
    assert not caught.value.killed


def test_a_lost_scheduler_ends_the_run_with_a_sentence() -> None:
    with pytest.raises(ClusterError, match=r"tls://s:8786 was lost.*--resume"):
        ask(PlayedClient(TWO, lambda *_: ("cancelled", None)), len, ("",))


@pytest.mark.parametrize("lacks", remote.Lack)
def test_a_full_disk_or_a_missing_compiler_sends_work_to_other_hosts(lacks) -> None:
    def play(function, args, options):
        answer = function(*args)
        return "finished", answer if "workers" in options else WorkerAnswer(error=(b"", ""), lacks=lacks, host="a")

    client = PlayedClient(TWO, play)
    client.answers["introduce"] = lambda address: (identity(), address[6])
    assert ask(client, len, ("abc",)) == 3
    assert client.sent[1][2]["workers"] == ["tls://b:1"]
    assert not client.sent[1][2]["allow_other_workers"]


def test_another_lab_is_refused_by_name() -> None:
    other = replace(identity(), version="7.7")
    with pytest.raises(ClusterError, match=r"lab 7\.7.*install the same"):
        ask(PlayedClient(TWO, lambda *_: ("finished", WorkerAnswer(refused=other, host="node7"))), len, ("",))
    client = PlayedClient(TWO)
    client.answers["introduce"] = lambda address: (other, "node7")
    with Cluster(client, "s") as cluster, pytest.raises(ClusterError, match=r"node7 runs lab 7\.7"):
        _look_at_workers(cluster, 0.0, "s")


def test_a_cluster_without_workers_says_what_starts_one() -> None:
    with Cluster(PlayedClient({}), "s") as cluster, pytest.raises(ClusterError, match="lab cluster worker tls://s"):
        _look_at_workers(cluster, 0.0, "tls://s:8786")


def test_what_dask_logs_does_not_reach_the_terminal(monkeypatch) -> None:
    distributed = pytest.importorskip("distributed")

    def away(*_, **__):
        raise OSError("nobody listens")

    monkeypatch.setattr(distributed, "Client", away)
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in _LOGGERS}
    with pytest.raises(ClusterError, match="nobody listens"), connected("tls://s:8786"):
        pass
    heard = [
        name
        for name in logging.root.manager.loggerDict
        if name.split(".")[0] in {"distributed", "tornado"} and logging.getLogger(name).hasHandlers()
        if logging.getLogger(name).isEnabledFor(logging.ERROR) and not logging.getLogger(name).propagate
    ]
    for logger, level in levels.items():
        logger.setLevel(level)
    assert not heard


def test_leaving_takes_back_what_is_under_way() -> None:
    client = PlayedClient(TWO, lambda *_: ("pending", None))
    with Cluster(client, "s") as cluster:
        promised = cluster.submit(remote.work, (len, ("",)), 1.0)
    with pytest.raises(WorkerLostError, match="stopped"):
        promised.result(timeout=30)
    assert client.cancelled
    assert client.closed


def test_what_cannot_travel_fails_at_once() -> None:
    client = PlayedClient(TWO)
    with pytest.raises((AttributeError, TypeError)):
        ask(client, lambda: None, ())
    assert not client.sent
