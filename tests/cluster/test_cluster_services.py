"""A whole run over a cluster that is played."""

from __future__ import annotations

from played_cluster import PlayedClient, a_worker

from lab.cluster.client import Cluster
from lab.cluster.cluster_executor import DaskExecutor
from lab.cluster.cluster_services import no_counters, services_of


def test_runs_and_tuning_runs_work_on_the_cluster() -> None:
    with Cluster(PlayedClient({"tls://a:1": a_worker("a", cpus=4)}), "s") as cluster:
        services = services_of(cluster, jobs=2)
        executor = services.executor(64)
        assert isinstance(executor, DaskExecutor)
        assert executor.workers == 2
        assert services.find_cards(measure=True) == ((), "Nothing was measured: no worker of the cluster has a GPU.")
        services.prepare()


def test_counters_that_are_not_read_leave_a_note() -> None:
    (found,) = no_counters([], seconds=1.0)
    assert "not read" in found.notes[0]
    assert not found.profiles
