"""The last finished run of a directory stays beside the new one."""

from __future__ import annotations

import planted_tuning

from lab.report.render import render
from lab.store.database import Store
from lab.store.previous import FOLDER, keep, keep_tuning, kept
from lab.store.tuning import TuningStore
from lab.store.tuning_model import TimingStage


def test_a_finished_run_moves_with_its_files_and_can_be_read_and_drawn(make):
    with make("sweep") as store:
        before = store.records()
        store.note("state", {"conditions": {}, "finished": True})
        (store.folder / "index.html").write_text("the page")
        keep(store)
        store.clear()
        target = kept(store)
        assert target is not None
        assert target == store.folder / FOLDER
        assert store.records() == ()
        assert not (store.folder / "variants").exists()
        assert not (store.folder / "index.html").exists()
        with Store(target) as other:
            assert other.records() == before
            assert other.run() == store.run()
            assert (other.variant_folder(before[0].variant).path / "kernel.sass").is_file()
            assert (target / "index.html").read_text() == "the page"
            assert render(other)[0].is_file()


def test_only_the_last_finished_run_is_kept(make):
    with make("sweep") as store:
        state = {"conditions": {}, "finished": True}
        store.note("state", state)
        keep(store)
        first = store.records()[0]
        store.clear()
        store.write(first, 0)
        store.note("state", state)
        keep(store)
        with Store(store.folder / FOLDER) as other:
            assert other.records() == (first,)
        assert not (store.folder / FOLDER / FOLDER).exists()


def test_an_unfinished_or_empty_run_does_not_take_the_place_of_a_finished_one(make):
    with make("sweep") as store:
        assert kept(store) is None
        keep(store)
        store.note("state", {"conditions": {}, "finished": False})
        keep(store)
        assert kept(store) is None
        assert (store.folder / "variants").is_dir()
        store.clear()
        store.note("state", {"conditions": {}, "finished": True})
        keep(store)
        assert kept(store) is None


def test_what_the_new_run_reads_stays(make):
    with make("sweep") as store:
        store.note("state", {"conditions": {}, "finished": True})
        (store.folder / "input").mkdir()
        (store.folder / "input" / "k.yaml").write_text("of the new run")
        keep(store)
        assert (store.folder / "input" / "k.yaml").read_text() == "of the new run"


def test_a_tuning_run_is_kept_in_the_same_way(tmp_path):
    planted_tuning.plant(tmp_path, None)
    with TuningStore(tmp_path, create=True) as store:
        keep_tuning(store)  # unfinished
        assert kept(store) is None
        store.note("state", {"conditions": {}, "finished": True})
        (tmp_path / "index.html").write_text("the page")
        kernels, times = store.kernels(), store.times(TimingStage.FINAL)
        keep_tuning(store)
        store.clear()
        assert kept(store) == tmp_path / FOLDER
        assert not (tmp_path / "index.html").exists()
    with TuningStore(tmp_path / FOLDER) as other:
        assert (other.kernels(), other.times(TimingStage.FINAL)) == (kernels, times)
        assert (tmp_path / FOLDER / "index.html").read_text() == "the page"
