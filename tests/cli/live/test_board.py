"""Terminal output of the live board at any width."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from live_support import begin, build
from rich.console import Console

from lab.cli.live.board import Board
from lab.cli.live.run_account import RunAccount


@pytest.fixture
def account(make):
    now = [0.0]
    run_account = RunAccount(lambda: now[0])
    records = make("sweep").records()
    begin(run_account, 24)
    for place, record in enumerate(records[:12], 1):
        build(run_account, record)
        now[0] = 5.0 * place
        run_account.recorded(record)
    return run_account


def drawn(board, width, encoding="utf-8", **given):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, force_terminal=True, **given)
    console.print(board)
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def test_stages_time_and_best_are_shown(account):
    lines = drawn(Board(account), 120, color_system=None).splitlines()
    assert lines[0].startswith("built     ━━━━━━━━━━━━━━━───────────────  12/24")
    assert lines[2].startswith("recorded  ━")
    assert lines[3].rstrip() == "1:00, about 1:00 left"
    best = account.snapshot().best[0]
    assert lines[4].startswith(f"best: {best.figure} (measured): {best.variant}")
    assert lines[5].startswith("finished: ")


@pytest.mark.parametrize("width", [10, 20, 40, 200])
def test_no_line_is_wider_than_the_terminal(account, width):
    lines = drawn(Board(account), width, color_system=None).splitlines()
    assert all(len(line) <= width for line in lines)
    assert len(lines) == 6


def test_a_terminal_without_these_characters_gets_others(account):
    assert "###############..............." in drawn(Board(account), 120, "ascii", color_system=None)


def test_no_colour_is_used_where_none_is_wanted(account, monkeypatch):
    assert "\x1b[" in drawn(Board(account), 120, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in drawn(Board(account), 120, color_system="standard")


def test_nothing_but_counts_and_time_is_left_at_the_end(account):
    board = Board(account)
    board.over = True
    text = drawn(board, 120, color_system=None)
    assert "best" not in text
    assert "12/24" in text


def test_the_drawing_of_the_report_is_shown(account):
    account.drawing()
    text = drawn(Board(account), 120, color_system=None)
    assert "drawing the report …" in text
    assert "left" not in text


def test_the_best_of_many_problems_are_counted(make):
    (record, *_) = make("sweep").records()
    records = [replace(record, variant=f"v{m}", problem={**record.problem, "m": m}) for m in range(5)]
    problems = [SimpleNamespace(values=record.problem, label=f"m={record.problem['m']}") for record in records]
    account = RunAccount()
    begin(account, 5, problems)
    for one in records:
        account.recorded(one)
    text = drawn(Board(account), 200, color_system=None)
    assert text.count("best of m=") == 3
    assert "and the best of 2 more" in text
