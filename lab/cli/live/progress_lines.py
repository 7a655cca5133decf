"""Progress without a terminal: a line now and then, and the first failures, each as it comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console

from lab.cli.live.account import Account
from lab.cli.live.board import best_words, time_words
from lab.cli.live.snapshot import Snapshot
from lab.cli.terminal import Text

EVERY_S: Final = 30.0
"""Seconds from one line to the next."""

MOST_FAILURES: Final = 5
"""Failures with a line of their own; the others are counted in the lines and listed in the report."""


class ProgressLines:
    """Printer of progress lines while the context is open."""

    def __init__(
        self,
        console: Console,
        account: Account,
        clock: Callable[[], float] = time.monotonic,
        first_s: float = EVERY_S,
    ) -> None:
        """Print the state of an account on a console.

        Args:
            console: The console.
            account: The account to print.
            clock: A monotonic clock, in seconds.
            first_s: Seconds until the first line.
        """
        self._console, self._account, self._clock = console, account, clock
        self._next = clock() + first_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="progress lines", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def due(self) -> None:
        """Print a line if it is time for one."""
        if self._clock() < self._next:
            return
        self._next = self._clock() + EVERY_S
        self._console.print(Text(line(self._account.snapshot())), soft_wrap=True)

    def _work(self) -> None:
        while not self._over.wait(max(0.0, self._next - self._clock())):
            self.due()


def line(now: Snapshot) -> str:
    """Return the state in one line."""
    counts = ", ".join(
        f"{stage.name} {stage.done}" if stage.total is None else f"{stage.name} {stage.done}/{stage.total}"
        for stage in now.stages
    )
    words = [time_words(now), counts or str(now.phase), *best_words(now, 1)]
    return "; ".join(words)
