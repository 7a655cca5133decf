"""The HTML of the page and the data that its script reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pages import Page, read_page, unpack

from lab.advice.finding import Advice, CodePlace, PerformanceFinding, Rule, Skipped
from lab.emulator.results import Finding
from lab.measured.timing import CardState
from lab.recorded.run_records import Condition, EmulationRecord, RepeatRecord, Status, Suspicion
from lab.report.page.page import LOG_LINES, MOST_LOGS, environment, vega
from lab.report.render import render

FINDING = PerformanceFinding(Rule.TAIL_WAVE, CodePlace(), "133 blocks", "132 blocks", 0.5, 2.0)
FILES = {"kernel.cu", "kernel.ptx", "kernel.sass", "build.log", "provenance.json"}


def written(store, **options) -> tuple[Page, Path]:
    file = render(store, **options)[0]
    return read_page(file), file.parent


def dead(page: Page, folder: Path) -> set[str]:
    return {url for url in page.links() if not (folder / url).is_file()}


def test_in_the_run_directory_every_variant_has_links_to_its_files(make):
    store = make("sweep")
    page, folder = written(store)
    linked = {url for url in page.links() if url.startswith("variants/")}
    assert linked == {f"variants/{record.variant}/{name}" for record in store.records() for name in FILES}
    assert dead(page, folder) == set()
    assert len(page.json("data")["beside"]["sets"]) == 1


@pytest.mark.parametrize("what", ["sweep", "ladder", "no_gpu", "failures", "hostile"])
def test_a_page_elsewhere_has_no_dead_link(make, tmp_path, what):
    elsewhere = tmp_path / "published"
    elsewhere.mkdir()
    page, folder = written(make(what), folder=elsewhere)
    assert folder == elsewhere
    assert not [url for url in page.links() if url.startswith(("variants/", "repeat/"))]
    assert dead(page, folder) == set()
    assert "records.csv" in page.links()


def test_a_file_that_is_gone_is_not_linked(make):
    store = make("sweep")
    first, second = store.records()[:2]
    store.variant_folder(first.variant).path.joinpath("kernel.sass").unlink()
    for file in store.variant_folder(second.variant).path.iterdir():
        file.unlink()
    page, folder = written(store)
    assert dead(page, folder) == set()
    linked = {url for url in page.links() if first.variant in url or second.variant in url}
    assert linked == {f"variants/{first.variant}/{name}" for name in FILES - {"kernel.sass"}}


def test_the_second_runs_report_is_linked_where_it_is(make):
    store = make("sweep")
    store.write_repeat(RepeatRecord("2026-11-21T05:00:00+00:00", "", 24, 0, 24, 24, (), {}, 0, 1, 1, None))
    page, _ = written(store)
    assert "repeat/index.html" not in page.links()
    (store.folder / "repeat").mkdir()
    (store.folder / "repeat" / "index.html").write_text("", encoding="utf-8")
    page, folder = written(store)
    assert "repeat/index.html" in page.links()
    assert dead(page, folder) == set()


def test_a_suspect_variant_is_among_the_failures_with_its_condition_and_not_first(make):
    store = make("sweep")
    best = max(store.records(), key=lambda record: record.tflops)
    found = Finding("misaligned", 7, "ld.global", None, None, None, None, "why")
    done = EmulationRecord({}, (), suspicions=(Suspicion(Condition.FULL_SIZE, "", found),))
    store.write(replace(best, status=Status.SUSPECT, reason="see there", emulation=done), 0)
    page, _ = written(store)
    data = page.json("data")
    failures = " ".join(page.ids["failures"].split())
    assert best.label in failures
    assert f"{Condition.FULL_SIZE}: misaligned" in failures
    assert Status.SUSPECT in data["failed"]
    assert Status.PARTIAL not in data["failed"]
    assert data["first"] not in {None, best.variant}


def test_the_table_of_failures_ends_each_log_and_shows_no_more_logs_than_a_page_holds(make):
    store = make("failures")
    failed = next(record for record in store.records() if record.build is None)
    (store.variant_folder(failed.variant).path / "build.log").write_text("\n".join(f"line {i}" for i in range(60)))
    text = written(store)[0].ids["failures"]
    assert f"line {60 - LOG_LINES}" in text
    assert f"line {59 - LOG_LINES}" not in text
    first, *_ = store.records()
    for position in range(MOST_LOGS + 4):
        variant = f"{first.variant}{position}"
        store.write(
            replace(first, variant=variant, status=Status.NOT_EXECUTED, reason=f"late {position}"), 100 + position
        )
        store.write_files(variant, {"build.log": f"log {position}"})
    page, _ = written(store)
    assert page.ids["failures"].count("build log") == MOST_LOGS
    assert f"late {MOST_LOGS + 3}" in page.ids["failures"]


def test_provenance_spans_the_gpus_state_and_names_what_is_unknown_not_at_all(make):
    store = make("sweep")
    first, second, *_ = store.records()
    hot = CardState(1980, 3201, 700.0, 83, ("power cap",))
    for position, (record, card) in enumerate(((first, hot), (second, CardState()))):
        store.write(replace(record, measurement=replace(record.measurement, before=card, after=card)), position)
    text = written(store)[0].ids["provenance"]
    for fact in ("1755 to 1980 MHz", "612 to 700 W", "58 to 83 °C", "power cap"):
        assert fact in text
    assert "None" not in text
    bare = written(make("no_gpu"))[0].ids["provenance"]
    assert "SM clock" not in bare
    assert "none: No CUDA GPU was found" in bare


def test_figures_that_json_lacks_are_empty(make):
    store = make("sweep")
    record = store.records()[0]
    check = replace(record.verification, max_error=float("inf"))
    store.write(replace(record, verification=check), 0)
    page, folder = written(store)
    data = page.json("data")
    place = [column["name"] for column in data["columns"]].index("max_error")
    assert data["rows"][0][place] is None
    assert data["rows"][1][place] == pytest.approx(3.1e-7)
    assert ",inf," in (folder / "records.csv").read_text().splitlines()[1]


def test_whatever_a_template_shows_is_escaped():
    template = environment().from_string("{{ name }} {{ {'a': name} | tojson }}")
    shown = template.render(name="</script><b>&")
    assert "<" not in shown
    assert ">" not in shown


def test_the_runtime_is_kept_and_made_again_where_the_kept_one_is_damaged(tmp_path, monkeypatch):
    built_versions: list[str] = []

    def bundle(vl_version: str) -> str:
        built_versions.append(vl_version)
        return "var vegaEmbed;"

    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("vl_convert.javascript_bundle", bundle)

    def fresh() -> str:
        vega.cache_clear()
        return vega()

    try:
        first = fresh()
        assert fresh() == first
        assert len(built_versions) == 1
        (kept,) = tmp_path.rglob("*.bundle")
        kept.write_text(kept.read_text()[:-3], encoding="ascii")
        assert fresh() == first
        assert len(built_versions) == 2
        assert unpack(first) == "var vegaEmbed;"
    finally:
        vega.cache_clear()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            Advice((FINDING,), (Skipped(Rule.CODE_SIZE, "SASS"),)),
            ["tail wave", "133 blocks", "2.00 x faster without it (predicted). Remedy: 132 blocks"],
        ),
        (Advice(()), ["no performance findings: all"]),
        (
            Advice((), (Skipped(Rule.CODE_SIZE, "SASS"),)),
            ["No finding; 1 of 15 rules were not checked (they need SASS)."],
        ),
    ],
    ids=["a finding", "none of all rules", "none of some rules"],
)
def test_what_to_change_in_the_best_variant_stands_on_the_first_screen(make, monkeypatch, said, shown):
    monkeypatch.setattr("lab.report.page.page.advice_on", lambda store, record: said)
    html = render(make("sweep"))[0].read_text(encoding="utf-8")
    text = html.partition('<section id="answer"')[2].partition("</section>")[0]
    assert 'id="advice"' in text
    assert all(words in text for words in shown)


def test_the_first_screen_names_the_gpu_and_answers_for_the_fastest_and_the_slowest(make):
    html = render(make("sweep"))[0].read_text(encoding="utf-8")
    text = html.partition('<section id="answer"')[2].partition("</section>")[0]
    assert "on NVIDIA H200, driver" in text
    for label in ("Fastest", "Why the slowest is slow", "What to change", "Is it right?"):
        assert f"<dt>{label}</dt>" in text
    without = render(make("no_gpu"))[0].read_text(encoding="utf-8").partition('<section id="answer"')[2]
    assert "predicted for NVIDIA H200; No CUDA GPU was found" in without


def test_variants_are_named_by_their_parameters_and_ranked_in_the_second_column(make):
    store = make("sweep")
    page, _ = written(store)
    data = page.json("data")
    assert data["names"] == [record.label for record in store.records()]
    assert [column["name"] for column in data["columns"]][:2] == ["variant", "measured_tflops"]


def test_listings_take_what_the_figures_leave_of_a_page(make, monkeypatch):
    monkeypatch.setattr("lab.report.page.page.PAGE_BYTES", 0)
    monkeypatch.setattr("lab.report.page.page.LEAST_BUDGET", 1)
    page, _ = written(make("sweep"))
    assert page.json("data")["variants"] == {}
