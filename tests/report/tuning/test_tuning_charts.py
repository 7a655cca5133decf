from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from planted_tuning import GPU, LABEL, plant

from lab.report.tuning.data import analyse
from lab.report.tuning.tuning_charts import chart_list
from lab.report.tuning.tuning_rows import OTHERS, OTHERS_COLOUR, TuningCharts, charts_of
from lab.store.tuning import TuningStore


@pytest.fixture
def charts(tmp_path: Path) -> TuningCharts:
    with TuningStore(plant(tmp_path, GPU)) as store:
        return charts_of(analyse(store))


def rows(spec: dict[str, object], data: dict[str, str]) -> list[dict[str, object]]:
    datasets = spec["datasets"]
    assert isinstance(datasets, dict)
    found: list[dict[str, object]] = datasets[data["name"]]
    return found


def test_every_chart_is_drawn_with_its_label(charts: TuningCharts) -> None:
    labels = {chart.id: chart.label for chart in chart_list(charts)}
    assert list(labels) == [
        f"throughput-{LABEL}-512",
        f"fastest-{LABEL}-512",
        "sorted-single-tuned",
        "sorted-cuBLAS",
    ]
    assert all(labels.values())


def test_a_map_has_a_cell_a_size_and_a_hover(charts: TuningCharts) -> None:
    spec = chart_list(charts)[0].choices[0].spec
    cells = rows(spec, spec["data"])
    assert len(cells) == 16
    shown = {one["field"] for one in spec["encoding"]["tooltip"]}
    assert {"tflops", "kernel", "ms", "samples", "entrants", "over_cublas", "over_single"} <= shown
    assert shown <= set(cells[0])
    assert {cell["samples"] for cell in cells} == {3}
    assert "measured" in spec["encoding"]["color"]["legend"]["title"]


def test_the_hover_is_silent_about_what_was_not_timed(charts: TuningCharts) -> None:
    (one,) = charts.maps
    bare = replace(charts, maps=(replace(one, over_single=False, over_cublas=False),), ratios=())
    for chart in chart_list(bare):
        shown = {one["field"] for one in chart.choices[0].spec["encoding"]["tooltip"]}
        assert not {"over_cublas", "over_single"} & shown


def test_colours_are_those_of_the_kernels_in_the_map(charts: TuningCharts) -> None:
    scale = chart_list(charts)[1].choices[0].spec["encoding"]["color"]["scale"]
    (one,) = charts.maps
    assert scale["domain"] == ["large", "small"]
    assert scale["range"] == [one.colours["large"], one.colours["small"]]
    grey = replace(one, cells=tuple(replace(cell, group=OTHERS) for cell in one.cells))
    scale = chart_list(replace(charts, maps=(grey,)))[1].choices[0].spec["encoding"]["color"]["scale"]
    assert (scale["domain"], scale["range"]) == ([OTHERS], [OTHERS_COLOUR])


def test_ratios_are_drawn_on_a_logarithmic_scale_around_one(charts: TuningCharts) -> None:
    spec = chart_list(charts)[3].choices[0].spec
    rule, points = spec["layer"]
    assert points["encoding"]["y"]["scale"] == {"type": "log"}
    assert rows(spec, rule["data"]) == [{"ratio": 1}]
    assert [row["place"] for row in rows(spec, points["data"])] == list(range(1, 17))
