"""Which charts and PNGs a report has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.report.analysis import analyse
from lab.report.gallery import chart_list, pictures

BESIDE = "instruction mix of the hot loop beside"


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
                "mix.png": f"gemm_unroll: {BESIDE} throughput of the variants",
                "main_effects.png": "gemm_unroll: main effects on throughput (mean, and range over the variants)",
            },
        ),
        ("ladder", {"mix.png": f"gemm_ladder: {BESIDE} throughput of each rung"}),
        (
            "no_gpu",
            {"mix.png": f"gemm_no_gpu: {BESIDE} predicted ceiling of the variants"},
        ),
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
    assert made["ratio_vs_throughput.png"] == (first["ratio"],)
    assert made["mix.png"] == (first["mix-sass"], first["bars"])
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


def test_bars_without_a_mix_and_a_mix_without_bars_have_pictures_of_their_own(make):
    a = analysed(make, "sweep")
    bars = replace(a, slices=())
    assert {picture.file for picture in pictures(bars, chart_list(bars))} >= {"bars.png"}
    mix = replace(a, bars=())
    made = {picture.file: picture.drawings for picture in pictures(mix, chart_list(mix))}
    assert len(made["mix.png"]) == 1


def test_rows_of_the_mix_stand_beside_their_bars(make):
    a = analysed(make, "sweep")
    by_id = {chart.id: chart.choices[0].drawing for chart in chart_list(a)}
    assert by_id["mix-sass"].y.order == by_id["bars"].y.order
