"""The client's side of a cluster: it submits tasks to Dask's scheduler and collects the answers.

Dask decides where a task runs and retries it if a worker is lost. This module adds what Dask lacks: it sends missing
large objects to a host, avoids hosts without the run's compiler or with a full disk, and ends the run with an error
if a worker has a different lab.
The scheduler holds a payload while its task is pending; large objects pass through it without being stored.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import pickle
import queue
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lab.base.errors import ClusterError, MissingToolError
from lab.base.executor import WorkerLostError, unpack_error
from lab.cluster import letters, remote
from lab.cluster.host_version import difference, identity
from lab.cluster.letters import Content, Letter
from lab.cluster.remote import Lack, WorkerAnswer

if TYPE_CHECKING:
    from distributed.client import Future as DaskFuture

CPU, GPU = "CPU", "GPU"
"""Dask resources of workers: a CPU task takes one `CPU`; a card's worker offers a `GPU` and the card's id, which a
timing takes. A worker's resources survive its restart, unlike its address."""

SURVIVED = 2
"""Workers that may be lost over a task before it fails: the third loss is blamed on the task."""

SETTINGS = {
    "distributed.scheduler.allowed-failures": SURVIVED,
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.timeouts.tcp": "30s",
    "distributed.worker.daemon": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.tick.interval": "1s",
}
"""Dask's settings for client, scheduler and workers: a vanished host is noticed within half a minute; workers start
subprocesses, which daemons may not; profiling and system monitoring are off or rare, since they would wake a worker 50
times per second during a timing."""

CONNECT_S = 30.0
"""Seconds to wait for the scheduler, and for the first worker."""

_LOGGERS = ("distributed", "distributed.client", "distributed.gc", "tornado.application", "asyncio")
"""Loggers of Dask and its dependencies that write to the terminal; Dask gives each its own level."""

_FRESH_S = 2.0
"""Seconds for which the list of workers is cached."""

_MOST_ASKED = 3
"""Number of times that missing large objects are sent to a host before they travel with the payload."""

_MOST_FULL = 4
"""Number of hosts with a full disk on which a task is tried."""


@dataclass(frozen=True, slots=True)
class Member:
    """A worker of the cluster.

    Attributes:
        address: Its address, which changes with each restart.
        name: Its name, which does not change.
        cpus: Number of CPU tasks that it runs concurrently.
        card: Id of its card; empty if it has none.
    """

    address: str
    name: str
    cpus: int
    card: str


@dataclass(eq=False, slots=True)
class _Piece:
    """A pending task.

    Attributes:
        function: What the worker calls: `remote.work` or `remote.on_card`.
        letter: The payload.
        parts: Large objects of the payload.
        rest: Further arguments of the function.
        resource: The worker resource it takes: `CPU`, or a card's id.
        promised: The caller's future.
        asked: Number of times that a host lacked large objects.
        avoided: Hosts that lack something it needs: a compiler or disk space.
        future: Dask's future of the current attempt.
    """

    function: Callable[..., Any]
    letter: Letter
    parts: Mapping[str, Content]
    rest: tuple[object, ...]
    resource: str
    promised: Future[Any] = field(default_factory=Future)
    asked: int = 0
    avoided: set[str] = field(default_factory=set)
    future: DaskFuture[Any] | None = None


class Cluster:
    """A connection to a scheduler. A context manager; leaving it cancels pending tasks.

    Attributes:
        name: Unique name of this connection, under which workers keep its state.
    """

    def __init__(self, client: Any, address: str) -> None:  # noqa: ANN401 - Dask's, of which half has no types
        """Use a connected client.

        Args:
            client: Dask's `Client`.
            address: The scheduler's address, for messages.
        """
        self._client, self._address = client, address
        self.name = uuid.uuid4().hex
        self._under_way: set[_Piece] = set()
        self._ended: queue.SimpleQueue[tuple[_Piece, WorkerAnswer | BaseException] | None] = queue.SimpleQueue()
        self._members: tuple[float, tuple[Member, ...]] = (0.0, ())
        self._hosts: dict[str, str] = {}
        self._lock, self._closing = threading.RLock(), False
        self._numbers = itertools.count()
        self._thread = threading.Thread(target=self._take_back, name="lab-cluster", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closing = True
            unfinished = tuple(self._under_way)
        self._ended.put(None)
        for piece in unfinished:
            _fail(piece, WorkerLostError("the workers were stopped", killed=False))
        self._thread.join(CONNECT_S)
        with contextlib.suppress(Exception):  # a scheduler that is gone has nothing to take back
            self._client.cancel([piece.future for piece in unfinished if piece.future is not None], force=True)
        with contextlib.suppress(Exception):
            self._client.close(timeout=5)

    def members(self) -> tuple[Member, ...]:
        """Return the current workers, sorted by name.

        Raises:
            ClusterError: The scheduler does not answer.
        """
        since, current = self._members
        if current and time.monotonic() - since < _FRESH_S:
            return current
        try:
            worker_facts = self._client.scheduler_info(n_workers=-1)["workers"]
        except Exception as error:
            raise self._lost() from error
        current = tuple(
            sorted((_member(address, facts) for address, facts in worker_facts.items()), key=lambda member: member.name)
        )
        self._members = (time.monotonic(), current)
        return current

    def forget_members(self) -> None:
        """Drop the cached list of workers."""
        self._members = (0.0, ())

    def call_on(self, function: Callable[..., Any], addresses: Sequence[str], *args: object) -> dict[str, Any]:
        """Call a module-level function inside workers, concurrently with their tasks; skip workers that are lost.

        Raises:
            ClusterError: The scheduler does not answer.
        """
        if not addresses:
            return {}
        try:
            answers: dict[str, Any] = self._client.run(function, *args, workers=list(addresses), on_error="ignore")
        except Exception as error:
            raise self._lost() from error
        return answers

    def host(self, address: str) -> str:
        """Return the name of a worker's host; empty if it does not answer."""
        if address not in self._hosts and (answers := self.call_on(remote.introduce, [address])):
            self._hosts[address] = answers[address][1]
        return self._hosts.get(address, "")

    def submit(
        self,
        function: Callable[..., Any],
        value: object,
        *extra: object,
        resource: str = CPU,
    ) -> Future[Any]:
        """Submit a task.

        Args:
            function: What the worker calls; it returns or awaits a `WorkerAnswer`.
            value: Content of the payload: a module-level function and its arguments.
            extra: Further arguments of `function`, after the large objects.
            resource: The worker resource it takes: `CPU`, or a card's id.

        Returns:
            A future of its result; raises what the task raised, WorkerLostError if three workers were lost over it,
            and ClusterError if the cluster has become unusable.
        """
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            letter, parts = letters.write(value)
        except (pickle.PicklingError, AttributeError, TypeError, MissingToolError) as error:
            future.set_exception(error)
            return future
        piece = _Piece(function, letter, parts, extra, resource, future)
        with self._lock:
            closing = self._closing
            self._under_way.add(piece)
        if closing:
            _fail(piece, WorkerLostError("the workers were stopped", killed=False))
        else:
            self._send(piece)
        return future

    def withdraw(self, promised: Future[Any]) -> None:
        """Cancel a task whose result is no longer needed."""
        with self._lock:
            piece = next((pending for pending in self._under_way if pending.promised is promised), None)
        if piece is not None:
            future = piece.future
            self._failed(piece, WorkerLostError("it was taken back", killed=False))
            if future is not None:
                with contextlib.suppress(Exception):  # a scheduler that is gone has nothing to take back
                    future.cancel()

    def _send(self, piece: _Piece, workers: Collection[str] = (), *, only: bool = False) -> None:
        """Submit a task to Dask.

        Args:
            piece: The task.
            workers: Addresses of the preferred workers.
            only: Do not use other workers.
        """
        places: dict[str, Any] = {}
        if workers and piece.resource == CPU:
            places = {"workers": sorted(workers), "allow_other_workers": not only}
        try:
            self._client.loop.add_callback(self._carry_out, piece, places)
        except RuntimeError as error:  # its event loop has ended
            self._failed(piece, self._lost(error))

    async def _carry_out(self, piece: _Piece, places: Mapping[str, Any]) -> None:
        """Submit a task and wait for its answer, on the event loop of Dask's client.

        All tasks wait concurrently: Dask batches answers that are ready at the same time, and an answer from a vanished
        host does not delay the others.
        """
        if self._closing or piece.promised.done():
            return
        try:
            piece.future = future = self._client.submit(
                piece.function,
                identity(),
                piece.letter,
                piece.parts if piece.asked > _MOST_ASKED else {},
                *piece.rest,
                key=f"{piece.function.__name__}-{next(self._numbers)}-{self.name}",
                pure=False,
                resources={piece.resource: 1},
                **places,
            )
            ended: WorkerAnswer | BaseException = await future
        except Exception as error:  # noqa: BLE001 - Dask raises many types
            broken = piece.future is not None and piece.future.status == "error"
            ended = _loss(error) if broken else self._lost()
        piece.future = None  # lets the scheduler forget the task
        self._ended.put((piece, ended))

    def _take_back(self) -> None:
        """Process finished tasks in this class's thread."""
        while (event := self._ended.get()) is not None:
            piece, ended = event
            if self._closing or piece.promised.done():
                continue
            try:
                if isinstance(ended, BaseException):
                    self._failed(piece, ended)
                else:
                    self._hear(piece, ended)
            except Exception as error:  # noqa: BLE001 - it would be lost with the thread
                self._failed(piece, error)

    def _hear(self, piece: _Piece, answer: WorkerAnswer) -> None:
        if answer.refused is not None:
            raise ClusterError(difference(identity(), answer.refused, f"on {answer.host}"))
        if answer.missing:
            self._supply(piece, answer)
        elif answer.lacks is not None and piece.resource == CPU and self._elsewhere(piece, answer):
            pass
        elif answer.error is not None:
            self._failed(piece, unpack_error(answer.error))
        else:
            assert answer.value is not None  # noqa: S101 - the only remaining case
            self._finish(piece, pickle.loads(answer.value))  # noqa: S301 - of our own worker

    def _supply(self, piece: _Piece, answer: WorkerAnswer) -> None:
        """Send a host the large objects it lacks, through one of its workers, and retry the task on that host."""
        piece.asked += 1
        on_host = [member.address for member in self.members() if self.host(member.address) == answer.host]
        if piece.asked <= _MOST_ASKED and on_host:
            lacking = {name: piece.parts[name] for name in answer.missing}
            with contextlib.suppress(Exception):  # if the worker is lost meanwhile, the task asks again
                self._client.run(remote.keep, lacking, workers=on_host[:1], on_error="ignore")
        self._send(piece, on_host)

    def _elsewhere(self, piece: _Piece, answer: WorkerAnswer) -> bool:
        """Retry a task on a host that may have what this one lacks; return whether there is one."""
        piece.avoided.add(answer.host)
        if answer.lacks is Lack.DISK and len(piece.avoided) > _MOST_FULL:
            return False
        remaining = [
            member.address
            for member in self.members()
            if member.cpus and self.host(member.address) not in piece.avoided
        ]
        if remaining:
            self._send(piece, remaining, only=True)
        return bool(remaining)

    def _finish(self, piece: _Piece, value: object) -> None:
        with self._lock:
            self._under_way.discard(piece)
        if not piece.promised.done():
            piece.promised.set_result(value)

    def _failed(self, piece: _Piece, error: BaseException) -> None:
        with self._lock:
            self._under_way.discard(piece)
        piece.future = None
        _fail(piece, error)

    def _lost(self, error: BaseException | None = None) -> ClusterError:
        detail = f" ({error})" if error is not None and str(error) else ""
        return ClusterError(
            f"the scheduler at {self._address} was lost{detail}. Everything finished is on disk; when the scheduler is "
            "back, repeat the command with --resume to continue"
        )


@contextlib.contextmanager
def connected(address: str, security: Any = None, *, wait_s: float = CONNECT_S) -> Iterator[Cluster]:  # noqa: ANN401 - distributed's type, which may be missing
    """Connect to a scheduler and check its workers.

    Args:
        address: ``tls://host:8786``.
        security: Dask's security settings; None for an insecure connection.
        wait_s: Seconds to wait for the scheduler, and for the first worker.

    Raises:
        ClusterError: The scheduler does not answer, there are no workers, or a worker has a different lab.
    """
    import dask
    from distributed import Client

    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # our own messages report losses
    with dask.config.set(SETTINGS):
        try:
            client = Client(address, security=security, timeout=wait_s, set_as_default=False, name="lab")
        except (OSError, TimeoutError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ClusterError(f"the scheduler at {address} does not answer: {reason}") from error
    with Cluster(client, address) as cluster:
        _look_at_workers(cluster, wait_s, address)
        yield cluster


def _look_at_workers(cluster: Cluster, wait_s: float, address: str) -> None:
    until = time.monotonic() + wait_s
    while not any(member.cpus for member in cluster.members()):
        if time.monotonic() > until:
            raise ClusterError(
                f"no worker with the resource {CPU} is connected to {address}; "
                f"start one on each host: lab cluster worker {address}"
            )
        time.sleep(0.1)
        cluster.forget_members()
    names = [member.address for member in cluster.members() if member.cpus or member.card]
    for worker, (theirs, host) in cluster.call_on(remote.introduce, names).items():
        if reason := difference(identity(), theirs, f"{worker} on {host}"):
            raise ClusterError(reason)


def _member(address: str, facts: Mapping[str, Any]) -> Member:
    offers = facts.get("resources", {})
    card = next((name for name in offers if name not in {CPU, GPU}), "")
    return Member(address, str(facts.get("name", address)), int(offers.get(CPU, 0)), card if GPU in offers else "")


def _loss(error: BaseException | None) -> BaseException:
    """Return the exception to raise for an error of Dask's."""
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        return WorkerLostError(f"{SURVIVED + 1} workers of the cluster were lost while running it", killed=False)
    return error or WorkerLostError("its worker gave no reason", killed=False)


def _fail(piece: _Piece, error: BaseException) -> None:
    if not piece.promised.done():
        piece.promised.set_exception(error)
