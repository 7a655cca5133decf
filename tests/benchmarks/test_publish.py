"""`benchmarks/publish.py`: a small page, its pictures, and records from which the whole page is drawn again."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lab.base.errors import StoreError
from lab.cli.main import app
from lab.recorded.run_records import EmulationRecord, ExecutedLines
from lab.report.render import render
from lab.store import published
from lab.store.database import Store


@pytest.fixture(scope="module")
def run(tmp_path_factory, make_at):
    with make_at(tmp_path_factory.mktemp("runs"), "sweep") as store:
        render(store)
    return store.folder


def embedded(page):
    """Variants whose listings a whole page embeds, with the ids of their texts."""
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    return json.loads(data.group(1))["variants"]


def links(page):
    return re.findall(r'(?:href|src)="([^"#]*)"', page.read_text())


def test_what_is_published(script, run, tmp_path):
    assert script.publish(run, tmp_path / "out") == ()
    pictures = {file.name for file in run.glob("*.png") if file.name != script.ROOFLINE}
    wanted = {"index.html", "provenance.json", published.RECORDS, published.LISTINGS}
    assert {file.name for file in (tmp_path / "out").iterdir()} == wanted | pictures
    for name in pictures:
        assert (tmp_path / "out" / name).read_bytes() == (run / name).read_bytes()
    facts = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert (facts["experiment"], facts["published"]) == ("gemm_unroll", [])


def test_the_small_page_links_only_to_files_beside_it(script, run, tmp_path):
    script.publish(run, tmp_path / "out")
    found = [link for link in links(tmp_path / "out" / "index.html") if link != "data:,"]
    assert len(found) > 5
    assert all((tmp_path / "out" / link).is_file() for link in found)
    assert (tmp_path / "out" / "index.html").stat().st_size < 30_000


def test_the_whole_page_is_drawn_from_what_was_published(script, run, tmp_path):
    script.publish(run, tmp_path / "out")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    full = tmp_path / "out" / published.FULL
    assert str(full / "index.html") in done.stdout.splitlines()
    assert (full / "records.csv").read_bytes() == (run / "records.csv").read_bytes()
    assert (full / "records.json").read_bytes() == (run / "records.json").read_bytes()
    assert embedded(full / "index.html") == embedded(run / "index.html")


def test_the_whole_page_goes_where_it_is_asked_for(script, run, tmp_path):
    script.publish(run, tmp_path / "out")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "out"), "--output", str(tmp_path / "there")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "there" / "index.html").is_file()
    assert not (tmp_path / "out" / published.FULL).exists()


def test_the_report_of_a_run_directory_may_go_elsewhere(run, tmp_path):
    done = CliRunner().invoke(app, ["report", str(run), "--output", str(tmp_path / "there")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "there" / "index.html").is_file()


def test_publishing_again_from_what_was_published_changes_nothing(script, run, tmp_path):
    script.publish(run, tmp_path / "out")
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    (tmp_path / "out" / "page_of_an_earlier_version.html").touch()
    (tmp_path / "out" / published.FULL).mkdir()
    script.publish(tmp_path / "out", tmp_path / "out")
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir() if file.is_file()} == before
    assert (tmp_path / "out" / published.FULL).is_dir()


def test_a_report_that_was_never_drawn_is_drawn(script, run, tmp_path):
    bare = shutil.copytree(run, tmp_path / "bare")
    for file in (*bare.glob("*.png"), *bare.glob("*.html"), bare / "records.csv", bare / "records.json"):
        file.unlink()
    script.publish(bare, tmp_path / "out")
    assert (bare / "index.html").read_bytes() == (run / "index.html").read_bytes()


def test_listings_of_the_best_variants_are_kept_as_far_as_they_fit(script, run, tmp_path):
    script.publish(run, tmp_path / "all")
    limit = (tmp_path / "all" / published.LISTINGS).stat().st_size * 3 // 4
    messages = script.publish(run, tmp_path / "out", limit)
    listings = published.read_listings(tmp_path / "out")
    assert 0 < len(listings) < 24
    assert messages == (f"Listings are kept of {len(listings)} of 24 variants, the best ones.",)
    assert (tmp_path / "out" / published.LISTINGS).stat().st_size <= limit
    with Store(run) as store:
        rates = {record.variant: record.throughput for record in store.records()}
    assert set(listings) == set(sorted(rates, key=lambda name: -rates[name])[: len(listings)])
    more = {**{name: published.read_listings(tmp_path / "all")[name] for name in listings}}
    more |= {name: texts for name, texts in published.read_listings(tmp_path / "all").items() if name not in listings}
    assert len(published.archive(dict(list(more.items())[: len(listings) + 1]))) > limit, "one more would fit"
    assert json.loads((tmp_path / "out" / "provenance.json").read_text())["published"] == list(messages)
    assert messages[0] in (tmp_path / "out" / "index.html").read_text()


def test_listings_are_not_called_the_best_ones_where_the_best_variant_has_no_files(script, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    with Store(copy) as store:
        best = max(store.records(), key=lambda record: record.throughput or 0).variant
        shutil.rmtree(store.variant_folder(best).path)
    messages = script.publish(copy, tmp_path / "out")
    assert messages == ("Listings are kept of 23 of 24 variants, the best ones that have files.",)
    assert best not in published.read_listings(tmp_path / "out")
    assert script.publish(tmp_path / "out", tmp_path / "again") == messages


def test_no_room_for_any_listing(script, run, tmp_path):
    assert script.publish(run, tmp_path / "out", 10) == ("Listings are kept of no variant.",)
    assert not (tmp_path / "out" / published.LISTINGS).exists()
    assert published.LISTINGS not in (tmp_path / "out" / "index.html").read_text()


def test_what_records_lack_is_said_again(script, run, tmp_path):
    lines = "The records do not say how often each PTX line was executed."
    copy = shutil.copytree(run, tmp_path / "copy")
    with Store(copy, create=True) as store:
        store.note(published.LEFT_OUT, [lines])
    assert script.publish(copy, tmp_path / "out", 10) == (lines, "Listings are kept of no variant.")
    assert published.read_records(tmp_path / "out").left_out == (lines,)
    assert script.publish(tmp_path / "out", tmp_path / "again", 10) == (lines, "Listings are kept of no variant.")


def test_a_folder_without_a_run_is_refused(script, tmp_path):
    with pytest.raises(StoreError, match="holds no run"):
        script.publish(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pictures_are_kept_in_the_pages_order_as_far_as_they_fit(script, run, tmp_path, monkeypatch):
    script.publish(run, tmp_path / "all")
    sizes = {file.stem: file.stat().st_size for file in (tmp_path / "all").glob("*.png")}
    every = sorted(sizes, key=lambda name: (script.caption_place(name), name))
    monkeypatch.setattr(script, "MOST_PICTURE_BYTES", sizes[every[0]] + sizes[every[1]])
    messages = script.publish(run, tmp_path / "out")
    pictures = {file.stem for file in (tmp_path / "out").glob("*.png")}
    assert {every[0], every[1]} <= pictures
    assert sum(sizes[name] for name in pictures) <= script.MOST_PICTURE_BYTES
    missing = sorted(set(every) - pictures)
    assert missing
    assert sorted(messages[0].removesuffix(".").rpartition(": ")[2].split(", ")) == missing
    assert messages[0] in (tmp_path / "out" / "index.html").read_text()


def test_a_variant_without_a_listing_has_no_executions_of_its_lines(script, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    done = EmulationRecord({}, (), lines=(ExecutedLines((1, 2), "fma", warps=8, threads=256, memory={}),))
    with Store(copy, create=True) as store:
        for position, record in enumerate(store.records()):
            store.write(replace(record, emulation=done), position)
    script.publish(copy, tmp_path / "all")
    limit = (tmp_path / "all" / published.LISTINGS).stat().st_size * 3 // 4
    messages = script.publish(copy, tmp_path / "out", limit)
    assert script.NO_LINES in messages
    listed = published.read_listings(tmp_path / "out")
    records = published.read_records(tmp_path / "out").records
    assert 0 < len(listed) < len(records)
    assert {record.variant for record in records if record.emulation.lines} == set(listed)
    assert set(script.publish(tmp_path / "out", tmp_path / "again", limit)) == set(messages)


def test_a_redrawn_page_leaves_records_and_listings_as_they_are(script, run, tmp_path):
    folder = tmp_path / "out"
    script.publish(run, folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    (folder / "index.html").write_text("old", encoding="utf-8")
    (folder / "old.png").write_bytes(b"")
    assert script.redraw(folder) == ()
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    messages = script.redraw(folder, 0)
    assert not list(folder.glob("*.png"))
    assert messages[0].startswith(script.WHOLE_PAGE_ALONE)
    assert json.loads((folder / "provenance.json").read_text())["published"] == list(messages)
    assert messages[0] in (folder / "index.html").read_text()
