"""Draw a run's report in a separate process, which prepares while the sweep runs.

What a report needs takes seconds to import, and the page's charts as long again to be bundled where the user's cache
lacks them. The main process would do all of that after the last record.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from lab.base import workers
from lab.base.executor import Executor, ProcessExecutor, WorkerLostError
from lab.runs.services import draw_report
from lab.store.database import Store

TIMEOUT_S: Final = 3600.0
"""Time limit for a report in seconds; one of 10,000 records takes half a minute."""

PAINTERS: Final = ("lab.report.charts.painting", "lab.report.charts.png", "lab.report.variant.listings")
"""Modules preloaded into the processes that draw pictures and prepare listings."""


class Drawer(Protocol):
    """Writer of a run's report, used once, as a context manager."""

    def begin(self) -> None:
        """Start preparing; later calls do nothing."""

    def __call__(self, store: Store) -> tuple[Path, ...]:
        """Write the report; see `lab.report.render.render`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class DrawHere:
    """A drawer that calls a function in this process and needs no preparation."""

    def __init__(self, render: Callable[[Store], tuple[Path, ...]]) -> None:
        """Use this function to draw."""
        self._render = render

    def begin(self) -> None:
        """Do nothing."""

    def __call__(self, store: Store) -> tuple[Path, ...]:
        """Write the report."""
        return self._render(store)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class ReportProcess:
    """A process that draws a run's report; leaving the context ends it."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._stack = ExitStack()
        self._executor: Executor | None = None

    def begin(self) -> None:
        """Start the process and its preparation."""
        if self._executor is None:
            self._executor = self._stack.enter_context(ProcessExecutor(1))
            self._executor.submit(get_ready, timeout_s=TIMEOUT_S)

    def __call__(self, store: Store) -> tuple[Path, ...]:
        """Write the report in that process, or in this one if the process is lost."""
        if self._executor is None:
            return draw_report(store)
        try:
            pages: tuple[Path, ...] = self._executor.submit(draw, store.folder, timeout_s=TIMEOUT_S).result()
        except WorkerLostError:
            return draw_report(store)
        return pages

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def drawer(render: Callable[[Store], tuple[Path, ...]]) -> Drawer:
    """Return the drawer for a render function: a separate process for the usual one."""
    return ReportProcess() if render is draw_report else DrawHere(render)


def get_ready() -> None:
    """Import what a report needs and bundle the assets every page shares."""
    workers.prepare(PAINTERS)
    from lab.report import render  # noqa: F401, PLC0415 - this is the work
    from lab.report.page.page import warm  # noqa: PLC0415

    warm()


def draw(folder: Path) -> tuple[Path, ...]:
    """Write the report of a run directory that another process may have open for writing."""
    with Store(folder) as store:
        return draw_report(store)
