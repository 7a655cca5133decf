"""The cards that a run measures on: one or several GPUs, behind the one seam that sweeps and tuning runs use.

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
        visible: What a process gets as ``CUDA_VISIBLE_DEVICES`` to see this card alone; empty leaves the environment's
            own, where the card is the first one.
        description: The GPU.
        label: What it is called on a page, unique within a run: ``GPU 1``, ``node7 GPU 1``.
    """

    id: str
    host: str
    visible: str
    description: GpuDescription
    label: str


@dataclass(frozen=True, slots=True)
class Ran:
    """A job that ran.

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
    """A survey that ran.

    Attributes:
        points: Its points, all from one card.
        card: Id of that card.
    """

    points: tuple[SurveyPoint, ...]
    card: str


class Cards(Protocol):
    """Cards of one model, each of which does one thing after another. Use as a context manager.

    A card that no new worker can use any more leaves the pool, and what it had not finished goes to the others; the
    last one stays, and its jobs fail one by one. Futures raise MissingToolError only where no card could start a worker
    at all. Leaving the context with an exception drops what waits and kills the workers.
    """

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards that take work now, in a fixed order; a lost one is not among them."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the reader of the report: which cards were lost, and why."""

    def submit(self, job: Job, policy: Policy, *, card: str | None = None, fresh: bool = False) -> Future[Ran]:
        """Add a job to the line of a card.

        Args:
            job: The job.
            policy: How to check and time it.
            card: Id of the card; None takes the one with the least to do. If that card is lost, another one runs the
                job, which the answer says.
            fresh: Run it in a new worker, which stays for the jobs behind it.
        """

    def survey(self, order: Survey, cubins: Mapping[str, bytes], *, card: str | None = None) -> Future[Surveyed]:
        """Add a survey to the line of a card; see `lab.gpu.process.session.GpuSession.survey`."""

    def release(self) -> None:
        """End every worker in order, so that all memory of the cards is free; the next job starts new ones."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class FindCards(Protocol):
    """Looks for the cards to measure on."""

    def __call__(self, *, measure: bool, every: bool = False, model: str = "") -> tuple[tuple[Card, ...], str]:
        """Cards of one model, or none and one sentence that says why; see `lab.gpu.process.find.find_cards`."""
