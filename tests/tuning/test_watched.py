"""Size events delivered to an observer."""

from __future__ import annotations

import pytest
from tuning_support import kernel, tuning

from lab.measured.timing import Kind, Samples
from lab.store.tuning import TuningStore
from lab.store.tuning_model import Timed, TimingStage, baseline_id
from lab.tuning.bench import Ledger, TimingTask
from lab.tuning.watched import SizeLeader, SizeNews, WatchedBench

SIZE = (1000, 100, 10)


class Heard:
    def __init__(self):
        self.asked_for, self.sizes = [], []

    def asked(self, what, sizes):
        self.asked_for.append((what, sizes))

    def timed(self, size, points, leader=None):
        self.sizes.append((size, points, leader))


class Bench:
    """Writes the times that it is made with, and says that the size is done."""

    kind, library = Kind.MEASURED, "cuBLAS 13"

    def __init__(self, ledger, news, found):
        self.ledger, self.news, self.found = ledger, news, found
        self.options = None

    def run(self, stage, of, tasks, *, drop, baseline):
        self.options = drop, baseline
        for task in tasks:
            self.ledger.write(stage, task.size, self.found)
            self.news.timed(task.size, len(self.found))


@pytest.fixture
def parts(tmp_path):
    (group,) = tuning(tmp_path).groups
    with TuningStore(tmp_path / "run", create=True) as store:
        yield Ledger(store), group, Heard()


def timed(ms):
    return Timed(Samples((ms,)), Kind.MEASURED) if ms else Timed(None, Kind.MEASURED, failure="wrong")


def run(parts, times, beside=None):
    ledger, group, heard = parts
    kernels = [kernel(group), kernel(group, thread_tile_0=4), kernel(group, thread_tile_0=2)]
    found = {one.facts.id: timed(ms) for one, ms in zip(kernels, times, strict=True)}
    if beside:
        found[baseline_id(group.type.label)] = timed(beside)
    news = SizeNews(ledger, heard)
    played = Bench(ledger, news, found)
    bench = WatchedBench(played, news)
    bench.run(TimingStage.FINAL, group.type, iter([TimingTask(SIZE, tuple(kernels))]), drop=0.3, baseline=True)
    assert played.options == (0.3, True)
    assert (bench.kind, bench.library) == (Kind.MEASURED, "cuBLAS 13")
    assert heard.asked_for == [(f"{group.type.label}, step 7", 1)]
    return kernels, heard.sizes[0]


def test_the_fastest_kernel_at_a_size_is_named(parts):
    kernels, (size, points, leader) = run(parts, (0.4, 0.2, None))
    assert (size, points) == (SIZE, 3)
    assert leader == SizeLeader(kernels[1].facts.name, leader.tflops, Kind.MEASURED)
    assert leader.tflops == pytest.approx(0.01)
    assert leader.beside == ""


def test_it_is_compared_with_cublas_where_that_was_timed(parts):
    _, (_, _, leader) = run(parts, (0.4, 0.2, None), beside=0.3)
    assert leader.over_baseline == pytest.approx(1.5)
    assert leader.beside == ", 1.50 x cublas"


def test_a_size_at_which_every_kernel_failed_has_none(parts):
    assert run(parts, (None, None, None))[1][2] is None
