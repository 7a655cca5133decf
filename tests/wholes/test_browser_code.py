"""The code of variants on the page, in a browser: linked lines, two variants side by side, what the address keeps."""

from __future__ import annotations

import csv
import io

import pytest
from browser_waits import wait_until

from lab.report.render import render
from lab.store.database import Store


@pytest.fixture
def visit(browser):
    """Open a page; whatever its script complains of fails the test."""
    pages, complaints = [], []

    def go(folder, anchor, width=1280):
        page = browser.new_page(viewport={"width": width, "height": 900})
        pages.append(page)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(f"file://{folder}/index.html#{anchor}")
        return page

    yield go
    for page in pages:
        page.close()
    assert complaints == []


@pytest.fixture(scope="module")
def sweep(tmp_path_factory, make_at):
    """A run with its page, which tests only read."""
    with make_at(tmp_path_factory.mktemp("sweep"), "sweep") as store:
        render(store)
        yield store


@pytest.fixture(scope="module")
def records(planted):
    with Store(planted) as store:
        return {record.kernel: record for record in store.records()}


def test_lines_of_one_source_line_are_marked_in_every_listing(visit, planted, records):
    page = visit(planted, f"v-{records['conflicts'].variant}")
    page.wait_for_selector(".pane")
    source = next(
        line.get_attribute("data-source")
        for line in page.locator('.pane[data-name="sass"] li[data-source]').all()
        if "LDS" in line.inner_text()
    )
    page.locator('.pane[data-name="sass"] li', has_text="LDS").first.click()
    for name, opcode in (("source", "cell[threadIdx.x * 8]"), ("ptx", "ld.shared"), ("sass", "LDS")):
        marked = page.locator(f'.pane[data-name="{name}"] li.linked')
        assert {line.get_attribute("data-source") for line in marked.all()} == {source}
        assert any(opcode in text for text in marked.all_inner_texts())
    page.locator(f"#source-{source}").hover()
    assert page.locator('.pane[data-name="ptx"] li.linked', has_text="ld.shared").count() == 1
    assert f"Source line {source}: lines" in page.locator("#linked").inner_text()
    assert page.locator(".pane li", has_text=".loc").first.is_hidden()


def test_the_arrow_keys_move_through_a_listing(visit, planted, records):
    page = visit(planted, f"v-{records['clean'].variant}:ptx-20")
    page.wait_for_selector("#ptx-20.target")
    page.locator('.pane[data-name="ptx"] .code').focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(".code .target").count() == 1
    moved = page.locator(".code .target").get_attribute("data-n")
    assert int(moved) > 20
    assert page.url.endswith(f":ptx-{moved}")
    page.keyboard.press("ArrowUp")
    assert page.locator(".code .target").get_attribute("data-n") == "20"


def test_the_three_panes_stand_side_by_side_and_open_at_the_hot_loop(visit, sweep):
    page = visit(sweep.folder, f"v-{sweep.records()[0].variant}")
    page.wait_for_selector(".pane")
    boxes = [pane.bounding_box() for pane in page.locator(".pane").all()]
    assert len(boxes) == 3
    assert len({box["y"] for box in boxes}) == 1
    assert [box["x"] for box in boxes] == sorted(box["x"] for box in boxes)
    for name in ("ptx", "sass"):
        code = page.locator(f'.pane[data-name="{name}"] .code')
        room = code.evaluate(
            "(code) => { const s = document.createElement('span'); s.textContent = 'x'.repeat(100); code.append(s);"
            " const one = s.getBoundingClientRect().width / 100; s.remove(); return (code.clientWidth - 110) / one; }"
        )
        assert room >= 40
        assert code.evaluate(
            "(code) => { const a = code.querySelector('.hot').getBoundingClientRect();"
            " const b = code.getBoundingClientRect(); return a.top >= b.top && a.bottom <= b.bottom; }"
        )


@pytest.mark.parametrize("width", [1280, 390])
def test_two_variants_are_chosen_in_the_table_and_stand_side_by_side(visit, sweep, width):
    first, second, third = (record.variant for record in sweep.records()[:3])
    page = visit(sweep.folder, "variants", width)
    page.check(f'#table [data-compare="{first}"]')
    wait_until(page, "document.querySelector('.pane')")
    assert page.url.endswith(f"#v-{first}")
    page.check(f'#table [data-compare="{second}"]')
    page.wait_for_selector(".rows .row")
    assert page.evaluate("document.activeElement.dataset.compare") == second
    assert page.url.endswith(f"#v-{first}?with={second}")
    assert page.locator(".rows .changed.a").count() > 0
    shown = {row.split("\t")[0].strip() for row in page.locator("#differences tbody tr").all_inner_texts()}
    one, two = (record.parameters for record in sweep.records()[:2])
    assert {name for name in one if one[name] != two[name]} <= shown
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.check(f'#table [data-compare="{third}"]')
    wait_until(page, f"document.querySelector('#other').value === '{third}'")
    assert page.locator("#pick").input_value() == second
    page.go_back()
    wait_until(page, f"document.querySelector('#other').value === '{second}'")
    page.go_back()
    wait_until(page, "document.querySelector('#other').value === ''")
    page.go_forward()
    page.wait_for_selector(".rows .row")
    assert page.locator("#other").input_value() == second
    page.click("#swap")
    wait_until(page, f"document.querySelector('#pick').value === '{second}'")


def test_the_rows_of_a_difference_hold_every_line_of_both_sides(visit, sweep):
    page = visit(sweep.folder, "variants")
    cases = {
        "equal": (["a", "b"], ["a", "b"]),
        "inserted": (["a", "c"], ["a", "b", "c"]),
        "removed": (["a", "b", "c"], ["a", "c"]),
        "nothing in common": (["a"], ["b", "c"]),
        "empty": ([], ["b"]),
        "long": ([f"line {i % 97}" for i in range(6000)], [f"line {i % 89}" for i in range(6000)]),
    }
    for name, (a, b) in cases.items():
        rows = page.evaluate("([a, b]) => listingDiff.rows(a, b, 'source')", [a, b])
        assert [row["a"] for row in rows if row["a"] is not None] == list(range(len(a))), name
        assert [row["b"] for row in rows if row["b"] is not None] == list(range(len(b))), name
        assert all(a[row["a"]] == b[row["b"]] for row in rows if row["kind"] == "same"), name
    kinds = page.evaluate(
        "() => listingDiff.rows(['/*0010*/  FFMA R1, R2, R3, R1 ;', '/*0020*/  EXIT ;'],"
        " ['/*0000*/  MOV R1, RZ ;', '/*0010*/  FFMA R7, R2, R3, R7 ;', '/*0030*/  EXIT ;'], 'sass').map((r) => r.kind)"
    )
    assert kinds == ["changed", "registers", "same"]


def test_the_address_keeps_filter_order_columns_panes_and_charts(visit, sweep):
    best = next(record.variant for record in sweep.records() if record.parameters["unroll"] == 2)
    page = visit(sweep.folder, "variants")
    page.fill("#filter", "unroll<4 verified")
    page.click("#table thead button:has-text('registers')")
    page.check("#all-columns")
    page.click('button[data-pane="ptx"]')
    page.click('[data-switch^="mix-"] button:has-text("kernel, count")')
    page.click(f'#table a[href="#v-{best}"]')
    page.wait_for_selector(".pane")
    again = visit(sweep.folder, page.url.partition("#")[2])
    again.wait_for_selector(".pane")
    assert again.locator("#filter").input_value() == "unroll<4 verified"
    assert again.locator("#count").inner_text() == page.locator("#count").inner_text()
    assert again.locator("#table th[aria-sort=descending]").inner_text() == (
        page.locator("#table th[aria-sort=descending]").inner_text()
    )
    assert again.locator("#all-columns").is_checked()
    assert again.locator('.pane[data-name="ptx"]').is_hidden()
    assert again.locator('[data-switch^="mix-"] [aria-pressed=true]').inner_text() == "kernel, count"
    assert again.locator("#pick").input_value() == best
    again.click("nav a:has-text('Variants')")
    assert "filter=" in again.url


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("regs<128", "There is no column “regs”. Did you mean registers?"),
        ("unrol=2", "Did you mean unroll?"),
        ("registers<many", "registers holds numbers, and “many” is none."),
        ("status<verified", "status holds text, which is compared by = or !=."),
        ("registers<", "Write a value behind registers<"),
    ],
)
def test_a_filter_that_cannot_be_read_says_why_and_hides_nothing(visit, sweep, words, problem):
    page = visit(sweep.folder, "variants")
    page.fill("#filter", words)
    assert problem in page.locator("#filter-problem").inner_text()
    assert page.locator("#filter").get_attribute("aria-invalid") == "true"
    assert page.locator("#count").inner_text() == "24 variants"
    page.fill("#filter", "unroll=2")
    assert page.locator("#filter-problem").inner_text() == ""
    assert page.locator("#filter").get_attribute("aria-invalid") == "false"
    assert "of 24" in page.locator("#count").inner_text()


def test_the_filtered_rows_are_saved_as_csv(visit, sweep):
    page = visit(sweep.folder, "variants?filter=unroll%3D2")
    with page.expect_download() as saved:
        page.click("#save")
    rows = list(csv.DictReader(io.StringIO(saved.value.path().read_text(encoding="utf-8"))))
    wanted = [record for record in sweep.records() if record.parameters["unroll"] == 2]
    assert {row["variant"] for row in rows} == {record.variant for record in wanted}
    assert {row["p.unroll"] for row in rows} == {"2"}
    assert saved.value.suggested_filename.endswith(".csv")


def test_every_point_of_a_chart_opens_its_code_and_shift_compares(visit, sweep):
    page = visit(sweep.folder, "ratio")
    page.wait_for_selector("#chart-ratio svg")
    points = page.locator("#chart-ratio svg .mark-symbol.role-mark path")
    ids = {record.variant for record in sweep.records()}
    page.locator("#chart-ratio").scroll_into_view_if_needed()
    points.first.click(force=True)
    wait_until(page, "location.hash.startsWith('#v-')")
    first = page.url.partition("#v-")[2]
    assert first in ids
    page.wait_for_selector(".pane")
    page.locator("#chart-ratio").scroll_into_view_if_needed()
    points.last.click(force=True, modifiers=["Shift"])
    wait_until(page, "location.hash.includes('?with=')")
    assert page.url.partition("#v-")[2].partition("?with=")[0] == first
