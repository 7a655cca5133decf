"""Recording of a run's results."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lab.base.errors import StoreError
from lab.experiment.schema import PruneModel
from lab.measured.timing import CardState, Measurement, Samples
from lab.recorded.run_records import Status, VariantRecord
from lab.runs.observer import RunObserver
from lab.runs.recorder import Recorder
from lab.search.pruning import Pruner
from lab.store.database import Store


class Listing(RunObserver):
    def __init__(self):
        self.records, self.notes = [], []

    def recorded(self, record):
        self.records.append(record.variant)

    def noted(self, sentence):
        self.notes.append(sentence)


def planned(position, label=""):
    return SimpleNamespace(variant=f"v{position}", position=position, label=label)


def record(position, ms=1.0, status=Status.VERIFIED):
    timed = Measurement(Samples((ms,)), None, None, "cold", CardState(), CardState())
    return VariantRecord(f"v{position}", "k", "", "t", {}, {"m": 1}, "sm_90", status, "", 10**9, 1, measurement=timed)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "out", create=True) as opened:
        yield opened


def test_records_and_files_are_on_disk_when_the_context_ends(store):
    observer = Listing()
    with Recorder(store, observer) as recorder:
        recorder.files(planned(1), {"kernel.cu": "text"})
        recorder.finish(planned(1), record(1))
        recorder.finish(planned(0), record(0))
    assert [record.variant for record in store.records()] == ["v0", "v1"]
    assert store.read_file("v1", "kernel.cu") == b"text"
    assert observer.records == ["v1", "v0"]


def test_what_is_finished_is_kept_after_ctrl_c(store):
    def interrupted():
        with Recorder(store, RunObserver()) as recorder:
            recorder.finish(planned(0), record(0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert store.count() == 1


def test_a_disk_that_fails_is_reported_when_the_context_ends(store):
    def fail(variant, files):
        raise StoreError("the disk is full")

    store.write_files = fail
    with pytest.raises(StoreError, match="disk is full"), Recorder(store, RunObserver()) as recorder:
        recorder.files(planned(0), {"a": "b"})


def test_a_record_of_an_earlier_run_moves_to_its_new_position(store):
    store.write(record(0), 7)
    store.write(record(1), 0)
    with Recorder(store, RunObserver()) as recorder:
        recorder.take_over(planned(0), record(0))
        recorder.take_over(planned(1), record(1))
    assert [record.variant for record in store.records()] == ["v0", "v1"]
    assert set(recorder.scores) == {0, 1}


def test_notes_are_kept_once_and_stored(store):
    observer = Listing()
    recorder = Recorder(store, observer, notes=["from before"])
    recorder.note()
    assert store.noted("notes") is None
    recorder.note("one", "two", "one")
    recorder.note("two", "from before")
    assert recorder.notes == store.noted("notes") == ["from before", "one", "two"]
    assert observer.notes == ["one", "two"]


def test_a_pruner_learns_from_what_succeeded(store):
    pruner = Pruner(PruneModel())
    with Recorder(store, RunObserver(), pruner) as recorder:
        recorder.finish(planned(0), record(0, 0.5))
        recorder.finish(planned(1), record(1, 0.1, Status.WRONG))
    assert set(recorder.scores) == {0}
    assert list(pruner.measured.values()) == [pytest.approx(2.0)]


def test_a_record_of_an_earlier_run_gets_its_present_label(store):
    store.write(record(0), 7)
    with Recorder(store, RunObserver()) as recorder:
        recorder.take_over(planned(0, "unroll=4"), record(0))
    assert [record.label for record in store.records()] == ["unroll=4"]
