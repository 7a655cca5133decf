"""Data derived from the records before any chart is drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from narrowing import known

from lab.report.analysis import analyse, load
from lab.report.charts import style
from lab.store.database import Store
from lab.store.figures import Basis


def analysed(store):
    return analyse(store.run(), store.records(), {})


def test_cells_are_by_key_in_the_order_of_the_records(make):
    with make("hostile") as store:
        a = analysed(store)
    assert [row["variant"] for row in a.rows] == [record.variant for record in a.records]
    assert all(list(row) == [column.key for column in a.columns] for row in a.rows)


def test_loading_leaves_the_counts_of_lines_in_the_store(planted):
    with Store(planted) as store:
        records, different = load(store)
        stored_records = store.records()
    assert any(record.emulation.lines for record in stored_records if record.emulation)
    assert not any(record.emulation.lines for record in records if record.emulation)
    assert [replace(record, emulation=None, ptx=None, sass=None) for record in records] == [
        replace(record, emulation=None, ptx=None, sass=None) for record in stored_records
    ]
    (two_loops,) = (record.variant for record in stored_records if record.kernel == "two_loops")
    assert "The loop that executes most is" in different[two_loops]


def test_another_factor_groups_the_link_of_a_sweep_and_none_that_of_a_ladder(make):
    a = analysed(make("sweep"))
    assert a.link.parameter == a.swept_effects[0].name
    assert a.link.by.name != a.link.parameter
    assert 1 < len(a.link.groups) <= len(style.SERIES)
    assert (a.ladder, a.response.basis) == (False, Basis.MEASURED)
    ladder = analysed(make("ladder"))
    assert (ladder.ladder, ladder.link.by, ladder.link.paths) == (True, None, ())


def test_a_baseline_is_named_only_where_there_is_one_for_all(make):
    with make("sweep") as store:
        run, records = store.run(), store.records()
    name, value = known(analyse(run, records, {}).baseline)
    assert name == "cublas"
    assert value == pytest.approx(51.7, rel=0.01)
    halves = tuple(replace(r, problem={**r.problem, "n": 64 * (1 + i % 2)}) for i, r in enumerate(records))
    assert analyse(replace(run, problem_axes=("n",)), halves, {}).baseline is None


def test_a_run_without_records_has_nothing_to_draw(make):
    a = analyse(make("sweep").run(), (), {})
    assert (a.rows, a.bars, a.slices, a.axes, a.effects, a.agreements) == ((),) * 6
    assert (a.curve, a.link, a.baseline, a.interaction) == (None,) * 4
    assert a.answer.text
