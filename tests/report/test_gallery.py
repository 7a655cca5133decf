"""Which charts and PNGs a report has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.report.analysis import analyse
from lab.report.gallery import chart_list, pictures


def analysed(make, what):
    with make(what) as store:
        return analyse(store.run(), store.records(), {})


@pytest.mark.parametrize(
    ("what", "titles"),
    [
        (
            "sweep",
            {
                "ratio_vs_throughput.png": "gemm_unroll: SASS FMA share against throughput; "
                "lines join variants that differ in unroll alone",
                "sweep.png": "gemm_unroll: throughput of the variants",
                "model.png": "gemm_unroll: predicted against measured throughput",
                "instruction_mix.png": "gemm_unroll: instructions of the hot loop",
                "main_effects.png": "gemm_unroll: main effects on throughput (mean, and range over the variants)",
            },
        ),
        ("ladder", {"ladder.png": "gemm_ladder: throughput of each rung"}),
        ("no_gpu", {"sweep.png": "gemm_no_gpu: predicted ceiling of the variants"}),
    ],
)
def test_pictures_are_named_and_titled_by_what_they_show(make, what, titles):
    a = analysed(make, what)
    assert titles.items() <= {picture.file: picture.title for picture in pictures(a, chart_list(a))}.items()


def test_a_picture_shows_what_the_page_shows_at_first(make):
    a = analysed(make, "sweep")
    charts = chart_list(a)
    first = {chart.id: chart.choices[0].drawing for chart in charts}
    made = {picture.file: picture.drawings for picture in pictures(a, charts)}
    assert made["sweep.png"] == (first["bars"],)
    assert made["ratio_vs_throughput.png"] == (first["ratio"],)
    assert made["instruction_mix.png"] == (first["mix-ptx"], first["mix-sass"])
    assert made["main_effects.png"] == (first["effect-0"], first["effect-1"], first["effect-2"])


def test_what_has_no_data_is_left_out(make):
    a = analysed(make, "sweep")
    bare = replace(a, axes=(), link=None, bars=(), agreements=(), slices=(), effects=(), interaction=None)
    assert chart_list(bare) == ()
    assert pictures(bare, ()) == ()


def test_each_part_of_a_curve_has_its_picture(make):
    with make("ladder") as store:
        run, first = store.run(), store.records()[0]
    records = tuple(
        replace(first, variant=f"{n}{dtype}", problem={**first.problem, "n": n, "dtype": dtype})
        for dtype in ("float16", "float32")
        for n in (64, 128, 256)
    )
    a = analyse(replace(run, problem_axes=("n", "dtype")), records, {})
    made = {picture.file: picture.title for picture in pictures(a, chart_list(a))}
    assert made["curve.png"] == "gemm_ladder: throughput against n, dtype=float16"
    assert made["curve-2.png"] == "gemm_ladder: throughput against n, dtype=float32"
