"""Cards of a cluster: each has a Dask worker of its own, inside which our own GPU process keeps faults to one row.

`lab.gpu.process.localcards.LocalCards` hands out the work, notices cards that are lost and those that hang; here is
only what stands in for a session where the card is on another host.
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
"""Seconds that a card's worker may be away, as when it starts again, before the card counts as lost."""

_LOOK_S = 5.0


class ClusterCards:
    """Finds a cluster's cards; see `lab.gpu.process.cards.FindCards`."""

    def __init__(self, cluster: Cluster) -> None:
        """Look at a cluster."""
        self._cluster = cluster

    def __call__(self, *, measure: bool, every: bool = False, model: str = "") -> tuple[tuple[Card, ...], str]:
        """All cards of one model, or none and one sentence that says why.

        Raises:
            UserError: The cards are of several models, or none is of `model`.
        """
        del every  # a cluster is asked for to be used
        if not measure:
            return (), "Nothing was measured: --no-gpu was given."
        holders = [one.address for one in self._cluster.members() if one.card]
        if not holders:
            return (), "Nothing was measured: no worker of the cluster has a GPU."
        found = self._cluster.call_on(remote.card, holders).values()
        cards = {one.id: one for one in found if isinstance(one, Card)}
        if not cards:
            return (), next((one for one in found if isinstance(one, str)), "Nothing was measured: the GPUs are gone.")
        return of_one_model(_labelled(tuple(cards.values())), model), ""


def open_cards(cluster: Cluster, cards: Sequence[Card]) -> LocalCards:
    """Open cards of a cluster."""
    opened: list[LocalCards] = []

    def alone() -> bool:
        return not opened or len(opened[0].cards) < 2  # noqa: PLR2004 - this card and another one

    opened.append(LocalCards(cards, lambda card: RemoteSession(cluster, card, alone)))
    return opened[0]


class RemoteSession(GpuSession):
    """A session whose card is on another host; see `GpuSession`."""

    def __init__(
        self, cluster: Cluster, card: Card, alone: Callable[[], bool], now: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare; nothing starts yet.

        Args:
            cluster: The cluster.
            card: One of its cards.
            alone: Whether no other card takes work.
            now: The clock, in seconds.
        """
        super().__init__()
        self._cluster, self._card, self._alone, self._now = cluster, card, alone, now
        self._process: int | None = None

    @property
    def process_id(self) -> int | None:
        """Id of the GPU process on its host, as the last answer told it."""
        return self._process

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ClusterError):
            self._end()

    def start(self, timeout: float = START_TIMEOUT_S) -> GpuDescription:
        """Start the GPU process, unless it runs; see `GpuSession.start`."""
        found: GpuDescription = self._ask("start", timeout)
        return found

    def restart(self) -> GpuDescription:
        """End the GPU process and start a new one; see `GpuSession.restart`."""
        found: GpuDescription = self._ask("restart")
        return found

    def run(self, job: Job, policy: Policy) -> JobResult:
        """Run one job; see `GpuSession.run`. One that costs three Dask workers fails."""
        try:
            result: JobResult = self._ask("run", job, policy)
        except WorkerLostError as error:
            return JobResult(job.variant).failed(JobStage.CRASH, str(error))
        return result

    def survey(self, order: Survey, cubins: Mapping[str, bytes]) -> tuple[SurveyPoint, ...]:
        """Time many kernels at one size; see `GpuSession.survey`."""
        wanted = {one.kernel: cubins[one.kernel] for one in order.entrants}
        try:
            points: tuple[SurveyPoint, ...] = self._ask("survey", order, wanted)
        except WorkerLostError as error:
            return tuple(SurveyPoint(one.kernel, failure=str(error)) for one in order.entrants)
        return points

    def close(self) -> None:
        """End the GPU process."""
        self._end()

    def _end(self) -> None:
        holders = [one.address for one in self._cluster.members() if one.card == self._card.id]
        self._cluster.call_on(remote.end_session, holders, self._cluster.name)
        self._process = None

    def _ask(self, name: str, *args: object) -> Any:  # noqa: ANN401 - whatever the method returns
        """Call a method of the session over there.

        Raises:
            MissingToolError: No GPU process can start there, or the card's worker is gone and there are other cards.
            ClusterError: It is gone, and there is no other card; or the cluster can be used no more.
            WorkerLostError: It cost three Dask workers.
        """
        what = (remote.ask_session, (name, *args))
        promised = self._cluster.submit(remote.on_card, what, self._cluster.name, resource=self._card.id)
        seen = self._now()
        while True:
            try:
                value, self.workers, self._process, refused = promised.result(timeout=_LOOK_S)
                break
            except FutureTimeout:
                if promised.done():
                    raise  # the work's own
            if any(one.card == self._card.id for one in self._cluster.members()):
                seen = self._now()
            elif self._now() - seen > GONE_S:
                self._cluster.withdraw(promised)
                raise self._gone()
        if refused:
            raise MissingToolError(refused)
        return value

    def _gone(self) -> Exception:
        reason = f"the worker of {self._card.label} has been away for {GONE_S:g} s"
        if not self._alone():
            return MissingToolError(reason)
        return ClusterError(f"{reason}, and there is no other GPU. Everything finished is on disk; --resume goes on")


def _labelled(cards: Sequence[Card]) -> tuple[Card, ...]:
    """Name cards by their hosts, in order."""
    counted: Counter[str] = Counter()
    named = []
    for card in sorted(cards, key=lambda one: (one.host, one.id)):
        named.append(replace(card, label=f"{card.host} GPU {counted[card.host]}"))
        counted[card.host] += 1
    return tuple(named)
