"""The terminal's view of a running command: a line per stage, the time left, the best so far."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult

from lab.cli.live.account import Account
from lab.cli.live.snapshot import Best, Phase, Snapshot, clock_text
from lab.cli.terminal import Text

_MOST_BEST = 3
_LINES, _ASCII = ("━", "─"), ("#", ".")
"""Characters of the done and the open part of a bar, distinguishable without colour."""
_LONGEST_BAR = 30
_SHORTEST_BAR = 8
_ROOM_FOR_BAR = 8
"""Columns to keep free beside a bar and its words."""


class Board:
    """A display of an account's current state, at any width.

    Attributes:
        over: The command is over: its results are printed below and not drawn here.
    """

    def __init__(self, account: Account) -> None:
        """Display this account."""
        self._account = account
        self.over = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the lines."""
        now = self._account.snapshot()
        yield from _stages(now, options.max_width, _ASCII if options.ascii_only else _LINES)
        details = () if self.over else (*best_words(now, _MOST_BEST), _doing(now))
        for line in (time_words(now), *details):
            yield Text(line, no_wrap=True, overflow="ellipsis")


def _doing(now: Snapshot) -> str:
    """Return the latest event, or the phase under way."""
    return f"{now.phase} …" if now.phase is not Phase.WORKING else now.latest


def _stages(now: Snapshot, width: int, bar: tuple[str, str]) -> Iterator[Text]:
    """Yield a line per stage, with a bar where there is room for one."""
    longest = max((len(stage.name) for stage in now.stages), default=0)
    for stage in now.stages:
        count = f"{stage.done}" if stage.total is None else f"{stage.done}/{stage.total}"
        line = Text(f"{stage.name.ljust(longest)}  {count}", no_wrap=True, overflow="ellipsis")
        room = min(_LONGEST_BAR, width - len(line.plain) - _ROOM_FOR_BAR)
        if stage.total and room >= _SHORTEST_BAR:
            filled = min(room, room * stage.done // stage.total)
            line = Text(f"{stage.name.ljust(longest)}  ", no_wrap=True)
            line.append(bar[0] * filled, style="green").append(bar[1] * (room - filled), style="dim").append(
                f"  {count}"
            )
        yield line


def time_words(now: Snapshot) -> str:
    """Return the elapsed time and the estimate of the remaining time."""
    remaining = "" if now.left_s is None else f", about {clock_text(now.left_s)} left"
    failed = f", {now.failed} failed" if now.failed else ""
    return f"{clock_text(now.elapsed_s)}{remaining}{failed}"


def best_words(now: Snapshot, limit: int) -> list[str]:
    """Return the best of each group, one line each, and count those without room."""
    lines = [_best(best) for best in now.best[:limit]]
    further = now.groups - len(lines)
    return [*lines, f"and the best of {further} more"] if further and lines else lines


def _best(best: Best) -> str:
    group = f" of {best.group}" if best.group else ""
    variant = f"{best.variant} " if best.variant else ""
    return f"best{group}: {best.figure} ({best.kind}): {variant}{best.name}"
