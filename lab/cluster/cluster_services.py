"""The environment of a run on a cluster, in place of this machine's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from lab.cluster.cards import ClusterCards, open_cards
from lab.cluster.client import Cluster, connected
from lab.cluster.cluster_executor import DaskExecutor
from lab.cluster.security import Way, check_installed
from lab.gpu.counters.profile import Counted, ProfileOrder
from lab.runs.services import Services


@contextlib.contextmanager
def on_cluster(way: Way, *, jobs: int | None = None) -> Iterator[Services]:
    """Connect to a cluster.

    Args:
        way: Its scheduler.
        jobs: Maximum number of concurrent CPU tasks; by default, what the workers offer.

    Yields:
        The environment of a run or a tuning run.

    Raises:
        MissingToolError: The extra is not installed.
        ClusterError: The cluster cannot be used.
    """
    check_installed("distributed")
    with connected(way.address, way.security) as cluster:
        yield services_of(cluster, jobs)


def services_of(cluster: Cluster, jobs: int | None = None) -> Services:
    """Return the environment of a run on a connected cluster."""

    def executor(_: int) -> DaskExecutor:
        return DaskExecutor(cluster, jobs)

    finder, cards = ClusterCards(cluster), partial(open_cards, cluster)
    return Services(prepare=_nothing, find_cards=finder, cards=cards, executor=executor, read_counters=no_counters)


def no_counters(orders: Sequence[ProfileOrder], *, seconds: float) -> Iterable[Counted]:
    """Report that hardware counters are not read on a cluster: the profiler runs on the GPU's own host."""
    del orders, seconds
    yield Counted({}, ("Hardware counters were not read: that needs `lab run` on the GPU's own host.",))


def _nothing() -> None:
    """Start nothing: the work is done on other hosts."""
