"""The files that a report consists of, checked against the store they were made from."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from dataclasses import replace
from functools import cache
from importlib import import_module

import pytest
from pages import Page, unpack

from lab.measured.timing import Kind
from lab.report.columns import row
from lab.report.registry.run_columns import columns_for
from lab.report.render import render
from lab.report.variant.listings import pack
from lab.store.codec import record_to_text
from lab.store.figures import ranked, response_of

REQUIRED = {
    *("variant", "kernel", "status", "ptx_fma_per_ld_shared", "ptx_fma_share", "sass_fma_share", "registers"),
    *("spill_bytes", "shared_bytes", "occupancy", "predicted_tflops", "measured_ms", "measured_tflops"),
    "ratio_to_baseline",
}
MEASURED_COLUMNS = ("measured_ms", "measured_tflops", "ratio_to_baseline", "baseline_ms", "measured_peak_share")
HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture(scope="session")
def report(tmp_path_factory, make_at):
    """A run's store, its written files by name, and its page; made once, so tests only read them."""

    @cache
    def build(what, **options):
        store = make_at(tmp_path_factory.mktemp(what), what)
        files = {path.name: path for path in render(store, **options)}
        return store, files, Page(files["index.html"].read_text(encoding="utf-8"))

    return build


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("what", ["sweep", "ladder", "no_gpu"])
def test_writes_the_files_of_a_report(report, what):
    _, files, _ = report(what)
    expected = {"index.html", "records.csv", "records.json", "ratio_vs_throughput.png", "mix.png"}
    expected |= set() if what == "ladder" else {"main_effects.png"}
    assert set(files) == expected
    for name, path in files.items():
        assert path.is_file()
        assert not name.endswith("png") or path.read_bytes().startswith(b"\x89PNG\r\n")


def test_csv_has_the_promised_columns_and_the_records_values(report):
    store, files, _ = report("sweep")
    rows, records = read_csv(files["records.csv"]), store.records()
    parameters = [f"p.{name}" for name in records[0].parameters]
    assert REQUIRED | set(parameters) <= set(rows[0])
    assert [cells["variant"] for cells in rows] == [record.variant for record in records]
    for cells, record in zip(rows, records, strict=True):
        hot = record.ptx.hot_loop.counts
        assert float(cells["ptx_fma_per_ld_shared"]) == hot.by_class["fma"] / hot.by_class["ld.shared"]
        assert float(cells["sass_fma_share"]) == record.sass.hot_loop.counts.fma_share
        assert float(cells["measured_ms"]) == record.measurement.samples.median
        assert float(cells["measured_tflops"]) == record.flops / record.measurement.samples.median / 1e9
        assert float(cells["ratio_to_baseline"]) == record.measurement.ratio_to_baseline
        assert float(cells["predicted_tflops"]) == record.prediction.ceiling.tflops
        assert int(cells["registers"]) == record.build.resources.registers
        assert cells["p.double_buffer"] == str(record.parameters["double_buffer"]).lower()


def test_cells_without_a_value_are_empty_not_zero(report):
    _, files, page = report("no_gpu")
    for cells in read_csv(files["records.csv"]):
        assert all(cells[name] == "" for name in MEASURED_COLUMNS)
        assert cells["predicted_tflops"]
    data = page.json("data")
    columns = {column["name"]: column for column in data["columns"]}
    assert all(columns[name]["empty"] and not columns[name]["shown"] for name in MEASURED_COLUMNS)


def test_failed_variants_have_no_measured_figures(report):
    store, files, _ = report("failures")
    rows = {cells["variant"]: cells for cells in read_csv(files["records.csv"])}
    failed = [record for record in store.records() if record.status.failed]
    assert len(failed) == 4
    for record in failed:
        assert all(rows[record.variant][name] == "" for name in MEASURED_COLUMNS)
        assert rows[record.variant]["status"] == record.status
        assert rows[record.variant]["reason"] == record.reason
    compiled = next(record for record in failed if record.build is None)
    assert rows[compiled.variant]["registers"] == rows[compiled.variant]["sass_fma_share"] == ""


def test_json_holds_run_and_records_with_derived_columns(report):
    store, files, _ = report("sweep")
    value = json.loads(files["records.json"].read_text(encoding="utf-8"))
    assert value["run"]["question"] == store.run().question
    first = value["records"][0]
    assert first["variant"] == store.records()[0].variant
    assert len(first["measurement"]["samples"]["ms"]) == 31
    assert first["derived"]["measured_tflops"] == pytest.approx(store.records()[0].tflops)
    assert "kernel" not in first["derived"]


@pytest.mark.parametrize("what", ["sweep", "no_gpu", "ladder", "failures", "hostile"])
def test_every_variant_is_on_the_page_and_can_be_opened(report, what):
    store, _, page = report(what)
    data, blobs = page.json("data"), page.json("blobs")
    place = [column["name"] for column in data["columns"]].index("variant")
    assert [cells[place] for cells in data["rows"]] == [record.variant for record in store.records()]
    for record in store.records():
        ids = data["variants"][record.variant]
        detail = json.loads(unpack(blobs[ids["detail"]]))
        assert detail["status"] == record.status
        assert unpack(blobs[ids["log"]]) == (store.variant_folder(record.variant).path / "build.log").read_text()
        if record.ptx:
            hot = next(loop for loop in detail["hot"]["ptx"] if loop["hot"])
            lines = unpack(blobs[ids["ptx"]]).split("\n")
            (first, last), offset = hot["lines"][0], detail["first"]["ptx"]
            assert "ld.global" in lines[first - offset]
            assert "bra" in lines[last - offset]


@pytest.mark.parametrize("what", ["sweep", "hostile"])
def test_page_loads_nothing_from_elsewhere(report, what):
    _, files, page = report(what)
    beside = {*files, "data:,"}
    assert all(url.startswith("#") or url in beside for url in page.urls)
    assert all("src" not in script for script in page.scripts)
    assert "@import" not in page.text
    styles = re.findall(r"<style>(.*?)</style>", files["index.html"].read_text(encoding="utf-8"), re.DOTALL)
    assert len(styles) == 1
    assert "url(" not in styles[0]


def test_users_text_stays_text(report):
    _, files, page = report("hostile")
    html = files["index.html"].read_text(encoding="utf-8")
    assert HOSTILE in page.ids["answer"]
    assert "<b>note</b>" in page.text
    assert len(page.scripts) == 4
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert page.tags.count("img") == html.count("<noscript><img")
    assert "b" not in page.tags
    assert any(column["name"] == f"p.{HOSTILE}" for column in page.json("data")["columns"])
    source = unpack(page.json("blobs")[next(iter(page.json("data")["variants"].values()))["source"]])
    assert "&lt;b&gt;not markup" in source
    assert "<script" not in source


def test_chart_fields_are_free_of_users_characters(report):
    _, _, page = report("hostile")
    data = page.json("data")
    assert all(re.fullmatch(r"[a-z0-9_]+", column["key"]) for column in data["columns"])
    specs = json.dumps([choice["spec"] for choices in data["charts"].values() for choice in choices])
    fields = set(re.findall(r'"field": "([^"]*)"', specs))
    assert fields
    assert all(re.fullmatch(r"[a-z0-9_]+", field) for field in fields)
    assert not any("<" in text for text in re.findall(r'"filter": "([^"]*)"', specs) if "status" not in text)


def test_page_stays_small(report):
    _, files, page = report("sweep")
    assert files["index.html"].stat().st_size < 1_500_000
    assert len(page.ids["vega"]) < 500_000
    assert "vegaEmbed" in unpack(page.ids["vega"])


def test_records_and_texts_are_on_the_page_once(report):
    store, _, page = report("sweep")
    blobs = page.json("blobs")
    logs = {ids["log"] for ids in page.json("data")["variants"].values()}
    assert len(logs) == 1
    assert len(set(blobs.values())) == len(blobs)
    specs = json.dumps(page.json("data")["charts"])
    assert not any(record.variant in specs for record in store.records())


def test_listings_beyond_the_budget_are_links(report):
    budget = 20_000
    store, _, page = report("sweep", listing_budget=budget)
    data, blobs = page.json("data"), page.json("blobs")
    embedded = data["variants"]
    assert 0 < len(embedded) < len(store.records())
    assert sum(map(len, blobs.values())) <= budget
    best = ranked(store.records(), response_of(store.records()))
    assert list(embedded) == [record.variant for record in best[: len(embedded)]]
    assert f"Listings of {len(embedded)} of {len(store.records())} variants are embedded" in page.text
    assert data["files"]["sass"] == "kernel.sass"


def test_a_report_is_of_one_moment(make, monkeypatch):
    store = make("sweep")
    records = store.records()
    late = replace(records[0], variant="late")
    rendering = import_module("lab.report.render")
    analyse = rendering.analyse

    def while_another_process_writes(*given):
        with sqlite3.connect(store.folder / "run.sqlite") as other:
            other.execute("INSERT INTO records VALUES (?, ?, ?)", ("late", 0, record_to_text(late)))
        return analyse(*given)

    monkeypatch.setattr(rendering, "analyse", while_another_process_writes)
    render(store)
    written = json.loads((store.folder / "records.json").read_text())
    assert [record["variant"] for record in written["records"]] == [record.variant for record in records]
    assert store.count() == len(records) + 1


def test_missing_files_of_a_variant_do_not_stop_the_report(make):
    store = make("sweep")
    for path in (store.folder / "variants").rglob("*"):
        if path.is_file():
            path.unlink()
    (html, *_) = render(store)
    assert len(Page(html.read_text(encoding="utf-8")).json("data")["variants"]) == 24


def test_an_empty_run_has_a_page(make):
    store = make("ladder")
    run = store.run()
    store.clear()
    store.write_run(run)
    files = {path.name: path for path in render(store)}
    assert set(files) == {"index.html", "records.csv", "records.json"}
    assert "No variant can be compared." in Page(files["index.html"].read_text(encoding="utf-8")).ids["answer-text"]


def test_failures_show_reason_and_end_of_log(report):
    store, _, page = report("failures")
    for record in store.records():
        assert not record.status.failed or record.reason in page.ids["failures"]
    assert "kernel.cu(5): error" in page.ids["failures"]
    assert "line 59" in page.ids["failures"]
    assert "line 40" not in page.ids["failures"]


def test_figures_carry_their_kind(report):
    _, _, page = report("sweep")
    kinds = {column["name"]: column["kind"] for column in page.json("data")["columns"]}
    assert kinds["registers"] == kinds["sass_fma_share"] == "static"
    assert kinds["predicted_tflops"] == kinds["occupancy"] == "predicted"
    assert kinds["measured_tflops"] == kinds["ratio_to_baseline"] == "measured"
    _, _, without = report("no_gpu")
    specs = json.dumps(without.json("data")["charts"])
    assert "measured" not in specs
    assert "throughput ceiling (TFLOP/s, predicted)" in specs


def test_provenance_and_the_command_are_on_the_page(report):
    store, _, page = report("sweep")
    run = store.run()
    assert page.ids["command"] == run.command
    for fact in (
        run.commit,
        run.gpu.driver,
        *run.baselines.values(),
        "nvrtc 13.5.37",
        "nvdisasm 13.5.37",
        "612 to 655 W",
    ):
        assert fact in page.ids["provenance"]
    for line in run.source.splitlines():
        assert line in page.ids["provenance"]


def test_rendering_twice_gives_the_same_page(make):
    store = make("sweep")
    first = [path.read_bytes() for path in render(store)]
    assert [path.read_bytes() for path in render(store)] == first


def test_row_and_columns_agree(make):
    store = make("sweep")
    columns = columns_for(store.run(), store.records())
    cells = row(store.records()[0], columns)
    assert list(cells) == [column.name for column in columns]
    shown = {column.name: column.text(cells[column.name]) for column in columns}
    assert shown["p.double_buffer"] == "false"
    assert shown["sass_fma_share"] == f"{cells['sass_fma_share']:.1%}"
    assert {column.kind for column in columns} >= {Kind.STATIC, Kind.PREDICTED, Kind.MEASURED, None}


def test_pack_is_reversible():
    assert unpack(pack("ρ\n" * 3)) == "ρ\n" * 3


@pytest.mark.parametrize("what", ["sweep", "ladder"])
def test_where_throughput_counts_bytes_the_page_is_in_gb_s(make, counting_bytes, what):
    store = counting_bytes(make(what))
    files = render(store)
    page = files[0].read_text()
    assert "TFLOP" not in page
    assert "throughput (GB/s, measured)" in page
    cells = next(csv.DictReader((store.folder / "records.csv").open()))
    record = store.records()[0]
    assert float(cells["measured_gb_s"]) == record.throughput
    assert float(cells["measured_peak_share"]) == record.throughput / 4800
    assert not [name for name in cells if "tflops" in name]


def test_where_throughput_counts_bytes_traffic_stands_on_the_axis(make, counting_bytes):
    store = counting_bytes(make("sweep"))
    for position, record in enumerate(store.records()):
        store.write(replace(record, accesses={"global.load": 4.0 * (1 + position % 3)}), position)
    page = Page(render(store)[0].read_text(encoding="utf-8"))
    specs = json.dumps(page.json("data")["charts"]["ratio"])
    assert "sectors per request (predicted)" in specs
    assert "FMA" not in specs
    assert "and throughput" in page.text
