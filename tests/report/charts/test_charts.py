"""The definitions of a run's charts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from narrowing import as_, known

from lab.report.charts import charts
from lab.report.charts.definition import Bars, Lines, Means, Scale, Scatter, Stacks
from lab.report.facts.curves import curve
from lab.store.figures import response_of


def ratio(analysis, **options):
    given = {"link": analysis.link, "baseline": analysis.baseline, "labelled": analysis.ladder} | options
    a = analysis
    return charts.ratio_chart(a.columns, a.records, a.rows, a.axes, a.response, **given)


def test_the_ratio_chart_has_a_choice_for_each_ratio_over_the_same_records(analysed):
    a = analysed("sweep")
    chart = ratio(a)
    axes = (a.link.x, *(axis for axis in a.axes if axis is not a.link.x))
    assert [choice.label for choice in chart.choices] == [axis.title for axis in axes]
    for choice, axis in zip(chart.choices, axes, strict=True):
        drawing = as_(Scatter, choice.drawing)
        assert drawing.data.dataset == "records"
        shown = [(row[drawing.x.field], row[drawing.y.field]) for row in drawing.data.rows]
        assert shown == [(axis.get(record), a.response.of(record)) for record in a.records]
        assert drawing.span == ("tflops_p20", "tflops_p80")
        for row in drawing.data.rows:
            low, middle, high = (as_(float, row[name]) for name in ("tflops_p20", drawing.y.field, "tflops_p80"))
            assert low <= middle <= high
    colours = known(as_(Scatter, chart.choices[0].drawing).colours)
    assert colours.title.startswith(a.link.by.name)
    assert [shade.value for shade in colours.shades] == [group.value for group in a.link.groups]


def test_points_that_differ_in_the_asked_parameter_alone_are_joined(analysed):
    a = analysed("sweep")
    drawing = as_(Scatter, ratio(a).choices[0].drawing)
    assert len(drawing.joined) == len(a.link.paths) > 0
    shown = {(row[drawing.x.field], row[drawing.y.field]) for row in drawing.data.rows}
    for trace, path in zip(drawing.joined, a.link.paths, strict=True):
        assert set(trace.points) <= shown
        assert len(trace.points) == len(path)
    assert drawing.valued == next(c.key for c in a.columns if c.name == f"p.{a.link.parameter}")
    assert f"n = {a.link.pooled.n}" in drawing.caption
    assert as_(Scatter, ratio(analysed("ladder")).choices[0].drawing).joined == ()


def test_failed_variants_are_in_no_chart_of_records(analysed):
    a = analysed("failures")
    failed = {record.variant for record in a.records if record.status.failed}
    drawing = as_(Scatter, ratio(a).choices[0].drawing)
    assert len(failed) == 4
    assert not failed & {row["variant"] for row in drawing.data.rows}
    assert len(drawing.data.rows) == len(a.records) - 4


def test_predicted_figures_have_no_span_and_a_ladder_has_labels(analysed):
    assert as_(Scatter, ratio(analysed("no_gpu")).choices[0].drawing).span is None
    labels = as_(Scatter, ratio(analysed("ladder")).choices[0].drawing).labels
    assert "128x128" in {label.text for label in labels}


def test_equal_titles_get_their_kinds(analysed):
    a = analysed("sweep")
    twins = (a.link.x, replace(a.link.x, kind="emulated"))
    labels = [choice.label for choice in ratio(replace(a, axes=twins)).choices]
    assert labels == [f"{a.link.x.title}, static", f"{a.link.x.title}, emulated"]


def test_a_curve_has_a_choice_for_each_part_in_the_same_colours(along_n):
    run, records = along_n
    axis_curve = known(curve(run, records, response_of(records)))
    chart = charts.curve_chart(axis_curve, response_of(records))
    assert [choice.label for choice in chart.choices] == list(axis_curve.parts)
    for choice in chart.choices:
        drawing = choice.drawing
        assert isinstance(drawing, Lines)
        assert [shade.value for shade in drawing.colours.shades if not shade.dashed] == ["a", "b"]
        assert len([shade for shade in drawing.colours.shades if shade.dashed]) == 2
        assert {row["part"] for row in drawing.data.rows} == {choice.label}
        best = [(row["x"], row["name"]) for row in drawing.data.rows if row["best"]]
        assert best == [(256.0, "a"), (512.0, "b"), (1024.0, "b")]
    assert charts.along(axis_curve).scale is Scale.LINEAR
    assert charts.along(replace(axis_curve, wide=True)).scale is Scale.LOG2


def test_both_sides_of_the_model_chart_have_one_scale(estimated):
    a = estimated
    assert [agreement.name for agreement in a.agreements] == ["estimate"]
    chart = charts.model_chart(a.columns, a.rows, a.agreements, a.response)
    for choice, agreement in zip(chart.choices, a.agreements, strict=True):
        drawing = as_(Scatter, choice.drawing)
        assert drawing.diagonal
        assert drawing.x.domain == drawing.y.domain
        assert f"n = {len(agreement.points)}" in drawing.caption
        shown = [(row["variant"], row[drawing.x.field], row[drawing.y.field]) for row in drawing.data.rows]
        assert shown == list(agreement.points)


def test_bars_show_ceilings_unless_they_are_ceilings(analysed):
    for what, ceilings in (("sweep", True), ("no_gpu", False)):
        a = analysed(what)
        (choice,) = charts.bars_chart(a.bars, a.response, 66.9).choices
        drawing = choice.drawing
        assert isinstance(drawing, Bars)
        assert drawing.ceilings is ceilings
        assert drawing.colours.legend is not ceilings
        assert drawing.y.order == tuple(bar.name for bar in a.bars)
        assert {shade.value for shade in drawing.colours.shades} == {bar.group for bar in a.bars}
        assert drawing.note == "peak 66.9"
    assert as_(Bars, charts.bars_chart(a.bars, a.response, None).choices[0].drawing).note == ""


def test_a_mix_can_be_of_the_loop_or_the_kernel_in_shares_or_counts(analysed):
    a = analysed("sweep")
    mix_charts = charts.mix_charts(a.slices)
    assert [chart.id for chart in mix_charts] == ["mix-ptx", "mix-sass"]
    for chart in mix_charts:
        assert [choice.label for choice in chart.choices] == [label for label, *_ in charts.MIX_CHOICES]
        share, count, _, kernel = (as_(Stacks, choice.drawing) for choice in chart.choices)
        assert share.data.rows == count.data.rows
        loop, whole = (sum(as_(float, row["count"]) for row in one.data.rows) for one in (count, kernel))
        assert loop < whole


def test_effects_share_one_scale_that_holds_every_variant(analysed):
    a = analysed("sweep")
    effect_charts = charts.effect_charts(a.effects, {column.name: column for column in a.columns}, a.rows, a.response)
    assert len(effect_charts) == 3
    for chart in effect_charts:
        drawing = chart.choices[0].drawing
        assert isinstance(drawing, Means)
        low, high = known(drawing.y.domain)
        assert all(low <= as_(float, row[drawing.point[1]]) <= high for row in drawing.points.rows)
        assert {row[drawing.point[0]] for row in drawing.points.rows} == set(drawing.x.order)
    assert [bool(as_(Means, chart.choices[0].drawing).y.title) for chart in effect_charts] == [True, False, False]
    assert charts.effect_charts((), {}, a.rows, a.response) == ()


def test_a_constant_response_still_has_a_range(analysed):
    effect = analysed("sweep").effects[0]
    flat = replace(effect, levels=tuple(replace(v, mean=5.0, low=5.0, high=5.0) for v in effect.levels))
    assert charts.effect_domain([flat]) == pytest.approx((4.75, 5.25))


def test_an_interaction_is_a_line_for_each_value_of_the_second_factor(analysed):
    a = analysed("sweep")
    drawing = as_(Lines, charts.interaction_chart(a.interaction, a.response).choices[0].drawing)
    assert drawing.x.title == a.interaction.first
    assert drawing.colours.title == a.interaction.second
    assert len(drawing.data.rows) == len(a.interaction.cells)
