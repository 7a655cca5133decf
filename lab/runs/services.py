"""The services a run uses, as one argument: tests and other executors replace them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lab.base import workers
from lab.base.executor import Executor, ProcessExecutor
from lab.gpu.counters.profile import Counted, ProfileOrder, profiles
from lab.gpu.process.cards import Card, Cards, FindCards
from lab.gpu.process.find import find_cards
from lab.gpu.process.localcards import LocalCards
from lab.report.aside import Aside, Crew
from lab.stages.batches import BuildFunction
from lab.stages.build import build
from lab.store.database import Store


class ReadCounters(Protocol):
    """Reader of hardware counters."""

    def __call__(self, orders: Sequence[ProfileOrder], *, seconds: float) -> Iterable[Counted]:
        """Yield counts as they arrive, in at most `seconds`; see `lab.gpu.counters.profile.profiles`."""


def draw_report(store: Store) -> tuple[Path, ...]:
    """Write the report of a run; see `lab.report.render.render`."""
    # importing it takes a second, in which the first builds can begin
    from lab.report.render import render  # noqa: PLC0415

    with helpers() as aside:
        return render(store, aside=aside)


@contextmanager
def helpers() -> Iterator[Aside]:
    """Open local worker processes that draw a report's pictures and prepare its listings."""
    with ProcessExecutor(workers.cores()) as executor:
        yield Crew(executor)


@dataclass(frozen=True, slots=True)
class Services:
    """The environment of a run.

    Attributes:
        prepare: Starts slow services; called first.
        find_cards: Looks for the cards to measure on.
        cards: Opens them; workers start while the first variants are built.
        executor: Makes the executor for a number of jobs.
        build: Builds a batch of variants; runs on the executor.
        read_counters: Reads hardware counters.
        render: Writes the report of a run directory.
    """

    prepare: Callable[[], None] = workers.prepare
    find_cards: FindCards = find_cards
    cards: Callable[[Sequence[Card]], Cards] = LocalCards
    executor: Callable[[int], Executor] = ProcessExecutor
    build: BuildFunction = build
    read_counters: ReadCounters = profiles
    render: Callable[[Store], tuple[Path, ...]] = draw_report

    @property
    def starts_ahead(self) -> bool:
        """True if the cards' workers are processes of this one and can be started early."""
        return self.cards is LocalCards
