"""The consoles of a command: as wide as a terminal, and never cropped in a file or a pipe."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text as PlainText

from lab.base.terminal import visible

UNBOUNDED = 100_000
"""Columns of an output that is not a terminal: more than any line has."""


class Text(PlainText):
    """A text with escaped control characters, which therefore count in its width."""

    def __init__(self, text: str = "", style: str | Style = "", **options: Any) -> None:  # noqa: ANN401 - those of rich
        """Create a text; see `rich.text.Text`."""
        super().__init__(visible(text), style, **options)


class Output(Console):
    """A console that writes no control characters but its own, and reads no markup in texts.

    A reader that goes away, as `| head` does, is a `BrokenPipeError` for `main`.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of rich
        """Create a console; see `rich.console.Console`."""
        self.paging = False
        """The terminal gets what is written from a pager."""
        super().__init__(markup=False, emoji=False, **options)

    @property
    def is_terminal(self) -> bool:
        """True if what is written reaches a terminal, also by way of a pager."""
        return self.paging or super().is_terminal

    def render_str(self, text: str, **options: Any) -> PlainText:  # noqa: ANN401 - those of rich
        """Create a text from a string, such as a table's cell, which is measured before it is rendered."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render what is printed; the source in `Syntax` passes only through here."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)

    def on_broken_pipe(self) -> NoReturn:
        """Raise the error for `main`; rich would end the process with code 1."""
        raise BrokenPipeError


def stdout() -> Output:
    """Return a console on standard output."""
    if sys.stdout.isatty():
        return Output()
    return Output(width=UNBOUNDED, no_color=True)


def stderr() -> Output:
    """Return a console on standard error."""
    return Output(stderr=True)


@contextmanager
def paged(console: Output) -> Iterator[None]:
    """Show what is printed in the meantime in a pager, where the console is a terminal and it is longer than that.

    The pager is that of the environment variable PAGER, else `less`; where there is none, it is printed.
    """
    if not console.is_terminal or not sys.stdin.isatty():
        yield
        return
    target, buffer = console.file, io.StringIO()
    console.file, console.paging = buffer, True
    try:
        yield
    finally:
        console.file, console.paging = target, False
        text = buffer.getvalue()
        command = shlex.split(os.environ.get("PAGER") or "less")
        if text.count("\n") < console.height or not command or shutil.which(command[0]) is None:
            target.write(text)
        else:
            environment = {"LESS": "-FRX", **os.environ}  # colours as they are; quit where it fits a screen
            subprocess.run(command, input=text, text=True, env=environment, check=False)


def print_flowing(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """Print a line; on a terminal, break it between words.

    A word longer than the terminal, such as a path, stays whole so that it can be copied.

    Args:
        console: Where.
        text: The line.
        style: Its style.
        indent: Columns before the second line and those after it.
    """
    lines = [text]
    if console.is_terminal:
        wrapped = textwrap.wrap(
            visible(text),
            console.width,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines = wrapped or lines
    for line in lines:
        console.print(Text(line, style=style), soft_wrap=True)


def rule(console: Console, title: str) -> None:
    """Print a title across a terminal; elsewhere, on a short line of its own."""
    if console.is_terminal:
        console.rule(Text(title))
    else:
        console.print(Text(f"── {title} ──"))


def write(console: Console, parts: Iterable[tuple[str, str]]) -> None:
    """Write texts without layout, each in a style of rich, which takes 10 s to lay out a million lines."""
    color_system = COLOR_SYSTEMS.get(console.color_system or "")
    for text, style in parts:
        escaped = visible(text)
        try:
            console.file.write(
                console.get_style(style).render(escaped, color_system=color_system) if style else escaped
            )
        except BrokenPipeError:
            # click ends a command with code 1 at an error with this number; see `Output.on_broken_pipe`
            raise BrokenPipeError from None


def columns(headers: Sequence[str], rows: Sequence[Sequence[str]], left_aligned: int = 1) -> str:
    """Return lines of aligned cells.

    Args:
        headers: Header of each column, in one line or several.
        rows: The cells below.
        left_aligned: Columns that are aligned to the left; the others are aligned to the right.
    """
    heads = [header.split("\n") for header in headers]
    height = max(map(len, heads))
    top = zip(*([""] * (height - len(head)) + head for head in heads), strict=True)
    lines = [*top, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    form = "  ".join(f"{{:{'<' if place < left_aligned else '>'}{width}}}" for place, width in enumerate(widths))
    return "".join(f"{form.format(*line).rstrip()}\n" for line in lines)
