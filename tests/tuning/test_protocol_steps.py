from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from mistakes import coded
from planted_tuning import facts
from run_support import InProcess, build_once
from tuning_support import H200, TableBench, context, tuning

from lab.base.errors import UserError
from lab.base.sizes import Size
from lab.measured.timing import Kind
from lab.stages.build import BuildFailure, BuildTask, Built
from lab.store.tuning import TuningStore
from lab.store.tuning_model import ProtocolStep, Timed, TimingStage
from lab.toolchain.select import toolchain
from lab.tuning.bench import Ledger
from lab.tuning.candidate_builds import Workshop
from lab.tuning.protocol_steps import Work

TEXT = """question: Which?
arch: sm_90
library: {{name: made}}
groups:
  - name: first
    template: gemm/tensile.cu.j2
    InitialSolutionParameters: {{ThreadTile: [4, 4]}}
    BenchmarkFinalParameters: [{{exact: [64, 64, 64]}}]
    {single}
  - name: second
    template: gemm/tensile.cu.j2
    benchmark: [{{exact: [64, 64, 64]}}]
    BenchmarkForkParameters: {{parameters: {{ThreadTile: [[4, 4], [2, 2]]}}}}
    BenchmarkFinalParameters: [{{exact: [128, 64, 64]}}]
"""
NAME = "float32_nn"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TuningStore]:
    with TuningStore(tmp_path / "run", create=True) as opened:
        yield opened


def refuse(tasks: Sequence[BuildTask]) -> Sequence[Built | BuildFailure]:
    return [BuildFailure("refused") for _ in tasks]


def work(
    store: TuningStore, single: str = "", function: object = build_once
) -> tuple[Work, TableBench, list[ProtocolStep]]:
    """A small tile is the faster one at every size."""
    run, bench = context(
        tuning(store.folder, text=TEXT.format(single=single)),
        Ledger(store),
        lambda name, size: 1.0 if "TT2x2" in name else 2.0,
    )
    shop = Workshop(toolchain("nvrtc"), "sm_90", H200, InProcess(), lambda _: None, function)  # type: ignore[arg-type]
    names = shop.known

    def by_name(identity: str, size: Size) -> float | None:
        return 1.0 if "TT2x2" in names[identity].facts.name else 2.0

    bench.ms = by_name
    steps: list[ProtocolStep] = []
    return Work(run, shop, steps.append, store.folder), bench, steps


def test_groups_choose_by_themselves_and_race_together(store: TuningStore) -> None:
    tuning_work, bench, steps = work(store)
    tuning_work.everything()
    assert [(step.group, step.number) for step in steps] == [
        *(("first", number) for number in range(1, 7)),
        *(("second", number) for number in range(1, 7)),
        ("first", 7),
        ("second", 7),
    ]
    assert list(bench.timed(TimingStage.STEPS)) == [(64, 64, 64)]
    assert {size: len(ids) for size, ids in bench.timed(TimingStage.FINAL).items()} == {
        (64, 64, 64): 1,
        (128, 64, 64): 1,
    }
    left = tuning_work.remember(facts(None))
    assert list(left.libraries) == ["made_nn"]
    assert (store.folder / "made_nn").is_dir()
    assert store.facts() == left
    assert {kernel.name for kernel in store.kernels()} == {one.facts.name for one in tuning_work.shop.known.values()}
    assert store.steps()[0][NAME] == tuple(steps)
    assert tuning_work.failures() == ()


def test_the_single_tuned_kernel_is_built_raced_and_remembered(store: TuningStore) -> None:
    tuning_work, bench, _ = work(store, "single_tuned: {ThreadTile: [8, 8]}")
    tuning_work.everything()
    (single,) = tuning_work.remember(facts(None)).singles[NAME]
    assert "TT8x8" in tuning_work.shop.known[single].facts.name
    tasks = {task.size: task for task in bench.tasks[TimingStage.FINAL]}
    assert single in {kernel.facts.id for kernel in tasks[64, 64, 64].kernels}
    assert all(task.kept == {single} for task in tasks.values())


def test_a_single_tuned_kernel_that_breaks_a_rule_is_a_mistake_in_the_file(store: TuningStore) -> None:
    tuning_work, _, _ = work(store, "single_tuned: {ThreadTile: [8, 8], WorkGroup: [64, 64, 1]}")
    with pytest.raises(UserError, check=coded("mismatch", key="single_tuned")) as raised:
        tuning_work.everything()
    assert raised.value.key == "single_tuned"


def test_what_was_done_before_an_interruption_is_remembered(store: TuningStore) -> None:
    tuning_work, _, steps = work(store)

    def interrupt(step: ProtocolStep) -> None:
        steps.append(step)
        if step.group == "second":
            raise KeyboardInterrupt

    tuning_work.stepped = interrupt
    with pytest.raises(KeyboardInterrupt):
        tuning_work.everything()
    left = tuning_work.remember(replace(facts(None), interrupted=True))
    assert left.libraries == {}
    assert [step.group for step in store.steps()[0][NAME]][:6] == ["first"] * 6
    assert store.facts().interrupted


def test_failures_are_told_once_a_kernel(store: TuningStore) -> None:
    tuning_work, _, _ = work(store)
    tuning_work.everything()
    good, *_ = tuning_work.shop.known.values()
    wrong = Timed(None, Kind.MEASURED, failure="the result is wrong")
    for size in ((64, 64, 64), (128, 64, 64)):
        tuning_work.context.ledger.write(TimingStage.FINAL, size, {good.facts.id: wrong})
    assert tuning_work.failures() == (f"{good.facts.name}: at (64, 64, 64): the result is wrong",)


def test_kernels_that_cannot_be_built_end_the_run_and_are_told(store: TuningStore) -> None:
    tuning_work, _, _ = work(store, function=refuse)
    with pytest.raises(UserError, check=coded("nothing-left", found="refused: 2")) as raised:
        tuning_work.everything()
    assert "refused: 2" in str(raised.value)
    assert len(tuning_work.failures()) == 2
    assert all(sentence.endswith(": refused") for sentence in tuning_work.failures())
