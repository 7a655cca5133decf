"""Readers without a mouse, a large screen or sight: axe-core finds nothing, and no page scrolls sideways."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import planted_tuning
import pytest

from lab.report.render import render
from lab.report.tuning import render as tuning
from lab.store.tuning import TuningStore

AXE = importlib.util.find_spec("axe_playwright_python")
pytestmark = pytest.mark.skipif(AXE is None, reason="axe-playwright-python is not installed (extra `dev`)")
PAGES = sorted(
    page for page in (Path(__file__).parents[2] / "reports" / "h200").rglob("index.html") if "full" not in page.parts
)
FOUND = """async ([part, rules]) => (await axe.run(part, { resultTypes: ["violations"], ...rules })).violations.map(
  (one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`)"""
SHORT = """(most) => document.querySelectorAll("tbody, .code ol, svg [class*=mark-]").forEach(
  (list) => [...list.children].slice(most).forEach((one) => one.remove()))"""
"""Cuts tables, listings and charts: axe takes its time for each node, and further rows and points are as the first."""
MOST_ROWS = 10
CONTRAST = "color-contrast"


@pytest.fixture(scope="module")
def axe():
    return (Path(str(AXE.origin)).parent / "axe.min.js").read_text(encoding="utf-8")


Looks = dict[int, tuple[str, ...]]
EVERY: Looks = {1280: ("light", "dark"), 390: ("light", "dark")}
"""Widths with the colour schemes in which a page is looked at."""


def violations(browser, axe, address, ready=None, looks=EVERY, scope="html"):
    """Return the accessibility violations of a page or of a part of it: wide and narrow, light and dark.

    The first scheme of a width is held against all rules, and the second against those of colours, which alone differ.
    """
    wrong = []
    for width, schemes in looks.items():
        page = browser.new_page(viewport={"width": width, "height": 900}, bypass_csp=True)
        page.goto(address)
        for selector in ready or ():
            page.wait_for_selector(selector)
        sideways = page.evaluate("document.documentElement.scrollWidth")
        wrong += [f"{width} px: the page is {sideways} wide"] if sideways > width else []
        page.evaluate(SHORT, MOST_ROWS)
        page.evaluate(axe)
        for rules, scheme in zip(({}, {"runOnly": [CONTRAST]}), schemes, strict=False):
            page.emulate_media(color_scheme=scheme)
            wrong += [f"{width} px, {scheme}: {one}" for one in page.evaluate(FOUND, [scope, rules])]
        page.close()
    return wrong


def test_the_colours_of_both_schemes_are_looked_at(browser, axe, tmp_path):
    faint = "p { color: #999; } @media (prefers-color-scheme: light) { p { color: #000; } }"
    rows = f"<table><tbody>{'<tr><th>a</th></tr>' * MOST_ROWS}</tbody></table><img src='data:,'><p>faint</p>"
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><html lang=en><title>t</title><style>{faint}</style><main><h1>t</h1>{rows}</main>")
    found = violations(browser, axe, f"file://{page}", looks={390: ("light", "dark"), 1280: ("dark", "light")})
    assert [one[: one.index(":", one.index(":") + 1)] for one in found] == [
        "390 px, light: image-alt",
        "390 px, dark: color-contrast",
        "1280 px, dark: color-contrast",
        "1280 px, dark: image-alt",
    ]


def committed():
    """Every third page, which the same program drew as the others; all when results are published."""
    for place, page in enumerate(PAGES):
        yield pytest.param(page, id=page.parent.name, marks=[pytest.mark.thorough] if place % 3 else [])


@pytest.mark.parametrize("page", list(committed()))
def test_nothing_is_wrong_with_a_committed_page(browser, axe, page):
    # they have one style sheet: the first is looked at in every way, the others take turns with the four
    place = PAGES.index(page)
    single_look = {(1280, 390)[place % 2]: (("light", "dark")[place // 2 % 2],)}
    looks = EVERY if place == 0 else single_look
    assert violations(browser, axe, f"file://{page}", looks=looks) == []


@pytest.mark.parametrize("what", ["sweep", "failures", "no_gpu"])
def test_nothing_is_wrong_with_the_page_of_a_run(browser, axe, make, what):
    store = make(what)
    file = render(store)[0]
    first, two = (record.variant for record in store.records()[:2])
    last = "#chart-mix-sass svg"
    # axe takes seconds on a whole page; runs with failures and without a GPU differ in figures alone
    looks: dict[str, Looks] = {
        "sweep": {1280: ("light", "dark"), 390: ("light",)},
        "failures": {390: ("dark",)},
        "no_gpu": {1280: ("dark",)},
    }
    assert violations(browser, axe, f"file://{file}#v-{first}", (".pane", last), looks=looks[what]) == []
    if what == "sweep":
        beside, changed = f"file://{file}#v-{first}?with={two}&filter=regs%3C1", "#code, #variants"
        seen = {1280: ("light",), 390: ("dark",)}
        assert violations(browser, axe, beside, ("#differences", last), looks=seen, scope=changed) == []


@pytest.mark.parametrize("measured", [True, False])
def test_nothing_is_wrong_with_the_page_of_a_tuning_run(browser, axe, tmp_path, measured):
    folder = planted_tuning.plant(tmp_path / "tuned", planted_tuning.GPU if measured else None)
    with TuningStore(folder) as store:
        file = tuning.render(store)[0]
    assert violations(browser, axe, f"file://{file}", ("figure svg, .chart svg",)) == []


def test_the_keyboard_reaches_every_control(browser, make):
    file = render(make("sweep"))[0]
    page = browser.new_page()
    page.goto(f"file://{file}#code")
    page.wait_for_selector(".pane")
    control_count = page.evaluate(
        "[...document.querySelectorAll('#code button, #code select, #code .code, #code a')]"
        ".filter((one) => !one.disabled && one.checkVisibility()).length"
    )
    page.locator("#code h2 a").focus()
    met = 1
    inside = "document.activeElement.closest('#code') !== null"
    while page.evaluate(inside):
        page.keyboard.press("Tab")
        met += page.evaluate(f"{inside} && document.activeElement.matches('button, select, .code, a')")
        assert met <= control_count
    assert met == control_count
    page.close()
