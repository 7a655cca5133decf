"""The sides of a comparison, by location."""

from __future__ import annotations

import pytest
from mistakes import coded

from lab.base.errors import StoreError, UserError
from lab.recorded.run_records import Status
from lab.report.render import render
from lab.runs.compare import compare_folders
from lab.runs.sides import read_side
from lab.store import published


@pytest.fixture
def places(make, tmp_path):
    """One run as a directory, as a records file, and as committed results."""
    with make("sweep") as store:
        render(store)
        run, records = store.run(), store.records()
        texts = {records[0].variant: {"kernel.cu": store.read_file(records[0].variant, "kernel.cu").decode()}}
    committed = tmp_path / "committed"
    committed.mkdir()
    published.write_records(published.PublishedRun(run, records, None, ()), committed)
    published.write_listings(texts, committed)
    return store.folder, store.folder / "records.json", committed, committed / published.RECORDS


def test_every_form_of_a_run_reads_the_same(places):
    first, *others = (read_side(str(place)) for place in places)
    assert len(first.records) == 24
    assert not first.single
    for other in others:
        assert (other.run, other.records) == (first.run, first.records)


def test_a_variant_is_named_by_the_beginning_of_its_id_and_has_its_source(places):
    record = read_side(str(places[0])).records[0]
    for place in places:
        side = read_side(f"{place}#{record.variant[:7]}")
        assert side.single
        assert side.records == (record,)
        assert "__global__" in side.source
    without = read_side(str(places[2])).records[1]
    assert read_side(f"{places[2]}#{without.variant}").source is None


def test_two_variants_of_one_run_are_compared_line_by_line(places):
    first, two = read_side(str(places[0])).records[:2]
    found = compare_folders(f"{places[0]}#{first.variant}", f"{places[0]}#{two.variant}")
    (change,) = found.changes
    assert (change.variant_a, change.variant_b) == (first.variant, two.variant)
    assert change.ratio == pytest.approx(two.throughput / first.throughput)
    names = [name for name in first.parameters if first.parameters[name] != two.parameters[name]]
    assert names
    assert [change.unlike[name] for name in names] == [
        tuple(str(r.parameters[name]).lower() for r in (first, two)) for name in names
    ]
    assert any(name.startswith("hot-loop ") for name in change.unlike)


def test_a_wrong_id_says_which_there_are(places):
    with pytest.raises(UserError, check=coded("unknown-name", found="zzz")) as caught:
        read_side(f"{places[0]}#zzz")
    assert read_side(str(places[0])).records[0].variant in str(caught.value)
    with pytest.raises(UserError, check=coded("unknown-name", found="5")):
        read_side(f"{places[0]}#{shared(places[0])}")


def shared(place):
    """A beginning that several ids share."""
    ids = [record.variant for record in read_side(str(place)).records]
    return next(one[0] for one in ids if sum(other.startswith(one[0]) for other in ids) > 1)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"run": 1, "records": []}', '{"run": {}, "records": [3]}'])
def test_a_file_that_holds_no_records_is_told(tmp_path, content):
    file = tmp_path / "records.json"
    file.write_text(content)
    with pytest.raises(StoreError, match=r"is not a records\.json"):
        read_side(str(file))


def test_an_experiment_is_not_a_run_and_the_message_says_how_to_make_one(tmp_path):
    file = tmp_path / "soa.yaml"
    file.write_text("question: Which?\n")
    with pytest.raises(UserError) as caught:
        read_side(str(file))
    assert caught.value.code == "wrong-value"
    assert f"lab run {file} -o soa" in caught.value.accepted


def test_failed_variants_can_be_compared_too(make):
    with make("failures") as store:
        failed = next(r for r in store.records() if r.status is Status.COMPILE_FAILED)
        right = next(r for r in store.records() if not r.status.failed)
    found = compare_folders(f"{store.folder}#{right.variant}", f"{store.folder}#{failed.variant}")
    assert found.changes[0].verdict == "broken"
