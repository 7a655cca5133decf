"""The live page in a browser: it grows while the command works, runs nothing but its script, and axe finds nothing."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
from live_support import begin, build

from lab.cli.live.run_account import RunAccount
from lab.cli.live.server import LiveServer
from lab.recorded.run_records import Status

AXE = importlib.util.find_spec("axe_playwright_python")
FOUND = """async () => (await axe.run("html", { resultTypes: ["violations"] })).violations.map(
  (one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`)"""
EVIL = "<img src=x onerror=document.title='evil'>"


@pytest.fixture
def account():
    made = RunAccount()
    begin(made, 24)
    return made


@pytest.fixture
def visit(browser, account):
    """Open the page; whatever its script complains of, or its policy refuses, fails the test."""
    pages, complaints = [], []
    with LiveServer(account) as served:

        def go(**given):
            page = browser.new_page(**given)
            pages.append(page)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
            page.goto(served.address)
            page.wait_for_selector("#stages dt")
            return page

        yield go
        for page in pages:
            page.close()
    assert complaints == []


def test_the_page_grows_and_leads_to_the_report(visit, account, make, tmp_path):
    page = visit()
    assert page.inner_text("#phase") == "working"
    assert page.locator("#finished table").is_hidden()
    record, *others = make("sweep").records()
    build(account, record)
    account.recorded(record)
    page.wait_for_selector("#finished tbody tr")
    assert "measured" in page.inner_text("#best tbody")
    account.recorded(replace(others[0], status=Status.NOT_EXECUTED, reason=EVIL, measurement=None))
    account.noted(EVIL)
    page.wait_for_selector("#failures tbody tr")
    assert EVIL in page.inner_text("#failures tbody")
    assert EVIL in page.inner_text("#notes")
    assert page.locator("main img").count() == 0
    for one in others[1:]:
        account.recorded(one)
    page.wait_for_selector("#finished tbody tr:nth-child(24)")
    assert page.inner_text("#finished tbody tr:first-child th").startswith(others[-1].variant)
    assert "recorded" in page.inner_text("#stages")
    (tmp_path / "index.html").write_text('<!doctype html><link rel=icon href="data:,"><title>the report</title>')
    account.ended(tmp_path, interrupted=False)
    page.click("#report a")
    page.wait_for_url("**/report/")
    assert page.title() == "the report"


@pytest.mark.skipif(AXE is None, reason="axe-playwright-python is not installed (extra `dev`)")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_nothing_is_wrong_with_it_for_readers_without_a_mouse_or_sight(visit, account, make, width, scheme):
    first, second, *_ = make("failures").records()
    good = next(record for record in make("sweep").records() if not record.status.failed)
    for record in (first, second, good):
        account.recorded(record)
    account.executed(good)
    account.noted("The card throttled.")
    account.link("Dask's dashboard", "http://127.0.0.1:8787/status")
    page = visit(viewport={"width": width, "height": 900}, bypass_csp=True, color_scheme=scheme)
    page.wait_for_selector("#failures tbody tr")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate((Path(str(AXE.origin)).parent / "axe.min.js").read_text(encoding="utf-8"))
    assert page.evaluate(FOUND) == []
