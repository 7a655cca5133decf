"""The standard output of a command: as wide as its terminal, and never cropped where it is a file or a pipe."""

from __future__ import annotations

import sys
from typing import NoReturn

from rich.console import Console
from rich.text import Text

UNBOUNDED = 100_000
"""Columns of an output that is no terminal: more than any line has."""


class Output(Console):
    """A console on standard output. A reader that goes away, as `| head` does, is a `BrokenPipeError` for `main`."""

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to `main`, where rich would end the process with code 1."""
        raise BrokenPipeError


def stdout() -> Output:
    """A console on standard output."""
    return Output() if sys.stdout.isatty() else Output(width=UNBOUNDED, no_color=True)


def rule(console: Console, title: str) -> None:
    """Print a title across a terminal; elsewhere a short line of its own."""
    if console.is_terminal:
        console.rule(Text(title))
    else:
        console.print(Text(f"── {title} ──"))
