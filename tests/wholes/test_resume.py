"""A run that is ended at any moment goes on where it was and yields the same report.

The pipeline runs in a forked child with an executor and a GPU that are played, so that a hundred runs take seconds. The
child kills itself at one of the moments at which the pipeline calls its surroundings.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from run_support import H200, DecidedSession, all_played, build_once, no_report, played_by

from lab.base.errors import StoreError
from lab.base.executor import WorkerLostError
from lab.experiment.load import load
from lab.runs.observer import RunObserver
from lab.runs.pipeline import RunOptions, run
from lab.stages.build import BuildFailure
from lab.stages.provenance import conditions_of
from lab.store.database import Store
from lab.store.journal import connect

TEMPLATE = """{#---
summary: s
operator: gemm
entry: k
parameters: {first: {type: int, default: 0, help: h}, second: {type: int, default: 0, help: h}}
grid: [1]
block: [32]
arguments: {m: int32, C: T*}
---#}
extern "C" __global__ void k(int m, {{ T }}* C) { C[threadIdx.x] = m; }
"""
EXPERIMENT = """question: Does it?
operator: gemm
problem: {m: [64, 96], n: 64, k: 64}
kernels:
  - {template: mine.cu.j2, parameters: {first: [1, 2, 3], second: [1, 2, 3]}}
baselines: [cublas]
archs: [sm_90]
"""
SEARCH = "search: {sample: 4, prune: {below_measured: false}, refine: {top: 2, rounds: 2}}\n"


class Impatient(RunObserver):
    """Presses Ctrl-C at the n-th record."""

    def __init__(self, left=1):
        self.left = left

    def recorded(self, record):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


class Fuse:
    """Counts what happens in a run, and may kill its process at one of these moments."""

    def __init__(self, at=0):
        self.at, self.burnt = at, itertools.count(1)

    def burn(self):
        if next(self.burnt) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def services(self):
        fuse = self

        class Session(DecidedSession):
            def run(self, job, policy):
                fuse.burn()
                return super().run(job, policy)

        def building(tasks):
            fuse.burn()
            return build_once(tasks)

        def rendering(store):
            fuse.burn()
            return no_report(store)

        return all_played(cards=played_by(Session), build=building, render=rendering)

    def observer(self):
        fuse = self

        class Burning(RunObserver):
            def planned(self, experiment, expansion, variants, gpu):
                fuse.burn()

            def built(self, planned, outcome):
                fuse.burn()

            def recorded(self, record):
                fuse.burn()

            def more(self, variants):
                fuse.burn()

        return Burning()


@pytest.fixture
def played(tmp_path):
    (tmp_path / "mine.cu.j2").write_text(TEMPLATE)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return tmp_path / "small.yaml"


def go(file, folder, services=None, observer=None, **options):
    return run(file, RunOptions(output=folder, jobs=2, **options), observer, services or all_played())


def content(outcome):
    """Everything that a report is made from, but when it was made."""
    return replace(outcome.run, started="", command=""), outcome.records


def killed(work):
    """Do the work in a child; whether it was killed."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("more", ["", SEARCH], ids=["sweep", "search"])
def test_killed_anywhere_a_run_goes_on_and_yields_the_same(played, tmp_path, more):
    played.write_text(EXPERIMENT + more)
    counting = Fuse()
    whole = go(played, tmp_path / "whole", counting.services(), counting.observer())
    moments = next(counting.burnt)
    rng = random.Random(7)  # noqa: S311 - no secret
    folder, kills, finished = tmp_path / "broken", 0, 0
    while kills < 24:
        # sometimes after a few records, sometimes before the first, sometimes near the end
        fuse = Fuse(at=rng.randrange(1, moments))
        if killed(lambda fuse=fuse: go(played, folder, fuse.services(), fuse.observer())):
            kills += 1
        before = records_of(folder)
        if before is None:
            continue
        if rng.random() < 0.5 and len(before) < len(whole.records):
            continue  # the next run finds what this one left
        ended = go(played, folder)
        assert content(ended) == content(whole)
        assert {r.variant: r for r in ended.records if r.variant in before} == {
            r.variant: r if r.measurement.remeasured else replace(before[r.variant], measurement=r.measurement)
            for r in ended.records
            if r.variant in before
        }
        finished += 1
        for file in folder.glob("run.*"):
            file.unlink()
    assert finished > 3


def records_of(folder):
    """Return the records of a killed run; None where it left none."""
    if not (folder / "run.sqlite").is_file():
        return None
    with Store(folder) as store:
        return {record.variant: record for record in store.records()}


class Watched:
    """A compiler that remembers what it was asked for."""

    def __init__(self):
        self.built = []

    def __call__(self, tasks):
        self.built += tasks
        return build_once(tasks)


def test_finished_work_is_not_repeated(played, tmp_path):
    first = go(played, tmp_path / "out", observer=Impatient(5))
    assert (first.interrupted, len(first.records)) == (True, 5)
    watched = Watched()
    second = go(played, tmp_path / "out", all_played(build=watched))
    assert not second.interrupted
    assert len(second.records) == 18
    assert len(watched.built) <= 13
    assert content(second) == content(go(played, tmp_path / "whole"))
    assert second.run.started == first.run.started
    assert not any("interrupted" in note for note in second.run.notes)


class SetBack:
    """A clock that is an hour earlier each time it is read."""

    def __init__(self):
        self.hours = itertools.count()

    def now(self, zone):
        return datetime(2035, 1, 1, tzinfo=zone) - timedelta(hours=next(self.hours))


def test_a_clock_that_is_set_back_changes_nothing(played, tmp_path, monkeypatch):
    whole = go(played, tmp_path / "whole")
    clock = SetBack()
    for module in ("lab.stages.run_facts", "lab.base.lock"):
        monkeypatch.setattr(f"{module}.datetime", clock)
    monkeypatch.setattr("time.time", lambda: 2e9 - 3600 * next(clock.hours))
    first = go(played, tmp_path / "out", observer=Impatient(5))
    for file in (tmp_path / "out").rglob("*"):
        os.utime(file, (2e9, 2e9))
    watched = Watched()
    second = go(played, tmp_path / "out", all_played(build=watched), resume=True)
    assert next(clock.hours) > 2
    assert len(watched.built) <= len(whole.records) - len(first.records)
    assert content(second) == content(whole)
    assert second.run.started == first.run.started


def test_a_finished_run_begins_again_unless_asked_to_go_on(played, tmp_path):
    go(played, tmp_path / "out")
    watched = Watched()
    go(played, tmp_path / "out", all_played(build=watched), resume=True)
    assert not watched.built
    go(played, tmp_path / "out", all_played(build=watched))
    assert watched.built


def unfinished(file, folder):
    return go(file, folder, observer=Impatient())


def test_a_search_that_is_interrupted_in_a_later_round_counts_its_variants(played, tmp_path):
    played.write_text(EXPERIMENT + SEARCH)
    whole = go(played, tmp_path / "whole")
    sample = whole.run.search.rounds[0]
    ended = go(played, tmp_path / "out", observer=Impatient(sample + 1))
    assert len(ended.records) == sample + 1
    assert ended.run.variants == sum(ended.run.search.rounds) > sample


def test_records_made_under_other_conditions_are_not_taken(played, tmp_path):
    unfinished(played, tmp_path / "out")
    played.write_text(EXPERIMENT + "seed: 7\n")
    with pytest.raises(StoreError, match="made with another seed"):
        go(played, tmp_path / "out", resume=True)
    outcome = go(played, tmp_path / "out")
    assert "it had another seed" in outcome.run.notes[0]
    assert len(outcome.records) == 18


def test_an_experiment_that_grew_keeps_what_is_done_in_its_new_place(played, tmp_path):
    unfinished(played, tmp_path / "out")
    kept = records_of(tmp_path / "out")
    played.write_text(EXPERIMENT.replace("first: [1, 2, 3]", "first: [0, 1, 2, 3]"))
    outcome = go(played, tmp_path / "out")
    assert [r.parameters["first"] for r in outcome.records][:12] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert kept.keys() <= {r.variant for r in outcome.records}
    played.write_text(EXPERIMENT.replace("first: [1, 2, 3]", "first: [3]"))
    assert {r.parameters["first"] for r in go(played, tmp_path / "out", resume=True).records} == {3}


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("resume", [None, True, False])
def test_a_run_of_another_experiment_is_kept_and_the_new_one_says_so(played, tmp_path, finished, resume):
    first = go(played, tmp_path / "out", observer=RunObserver() if finished else Impatient())
    other = played.with_name("other.yaml")
    other.write_text(EXPERIMENT)
    outcome = go(other, tmp_path / "out", resume=resume)
    assert len(outcome.records) == 18
    (note,) = [note for note in outcome.run.notes if "another experiment" in note]
    assert f"{played.stem}, started {first.run.started}" in note
    assert str(tmp_path / "out" / "previous") in note
    assert records_of(tmp_path / "out" / "previous") == {r.variant: r for r in first.records}
    again = go(played, tmp_path / "out")
    assert any("in place of the run that was kept there" in note for note in again.run.notes)


def test_an_experiment_of_the_same_name_that_shares_no_variant_is_another_one(played, tmp_path):
    """As `lab.run` and `lab.tune_kernel` make of one kernel."""
    first = go(played, tmp_path / "out", observer=Impatient())
    played.write_text(EXPERIMENT.replace("first: [1, 2, 3]", "first: [4, 5]"))
    outcome = go(played, tmp_path / "out")
    assert any("another experiment" in note for note in outcome.run.notes)
    assert records_of(tmp_path / "out" / "previous") == {r.variant: r for r in first.records}


def test_a_finished_run_of_another_text_is_named_and_one_of_the_same_text_is_not(played, tmp_path):
    go(played, tmp_path / "out")
    again = go(played, tmp_path / "out")
    assert not any("another experiment" in note for note in again.run.notes)
    played.write_text(f"{EXPERIMENT}seed: 7\n")
    assert any("another experiment" in note for note in go(played, tmp_path / "out").run.notes)


@pytest.mark.parametrize("harm", ["cut", "missing", "no provenance"])
def test_a_record_whose_files_were_lost_with_the_power_is_made_again(played, tmp_path, harm):
    unfinished(played, tmp_path / "out")
    (variant,) = records_of(tmp_path / "out")
    folder = tmp_path / "out" / "variants" / variant
    if harm == "cut":
        (folder / "kernel.cubin").write_bytes(b"")
    elif harm == "missing":
        (folder / "kernel.ptx").unlink()
    else:
        (folder / "provenance.json").write_text("")
    with Store(tmp_path / "out") as store:
        assert store.whole_records() == {}
    go(played, tmp_path / "out")
    with Store(tmp_path / "out") as store:
        assert len(store.whole_records()) == 18


def test_two_runs_at_once_say_who_holds_the_directory(played, tmp_path):
    with Store(tmp_path / "out", create=True) as store:
        with pytest.raises(StoreError, match=rf"in use by process {os.getpid()} on .* since 20\d\d-"):
            go(played, tmp_path / "out")
        with Store(tmp_path / "out") as reader:  # a report may read meanwhile
            assert reader.records() == store.records() == ()
    assert len(go(played, tmp_path / "out").records) == 18


def test_a_killed_holder_holds_nothing(played, tmp_path):
    def hold():
        Store(tmp_path / "out", create=True)
        os.kill(os.getpid(), signal.SIGKILL)

    assert killed(hold)
    assert len(go(played, tmp_path / "out").records) == 18


@pytest.mark.parametrize("harm", ["no database", "torn pages"])
def test_a_damaged_database_is_set_aside_and_made_anew(played, tmp_path, harm):
    go(played, tmp_path / "out")
    path = tmp_path / "out" / "run.sqlite"
    content = bytearray(path.read_bytes())
    if harm == "no database":
        content[:] = b"not a database at all, " * 100
    else:
        content[4096:] = bytes(byte ^ 0x5A for byte in content[4096:])
    path.write_bytes(content)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path / "out")
    outcome = go(played, tmp_path / "out")
    assert len(outcome.records) == 18
    assert "was damaged" in outcome.run.notes[0]
    assert (tmp_path / "out" / "run.sqlite.damaged").is_file()


def test_a_full_disk_is_an_error_in_words(played, tmp_path, monkeypatch):
    def full(path):
        database = connect(path)
        database.execute("PRAGMA max_page_count=8")
        return database

    monkeypatch.setattr("lab.store.journal.connect", full)
    with pytest.raises(StoreError, match=r"run\.sqlite cannot be written: database or disk is full"):
        go(played, tmp_path / "out")
    monkeypatch.undo()


def test_files_that_cannot_be_written_are_an_error_in_words(played, tmp_path, monkeypatch):
    def no_space(folder, name, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lab.base.folder.Folder.write", no_space)
    with pytest.raises(StoreError, match="No space left on device"):
        go(played, tmp_path / "out")


def test_a_directory_that_cannot_be_made_is_an_error_in_words(played, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        go(played, tmp_path / "file" / "out")


def test_conditions_are_plain(played):
    conditions = conditions_of(load(played), H200, emulated=True, measured=True)
    assert json.loads(json.dumps(conditions)) == conditions


def test_a_batch_that_dies_is_built_again_variant_by_variant(played, tmp_path):
    """Every variant's source is another, one of them kills its compiler."""
    text = (tmp_path / "mine.cu.j2").read_text().replace("= m;", "= m + {{ 10 * first + second }};")
    (tmp_path / "mine.cu.j2").write_text(text)
    batch_sizes = []

    def die(tasks):
        batch_sizes.append(len(tasks))
        if any("= m + 33;" in task.request.source for task in tasks):
            raise WorkerLostError("killed", killed=False)
        return [BuildFailure("refused") for _ in tasks]

    records = go(played, tmp_path / "out", all_played(build=die)).records
    reasons = [record.reason for record in records]
    assert sum(reason.startswith("the build process died") for reason in reasons) == 2  # of two problems
    assert reasons.count("refused") == len(records) - 2 == 16
    assert max(batch_sizes) > 1
