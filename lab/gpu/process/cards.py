"""The GPUs that a run measures on, behind one interface for sweeps and tuning runs.

`lab.gpu.process.localcards` implements it for the GPUs of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from lab.gpu.process.job import Job, JobResult, Policy
from lab.gpu.timing.survey import Survey, SurveyPoint
from lab.measured.timing import GpuDescription


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU.

    Attributes:
        id: Its UUID as the driver gives it: ``GPU-3f0c…``; a stand-in's may be any name.
        host: Name of its machine; empty for this one.
        visible: Value of ``CUDA_VISIBLE_DEVICES`` that selects this card alone; empty keeps the environment's value,
            in which the card is the first.
        description: The GPU.
        label: Its name in reports, unique within a run: ``GPU 1``, ``node7 GPU 1``.
    """

    id: str
    host: str
    visible: str
    description: GpuDescription
    label: str


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished job.

    Attributes:
        result: Its result.
        card: Id of the card on which it ran.
        worker: Number of the worker on that card, counted from 1.
    """

    result: JobResult
    card: str
    worker: int


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A finished survey.

    Attributes:
        points: Its points, all from one card.
        card: Id of that card.
    """

    points: tuple[SurveyPoint, ...]
    card: str


class Cards(Protocol):
    """A pool of cards of one model, each running its jobs in order. Use as a context manager.

    A card on which no new worker can start leaves the pool, and its unfinished jobs move to the others. The last card
    stays, and its jobs fail one by one. Futures raise MissingToolError only if no card could start a worker at all.
    Leaving the context with an exception drops queued jobs and kills the workers.
    """

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards in use, in a fixed order, without lost ones."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the report: which cards were lost, and why."""

    def submit(self, job: Job, policy: Policy, *, card: str | None = None, fresh: bool = False) -> Future[Ran]:
        """Queue a job on a card.

        Args:
            job: The job.
            policy: How to check and time it.
            card: Id of the card; None takes the least busy one. If that card is lost, another one runs the
                job, and the result names it.
            fresh: Run it in a new worker, which also runs the jobs after it.
        """

    def survey(self, order: Survey, cubins: Mapping[str, bytes], *, card: str | None = None) -> Future[Surveyed]:
        """Queue a survey on a card; see `lab.gpu.process.session.GpuSession.survey`."""

    def release(self) -> None:
        """Shut down every worker to free the cards' memory; the next job starts new ones."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class FindCards(Protocol):
    """A function that finds the cards to measure on."""

    def __call__(self, *, measure: bool, every: bool = False, model: str = "") -> tuple[tuple[Card, ...], str]:
        """Return cards of one model, or none and the reason in one sentence; see `lab.gpu.process.find.find_cards`."""
