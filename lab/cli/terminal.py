"""The standard output of a command: as wide as its terminal, and never cropped where it is a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

from rich.console import COLOR_SYSTEMS, Console
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


def write(console: Console, parts: Iterable[tuple[str, str]]) -> None:
    """Write texts as they are, each in a style of rich's: rich itself takes 10 s to lay out a million lines."""
    color_system = COLOR_SYSTEMS.get(console.color_system or "")
    for text, style in parts:
        console.file.write(console.get_style(style).render(text, color_system=color_system) if style else text)


def columns(headers: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return lines of aligned cells, one below the other.

    Args:
        headers: Of each column, in one line or several.
        rows: The cells below.
        left: Columns that are aligned to the left; the others are aligned to the right.
    """
    heads = [header.split("\n") for header in headers]
    height = max(map(len, heads))
    top = zip(*([""] * (height - len(head)) + head for head in heads), strict=True)
    lines = [*top, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    form = "  ".join(f"{{:{'<' if place < left else '>'}{width}}}" for place, width in enumerate(widths))
    return "".join(f"{form.format(*line).rstrip()}\n" for line in lines)
