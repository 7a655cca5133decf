"""`benchmarks/publish.py`: what is too large to commit gets smaller, and what was left out is said."""

from __future__ import annotations

import gzip
import json
import re
import shutil

import pytest

from lab.report.render import render


@pytest.fixture(scope="module")
def run(tmp_path_factory, make_at):
    with make_at(tmp_path_factory.mktemp("runs"), "sweep") as store:
        render(store)
    return store.folder


def embedded(page):
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    return json.loads(data.group(1))["variants"]


def size(folder):
    return sum(file.stat().st_size for file in folder.iterdir() if file.name != "provenance.json")


def test_a_small_run_is_copied_as_it_is(script, run, tmp_path):
    assert script.publish(run, tmp_path / "out") == ()
    for name in ("index.html", "records.csv", "records.json", "sweep.png"):
        assert (tmp_path / "out" / name).read_bytes() == (run / name).read_bytes()
    facts = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert (facts["experiment"], facts["published"]) == ("gemm_unroll", [])


def test_a_report_that_was_never_drawn_is_drawn(script, run, tmp_path):
    bare = shutil.copytree(run, tmp_path / "bare")
    for file in (*bare.glob("*.png"), *bare.glob("*.html"), bare / "records.csv", bare / "records.json"):
        file.unlink()
    script.publish(bare, tmp_path / "out")
    assert (tmp_path / "out" / "index.html").read_bytes() == (run / "index.html").read_bytes()


def test_records_are_compressed_first(script, run, tmp_path):
    script.publish(run, tmp_path / "out")
    limit = size(tmp_path / "out") - 1
    said = script.publish(run, tmp_path / "out", limit)
    assert said == ("records.json is compressed.",)
    assert not (tmp_path / "out" / "records.json").exists()
    assert gzip.decompress((tmp_path / "out" / "records.json.gz").read_bytes()) == (run / "records.json").read_bytes()
    assert 'href="records.json.gz"' in (tmp_path / "out" / "index.html").read_text()
    assert len(embedded(tmp_path / "out" / "index.html")) == len(embedded(run / "index.html"))


def test_then_the_records_lose_what_was_counted_a_line(script, run, tmp_path):
    counted = shutil.copytree(run, tmp_path / "counted")
    given = json.loads((run / "records.json").read_bytes())
    for place, record in enumerate(given["records"]):
        record["emulation"] = {"lines": [{"cls": "fma", "threads": place, "lines": list(range(place, 900))}]}
    given["records"][0]["emulation"] = None  # it failed before
    (counted / "records.json").write_text(json.dumps(given))
    limit = sizes_at(run) + len(gzip.compress((run / "records.json").read_bytes())) + 500
    said = script.publish(counted, tmp_path / "out", limit)
    assert [sentence.split()[:2] for sentence in said] == [["records.json", "is"], ["The", "records"]]
    left = json.loads(gzip.decompress((tmp_path / "out" / "records.json.gz").read_bytes()))
    for record in given["records"][1:]:
        record["emulation"]["lines"] = []
    assert left == given


def sizes_at(run, *more):
    """Bytes of the files that every published report has."""
    files = ("index.html", "records.csv", *(file.name for file in run.glob("*.png")), *more)
    return sum((run / name).stat().st_size for name in files)


def test_then_the_page_has_fewer_listings(script, run, tmp_path):
    before = {
        file.name: file.read_bytes() for file in run.glob("*.*") if file.suffix in (".html", ".csv", ".json", ".png")
    }
    limit = sizes_at(run)  # with the compressed records it is too much
    said = script.publish(run, tmp_path / "out", limit)
    assert [sentence.split()[0] for sentence in said] == ["records.json", "The", "Of"]
    assert size(tmp_path / "out") <= limit
    page = tmp_path / "out" / "index.html"
    assert 0 < len(embedded(page)) < len(embedded(run / "index.html"))
    assert 'href="records.json.gz"' in page.read_text()
    assert json.loads((tmp_path / "out" / "provenance.json").read_text())["published"] == list(said)
    assert {name: (run / name).read_bytes() for name in before} == before


def test_at_last_the_records_are_left_out(script, run, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    with script.Store(run) as store:
        render(store, listing_budget=0, folder=bare)
    limit = sizes_at(bare) + 500
    said = script.publish(run, tmp_path / "out", limit)
    assert any("no room for records.json" in sentence for sentence in said)
    assert size(tmp_path / "out") <= limit
    assert not list((tmp_path / "out").glob("records.json*"))
    assert "records.json<" not in (tmp_path / "out" / "index.html").read_text()


def test_what_does_not_fit_at_all_is_refused(script, run, tmp_path):
    with pytest.raises(SystemExit, match="too many to commit"):
        script.publish(run, tmp_path / "out", 1000)
    assert not (tmp_path / "out").exists()
