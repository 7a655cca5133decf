from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from planted_tuning import CENSUS, GPU, LABEL, SIDES, SIZES, facts, invented, plant

from lab.base.errors import StoreError
from lab.measured.timing import GpuDescription, Kind, Samples
from lab.report.tuning.data import TuningAnalysis, analyse
from lab.report.tuning.render import ends
from lab.store.tuning import TuningStore
from lab.store.tuning_model import FinalSizes, KernelFacts, Timed, TimingStage, TuningFacts


@pytest.fixture(scope="module", params=[GPU, None], ids=["measured", "predicted"])
def gpu(request: pytest.FixtureRequest) -> GpuDescription | None:
    description: GpuDescription | None = request.param
    return description


@pytest.fixture(scope="module")
def analysis(gpu: GpuDescription | None, tmp_path_factory: pytest.TempPathFactory) -> TuningAnalysis:
    with TuningStore(plant(tmp_path_factory.mktemp("planted"), gpu)) as store:
        return analyse(store)


def test_winners_are_the_fastest(analysis: TuningAnalysis) -> None:
    (problem_type,) = analysis.types
    assert len(problem_type.winners) == 16  # the exact size is one of them, and one has no time
    for winner in problem_type.winners:
        m, n, k = winner.size
        assert winner.kernel == ("small" if max(m, n) < 100 else "large")
        assert winner.tflops == pytest.approx(2 * m * n * k / invented(winner.kernel, m, n) / 1e9)
        assert winner.entrants == 3
    assert [(champion.facts.name, champion.wins) for champion in problem_type.kernels] == [("large", 12), ("small", 4)]
    assert problem_type.kernels[0].best_tflops == max(winner.tflops for winner in problem_type.winners)
    assert problem_type.single == "one"
    assert problem_type.points == 3 * 16


def test_ratios_are_over_the_single_tuned_kernel_and_over_cublas(
    analysis: TuningAnalysis, gpu: GpuDescription | None
) -> None:
    ratios_by_rival = {ratios.against: ratios for ratios in analysis.ratios}
    assert ratios_by_rival["single-tuned"].mean == pytest.approx(1.5)
    assert ratios_by_rival["single-tuned"].faster == 1
    assert ("cuBLAS" in ratios_by_rival) == bool(gpu)
    if gpu:
        assert ratios_by_rival["cuBLAS"].mean == pytest.approx(math.exp(4 / 16 * math.log(2)))
        assert ratios_by_rival["cuBLAS"].faster == 0.25
        values = [ratio for ratio, _ in ratios_by_rival["cuBLAS"].values]
        assert values == sorted(values)


def test_the_map_holds_every_size_of_the_grid(analysis: TuningAnalysis) -> None:
    (grid,) = analysis.types[0].maps
    assert (grid.k, grid.ms, grid.ns) == (512, SIDES, SIDES)
    assert set(grid.cells) == {(m, n) for m in SIDES for n in SIDES}


def test_the_analysis_says_what_its_times_are(analysis: TuningAnalysis, gpu: GpuDescription | None) -> None:
    assert (analysis.kind, analysis.gpu) == ((Kind.MEASURED, "NVIDIA H200") if gpu else (Kind.PREDICTED, "H200"))
    assert ("were measured on one NVIDIA H200" in analysis.sentence()) == bool(gpu)
    assert ("Nothing here was measured. There is no GPU." in analysis.sentence()) == (gpu is None)


def test_a_stray_exact_size_does_not_stretch_the_map(tmp_path: Path) -> None:
    plant(tmp_path, None)
    stray = (5, 7, 512)
    with TuningStore(tmp_path, create=True) as store:
        store.write_times(TimingStage.FINAL, stray, {"id-small": Timed(Samples((1.0,)), Kind.PREDICTED)})
        store.write_facts(replace(facts(None), final={LABEL: FinalSizes(ranges=SIZES, exact=(stray,))}))
        (problem_type,) = analyse(store).types
    assert len(problem_type.winners) == 17
    (grid,) = problem_type.maps
    assert (grid.ms, grid.ns) == (SIDES, SIDES)


def test_a_kernel_that_failed_everywhere_wins_nowhere(tmp_path: Path) -> None:
    plant(tmp_path, None)
    with TuningStore(tmp_path, create=True) as store:
        store.write_kernels([KernelFacts("id-bad", "bad", "g", LABEL, "t", {}, "sm_90", census=CENSUS)])
        for size in SIZES:
            store.write_times(TimingStage.FINAL, size, {"id-bad": Timed(None, Kind.PREDICTED, failure="hung")})
        (problem_type,) = analyse(store).types
    assert {winner.entrants for winner in problem_type.winners} == {3}
    assert "bad" not in {champion.facts.name for champion in problem_type.kernels}


def test_an_empty_store_is_an_error_in_words(tmp_path: Path) -> None:
    with TuningStore(tmp_path, create=True) as store, pytest.raises(StoreError, match="the database is empty"):
        analyse(store)


@pytest.mark.parametrize(
    ("peaks", "best", "peak", "said"),
    [
        ((None, None), 50.0, 67.0, "67.0; the best is 50.0 TFLOP/s, 75% of it, at"),
        ((67.0, 989.4), 50.0, 989.4, "989.4; the best is 50.0 TFLOP/s, 5% of it, at"),
        ((None, None), 700.0, None, "TFLOP/s; the best is 700.0 TFLOP/s at"),
    ],
    ids=["its type's", "tensor cores'", "not known"],
)
def test_throughput_is_compared_with_the_peak_of_what_multiplies(
    peaks: tuple[float | None, float | None], best: float, peak: float | None, said: str, tmp_path: Path
) -> None:
    small, large = (8, 8, 8), (512, 512, 512)
    with TuningStore(tmp_path, create=True) as store:
        store.write_kernels(
            KernelFacts(f"id-{size}", f"of {size}", "g", LABEL, "t", {}, "sm_90", peak_tflops=one)
            for size, one in zip((small, large), peaks, strict=True)
        )
        for size, tflops in ((small, 0.1), (large, best)):
            ms = 2 * math.prod(size) / tflops / 1e9
            store.write_times(TimingStage.FINAL, size, {f"id-{size}": Timed(Samples((ms,)), Kind.PREDICTED)})
        final = {LABEL: FinalSizes(ranges=(small, large), exact=())}
        store.write_facts(replace(facts(None), final=final, peaks={"float32": 67.0}, libraries={}, singles={}))
        analysed = analyse(store)
    assert analysed.types[0].peak_tflops == peak
    assert said in ends(analysed.types[0])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda known: replace(known, singles={LABEL: ("gone",)}), "the facts name a kernel 'gone' that is not among"),
        (lambda known: replace(known, final={}), "the facts hold no final sizes of the problem type"),
    ],
    ids=["kernel", "sizes"],
)
def test_facts_that_name_what_is_not_there_are_refused(
    change: Callable[[TuningFacts], TuningFacts], reason: str, tmp_path: Path
) -> None:
    with TuningStore(plant(tmp_path, GPU), create=True) as store:
        store.write_facts(change(store.facts()))
        with pytest.raises(StoreError, match=rf"tuning\.sqlite: {reason}"):
            analyse(store)
