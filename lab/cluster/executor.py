"""CPU work on a cluster: an executor as `lab.base.executor` describes it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from lab.cluster import remote
from lab.cluster.client import Cluster


class DaskExecutor:
    """Runs functions in subprocesses of a cluster's workers. The cluster outlives it."""

    def __init__(self, cluster: Cluster, most: int | None = None) -> None:
        """Use a cluster.

        Args:
            cluster: Its connection.
            most: Functions that may run at a time, where the user limits them.
        """
        self._cluster, self._most = cluster, most

    @property
    def workers(self) -> int:
        """How many functions run at a time; workers may come and go."""
        there = sum(one.cpus for one in self._cluster.members())
        return max(1, min(there, self._most) if self._most else there)

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:  # noqa: ANN401
        """Run a function on a worker; see `lab.base.executor.Executor.submit`.

        Its future raises ClusterError besides, where the cluster can be used no more.
        """
        return self._cluster.submit(remote.work, (function, args), timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the workers to the cluster."""
