from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tuning_support import context, kernel, tuning

from lab.base.sizes import Size
from lab.measured.timing import Kind, Samples
from lab.store.tuning import TuningStore
from lab.store.tuning_model import Cut, CutKind, Timed, TimingStage
from lab.tuning.bench import Ledger
from lab.tuning.candidate_builds import Kernel
from lab.tuning.file.load import Tuning
from lab.tuning.race import FinalStep, final_of, race, step, times_at

TEXT = """question: Which?
arch: sm_90
baselines: [cublas]
{halving}
groups:
  - name: large
    template: gemm/tensile.cu.j2
    BenchmarkFinalParameters: [{{range: [[64, 64, 320], 64, 64]}}]
  - name: small
    template: gemm/tensile.cu.j2
    BenchmarkFinalParameters: [{{range: [[64, 64, 128], 64, 64]}}, {{exact: [7, 7, 7]}}]
"""
WIDE: list[Size] = [(m, 64, 64) for m in (64, 128, 192, 256, 320)]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with TuningStore(tmp_path / "run", create=True) as store:
        yield Ledger(store)


def finals(folder: Path, halving: str = "", singles: frozenset[str] = frozenset()) -> tuple[Tuning, FinalStep]:
    read = tuning(folder, text=TEXT.format(halving=halving))
    large, small = read.groups
    kernels = [kernel(large), kernel(large, thread_tile_0=4), kernel(small, thread_tile_0=2, thread_tile_1=2)]
    return read, final_of(read, large.type, kernels, singles)


def names(kernels: tuple[Kernel, ...]) -> list[str]:
    return [kernel.facts.name for kernel in kernels]


def test_groups_of_a_type_are_joined_and_each_kernel_is_raced_once(tmp_path: Path) -> None:
    read = tuning(tmp_path, text=TEXT.format(halving=""))
    large, small = read.groups
    final = final_of(read, large.type, [kernel(large), kernel(small), kernel(large, thread_tile_0=4)], frozenset())
    assert len(final.kernels) == 2
    assert final.sizes.ranges == tuple(WIDE)
    assert final.sizes.exact == ((7, 7, 7),)


def test_without_halving_every_kernel_is_timed_at_every_size_of_its_group(tmp_path: Path, ledger: Ledger) -> None:
    read, final = finals(tmp_path)
    run, bench = context(read, ledger, lambda name, size: 1.0)
    assert race(run, final) == ()
    large, small = names(final.kernels[:2]), names(final.kernels[2:])
    expected = dict.fromkeys(WIDE, large)
    expected[64, 64, 64] = expected[128, 64, 64] = [*large, *small]
    assert bench.timed(TimingStage.FINAL) == {**expected, (7, 7, 7): small}
    assert bench.asked == [(None, True)]


def test_between_coarse_sizes_only_good_kernels_run_and_the_others_are_counted(tmp_path: Path, ledger: Ledger) -> None:
    read, final = finals(tmp_path, "halving: {coarse: 2, nearest: 1, keep: 0.1, drop: 0.2}")
    slow, *_ = names(final.kernels)
    run, bench = context(read, ledger, lambda name, size: 2.0 if name == slow else 1.0)
    cuts = race(run, final)
    timed = bench.timed(TimingStage.FINAL)
    assert slow in timed[64, 64, 64]
    assert slow in timed[320, 64, 64]
    assert slow not in timed[128, 64, 64]
    assert slow not in timed[256, 64, 64]
    # the slow one at two sizes; at 128 the other group's kernel, too, which the nearest coarse size, 192, does not have
    assert cuts == (Cut(CutKind.NEIGHBOURS, 3, 0.1, nearest=1, coarse=4, sizes=6),)
    assert bench.asked == [(0.2, True), (0.2, True)]
    last = step(final, ledger, cuts, "large")
    assert last.text.endswith("3 left out.")


def test_a_single_tuned_kernel_is_never_left_out(tmp_path: Path, ledger: Ledger) -> None:
    read, final = finals(tmp_path, "halving: {coarse: 2, nearest: 1, keep: 0.1, below_prediction: 1.0}")
    slow = names(final.kernels)[0]
    final = final_of(read, final.type, final.kernels, frozenset({slow}))
    run, bench = context(read, ledger, lambda name, size: 9.0 if name == slow else 1.0)
    race(run, final)
    timed = bench.timed(TimingStage.FINAL)
    assert all(slow in timed[size] for size in WIDE)
    assert all(task.kept == {slow} for task in bench.tasks[TimingStage.FINAL])


def test_kernels_predicted_to_be_slow_do_not_run_at_coarse_sizes(tmp_path: Path, ledger: Ledger) -> None:
    read, final = finals(tmp_path, "halving: {coarse: 1, below_prediction: 1.0}")
    unknown = kernel(read.groups[0], loop=None, thread_tile_0=2)  # has no prediction: it must run
    final = final_of(read, final.type, [*final.kernels, unknown], frozenset())
    run, bench = context(read, ledger, lambda name, size: 1.0)
    (cut,) = race(run, final)
    timed = bench.timed(TimingStage.FINAL)
    assert all(unknown.facts.name in timed[size] for size in WIDE)
    assert cut.kind is CutKind.PREDICTION
    assert cut.kind.not_run
    assert cut.points == sum(len(final.at(size)) - len(kernels) for size, kernels in timed.items()) > 0


def test_a_kernel_that_was_dropped_after_its_first_sample_is_counted_but_was_run(
    tmp_path: Path, ledger: Ledger
) -> None:
    read, final = finals(tmp_path, "halving: {coarse: 1}")
    run, bench = context(read, ledger, lambda name, size: 1.0)
    first = final.kernels[0].facts.id
    once = Timed(Samples((5.0,)), Kind.MEASURED, "warm")
    original = bench._timed
    bench._timed = lambda tuning_kernel, size: (  # type: ignore[method-assign]
        once if (tuning_kernel.facts.id, size) == (first, WIDE[0]) else original(tuning_kernel, size)
    )
    cuts = race(run, final)
    assert cuts == (Cut(CutKind.FIRST_SAMPLE, 1, 0.15),)
    assert step(final, ledger, cuts, "large").text.endswith(", 0 left out.")


def test_where_no_coarse_size_has_a_time_all_kernels_run(tmp_path: Path, ledger: Ledger) -> None:
    read, final = finals(tmp_path, "halving: {coarse: 4, nearest: 1, keep: 0.0}")
    coarse = {(64, 64, 64), (320, 64, 64), (7, 7, 7)}
    run, bench = context(read, ledger, lambda name, size: None if size in coarse else 1.0)
    assert race(run, final) == ()
    assert bench.timed(TimingStage.FINAL)[192, 64, 64] == names(final.kernels[:2])
    assert times_at(final, ledger, (64, 64, 64)) == {}


def test_the_table_of_a_group_counts_wins_over_all_groups(tmp_path: Path, ledger: Ledger) -> None:
    read, final = finals(tmp_path)
    small = final.kernels[2].facts.name
    run, _ = context(read, ledger, lambda name, size: 0.5 if name == small else 1.0)
    race(run, final)
    (row,) = step(final, ledger, (), "small").rows
    assert row.values == {"fastest at": "3 sizes", "timed at": "3 sizes"}
    first, second = step(final, ledger, (), "large").rows
    assert (first.values["fastest at"], first.wins) == ("3 sizes", True)
    assert (second.values["fastest at"], second.wins) == ("0 sizes", False)
