from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib import image
from planted_tuning import GPU, LABEL, plant

from lab.report.tuning import png
from lab.report.tuning.data import analyse
from lab.report.tuning.tuning_rows import TuningCharts, charts_of
from lab.store.tuning import TuningStore


@pytest.fixture
def charts(tmp_path: Path) -> TuningCharts:
    with TuningStore(plant(tmp_path / "run", GPU)) as store:
        return charts_of(analyse(store))


def texts(figure: Any) -> list[str]:
    (axis,) = figure.axes
    return [text.get_text() for text in axis.texts]


@pytest.mark.usefixtures("painted")
def test_every_picture_is_written_under_its_name(charts: TuningCharts, tmp_path: Path) -> None:
    made = png.draw(charts, tmp_path)
    assert [path.name for path in made] == [f"throughput_{LABEL}_512.png", f"fastest_{LABEL}_512.png", "ratios.png"]
    for path in made:
        pixels = image.imread(path)
        assert pixels.shape[0] > 100
        assert len(set(map(bytes, pixels[::7, ::7].reshape(-1, pixels.shape[2])))) > 10  # something is drawn


def test_a_run_without_charts_has_no_pictures(charts: TuningCharts, tmp_path: Path) -> None:
    assert png.draw(replace(charts, maps=(), ratios=()), tmp_path) == []
    assert list(tmp_path.glob("*.png")) == []


def test_the_map_of_throughput_prints_each_figure(charts: TuningCharts) -> None:
    (one,) = charts.maps
    printed = texts(png._throughput(one))
    expected = [f"{v:.1f}" if v >= 1 else f"{v:.2f}" for v in (cell.winner.tflops for cell in one.cells)]
    assert printed == expected


def test_a_size_without_a_time_stays_empty(charts: TuningCharts) -> None:
    (one,) = charts.maps
    assert len(texts(png._throughput(replace(one, cells=one.cells[1:])))) == 15


def test_the_map_of_kernels_prints_numbers_and_lists_their_names(charts: TuningCharts) -> None:
    (one,) = charts.maps
    *numbers, names = texts(png._fastest(one))
    assert numbers == [str(cell.number) for cell in one.cells]
    assert names.split() == ["0", "large", "1", "small"]


def test_the_curves_say_their_means(charts: TuningCharts) -> None:
    (axis,) = png._sorted(charts.ratios, charts.kind).axes
    legend = axis.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[0] == "over single-tuned: geometric mean 1.50, faster at 100% of 16 sizes"
    assert axis.get_yscale() == "log"


@pytest.mark.parametrize(
    ("colour", "expected"),
    [
        ("#ff0080", (1.0, 0.0, 128 / 255)),
        ("hsl(0, 100%, 50%)", (1.0, 0.0, 0.0)),
        ("hsl(120, 100%, 50%)", (0.0, 1.0, 0.0)),
        ("hsl(275, 0%, 40%)", (0.4, 0.4, 0.4)),
    ],
)
def test_colours_of_both_notations_are_the_same_on_both_sides(
    colour: str, expected: tuple[float, float, float]
) -> None:
    assert png._rgb(colour) == pytest.approx(expected)
