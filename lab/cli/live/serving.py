"""The live page from the command's side: opened before the work, notified of the end, kept until Ctrl-C."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console

from lab.base import interrupts
from lab.cli.live.account import Account
from lab.cli.terminal import Text

if TYPE_CHECKING:  # the server is imported where it is asked for
    from lab.cli.live.server import LiveServer


class LivePage:
    """A command's live page, or nothing where none was requested.

    The page outlives the work, since its link to the report is of use only then. It is there until Ctrl-C, which no
    longer interrupts anything: the exit code is that of the work. Where nobody can press Ctrl-C, as in a batch job, and
    after a run that was interrupted, it ends with the command.
    """

    def __init__(self, account: Account, console: Console, *, serve: bool, port: int | None) -> None:
        """Open nothing yet.

        Args:
            account: The account the page shows.
            console: Where its address is printed, which should be on stderr.
            serve: Serve the page.
            port: Port to listen on, which implies `serve`; None takes a free one.

        Raises:
            UserError: the port is not available.
        """
        self._account, self._console = account, console
        self._server = _server(account, port or 0) if serve or port is not None else None

    def __enter__(self) -> Self:
        if self._server is not None:
            self._server.__enter__()
            self._print(f"live page, for this machine only: {self._server.address}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.__exit__(kind, error, trace)

    def ended(self, folder: Path, *, interrupted: bool) -> None:
        """Show on the page that the work is over, and where the report is."""
        self._account.ended(folder, interrupted=interrupted)

    def stay(self) -> None:
        """Serve until Ctrl-C, if someone can press it."""
        if self._server is None or not attended():
            return
        self._print("the live page and the report are served until Ctrl-C")
        with suppress(KeyboardInterrupt), interrupts.stoppable(message="the live page is closed"):
            interrupts.wait(threading.Event().wait)

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)  # an address in two pieces cannot be opened


def _server(account: Account, port: int) -> LiveServer:
    from lab.cli.live.server import LiveServer  # noqa: PLC0415 - few runs need a web server

    return LiveServer(account, port)


def attended() -> bool:
    """Return whether someone at a terminal can end this process with Ctrl-C."""
    return interrupts.is_handled() and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
