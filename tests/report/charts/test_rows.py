"""Rows of the charts: bars, parts of bars and labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.isa.roles import Role, WarpRole
from lab.report.charts.definition import Label, Row
from lab.report.charts.rows import (
    MOST_BARS,
    RATIOS,
    TENSOR_RATIOS,
    Bar,
    bars,
    labelled_points,
    mix_slices,
    names,
    pack_slices,
    point_labels,
    ratio_columns,
    row_names,
)
from lab.report.registry.run_columns import columns_for
from lab.runs.sides import read_side
from lab.store.figures import ranked, response_of

COUNTED = Path(__file__).parents[3] / "reports/h200/hgemm_counters"
"""Variants with wgmma that were executed on the CPU, measured and profiled."""


def test_near_points_share_a_label():
    points = [(0.0, 1.0, "v1"), (0.01, 1.5, "v0"), (1.0, 100.0, "top"), (0.0, 60.0, "far")]
    labels = sorted((label.x, label.y, label.text) for label in point_labels(points))
    assert labels == [(0.0, 60.0, "far"), (0.01, 1.5, "v1, v0"), (1.0, 100.0, "top")]
    assert point_labels([]) == ()


def test_labels_that_would_cover_each_other_become_one():
    points = [(0.0, 700.0, "256 x 128"), (0.12, 690.0, "256 x 128 in clusters"), (1.0, 710.0, "192 x 128")]
    assert point_labels(points) == (
        Label(0.0, 700.0, "256 x 128, 256 x 128 in clusters"),
        Label(1.0, 710.0, "192 x 128"),
    )
    apart = [(0.0, 700.0, "256 x 128"), (0.12, 600.0, "256 x 128 in clusters"), (1.0, 710.0, "192 x 128")]
    assert len(point_labels(apart)) == 3


def test_a_label_names_no_more_than_a_line_holds():
    crowd = [(1.0, 10.0, name) for name in ("a", "a", "b", "c", "d", "e")]
    assert point_labels([(0.0, 1.0, "far"), *crowd]) == (
        Label(0.0, 1.0, "far"),
        Label(1.0, 10.0, "a, b, c and 2 more"),
    )


def test_of_many_points_each_kernel_is_named_at_its_best():
    rows: list[Row] = [
        {"kernel": f"v{turn}", "x": x / 8, "y": float(x + turn)} for turn in range(2) for x in range(MOST_BARS)
    ]
    assert labelled_points(rows, "x", "y") == (
        ((MOST_BARS - 1) / 8, MOST_BARS - 1.0, "v0"),
        ((MOST_BARS - 1) / 8, float(MOST_BARS), "v1"),
    )
    few: list[Row] = [*rows[:3], {"kernel": "text", "x": "none", "y": 1.0}]
    assert [name for *_, name in labelled_points(few, "x", "y")] == ["v0"] * 3


@pytest.mark.parametrize(
    ("given", "short", "heading"),
    [
        (["unroll=8 wide=true", "unroll=4 wide=false", "cublas"], ["8 · true", "4 · false", "cublas"], "unroll · wide"),
        (["map=cyclic(width=4, x=1) n=2", "map=block n=8"], ["cyclic(width=4, x=1) · 2", "block · 8"], "map · n"),
        (["unroll=8", "wide=true"], ["unroll=8", "wide=true"], ""),
        (["v1 unroll=8"], ["v1 unroll=8"], ""),
        (["v0", "v1"], ["v0", "v1"], ""),
        (["a=x=>y b=1"], ["x=>y · 1"], "a · b"),
        ([], [], ""),
    ],
)
def test_rows_with_the_same_parameters_keep_the_values_alone(given, short, heading):
    assert row_names(given) == (short, heading)


def test_a_bars_text_has_the_share_of_the_peak_if_there_is_one():
    bar = Bar("a", "id", 46.314, None, None, None, 0.692, "variant")
    assert (bar.text, bar.words) == ("46.31 · 69 %", "46.31 · 69 % of peak")
    assert replace(bar, share=0.0512).text == "46.31 · 5.1 %"
    assert (replace(bar, share=None).text, replace(bar, share=None).words) == ("46.31", "46.31")
    assert bar.row["low"] is None


def test_bars_of_a_sweep_are_best_first_with_the_baseline_among_them(make):
    store = make("sweep")
    records = store.records()
    chart_bars = bars(store.run(), records, response_of(records))
    by_id = {record.variant: record for record in records}
    ratios = [by_id[bar.variant].measurement.ratio_to_baseline if bar.variant else 1.0 for bar in chart_bars]
    assert ratios == sorted(ratios, reverse=True)
    (baseline,) = (bar for bar in chart_bars if bar.group == "baseline")
    assert baseline.variant == ""
    for bar in chart_bars:
        if bar.variant:
            assert bar.low is not None
            assert bar.high is not None
            assert bar.low <= bar.value <= bar.high


def test_a_ratio_that_is_the_same_everywhere_is_no_axis(make):
    store = make("sweep")
    records = store.records()
    columns = columns_for(store.run(), records)
    named = [column.name for column in ratio_columns(columns, records, response_of(records))]
    assert named[0] == RATIOS[0]
    same = tuple(replace(record, ptx=records[0].ptx) for record in records)
    named = [column.name for column in ratio_columns(columns, same, response_of(same))]
    assert named[0].startswith("sass")
    assert RATIOS[0] not in named


def test_what_feeds_matrix_instructions_comes_first_where_there_are_some(make):
    side = read_side(str(COUNTED))
    named = [
        c.name for c in ratio_columns(columns_for(side.run, side.records), side.records, response_of(side.records))
    ]
    registers = {"consumer_registers", "producer_registers"}  # equal in all variants, so not among the axes
    assert not registers & set(named)
    assert named[:5] == [name for name in TENSOR_RATIOS if name not in registers]
    store = make("sweep")
    records = store.records()
    named = [column.name for column in ratio_columns(columns_for(store.run(), records), records, response_of(records))]
    assert not set(named) & set(TENSOR_RATIOS)


def test_registers_of_roles_stand_on_the_axis_without_an_execution(make):
    """They are read from the text; of several numbers they say what throughput they go with."""
    store = make("sweep")

    def multiplying(place, record):
        opcodes, roles = {"setmaxnreg.inc.sync.aligned.u32": 1}, (
            WarpRole(Role.PRODUCER, 40, 1), WarpRole(Role.CONSUMER, 160 + 8 * place, 2),
        )  # fmt: skip
        counts = replace(record.ptx.counts, by_class={"mma": 1}, by_opcode=opcodes)
        return replace(record, ptx=replace(record.ptx, counts=counts, roles=roles), sass=None)

    records = tuple(multiplying(*record) for record in enumerate(store.records()))
    found = ratio_columns(columns_for(store.run(), records), records, response_of(records))
    assert found[0].name == "consumer_registers"
    assert [found[0].get(record) for record in records[:3]] == [160, 168, 176]
    assert "producer_registers" not in [column.name for column in found[1:]]  # the same everywhere


def test_bars_of_a_ladder_keep_its_order_and_names_are_unique(make):
    store = make("ladder")
    records = store.records()
    assert [bar.variant for bar in bars(store.run(), records, response_of(records)) if bar.variant] == [
        record.variant for record in records
    ]
    twins = (records[0], replace(records[0], variant="other"), records[1])
    found = names(twins)
    assert len(set(found.values())) == 3
    assert found["other"].endswith("(other)")


def test_shares_of_a_bar_add_up_and_packing_loses_nothing(make):
    store = make("sweep")
    records = store.records()
    slices = mix_slices(store.run(), records, response_of(records))
    best = ranked(records, response_of(records))[0]
    mine = [part for part in slices if part.variant == best.variant and part.mix == "sass" and part.hot]
    assert sum(part.share for part in mine) == pytest.approx(1.0)
    assert best.sass is not None
    assert sum(part.count for part in mine) == best.sass.loops[0].counts.instructions
    packed = pack_slices(slices)
    variants, classes, mixes, parts = (packed[name] for name in ("variants", "classes", "mixes", "parts"))
    assert isinstance(variants, list)
    assert isinstance(classes, list)
    assert isinstance(mixes, list)
    assert isinstance(parts, list)
    for (variant, cls, mix, hot, count, share), piece in zip(parts, slices, strict=True):
        assert (variants[variant], classes[cls], mixes[mix], bool(hot)) == (
            (piece.name, piece.variant),
            piece.cls,
            piece.mix,
            piece.hot,
        )
        assert (count, share) == (pytest.approx(piece.count, rel=1e-4), pytest.approx(piece.share, abs=1e-5))
