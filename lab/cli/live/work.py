"""Progress of a command on one file: a board on a terminal, lines elsewhere, both only after a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.live import Live

from lab.cli.live.account import Account
from lab.cli.live.board import Board
from lab.cli.live.progress_lines import ProgressLines
from lab.cli.live.snapshot import Snapshot, Stage

QUIET_S: Final = 2.0
"""Seconds before a command shows progress."""


class WorkAccount(Account):
    """The account of a command that reports no events and is polled for its progress."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty.

        Args:
            clock: A monotonic clock, in seconds.
        """
        super().__init__(clock)
        self._look: Callable[[], Sequence[Stage]] = tuple
        self._begin("", "", "", ())

    def follow(self, look: Callable[[], Sequence[Stage]]) -> None:
        """Follow another part of the work by a function that returns its progress."""
        self._look = look

    def snapshot(self, after: int | None = None) -> Snapshot:
        """Return the current state. Arguments as in `Account.snapshot`."""
        stages = {stage.name: stage for stage in self._look()}
        with self._lock:
            self._stages = stages
        return super().snapshot(after)


@contextmanager
def work_progress(console: Console) -> Iterator[WorkAccount]:
    """Show the progress of a command, once it has taken `QUIET_S`.

    Args:
        console: The console, which should be on stderr.
    """
    account = WorkAccount()
    if not console.is_interactive:
        with ProgressLines(console, account, first_s=QUIET_S):
            yield account
        return
    live = Live(Board(account), console=console, refresh_per_second=5, transient=True)
    timer = threading.Timer(QUIET_S, live.start)
    timer.daemon = True
    timer.start()
    try:
        yield account
    finally:
        timer.cancel()
        timer.join()
        live.stop()
