"""The page's script in a browser: needs Playwright and Chromium, and is skipped with a message without them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from browser_waits import wait_until
from planted_tuning import GPU, plant

from lab.recorded.run_records import Status
from lab.report.analysis import analyse, load
from lab.report.render import render
from lab.report.tuning.render import render as render_tuning
from lab.store.database import Store
from lab.store.figures import ranked, response_of
from lab.store.tuning import TuningStore


@pytest.fixture(scope="module")
def records(planted):
    with Store(planted) as store:
        return {record.kernel: record for record in store.records()}


@pytest.fixture
def visit(browser, planted):
    """Open the page at an anchor; whatever the script complains of fails the test."""
    pages, complaints = [], []

    def go(anchor, width=1280):
        page = browser.new_page(viewport={"width": width, "height": 900})
        pages.append(page)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(f"file://{planted}/index.html#{anchor}")
        page.wait_for_selector(".pane")
        page.wait_for_selector("#chart-mix-sass svg")
        return page

    yield go
    for page in pages:
        page.close()
    assert complaints == []


@pytest.mark.parametrize("width", [1280, 390])
def test_a_link_leads_to_the_marked_line_and_the_other_side_is_marked(visit, records, width):
    record = records["racy"]
    (finding,) = record.emulation.findings
    page = visit(f"v-{record.variant}", width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click(f'.findings a[href="#v-{record.variant}:ptx-{finding.line}"]')
    page.wait_for_selector(f"#ptx-{finding.line}.target")  # the page answers the change of its address later
    line = page.locator(f"#ptx-{finding.line}")
    assert {"fault", "target"} <= set(line.get_attribute("class").split())
    assert line.get_attribute("data-n") == str(finding.line)
    assert "ld.shared" in line.inner_text()
    assert "shared-race" in line.locator("em").inner_text()
    assert line.evaluate(
        "(e) => { const a = e.getBoundingClientRect(), b = e.closest('.code').getBoundingClientRect();"
        " return a.top >= b.top && a.bottom <= b.bottom; }"
    )
    other = page.locator(f"#ptx-{finding.other.line}")
    assert "other" in other.get_attribute("class").split()
    assert f"line {finding.line}" in other.locator("em").inner_text()
    assert "fault" in page.locator("#source-" + str(finding.source.line)).get_attribute("class").split()


def test_a_link_opens_a_hidden_pane(visit, records):
    record = records["racy"]
    page = visit(f"v-{record.variant}")
    page.click('button[data-pane="ptx"]')
    line = record.emulation.findings[0].line
    assert not page.locator(f"#ptx-{line}").is_visible()
    page.click(f'#failures a[href="#v-{record.variant}:ptx-{line}"]')
    page.locator(f"#ptx-{line}").wait_for(state="visible")


def test_the_gutter_names_the_conflicting_access(visit, records):
    page = visit(f"v-{records['conflicts'].variant}")
    lines = page.locator('.pane[data-name="ptx"] li:has(.conflict)')
    assert lines.count() == 2
    for line in lines.all():
        assert ".shared" in line.inner_text()
        assert line.locator(".conflict").inner_text() == "8w"


def test_both_mixes_stand_side_by_side_and_the_difference_is_said(visit, records):
    page = visit(f"v-{records['two_loops'].variant}")
    page.locator("#viewer details.rest > summary").click()
    assert page.locator(".mixtable").count() == 3
    assert page.locator(".mixtable .bar").count() == 6
    assert "The loop that executes most is" in page.locator("#viewer .note").inner_text()
    page.click('[data-switch="mix-ptx mix-executed mix-sass"] button:has-text("kernel, count")')
    page.locator("#mix summary").click()  # the other mixes are drawn when they are unfolded
    wait_until(
        page, "document.querySelector('#chart-mix-executed').textContent.includes('instructions per thread (emulated)')"
    )
    assert "instructions (static)" in page.locator("#chart-mix-sass").text_content()


@pytest.fixture
def many(make):
    """A run of so many problems as variants: the table of problems has two pages."""
    store = make("sweep")
    for position, record in enumerate(store.records()):
        n = 64 * (position + 1)
        store.write(replace(record, problem={**record.problem, "n": n}, label=f"n={n}"), position)
    store.write_run(replace(store.run(), problem_axes=("n",)))
    render(store)
    return store


def test_the_table_of_problems_is_sorted_and_turned(browser, many):
    page = browser.new_page()
    page.goto(f"file://{many.folder}/index.html")
    rows = page.locator("#problems tbody tr")

    def problems():
        return [text.strip() for text in rows.locator("th").all_inner_texts()]

    every = [f"n={64 * (i + 1)}" for i in range(24)]
    assert problems() == every[:12]
    page.click("#problems-pager button:has-text('Next')")
    assert problems() == every[12:]
    assert page.locator("#problems-pager span").inner_text() == "page 2 of 2"
    best = sorted(many.records(), key=lambda record: -record.throughput)
    page.click("#problems thead button:has-text('throughput')")
    assert problems() == [f"n={record.problem['n']}" for record in best[:12]]
    assert page.locator("#problems th[aria-sort=descending]").count() == 1
    page.click("#problems thead button:has-text('throughput')")
    assert problems() == [f"n={record.problem['n']}" for record in best[:11:-1]]
    page.click("#problems thead button:has-text('problem')")
    assert problems() == every[:12]  # 64 before 128: by number
    page.click("#problems tbody tr:first-child a")
    page.wait_for_selector(".pane")
    assert page.locator("#pick").input_value() == many.records()[0].variant
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert rows.count() == 24
    page.close()


def test_a_suspect_variant_comes_last_in_the_ranked_table(browser, make):
    store = make("no_gpu")
    records = store.records()
    best = ranked(records, response_of(records))[0]
    store.write(replace(best, status=Status.SUSPECT, reason="why"), records.index(best))
    page = browser.new_page()
    page.goto(f"file://{render(store)[0]}")
    page.wait_for_selector("#table tbody tr")
    rows = page.locator("#table tbody tr").all_inner_texts()
    assert [place for place, row in enumerate(rows) if best.label in row] == [len(rows) - 1]
    page.close()


def test_only_files_that_are_beside_the_page_are_linked(browser, make, tmp_path):
    store = make("sweep")
    elsewhere = tmp_path / "published"
    elsewhere.mkdir()
    first = store.records()[0].variant
    for folder, names in (
        (elsewhere, []),
        (store.folder, ["kernel.cu", "kernel.ptx", "kernel.sass", "build.log", "provenance.json"]),
    ):
        page = browser.new_page()
        file = render(store, folder=folder)[0]
        page.goto(f"file://{file}#v-{first}")
        page.wait_for_selector(".pane")
        hrefs = [link.get_attribute("href") for link in page.locator('#viewer a[href^="variants/"]').all()]
        assert hrefs == [f"variants/{first}/{name}" for name in names]
        page.close()


LISTEN = """addEventListener("securitypolicyviolation",
    (event) => console.error(`violation of ${event.violatedDirective}: ${event.blockedURI} ${event.sample}`))"""

DRAWN = (
    "[...document.querySelectorAll('[data-chart]')]"
    ".every((e) => e.closest('details:not([open])') || e.querySelector('svg, canvas'))"
)


@pytest.fixture
def open_file(browser):
    """Open a file's page; what the browser refuses it, and every other error, in words."""
    pages = []

    def go(file):
        page, complaints = browser.new_page(), []
        pages.append(page)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.set_default_timeout(15_000)
        page.add_init_script(LISTEN)
        page.goto(f"file://{file}")
        return page, complaints

    yield go
    for page in pages:
        page.close()


def test_the_page_of_a_run_needs_nothing_that_its_policy_forbids(open_file, make):
    page, complaints = open_file(render(make("sweep"))[0])
    wait_until(page, DRAWN)
    page.locator("[data-chart] .mark-symbol path").first.hover(force=True)
    page.wait_for_selector("#vg-tooltip-element.visible")
    page.locator("[data-choice]").last.click()
    assert page.locator(".legend svg rect").first.evaluate("(e) => getComputedStyle(e).fill") != "rgb(0, 0, 0)"
    assert complaints == []


def test_the_page_of_a_tuning_run_needs_nothing_that_its_policy_forbids(open_file, tmp_path):
    with TuningStore(plant(tmp_path / "tuned", GPU)) as store:
        page, complaints = open_file(render_tuning(store)[0])
    wait_until(page, DRAWN)
    assert complaints == []


def test_a_small_page_shows_its_pictures_and_its_style(open_file, benchmark_script, make, tmp_path):
    small = benchmark_script("small_page")
    with make("sweep") as store:
        pngs = [file for file in render(store) if file.suffix == ".png"]
        records, different = load(store)
        made = small.of_run(analyse(store.run(), records, different))
        file = store.folder / "small.html"
        file.write_text(small.html(made, store.folder, (), "reports/h200/gemm_unroll"), encoding="utf-8")
    page, complaints = open_file(file)
    wait_until(page, "[...document.images].length && [...document.images].every((e) => e.naturalWidth > 0)")
    assert page.locator("img").count() == len(pngs)
    assert page.locator("table").first.evaluate("(e) => getComputedStyle(e).borderCollapse") == "collapse"
    assert complaints == []


LATE = """<meta http-equiv="Content-Security-Policy" content="script-src 'none'">
<style>@keyframes late { to { width: 9px } } body { width: 5px; animation: late 0.3s steps(1) forwards }</style>"""


def test_what_becomes_true_late_is_waited_for_in_a_page_that_forbids_eval(open_file, tmp_path):
    (tmp_path / "late.html").write_text(LATE, encoding="utf-8")
    page, complaints = open_file(tmp_path / "late.html")
    wait_until(page, "getComputedStyle(document.body).width === '9px'")
    assert complaints == []


MARKUP = (
    "<script>document.title = 'ran'</script>",
    "<img src='data:,' onerror=\"document.title = 'ran'\">",
    "<p style='position: fixed'></p>",
    "<img src='http://127.0.0.1:9/picture.png'>",
    "<iframe src='data:text/html,hello'></iframe>",
)


def test_markup_that_came_into_a_page_runs_nothing(open_file, make):
    file = render(make("sweep"))[0]
    html = file.read_text(encoding="utf-8")
    for markup in MARKUP:
        file.write_text(html.replace("<main", f"{markup}<main", 1), encoding="utf-8")
        page, complaints = open_file(file)
        wait_until(page, DRAWN)
        assert page.title() != "ran"
        assert [text for text in complaints if text.startswith("violation of ")], markup


def test_the_page_is_short_its_table_ranks_in_sight_and_links_unfold(open_file, make):
    page, complaints = open_file(render(make("sweep"))[0])
    page.set_viewport_size({"width": 1280, "height": 800})
    wait_until(page, DRAWN)
    page.locator("#code").scroll_into_view_if_needed()
    page.wait_for_selector(".pane")
    assert page.evaluate("document.querySelector('#more').getBoundingClientRect().top + scrollY") <= 5000
    cells = page.locator("#table tbody tr").first.locator("td")
    assert cells.nth(0).locator("a").inner_text().startswith("unroll=")
    ranking = cells.nth(1).bounding_box()
    assert ranking["x"] + ranking["width"] <= 1280
    answer = page.locator("#answer dl.screen").bounding_box()
    assert answer["y"] + answer["height"] + page.evaluate("scrollY") <= 800
    folded = page.locator("#main-effects details.fold-section")
    assert folded.get_attribute("open") is None
    page.evaluate("location.hash = '#main-effects'")
    page.wait_for_selector("#chart-effect-0 svg")
    assert folded.get_attribute("open") is not None
    assert complaints == []
