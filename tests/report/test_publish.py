"""`benchmarks/publish.py`: what is too large to commit gets smaller, and what was left out is said."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re

import pytest

from lab.report import render


@pytest.fixture(scope="module")
def script(root):
    spec = importlib.util.spec_from_file_location("publish", root / "benchmarks" / "publish.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


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


def test_records_are_compressed_first(script, run, tmp_path):
    script.publish(run, tmp_path / "out")
    limit = size(tmp_path / "out") - 1
    said = script.publish(run, tmp_path / "out", limit)
    assert said == ("records.json is compressed.",)
    assert not (tmp_path / "out" / "records.json").exists()
    assert gzip.decompress((tmp_path / "out" / "records.json.gz").read_bytes()) == (run / "records.json").read_bytes()
    assert 'href="records.json.gz"' in (tmp_path / "out" / "index.html").read_text()
    assert len(embedded(tmp_path / "out" / "index.html")) == len(embedded(run / "index.html"))


def test_then_the_page_has_fewer_listings(script, run, tmp_path):
    before = {
        file.name: file.read_bytes() for file in run.glob("*.*") if file.suffix in (".html", ".csv", ".json", ".png")
    }
    files = ("index.html", "records.csv", *(file.name for file in run.glob("*.png")))
    limit = sum((run / name).stat().st_size for name in files)  # with the compressed records it is too much
    said = script.publish(run, tmp_path / "out", limit)
    assert [sentence.split()[0] for sentence in said] == ["records.json", "Of"]
    assert size(tmp_path / "out") <= limit
    page = tmp_path / "out" / "index.html"
    assert 0 < len(embedded(page)) < len(embedded(run / "index.html"))
    assert 'href="records.json.gz"' in page.read_text()
    assert json.loads((tmp_path / "out" / "provenance.json").read_text())["published"] == list(said)
    assert {name: (run / name).read_bytes() for name in before} == before


def test_what_does_not_fit_at_all_is_refused(script, run, tmp_path):
    with pytest.raises(SystemExit, match="too many to commit"):
        script.publish(run, tmp_path / "out", 1000)
    assert not (tmp_path / "out").exists()
