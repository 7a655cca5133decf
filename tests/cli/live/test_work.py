"""Progress of commands that work on one file."""

from __future__ import annotations

import io
import threading

from live_support import Clock, written
from rich.console import Console

from lab.cli.live import work
from lab.cli.live.progress_lines import EVERY_S, ProgressLines
from lab.cli.live.snapshot import Stage
from lab.cli.live.work import QUIET_S, WorkAccount, work_progress


def test_the_first_line_comes_after_a_while_and_says_how_far_the_work_is():
    clock, lines_done = Clock(), [0]
    account, console = WorkAccount(clock), Console(file=io.StringIO(), width=40)
    lines = ProgressLines(console, account, clock, first_s=QUIET_S)
    account.follow(lambda: [Stage("lines of PTX", lines_done[0], 1000), Stage("faults", 3)])
    clock.now = QUIET_S - 0.1
    lines.due()
    assert not written(console)
    clock.now, lines_done[0] = QUIET_S, 250
    lines.due()
    assert written(console) == "0:02; lines of PTX 250/1000, faults 3\n"
    account.follow(lambda: [Stage("kernels", 1, 4)])
    clock.now = QUIET_S + EVERY_S
    lines.due()
    assert written(console).splitlines()[1:] == ["0:32; kernels 1/4"]


def test_a_quick_command_shows_nothing():
    for interactive in (False, True):
        console = Console(file=io.StringIO(), force_terminal=interactive, force_interactive=interactive)
        with work_progress(console) as account:
            account.follow(lambda: [Stage("lines", 1)])
        assert not written(console)


def test_a_terminal_shows_the_board_and_takes_it_away(monkeypatch):
    monkeypatch.setattr(work, "QUIET_S", 0.0)
    console = Console(file=io.StringIO(), force_terminal=True, force_interactive=True, width=60)
    looked = threading.Event()

    def look():
        looked.set()
        return [Stage("lines of PTX", 500, 1000)]

    with work_progress(console) as account:
        account.follow(look)
        assert looked.wait(10)
    assert "500/1000" in written(console)
    assert written(console).endswith("\x1b[2K")
