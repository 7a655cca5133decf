from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from planted_tuning import GPU, LABEL, SIDES, plant

from lab.report.tuning.data import TuningAnalysis, analyse
from lab.report.tuning.tuning_rows import MOST_COLOURS, OTHERS, MapSubject, charts_of, colours
from lab.store.tuning import TuningStore


@pytest.fixture
def analysis(tmp_path: Path) -> TuningAnalysis:
    with TuningStore(plant(tmp_path, GPU)) as store:
        return analyse(store)


def test_a_map_has_a_cell_for_each_size_and_names_its_kernel(analysis: TuningAnalysis) -> None:
    (size_map,) = charts_of(analysis).maps
    assert [(cell.m, cell.n) for cell in size_map.cells] == [(m, n) for m in SIDES for n in SIDES]
    assert size_map.kernels == ("large", "small")
    for cell in size_map.cells:
        assert size_map.kernels[cell.number] == cell.winner.kernel == cell.group
    assert size_map.over_single
    assert size_map.over_cublas


def test_a_map_is_drawn_twice_under_names_of_its_own(analysis: TuningAnalysis) -> None:
    (size_map,) = charts_of(analysis).maps
    assert [size_map.id(subject) for subject in MapSubject] == [f"throughput-{LABEL}-512", f"fastest-{LABEL}-512"]
    assert [size_map.file(subject) for subject in MapSubject] == [
        f"throughput_{LABEL}_512.png",
        f"fastest_{LABEL}_512.png",
    ]
    assert (
        len({size_map.label(subject) for subject in MapSubject} | {size_map.title(subject) for subject in MapSubject})
        == 4
    )


def test_ratios_are_numbered_in_ascending_order(analysis: TuningAnalysis) -> None:
    single, cublas = charts_of(analysis).ratios
    assert (single.against, cublas.against) == ("single-tuned", "cuBLAS")
    assert [point.place for point in cublas.points] == list(range(1, 17))
    assert [point.ratio for point in cublas.points] == sorted(point.ratio for point in cublas.points)
    assert single.mean == pytest.approx(1.5)
    assert cublas.faster == 0.25


def test_kernels_that_win_rarely_share_a_colour(analysis: TuningAnalysis) -> None:
    (problem_type,) = analysis.types
    champion = problem_type.kernels[0]
    many = tuple(replace(champion, facts=replace(champion.facts, name=str(i))) for i in range(MOST_COLOURS))
    crowded = replace(problem_type, kernels=(*many, *problem_type.kernels))
    assert len(set(colours(crowded).values())) == MOST_COLOURS
    (chart,) = charts_of(replace(analysis, types=(crowded,))).maps
    assert {cell.group for cell in chart.cells} == {OTHERS}
    assert list(chart.colours)[-1] == OTHERS
    assert chart.kernels == ("large", "small")  # with a number each all the same


def test_a_run_without_maps_and_ratios_has_no_charts(analysis: TuningAnalysis) -> None:
    bare = replace(analysis, types=tuple(replace(one, maps=()) for one in analysis.types), ratios=())
    found = charts_of(bare)
    assert (found.maps, found.ratios) == ((), ())
