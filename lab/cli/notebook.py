"""Notebooks: values as their commands print them, and the progress of runs."""

from __future__ import annotations

import importlib
import io
import sys
import time
from collections.abc import Callable
from functools import singledispatch
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console
from rich.text import Text

from lab.cli.comparison import print_comparison
from lab.cli.inspect import Inspection
from lab.cli.listing import print_inspection
from lab.cli.live.board import Board
from lab.cli.live.run_account import RunAccount
from lab.cli.tables import print_emulation, print_traffic, variant_lines
from lab.cli.terminal import Output
from lab.emulator.results import Emulation
from lab.recorded.run_records import EmulationRecord, VariantRecord
from lab.runs.compare import Comparison
from lab.store.verdicts import describe_full_size

_COLUMNS: Final = 110
_THRESHOLD: Final = 0.05
"""Loss of throughput that counts as a regression, as by default in `lab compare`."""
_STYLE: Final = "overflow-x: auto; line-height: 1.3; font-size: 0.85em"
_EVERY_S: Final = 0.5


def html_of(value: object) -> str:
    """Return a value as HTML: what the command on it prints, with its colours."""
    written = io.StringIO()
    _print(value, _console(written, force_terminal=True, color_system="truecolor"))
    return _html(written.getvalue())


def _console(file: io.StringIO, **options: Any) -> Output:  # noqa: ANN401 - those of rich
    """Return a console that writes into memory, also in a notebook, where rich would display at once."""
    return Output(file=file, width=_COLUMNS, force_jupyter=False, **options)


def _html(text: str) -> str:
    """Return text with a terminal's colours as preformatted HTML."""
    recorder = _console(io.StringIO(), record=True)
    recorder.print(Text.from_ansi(text), soft_wrap=True)
    code = f'<pre style="{_STYLE}">{{code}}</pre>'
    return recorder.export_html(inline_styles=True, code_format=code)


@singledispatch
def _print(value: object, console: Console) -> None:
    console.print(repr(value))


@_print.register
def _(value: Comparison, console: Console) -> None:
    print_comparison(console, value, _THRESHOLD)


@_print.register
def _(value: Inspection, console: Console) -> None:
    print_inspection(console, value, full=False)


@_print.register
def _(value: Emulation, console: Console) -> None:
    print_emulation(console, value)


@_print.register
def _(value: EmulationRecord, console: Console) -> None:
    for line in (value.wrong, value.unsupported, *(finding.detail for finding in value.findings)):
        if line:
            console.print(line, style="red")
    if value.verification is not None:
        console.print("outputs as expected" if value.verification.passed else "outputs are wrong")
    if value.full_size is not None:
        console.print(f"at the problem's own size: {describe_full_size(value.full_size)}")
    if value.executed is not None:
        print_traffic(console, value.executed)


@_print.register
def _(value: VariantRecord, console: Console) -> None:
    for line in variant_lines(value):
        console.print(line)
    if value.emulation is not None:
        _print(value.emulation, console)


class NotebookProgress:
    """Progress of a run below a notebook's cell; a `RunObserver`."""

    def __init__(self, show: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Show nothing yet.

        Args:
            show: Replaces the HTML below the cell.
            clock: Seconds on a clock that nobody can set.
        """
        self._show, self._clock, self._next = show, clock, clock()
        self._account = RunAccount(clock)
        self._board = Board(self._account)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._board.over = True
        self._draw()

    def __getattr__(self, event: str) -> Callable[..., None]:
        """Return a function that accounts for an event and draws the board, at most twice a second."""
        if event.startswith("_"):
            raise AttributeError(event)
        account = getattr(self._account, event)

        def observe(*details: Any) -> None:  # noqa: ANN401 - those of `RunObserver`
            account(*details)
            if self._clock() >= self._next:
                self._next = self._clock() + _EVERY_S
                self._draw()

        return observe

    def _draw(self) -> None:
        written = io.StringIO()
        _console(written, force_terminal=True, color_system="truecolor").print(self._board)
        self._show(_html(written.getvalue()))


def progress() -> NotebookProgress | None:
    """Return the progress of a run below the cell of a notebook; None outside of notebooks."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    shown = importlib.import_module("IPython.display")
    cell = shown.display(shown.HTML(""), display_id=True)
    return NotebookProgress(lambda html: cell.update(shown.HTML(html)))
