"""Lines of progress, by a clock that the test sets."""

from __future__ import annotations

import io

import pytest
from live_support import begin, build, written
from rich.console import Console

from lab.cli.live.progress_lines import EVERY_S, ProgressLines
from lab.cli.live.run_account import RunAccount


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def account(now):
    made = RunAccount(lambda: now[0])
    begin(made, 24)
    return made


def test_a_line_comes_when_it_is_due_and_not_before(account, now, make):
    console = Console(file=io.StringIO(), width=40)
    lines = ProgressLines(console, account, lambda: now[0])
    now[0] = EVERY_S - 0.1
    lines.due()
    assert not written(console)
    (record, *_) = make("sweep").records()
    build(account, record)
    now[0] = EVERY_S
    account.recorded(record)
    lines.due()
    lines.due()
    best = account.snapshot().best[0]
    assert written(console).splitlines() == [
        (
            f"0:30, about 11:30 left; built 1/24, measured 1, recorded 1/24; "
            f"best: {best.figure} (measured): {best.variant} {best.name}"
        )
    ]
    now[0] = 2 * EVERY_S
    lines.due()
    assert len(written(console).splitlines()) == 2


def test_the_thread_prints_what_is_due_and_ends_with_the_context(account, now):
    class Noticed(ProgressLines):
        def due(self):
            super().due()
            self._over.set()

    console = Console(file=io.StringIO(), width=400)
    lines = Noticed(console, account, lambda: now[0])
    now[0] = EVERY_S
    with lines:
        lines._over.wait(60)
    assert not lines._thread.is_alive()
    assert written(console).startswith("0:30; built 0/24")


def test_before_anything_is_planned_the_line_says_so(now):
    console = Console(file=io.StringIO())
    lines = ProgressLines(console, RunAccount(lambda: now[0]), lambda: now[0])
    now[0] = EVERY_S
    lines.due()
    assert written(console) == "0:30; starting\n"
