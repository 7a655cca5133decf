"""The protocol from its file to its folder, on a GPU that is played and without one."""

from __future__ import annotations

import _thread
import itertools
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import played
import pytest
from fake_device import invented_ms

from lab.library import dispatch
from lab.library.package import TimesKind
from lab.measured.timing import Kind
from lab.store.journal import connect
from lab.store.tuning import TuningStore
from lab.store.tuning_model import CutKind, ProblemType, TimingStage
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.tuning.file.load import load
from lab.tuning.product import product
from lab.tuning.run import TuningOptions, tune

TYPE = ProblemType("float32", "nn")
TENSILE = "gemm/tensile.cu.j2"


def invented(facts, size):
    template, problem = kernels.load(TENSILE, kernels.search_path()), product(TYPE, size)
    return invented_ms(Instance(template, facts.parameters, problem).launches, problem)


def final_sizes(file):
    (group,) = load(file).groups
    return group.final.all


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("played")
    file, watched = played.write(folder), played.Watched()
    return file, folder / "out", watched, played.play(file, folder / "out", watched)


def test_every_kernel_is_timed_at_every_size(done):
    file, folder, watched, outcome = done
    assert not outcome.failed
    assert not outcome.not_measured
    assert watched.gpu == "NVIDIA H200"
    with TuningStore(folder) as store:
        times, facts = store.times(TimingStage.FINAL), {kernel.id: kernel for kernel in store.kernels()}
    sizes = final_sizes(file)
    assert len(sizes) == 10
    assert len(times) == 5  # four kernels and the baseline
    for identity, own in times.items():
        assert set(own) == set(sizes)
        for size, timed in own.items():
            assert timed.kind is Kind.MEASURED
            assert timed.error == 1e-8
            expected = invented(facts[identity], size) if identity in facts else 2.0
            assert timed.ms == pytest.approx(expected)


def test_whoever_watches_hears_of_sizes_to_come_and_of_the_fastest_kernel_at_each(done):
    _, folder, watched, _ = done
    with TuningStore(folder) as store:
        facts = {kernel.name: kernel for kernel in store.kernels()}
    assert ("float32_nn, step 7", 10) in [(what, sizes) for what, sizes in watched.asked_for if "step 7" in what]
    assert sum(sizes for _, sizes in watched.asked_for) == len(watched.sizes)
    for size, leader in zip(watched.sizes, watched.leaders, strict=True):
        assert leader.tflops == pytest.approx(
            2 * math.prod(size) / 1e9 / min(invented(fact, size) for fact in facts.values())
        )
    assert watched.drawn == 1


def test_two_cards_find_what_one_does_and_each_size_is_of_one_card(done, tmp_path):
    file, folder, _, _ = done
    outcome = played.play(file, tmp_path / "two", played.Watched(), cluster="local")
    assert not outcome.failed
    with TuningStore(folder) as single_store, TuningStore(tmp_path / "two") as two:
        for stage in TimingStage:
            first, second = single_store.times(stage), two.times(stage)
            assert {name: own.keys() for name, own in first.items()} == {n: own.keys() for n, own in second.items()}
            for name, own in second.items():
                assert {size: timed.ms for size, timed in own.items()} == {
                    size: timed.ms for size, timed in first[name].items()
                }
            homes = {(size, timed.card) for own in second.values() for size, timed in own.items() if timed.samples}
            assert len(homes) == len({size for size, _ in homes})
        assert single_store.facts().cards == ()
        cards = two.facts().cards
    assert [(card.label, card.control, card.differs) for card in cards] == [("GPU 0", 1.0, ""), ("GPU 1", 1.0, "")]
    assert all(card.variants for card in cards)


def test_the_library_picks_the_kernel_that_was_fastest(done):
    file, folder, _, outcome = done
    (library,) = outcome.libraries
    picker = dispatch.load(library)
    assert picker.library.times is TimesKind.MEASURED
    with TuningStore(folder) as store:
        facts = {kernel.name: kernel for kernel in store.kernels()}
    for size in final_sizes(file):
        best = min(invented(fact, size) for fact in facts.values())
        assert invented(facts[picker.select(*size)], size) == pytest.approx(best)
    assert picker.library.loss.mean == 0
    assert picker.library.held_out.sizes == 3
    for kernel in picker.library.kernels:
        assert (library / kernel.cubin).read_bytes().startswith(b"\x7fELF")


def test_every_step_is_told(done):
    _, folder, watched, _ = done
    assert [step.number for step in watched.steps] == [1, 2, 3, 4, 5, 6, 7]
    with TuningStore(folder) as store:
        steps, cuts = store.steps()
    assert steps["float32_nn"] == tuple(watched.steps)
    assert cuts == {"float32_nn": ()}
    last = watched.steps[-1]
    won = [int(row.values["fastest at"].split()[0]) for row in last.rows]
    assert sum(won) == 10
    assert [row.wins for row in last.rows] == [count > 0 for count in won]


def test_what_halving_leaves_out_is_told(tmp_path):
    rules = "halving: {coarse: 2, nearest: 1, keep: 0.0, drop: 0.1}"
    played.play(played.write(tmp_path, rules), tmp_path / "out", played.Watched())
    with TuningStore(tmp_path / "out") as store:
        _, cuts = store.steps()
        times = store.times(TimingStage.FINAL)
        facts = store.facts()
    assert all(cut.points > 0 for cut in cuts["float32_nn"])
    (left_out,) = (cut.points for cut in cuts["float32_nn"] if cut.kind is CutKind.NEIGHBOURS)
    assert left_out > 0
    assert sum(len(own) for name, own in times.items() if not name.startswith("cublas")) == 4 * 10 - left_out
    # the kernel that the others are held against is timed everywhere, with all samples
    (single,) = facts.singles["float32_nn"]
    assert len(times[single]) == 10
    assert {timed.samples.n for timed in times[single].values()} == {2}


def test_a_killed_run_goes_on_where_it_was(tmp_path, done):
    file = played.write(tmp_path)
    command = [sys.executable, str(Path(played.__file__)), str(file), str(tmp_path / "out"), "6"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run(command, check=False, timeout=300, capture_output=True, env=environment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    watched = played.Watched()
    outcome = played.play(file, tmp_path / "out", watched)
    assert not outcome.interrupted
    assert watched.points[:6] == [0] * 6  # the sizes that were done; the worker may be one ahead
    assert all(points for points in watched.points[7:])
    with TuningStore(tmp_path / "out") as store, TuningStore(done[1]) as whole:
        for stage in TimingStage:
            assert store.times(stage) == whole.times(stage)


def test_ctrl_c_keeps_what_was_timed(tmp_path):
    def interrupt(watched):
        if len(watched.sizes) == 4:
            raise KeyboardInterrupt

    file = played.write(tmp_path)
    outcome = played.play(file, tmp_path / "out", played.Watched(interrupt))
    assert outcome.interrupted
    watched = played.Watched()
    assert not played.play(file, tmp_path / "out", watched).interrupted
    assert watched.points[:4] == [0] * 4


def test_ctrl_c_in_a_transaction_ends_the_run_as_interrupted(tmp_path, monkeypatch):
    connections = []
    once = itertools.chain(map(_thread.interrupt_main, [signal.SIGINT]), itertools.repeat(None))

    def kept(path):
        connections.append(connect(path))
        return connections[-1]

    def interrupt(watched):
        if len(watched.sizes) == 4:  # while SQLite writes the next times
            connections[0].set_progress_handler(once.__next__, 1)

    monkeypatch.setattr("lab.store.journal.connect", kept)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    file, watched = played.write(tmp_path), played.Watched(interrupt)
    try:
        outcome = played.play(file, tmp_path / "out", watched)
    finally:
        signal.signal(signal.SIGINT, before)
    assert outcome.interrupted
    assert len(watched.sizes) == 4
    again = played.Watched()
    assert not played.play(file, tmp_path / "out", again).interrupted
    assert again.points[:4] == [0] * 4
    assert again.kept > 0


def test_a_finished_run_begins_again(tmp_path, done):
    file, folder, first, _ = done
    watched = played.Watched()
    again = played.play(file, folder, watched)
    assert watched.points == first.points
    assert watched.kept is None
    assert again.previous == folder / "previous"
    with TuningStore(folder) as new, TuningStore(again.previous) as old:
        assert [kernel.id for kernel in old.kernels()] == [kernel.id for kernel in new.kernels()]
    assert (again.previous / "index.html").is_file()


def test_without_a_gpu_every_time_is_predicted(tmp_path):
    file, watched = played.write(tmp_path), played.Watched()
    outcome = tune(file, TuningOptions(output=tmp_path / "out", measure=False, jobs=1), watched)
    assert outcome.not_measured.startswith("Nothing was measured")
    with TuningStore(tmp_path / "out") as store:
        kinds = {timed.kind for stage in TimingStage for own in store.times(stage).values() for timed in own.values()}
    assert kinds == {Kind.PREDICTED}
    (library,) = outcome.libraries
    assert dispatch.load(library).library.times is TimesKind.PREDICTED
    for written in (*outcome.pages, *library.iterdir()):
        if written.suffix in (".html", ".json", ".csv", ".py", ".c", ".h"):
            assert "predicted" in written.read_text(), written
