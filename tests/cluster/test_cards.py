"""Cards of a cluster that is played."""

from __future__ import annotations

from concurrent.futures import Future
from itertools import count

import pytest
from fake_device import FakeDevice
from gpu_jobs import QUIET, job
from played_cluster import PlayedClient, a_worker

from lab.base.errors import ClusterError, MissingToolError
from lab.base.executor import WorkerLostError
from lab.cluster import cards as module
from lab.cluster import remote
from lab.cluster.cards import ClusterCards, RemoteSession, open_cards
from lab.cluster.client import Cluster
from lab.gpu.process.cards import Card
from lab.gpu.process.job import JobResult, JobStage

GPU = FakeDevice().describe()
WORKERS = {f"tls://{host}:{number}": a_worker(host, card=f"GPU-{host}{number}") for host in "ba" for number in (1, 2)}


class Session:
    """Answers as a `GpuSession` does."""

    workers, process_id = 1, 77

    def start(self, timeout=0.0):
        return GPU

    def run(self, job, policy):
        return JobResult(job.variant)


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr(remote, "session", lambda owner: Session())
    made = PlayedClient(WORKERS)
    made.answers["card"] = lambda address: Card(f"GPU-{address[6]}{address[-1]}", address[6], "", GPU, "")
    return made


def test_cards_are_named_by_their_hosts_in_order(client) -> None:
    with Cluster(client, "s") as cluster:
        found, why = ClusterCards(cluster)(measure=True)
    assert [one.label for one in found] == ["a GPU 0", "a GPU 1", "b GPU 0", "b GPU 1"]
    assert why == ""


def test_without_cards_one_sentence_says_why(client) -> None:
    with Cluster(client, "s") as cluster:
        assert "--no-gpu" in ClusterCards(cluster)(measure=False)[1]
    with Cluster(PlayedClient({"tls://a:1": a_worker("a", cpus=2)}), "s") as cluster:
        assert "no worker of the cluster has a GPU" in ClusterCards(cluster)(measure=True)[1]
    client.answers["card"] = lambda address: "Nothing was measured: no driver."
    with Cluster(client, "s") as cluster:
        assert ClusterCards(cluster)(measure=True) == ((), "Nothing was measured: no driver.")


def test_jobs_take_the_resource_of_their_card(client) -> None:
    with Cluster(client, "s") as cluster:
        found, _ = ClusterCards(cluster)(measure=True)
        with open_cards(cluster, found) as opened:
            ran = [opened.submit(job("double"), QUIET, card=one.id).result(timeout=30) for one in found]
    assert [one.card for one in ran] == [one.id for one in found]
    jobs = [options["resources"] for _, args, options in client.sent]
    assert {name for job in jobs for name in job} == {one.id for one in found}
    assert client.ran["end_session"]


def a_session(cluster, *, alone=True):
    ticks = count(step=100)
    return RemoteSession(cluster, Card("GPU-9", "h", "", GPU, "h GPU 0"), lambda: alone, lambda: float(next(ticks)))


@pytest.mark.parametrize(("alone", "kind"), [(True, ClusterError), (False, MissingToolError)])
def test_a_card_whose_worker_stays_away_is_lost_and_the_last_one_ends_the_run(alone, kind, client, monkeypatch) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    with Cluster(client, "s") as cluster:
        monkeypatch.setattr(cluster, "submit", lambda *_, **__: Future())
        with pytest.raises(kind, match="h GPU 0 has been away"):
            a_session(cluster, alone=alone).run(job("double"), QUIET)


def test_a_job_that_costs_three_workers_fails_alone(client, monkeypatch) -> None:
    lost: Future[JobResult] = Future()
    lost.set_exception(WorkerLostError("3 workers of the cluster were lost while running it", killed=False))
    with Cluster(client, "s") as cluster:
        monkeypatch.setattr(cluster, "submit", lambda *_, **__: lost)
        result = a_session(cluster).run(job("double"), QUIET)
    assert result.failure.stage is JobStage.CRASH


def test_a_card_that_cannot_start_says_why(client, monkeypatch) -> None:
    def absent(owner):
        class Absent(Session):
            def start(self, timeout=0.0):
                raise MissingToolError("PyCUDA is not installed")

        return Absent()

    monkeypatch.setattr(remote, "session", absent)
    with Cluster(client, "s") as cluster, pytest.raises(MissingToolError, match="PyCUDA"):
        a_session(cluster).start()
