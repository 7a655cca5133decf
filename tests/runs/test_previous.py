"""The last finished run of a directory stays beside the new one."""

from __future__ import annotations

from lab.report.render import render
from lab.runs.previous import FOLDER, keep, kept
from lab.store.database import Store


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
            assert (other.variant_folder(before[0].variant) / "kernel.sass").is_file()
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
