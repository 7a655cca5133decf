"""The executor of a cluster."""

from __future__ import annotations

from played_cluster import PlayedClient, a_worker

from lab.cluster import remote
from lab.cluster.client import Cluster
from lab.cluster.cluster_executor import DaskExecutor

WORKERS = {
    "tls://a:1": a_worker("a-cpu", cpus=4),
    "tls://b:1": a_worker("b-cpu", cpus=2),
    "tls://b:2": a_worker("b-gpu", card="GPU-1"),
}


def test_it_counts_cores_of_workers_without_a_card() -> None:
    with Cluster(PlayedClient(WORKERS), "s") as cluster:
        assert DaskExecutor(cluster).workers == 6
        assert DaskExecutor(cluster, limit=3).workers == 3


def test_it_passes_the_limit_on_and_leaves_the_cluster_open(monkeypatch) -> None:
    timeouts = []

    def here(function, args, timeout_s):
        timeouts.append(timeout_s)
        return function(*args)

    monkeypatch.setattr(remote, "_in_subprocess", here)
    client = PlayedClient(WORKERS)
    with Cluster(client, "s") as cluster:
        with DaskExecutor(cluster) as executor:
            assert executor.submit(len, "abc", timeout_s=7.0).result(timeout=30) == 3
        assert not client.closed
    assert timeouts == [7.0]
