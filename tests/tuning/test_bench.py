from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from played_surveys import Played
from tuning_support import BASE, H200, kernel, tuning

from lab.base.sizes import Size
from lab.gpu.process.cards import Cards
from lab.measured.timing import Kind, Samples
from lab.store.tuning import TuningStore
from lab.store.tuning_model import ProblemType, Timed, TimingStage, baseline_id
from lab.templates import front_matter
from lab.tuning.bench import Ledger, MeasuredBench, PredictedBench, TimingTask, ground_of
from lab.tuning.candidate_builds import Kernel
from lab.tuning.file.load import Group, load
from lab.tuning.file.tuning_schema import TimingModel
from lab.tuning.product import product

SIZE: Size = (256, 128, 64)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with TuningStore(tmp_path / "run", create=True) as store:
        yield Ledger(store)


@pytest.fixture
def group(tmp_path: Path) -> Group:
    (found,) = tuning(tmp_path).groups
    return found


def kernels(group: Group) -> tuple[Kernel, Kernel, Kernel]:
    return kernel(group), kernel(group, thread_tile_0=4), kernel(group, thread_tile_0=2, failure="it did not compile")


def measured(ledger: Ledger, cards: Played, progress: list[tuple[Size, int]], **timing: object) -> MeasuredBench:
    model = TimingModel.model_validate({"samples": 2, **timing})
    return MeasuredBench(ledger, cast("Cards", cards), model, 7, lambda size, points: progress.append((size, points)))


def test_what_is_known_is_not_asked_for_again(ledger: Ledger, group: Group) -> None:
    cards, progress = Played(), list[tuple[Size, int]]()
    bench, made = measured(ledger, cards, progress), kernels(group)
    for _ in range(2):
        bench.run(TimingStage.FINAL, group.type, [TimingTask(SIZE, made)], drop=0.1, baseline=True)
    (order,) = cards.orders
    assert [one.kernel for one in order.entrants] == [made[0].facts.id, made[1].facts.id]
    assert cards.cubins == [{made[0].facts.id: b"\x7fELF", made[1].facts.id: b"\x7fELF"}]
    assert progress == [(SIZE, 3), (SIZE, 0)]
    assert bench.library == "cuBLAS 13"
    assert ledger.of(TimingStage.FINAL, baseline_id(group.type.label), SIZE) == Timed(
        Samples((2.0,)), Kind.MEASURED, "warm", card="GPU-a"
    )


def test_a_new_stage_asks_for_times_of_its_own(ledger: Ledger, group: Group) -> None:
    cards, progress = Played(), list[tuple[Size, int]]()
    bench = measured(ledger, cards, progress)
    for stage in (TimingStage.STEPS, TimingStage.FINAL):
        bench.run(stage, group.type, [TimingTask(SIZE, (kernel(group),))], drop=None, baseline=False)
    assert len(cards.orders) == 2


def test_a_kernel_that_was_not_built_has_a_failure_and_never_runs(ledger: Ledger, group: Group) -> None:
    cards, progress = Played(), list[tuple[Size, int]]()
    broken = kernels(group)[2]
    measured(ledger, cards, progress).run(
        TimingStage.FINAL, group.type, [TimingTask(SIZE, (broken,))], drop=None, baseline=False
    )
    assert cards.orders == []
    assert ledger.of(TimingStage.FINAL, broken.facts.id, SIZE) == Timed(
        None, Kind.MEASURED, failure="it did not compile"
    )


SIZES: list[Size] = [(64 * i, 64, 64) for i in range(1, 6)]


def test_every_card_times_the_first_size_once_to_compare_them(ledger: Ledger, group: Group) -> None:
    cards, progress = Played(2, slower={"GPU-b": 1.1}), list[tuple[Size, int]]()
    bench, (first, _, _) = measured(ledger, cards, progress), kernels(group)
    for size in SIZES[:2]:
        bench.run(TimingStage.STEPS, group.type, [TimingTask(size, (first,))], drop=None, baseline=True)
    assert [at for at in cards.at if at[0] == SIZES[0]][1:] == [(SIZES[0], "GPU-a"), (SIZES[0], "GPU-b")]
    assert len(cards.at) == 4
    a, b = bench.standing()
    assert (a.label, a.control, a.differs) == ("GPU 0", 1.0, "")
    assert b.control == pytest.approx(1.1)
    assert b.controls == 2
    assert b.differs.startswith("the same variants take 10.0% longer there")
    assert a.variants + b.variants == 4


def test_sizes_go_to_all_cards_and_a_size_stays_on_its_own(ledger: Ledger, group: Group) -> None:
    cards, progress = Played(2), list[tuple[Size, int]]()
    bench, (first, second, _) = measured(ledger, cards, progress), kernels(group)
    for made in ((first,), (first, second)):
        tasks = [TimingTask(size, made) for size in SIZES]
        bench.run(TimingStage.STEPS, group.type, tasks, drop=None, baseline=True)
    at = [cards.at[0], *cards.at[3:]]  # without the two that compare the cards
    homes, later = at[:5], at[5:]
    assert {card for _, card in homes} == {"GPU-a", "GPU-b"}
    assert later == homes
    assert [len(order.entrants) for order in cards.orders] == [1] * 12
    assert [order.baseline for order in cards.orders] == [True] * 7 + [False] * 5
    for size, card in homes:
        for name in (first.facts.id, second.facts.id, baseline_id(group.type.label)):
            assert ledger.of(TimingStage.STEPS, name, size).card == card


def test_a_size_whose_card_was_lost_is_timed_again_as_a_whole(ledger: Ledger, group: Group) -> None:
    cards, progress = Played(2), list[tuple[Size, int]]()
    bench, (first, second, _) = measured(ledger, cards, progress), kernels(group)
    bench.run(TimingStage.STEPS, group.type, [TimingTask(SIZES[0], (first,))], drop=None, baseline=True)
    cards.lost = {cards.at[0][1]}  # noticed with the next survey
    bench.run(TimingStage.STEPS, group.type, [TimingTask(SIZES[0], (first, second))], drop=None, baseline=True)
    assert [len(order.entrants) for order in cards.orders] == [1, 1, 1, 1, 2]
    assert cards.orders[-1].baseline
    names = (first.facts.id, second.facts.id, baseline_id(group.type.label))
    (card,) = {ledger.of(TimingStage.STEPS, name, SIZES[0]).card for name in names}
    assert card not in cards.lost


def test_the_order_says_how_to_time(ledger: Ledger, group: Group) -> None:
    cards, progress = Played(), list[tuple[Size, int]]()
    bench = measured(ledger, cards, progress, enough_ms=5.0, cache="cold", verify=False, warmup_ms=1.0, pause_ms=40.0)
    sole_kernel = kernel(group)
    bench.run(
        TimingStage.FINAL,
        group.type,
        [TimingTask(SIZE, (sole_kernel,), frozenset({sole_kernel.facts.id}))],
        drop=0.1,
        baseline=False,
    )
    (order,) = cards.orders
    policy = order.policy
    assert (policy.samples, policy.enough_ms, policy.drop, policy.verify, policy.warmup_ms) == (2, 5.0, 0.1, False, 1.0)
    assert policy.pause_ms == 40.0
    assert order.kept == {sole_kernel.facts.id}
    assert order.problem == product(group.type, SIZE)
    assert order.ground.seed == 7


def test_times_are_on_disk_as_soon_as_they_are_known(tmp_path: Path, group: Group) -> None:
    sole_kernel = kernel(group)
    with TuningStore(tmp_path / "run", create=True) as store:
        ledger = Ledger(store)
        ledger.write(TimingStage.FINAL, SIZE, {sole_kernel.facts.id: Timed(Samples((1.0,)), Kind.MEASURED)})
        assert Ledger(store).times == ledger.times
    assert ledger.of(TimingStage.FINAL, sole_kernel.facts.id, (1, 1, 1)) is None
    assert ledger.of(TimingStage.STEPS, sole_kernel.facts.id, SIZE) is None


def test_without_a_gpu_times_are_predicted_and_the_baseline_is_not(ledger: Ledger, group: Group) -> None:
    progress: list[tuple[Size, int]] = []
    good, _, broken = kernels(group)
    blind = kernel(group, loop=None, thread_tile_0=4)
    bench = PredictedBench(ledger, H200, lambda size, points: progress.append((size, points)))
    bench.run(TimingStage.FINAL, group.type, [TimingTask(SIZE, (good, blind, broken))], drop=0.1, baseline=True)
    assert progress == [(SIZE, 3)]
    found = {name: own[SIZE] for name, own in ledger.times[TimingStage.FINAL].items()}
    assert found[good.facts.id].ms == good.predicted_ms(SIZE, H200)
    assert found[broken.facts.id].failure == "it did not compile"
    assert "no block fits" in found[blind.facts.id].failure
    assert {timed.kind for timed in found.values()} == {Kind.PREDICTED}
    assert baseline_id(group.type.label) not in found
    assert bench.library == ""


def test_the_buffers_hold_every_size(group: Group) -> None:
    sizes: list[Size] = [(1000, 3, 5), (2, 2000, 7), (4, 6, 3000)]
    tasks = [TimingTask(size, (kernel(group),)) for size in sizes]
    ground = ground_of(group.type, tasks, 3)
    assert ground.elements == (4 * 3000, 3000 * 6, 2 * 2000)
    assert (ground.dtype, ground.seed) == ("float32", 3)


def test_the_workspace_is_the_largest_of_any_kernel(group: Group) -> None:
    size: Size = (128, 128, 4096)
    split = kernel(group, global_split_u=8, global_split_u_algorithm="workspace")
    broken = kernel(group, global_split_u=16, global_split_u_algorithm="workspace", failure="no")
    needed = ground_of(group.type, [TimingTask(size, (split,))], 0).workspace_bytes
    assert needed >= 4 * 128 * 128 * 8
    assert ground_of(group.type, [TimingTask(size, (kernel(group), split, broken))], 0).workspace_bytes == needed


def test_the_workspace_is_enough_where_alignment_decides(group: Group) -> None:
    template = front_matter.load("hgemm/packed.cu.j2", front_matter.search_path())
    packed = kernel(replace(group, template=template, type=ProblemType("bfloat16", "nn"), constraints=()))
    sizes: list[Size] = [(4096, 4096, 4096), (1001, 999, 997), (1999, 8, 64), (8, 2000, 63), (1500, 1500, 501)]
    given = ground_of(packed.candidate.group.type, [TimingTask(size, (packed,)) for size in sizes], 0).workspace_bytes
    for size in sizes:
        assert given >= sum(buffer.bytes for buffer in packed.launches(size).workspace)
    assert given < 2 * 4096 * 4096  # that of the largest size, where nothing is packed


def test_no_task_needs_hardly_any_memory(group: Group) -> None:
    assert ground_of(group.type, [], 0).elements == (1, 1, 1)


@pytest.fixture
def choosy(tmp_path: Path, root: Path) -> Kernel:
    """A kernel that takes multiples of 128 rows alone."""
    text = (root / "kernel_src" / "gemm" / "tensile.cu.j2").read_text()
    own = text.replace("requires:\n", "requires:\n  - {that: m % 128 == 0, because: of the test}\n", 1)
    (tmp_path / "own.cu.j2").write_text(own)
    file = tmp_path / "own.yaml"
    file.write_text(BASE.format(steps="").replace("gemm/tensile.cu.j2", "own.cu.j2"))
    return kernel(load(file).groups[0], thread_tile_0=2)


def test_a_kernel_is_not_timed_at_sizes_that_it_does_not_compute(ledger: Ledger, group: Group, choosy: Kernel) -> None:
    cards, progress = Played(), list[tuple[Size, int]]()
    tasks = [TimingTask(size, (choosy, kernel(group))) for size in (SIZE, (250, 128, 64))]
    measured(ledger, cards, progress).run(TimingStage.FINAL, group.type, tasks, drop=None, baseline=False)
    assert [len(order.entrants) for order in cards.orders] == [2, 1]
    PredictedBench(ledger, H200, lambda *_: None).run(TimingStage.STEPS, group.type, tasks, drop=None, baseline=False)
    for stage in (TimingStage.FINAL, TimingStage.STEPS):
        refused = ledger.of(stage, choosy.facts.id, (250, 128, 64))
        assert refused is not None
        assert refused.failure == "not for this size: m % 128 == 0 (of the test)"
        taken = ledger.of(stage, choosy.facts.id, SIZE)
        assert taken is not None
        assert taken.failure == ""


def test_the_ground_holds_whole_batches() -> None:
    task = TimingTask((2, 3, 5, 7), ())
    assert ground_of(ProblemType("float32", "nn", batched=True), [task], 0).elements == (70, 105, 42)
