"""GPUs of a cluster: each has its own Dask worker, whose separate GPU process limits a fault to one row.

`lab.gpu.process.localcards.LocalCards` dispatches the jobs and notices lost or hanging cards; this module only
provides sessions on cards of other hosts.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from types import TracebackType
from typing import Any

from lab.base.errors import ClusterError, MissingToolError
from lab.base.executor import WorkerLostError
from lab.cluster import remote
from lab.cluster.client import Cluster
from lab.gpu.process.cards import Card
from lab.gpu.process.find import of_one_model
from lab.gpu.process.job import Job, JobResult, JobStage, Policy
from lab.gpu.process.localcards import LocalCards
from lab.gpu.process.session import START_TIMEOUT_S, GpuSession
from lab.gpu.timing.survey import Survey, SurveyPoint
from lab.measured.timing import GpuDescription

GONE_S = 60.0
"""Seconds that a card's worker may be absent, for example while it restarts, before the card counts as lost."""

_LOOK_S = 5.0


class ClusterCards:
    """Finds a cluster's cards; see `lab.gpu.process.cards.FindCards`."""

    def __init__(self, cluster: Cluster) -> None:
        """Search a cluster for cards."""
        self._cluster = cluster

    def __call__(self, *, measure: bool, every: bool = False, model: str = "") -> tuple[tuple[Card, ...], str]:
        """Return all cards of one model, or none and a sentence that says why.

        Raises:
            UserError: The cards are of several models, or none of them is a `model`.
        """
        del every  # all cards of a cluster are used
        if not measure:
            return (), "Nothing was measured: --no-gpu was given."
        holders = [member.address for member in self._cluster.members() if member.card]
        if not holders:
            return (), "Nothing was measured: no worker of the cluster has a GPU."
        answers = self._cluster.call_on(remote.card, holders).values()
        cards = {answer.id: answer for answer in answers if isinstance(answer, Card)}
        if not cards:
            return (), next(
                (answer for answer in answers if isinstance(answer, str)), "Nothing was measured: the GPUs are gone."
            )
        return of_one_model(_labelled(tuple(cards.values())), model), ""


def open_cards(cluster: Cluster, cards: Sequence[Card]) -> LocalCards:
    """Open the given cards of a cluster."""
    opened: list[LocalCards] = []

    def alone() -> bool:
        return not opened or len(opened[0].cards) < 2  # noqa: PLR2004 - this card and one more

    opened.append(LocalCards(cards, lambda card: RemoteSession(cluster, card, alone)))
    return opened[0]


class RemoteSession(GpuSession):
    """A session on a card of another host; see `GpuSession`."""

    def __init__(
        self, cluster: Cluster, card: Card, alone: Callable[[], bool], now: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare the session; nothing starts yet.

        Args:
            cluster: The cluster.
            card: One of its cards.
            alone: Returns whether this is the only usable card.
            now: The clock, in seconds.
        """
        super().__init__()
        self._cluster, self._card, self._alone, self._now = cluster, card, alone, now
        self._process: int | None = None

    @property
    def process_id(self) -> int | None:
        """Id of the GPU process on its host, according to its last answer."""
        return self._process

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ClusterError):
            self._end()

    def start(self, timeout: float = START_TIMEOUT_S) -> GpuDescription:
        """Start the GPU process if it is not running; see `GpuSession.start`."""
        description: GpuDescription = self._ask("start", timeout)
        return description

    def restart(self) -> GpuDescription:
        """End the GPU process and start a new one; see `GpuSession.restart`."""
        description: GpuDescription = self._ask("restart")
        return description

    def run(self, job: Job, policy: Policy) -> JobResult:
        """Run one job; see `GpuSession.run`. A job over which three Dask workers are lost fails."""
        try:
            result: JobResult = self._ask("run", job, policy)
        except WorkerLostError as error:
            return JobResult(job.variant).failed(JobStage.CRASH, str(error))
        return result

    def survey(self, order: Survey, cubins: Mapping[str, bytes]) -> tuple[SurveyPoint, ...]:
        """Time many kernels at one size; see `GpuSession.survey`."""
        images = {entrant.kernel: cubins[entrant.kernel] for entrant in order.entrants}
        try:
            points: tuple[SurveyPoint, ...] = self._ask("survey", order, images)
        except WorkerLostError as error:
            return tuple(SurveyPoint(entrant.kernel, failure=str(error)) for entrant in order.entrants)
        return points

    def close(self) -> None:
        """End the GPU process."""
        self._end()

    def _end(self) -> None:
        holders = [member.address for member in self._cluster.members() if member.card == self._card.id]
        self._cluster.call_on(remote.end_session, holders, self._cluster.name)
        self._process = None

    def _ask(self, name: str, *args: object) -> Any:  # noqa: ANN401 - whatever the method returns
        """Call a method of the session on the card's host.

        Raises:
            MissingToolError: No GPU process can start there, or the card's worker is lost and there are other cards.
            ClusterError: The worker is lost and there is no other card, or the cluster has become unusable.
            WorkerLostError: Three Dask workers were lost over the call.
        """
        request = (remote.ask_session, (name, *args))
        future = self._cluster.submit(remote.on_card, request, self._cluster.name, resource=self._card.id)
        last_seen = self._now()
        while True:
            try:
                value, self.workers, self._process, refused = future.result(timeout=_LOOK_S)
                break
            except FutureTimeout:
                if future.done():
                    raise  # raised by the task itself
            if any(member.card == self._card.id for member in self._cluster.members()):
                last_seen = self._now()
            elif self._now() - last_seen > GONE_S:
                self._cluster.withdraw(future)
                raise self._gone()
        if refused:
            raise MissingToolError(refused)
        return value

    def _gone(self) -> Exception:
        reason = f"the worker of {self._card.label} has been away for {GONE_S:g} s"
        if not self._alone():
            return MissingToolError(reason)
        return ClusterError(
            f"{reason}, and there is no other GPU. Everything finished is on disk; --resume continues the run"
        )


def _labelled(cards: Sequence[Card]) -> tuple[Card, ...]:
    """Label cards by their hosts, numbered in order of their ids."""
    counted: Counter[str] = Counter()
    labelled = []
    for card in sorted(cards, key=lambda card: (card.host, card.id)):
        labelled.append(replace(card, label=f"{card.host} GPU {counted[card.host]}"))
        counted[card.host] += 1
    return tuple(labelled)
