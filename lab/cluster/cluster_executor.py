"""CPU work on a cluster, behind the protocol of `lab.base.executor`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from lab.cluster import remote
from lab.cluster.client import Cluster


class DaskExecutor:
    """Runs functions in subprocesses of a cluster's workers. It does not close the cluster."""

    def __init__(self, cluster: Cluster, limit: int | None = None) -> None:
        """Use a connected cluster.

        Args:
            cluster: Its connection.
            limit: Limit of concurrent functions, if the user sets one.
        """
        self._cluster, self._most = cluster, limit

    @property
    def workers(self) -> int:
        """The number of functions that run concurrently; it changes as workers come and go."""
        available = sum(member.cpus for member in self._cluster.members())
        return max(1, min(available, self._most) if self._most else available)

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:  # noqa: ANN401
        """Run a function on a worker; see `lab.base.executor.Executor.submit`.

        Its future also raises ClusterError, if the cluster has become unusable.
        """
        return self._cluster.submit(remote.work, (function, args), timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the workers running; the cluster owns them."""
