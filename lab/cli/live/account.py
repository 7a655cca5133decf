"""The account of a running command: the main thread reports events, and any thread may read it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from lab.base.errors import UserError
from lab.cli.live.pace import WorkPace
from lab.cli.live.snapshot import Best, Link, Phase, Row, Snapshot, Stage

MOST_ROWS: Final = 1000
"""Newest rows to keep: a page with more of them helps nobody, and the report has them all."""

MOST_FAILURES: Final = 200
"""First failures to keep."""

MOST_BEST: Final = 200
"""Most groups whose best is shown, in order of arrival."""


class Account:
    """The state of any command.

    Attributes:
        folder: Where the report is; None until it is there.
    """

    subject_pieces = "variants"

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty.

        Args:
            clock: A monotonic clock, in seconds.
        """
        self.folder: Path | None = None
        self._clock, self._begun = clock, clock()
        self._lock = threading.Lock()
        self._pace = WorkPace(clock)
        self._subject, self._question, self._hardware, self._latest = "", "", "", ""
        self._phase = Phase.STARTING
        self._stages: dict[str, Stage] = {}
        self._rows: deque[Row] = deque(maxlen=MOST_ROWS)
        self._failures: list[Row] = []
        self._finished = self._failed = 0
        self._notes: dict[str, None] = {}
        self._links: dict[str, Link] = {}
        self._ended_s: float | None = None

    def link(self, title: str, address: str) -> None:
        """Show an address beside the rest, such as that of Dask's dashboard.

        Raises:
            UserError: the address is not an HTTP URL.
        """
        if not address.startswith(("http://", "https://")):
            raise UserError(
                "not the address of a page",
                code="wrong-value",
                key=title,
                found=address,
                accepted="http://… or https://…",
            )
        with self._lock:
            self._links[title] = Link(title, address)

    def noted(self, sentence: str) -> None:
        """Keep a note that the report shows, too, once."""
        with self._lock:
            self._notes[sentence] = None

    def drawing(self) -> None:
        """Record that the report is being drawn."""
        with self._lock:
            self._phase = Phase.DRAWING

    def ended(self, folder: Path, *, interrupted: bool) -> None:
        """Record that the report is there and the command is over.

        Args:
            folder: Where the report is.
            interrupted: Ctrl-C ended the command early.
        """
        with self._lock:
            self.folder, self._phase = folder, Phase.INTERRUPTED if interrupted else Phase.FINISHED
            self._ended_s = self._clock() - self._begun

    def snapshot(self, after: int | None = None) -> Snapshot:
        """Return the current state.

        Args:
            after: Number of the last row that the caller has; only later ones are returned, and none by default.
        """
        with self._lock:
            remaining_s = self._left()
            working = self._phase is Phase.WORKING
            best = self._best()
            return Snapshot(
                subject=self._subject,
                question=self._question,
                hardware=self._hardware,
                phase=self._phase,
                elapsed_s=self._clock() - self._begun if self._ended_s is None else self._ended_s,
                left_s=remaining_s if working else None,
                pace=self._pace_words() if working and remaining_s else "",
                stages=tuple(self._stages.values()),
                best=best[:MOST_BEST],
                groups=len(best),
                latest=self._latest,
                rows=() if after is None else tuple(row for row in self._rows if row.number > after),
                finished=self._finished,
                failures=tuple(self._failures),
                failed=self._failed,
                notes=tuple(self._notes),
                links=tuple(self._links.values()),
                reported=self.folder is not None,
            )

    def _best(self) -> tuple[Best, ...]:
        """Return the best of each group so far; called with the lock held."""
        return ()

    def _left(self) -> float | None:
        """Return the remaining seconds of the work; called with the lock held."""
        return None

    def _pace_words(self) -> str:
        """Explain the estimate of `_left`; called with the lock held."""
        return (
            f"the time of the last {self._pace.counted} {self.subject_pieces}, for each remaining one; "
            "the report is drawn after that"
        )

    def _begin(self, subject: str, question: str, hardware: str, stages: Iterable[Stage]) -> None:
        """Record the extent of the work; called with the lock held."""
        self._subject, self._question, self._hardware = subject, question, hardware
        self._stages = {stage.name: stage for stage in stages}
        self._phase = Phase.WORKING
        self._pace.begin()

    def _advance(self, name: str, count: int = 1) -> None:
        """Count finished tasks of a stage; called with the lock held."""
        stage = self._stages[name]
        self._stages[name] = replace(stage, done=stage.done + count)

    def _lengthen(self, name: str, by: int) -> None:
        """Add tasks to the total of a stage; called with the lock held."""
        stage = self._stages.get(name, Stage(name, 0))
        self._stages[name] = replace(stage, total=(stage.total or 0) + by)

    def _append(self, row: Row) -> None:
        """Append a finished row and number it; called with the lock held."""
        self._finished += 1
        row = replace(row, number=self._finished)
        self._rows.append(row)
        if row.failed:
            self._failed += 1
            if len(self._failures) < MOST_FAILURES:
                self._failures.append(row)
