"""The client's side of a cluster: pieces of work go to Dask's scheduler, and their answers come back.

Dask decides where a piece runs and repeats it where a worker is lost. This module knows what Dask does not: a host that
lacks a part gets it, a host without the run's compiler or with a full disk is avoided, and a worker with another lab
ends the run with a sentence.
The scheduler holds a letter for as long as its piece is under way; large parts pass through it and do not stay.
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
from lab.cluster.identity import difference, identity
from lab.cluster.letters import Content, Letter
from lab.cluster.remote import Lack, WorkerAnswer

if TYPE_CHECKING:
    from distributed.client import Future as DaskFuture

CPU, GPU = "CPU", "GPU"
"""Resources of workers: a piece of CPU work takes one `CPU`; a worker of a card offers a `GPU`, and the card by its id,
which a timing takes. A resource is the same when a worker starts again, where its address is another one."""

SURVIVED = 2
"""Workers that may be lost over a piece before it fails; the third loss is the piece's own fault."""

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
"""Dask's settings on every side: a host that vanishes is noticed within half a minute; workers have processes of their
own, which daemons may not; what a Dask worker itself computes is not worth a profile, and how it feels not worth waking
it 50 times a second beside a timing."""

CONNECT_S = 30.0
"""Seconds to wait for the scheduler, and for the first worker."""

_LOGGERS = ("distributed", "distributed.client", "distributed.gc", "tornado.application", "asyncio")
"""Loggers of Dask and below it that write to the terminal; Dask gives each a level of its own."""

_FRESH_S = 2.0
"""Seconds for which what is known of the workers counts as present."""

_MOST_ASKED = 3
"""Times that a host is given parts that it lacks before they travel with the letter."""

_MOST_FULL = 4
"""Hosts with a full disk on which a piece is tried."""


@dataclass(frozen=True, slots=True)
class Member:
    """A worker of the cluster.

    Attributes:
        address: Where it listens; another one after each restart.
        name: Its name, which it keeps.
        cpus: Pieces of CPU work that it does at a time.
        card: Id of its card; empty where it has none.
    """

    address: str
    name: str
    cpus: int
    card: str


@dataclass(eq=False, slots=True)
class _Piece:
    """A piece of work under way.

    Attributes:
        function: What the worker calls: `remote.work` or `remote.on_card`.
        letter: What is to be done.
        parts: Large parts of the letter.
        rest: Further arguments of the function.
        resource: What it takes of a worker: `CPU`, or a card's id.
        promised: What the caller waits for.
        asked: Times that a host lacked parts.
        avoided: Hosts that lack something for it: a compiler, or room on the disk.
        future: Dask's future of the present attempt.
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
    """A connection to a scheduler. Use as a context manager; leaving it takes back what is under way.

    Attributes:
        name: This connection's own name, for what workers keep for it.
    """

    def __init__(self, client: Any, address: str) -> None:  # noqa: ANN401 - Dask's, of which half has no types
        """Work through a client that is connected.

        Args:
            client: Dask's `Client`.
            address: The scheduler, for sentences.
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
            left = tuple(self._under_way)
        self._ended.put(None)
        for piece in left:
            _fail(piece, WorkerLostError("the workers were stopped", killed=False))
        self._thread.join(CONNECT_S)
        with contextlib.suppress(Exception):  # a scheduler that is gone has nothing to take back
            self._client.cancel([piece.future for piece in left if piece.future is not None], force=True)
        with contextlib.suppress(Exception):
            self._client.close(timeout=5)

    def members(self) -> tuple[Member, ...]:
        """The workers that are there now, by name.

        Raises:
            ClusterError: The scheduler does not answer.
        """
        since, known = self._members
        if known and time.monotonic() - since < _FRESH_S:
            return known
        try:
            found = self._client.scheduler_info(n_workers=-1)["workers"]
        except Exception as error:
            raise self._lost() from error
        known = tuple(sorted((_member(address, facts) for address, facts in found.items()), key=lambda one: one.name))
        self._members = (time.monotonic(), known)
        return known

    def forget_members(self) -> None:
        """Ask the scheduler again when `members` is called next."""
        self._members = (0.0, ())

    def call_on(self, function: Callable[..., Any], addresses: Sequence[str], *args: object) -> dict[str, Any]:
        """Call a function of a module inside workers, beside their work; those that are lost meanwhile are left out.

        Raises:
            ClusterError: The scheduler does not answer.
        """
        if not addresses:
            return {}
        try:
            found: dict[str, Any] = self._client.run(function, *args, workers=list(addresses), on_error="ignore")
        except Exception as error:
            raise self._lost() from error
        return found

    def host(self, address: str) -> str:
        """Name of a worker's host; empty where it does not answer."""
        if address not in self._hosts and (found := self.call_on(remote.introduce, [address])):
            self._hosts[address] = found[address][1]
        return self._hosts.get(address, "")

    def submit(
        self,
        function: Callable[..., Any],
        value: object,
        *rest: object,
        resource: str = CPU,
    ) -> Future[Any]:
        """Send a piece of work.

        Args:
            function: What the worker calls; it returns a `WorkerAnswer`, or is awaited for one.
            value: What the letter holds: a function of a module and its arguments.
            rest: Further arguments of `function`, behind the parts.
            resource: What it takes of a worker: `CPU`, or a card's id.

        Returns:
            Its result; raises what the work raised, WorkerLostError where it cost three workers, and ClusterError where
            the cluster can be used no more.
        """
        promised: Future[Any] = Future()
        promised.set_running_or_notify_cancel()
        try:
            letter, parts = letters.write(value)
        except (pickle.PicklingError, AttributeError, TypeError, MissingToolError) as error:
            promised.set_exception(error)
            return promised
        piece = _Piece(function, letter, parts, rest, resource, promised)
        with self._lock:
            closing = self._closing
            self._under_way.add(piece)
        if closing:
            _fail(piece, WorkerLostError("the workers were stopped", killed=False))
        else:
            self._send(piece)
        return promised

    def withdraw(self, promised: Future[Any]) -> None:
        """Take back a piece that nobody waits for any more."""
        with self._lock:
            piece = next((one for one in self._under_way if one.promised is promised), None)
        if piece is not None:
            future = piece.future
            self._failed(piece, WorkerLostError("it was taken back", killed=False))
            if future is not None:
                with contextlib.suppress(Exception):  # a scheduler that is gone has nothing to take back
                    future.cancel()

    def _send(self, piece: _Piece, workers: Collection[str] = (), *, only: bool = False) -> None:
        """Give a piece to Dask.

        Args:
            piece: The piece.
            workers: Addresses of the workers that should do it.
            only: No others may.
        """
        places: dict[str, Any] = {}
        if workers and piece.resource == CPU:
            places = {"workers": sorted(workers), "allow_other_workers": not only}
        try:
            self._client.loop.add_callback(self._carry_out, piece, places)
        except RuntimeError as error:  # its loop has ended
            self._failed(piece, self._lost(error))

    async def _carry_out(self, piece: _Piece, places: Mapping[str, Any]) -> None:
        """Submit a piece and wait for its answer, in the thread of Dask's client.

        All pieces wait side by side: Dask fetches answers together that are there at the same time, and one of a host
        that vanishes holds up no other.
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
        except Exception as error:  # noqa: BLE001 - Dask raises many
            broken = piece.future is not None and piece.future.status == "error"
            ended = _loss(error) if broken else self._lost()
        piece.future = None  # the scheduler forgets the piece
        self._ended.put((piece, ended))

    def _take_back(self) -> None:
        """The thread: take back pieces that ended."""
        while (one := self._ended.get()) is not None:
            piece, ended = one
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
            assert answer.value is not None  # noqa: S101 - nothing else is left
            self._finish(piece, pickle.loads(answer.value))  # noqa: S301 - likewise

    def _supply(self, piece: _Piece, answer: WorkerAnswer) -> None:
        """Send a host what it lacks, once to one of its workers, and the piece to that host again."""
        piece.asked += 1
        there = [one.address for one in self.members() if self.host(one.address) == answer.host]
        if piece.asked <= _MOST_ASKED and there:
            lacking = {name: piece.parts[name] for name in answer.missing}
            with contextlib.suppress(Exception):  # a worker that is lost in this moment: the piece asks again
                self._client.run(remote.keep, lacking, workers=there[:1], on_error="ignore")
        self._send(piece, there)

    def _elsewhere(self, piece: _Piece, answer: WorkerAnswer) -> bool:
        """Try a piece on a host that may have what this one lacks, if there is one."""
        piece.avoided.add(answer.host)
        if answer.lacks is Lack.DISK and len(piece.avoided) > _MOST_FULL:
            return False
        left = [one.address for one in self.members() if one.cpus and self.host(one.address) not in piece.avoided]
        if left:
            self._send(piece, left, only=True)
        return bool(left)

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
        why = f" ({error})" if error is not None and str(error) else ""
        return ClusterError(
            f"the scheduler at {self._address} was lost{why}. Everything finished is on disk; when the scheduler is "
            "back, the same command with --resume goes on"
        )


@contextlib.contextmanager
def connected(address: str, security: Any = None, *, wait_s: float = CONNECT_S) -> Iterator[Cluster]:  # noqa: ANN401 - distributed's type, which may be missing
    """Connect to a scheduler and look at its workers.

    Args:
        address: ``tls://host:8786``.
        security: Dask's security; None for a connection without any.
        wait_s: Seconds to wait for the scheduler, and for the first worker.

    Raises:
        ClusterError: The scheduler does not answer, no worker is there, or a worker has another lab.
    """
    import dask
    from distributed import Client

    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # our own sentences say what is lost
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
    while not any(one.cpus for one in cluster.members()):
        if time.monotonic() > until:
            raise ClusterError(
                f"no worker with the resource {CPU} is connected to {address}; "
                f"start one on each host: lab cluster worker {address}"
            )
        time.sleep(0.1)
        cluster.forget_members()
    names = [one.address for one in cluster.members() if one.cpus or one.card]
    for worker, (theirs, host) in cluster.call_on(remote.introduce, names).items():
        if reason := difference(identity(), theirs, f"{worker} on {host}"):
            raise ClusterError(reason)


def _member(address: str, facts: Mapping[str, Any]) -> Member:
    offers = facts.get("resources", {})
    card = next((name for name in offers if name not in {CPU, GPU}), "")
    return Member(address, str(facts.get("name", address)), int(offers.get(CPU, 0)), card if GPU in offers else "")


def _loss(error: BaseException | None) -> BaseException:
    """What Dask's error means for the caller."""
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        return WorkerLostError(f"{SURVIVED + 1} workers of the cluster were lost over it", killed=False)
    return error or WorkerLostError("its worker gave no reason", killed=False)


def _fail(piece: _Piece, error: BaseException) -> None:
    if not piece.promised.done():
        piece.promised.set_exception(error)
