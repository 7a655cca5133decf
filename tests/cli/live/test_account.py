"""Behaviour common to all accounts."""

from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.cli.live.account import MOST_FAILURES, MOST_ROWS, Account
from lab.cli.live.snapshot import Phase, Row


def rows(account, count, **given):
    for place in range(count):
        account._append(Row(0, f"v{place}", "name", "verified", **given))


def test_rows_are_numbered_and_only_new_ones_are_handed_out():
    account = Account()
    rows(account, 3)
    assert [row.number for row in account.snapshot(0).rows] == [1, 2, 3]
    assert [row.variant for row in account.snapshot(2).rows] == ["v2"]
    assert account.snapshot().rows == ()
    assert account.snapshot().finished == 3


def test_memory_is_bounded_and_what_is_left_out_is_counted():
    account = Account()
    rows(account, MOST_ROWS + 5, failed=True)
    now = account.snapshot(0)
    assert len(now.rows) == MOST_ROWS
    assert now.rows[-1].number == now.finished == now.failed == MOST_ROWS + 5
    assert len(now.failures) == MOST_FAILURES
    assert now.failures[0].number == 1


def test_notes_are_kept_once_and_links_by_title():
    account = Account()
    account.noted("The card throttled.")
    account.noted("The card throttled.")
    account.link("Dask's dashboard", "http://127.0.0.1:8787/status")
    account.link("Dask's dashboard", "http://127.0.0.1:9999/status")
    now = account.snapshot()
    assert now.notes == ("The card throttled.",)
    assert [(link.title, link.address) for link in now.links] == [("Dask's dashboard", "http://127.0.0.1:9999/status")]


def test_a_link_that_would_run_something_is_refused():
    with pytest.raises(UserError, check=coded("wrong-value", key="Dashboard", found="javascript:alert(1)")):
        Account().link("Dashboard", "javascript:alert(1)")


def test_the_end_stops_the_clock_and_says_that_the_report_is_there():
    now = [10.0]
    account = Account(lambda: now[0])
    now[0] = 14.0
    account.drawing()
    assert (account.snapshot().phase, account.snapshot().reported) == (Phase.DRAWING, False)
    account.ended(Path("out"), interrupted=False)
    now[0] = 99.0
    assert account.snapshot().elapsed_s == pytest.approx(4)
    assert (account.snapshot().phase, account.snapshot().reported) == (Phase.FINISHED, True)
    account.ended(Path("out"), interrupted=True)
    assert account.snapshot().phase is Phase.INTERRUPTED
