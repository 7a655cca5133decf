"""Columns of errors: shown where a variant's arithmetic is not its baseline's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from written_runs import variant

from lab.measured.timing import Verification
from lab.recorded.run_records import Status, VariantRecord
from lab.report.facts.winners import telling_columns
from lab.report.registry import errors
from lab.report.registry.code import CODE
from lab.report.registry.execution import EXECUTION
from lab.report.registry.headline import HEADLINE
from lab.report.render import render
from lab.store.figures import response_of

RECORD, _ = variant("tiled", {"unroll": 1}, "unroll=1", 64, 4, 9, 0.8, measured=True)


def judged(own: float, **others: float) -> VariantRecord:
    """A record whose largest error is `own`, beside baselines with errors."""
    assert RECORD.measurement is not None
    passed = Verification(passed=True, max_error=own, tolerance=1e-6, worst="", executed_on="NVIDIA H200")
    return replace(RECORD, verification=passed, measurement=replace(RECORD.measurement, errors=others))


@pytest.mark.parametrize(
    ("own", "other", "apart"),
    [(1e-7, 1.9e-7, False), (1e-7, 2.1e-7, True), (2.1e-7, 1e-7, True), (0.0, 0.0, False), (0.0, 1e-7, True)],
)
def test_errors_are_shown_where_they_differ_by_more_than_the_order_of_sums_explains(own, other, apart):
    record = judged(own, cublas=other)
    (column,) = errors.of_baselines([record])
    assert (column.name, column.title, column.shown) == ("cublas_error", "largest error of cublas", apart)
    assert column.get(record) == other
    assert errors.telling([record]) == (("max_error", "cublas_error") if apart else ())


def test_a_variant_that_failed_shows_nothing_and_one_without_errors_has_no_column():
    failed = replace(judged(1.0, cublas=1e-7), status=Status.WRONG, reason="C[0, 0]: got 1, expected 2")
    assert not errors.differ([failed])
    assert errors.of_baselines([judged(1e-7)]) == ()
    names = [column.name for column in errors.of_baselines([judged(1e-7), judged(1e-7, cublas=1e-7, triton=1e-4)])]
    assert names == ["cublas_error", "triton_error"]


def test_the_table_of_winners_shows_them_beside_the_throughput():
    records = [judged(1e-7, cublas=4e-7)]
    columns = (*HEADLINE, *EXECUTION, *CODE, *errors.of_baselines(records))
    told = [column.name for column in telling_columns(columns, records, response_of(tuple(records)))]
    assert told[0] == "measured_tflops"
    assert {"max_error", "cublas_error"} <= set(told)


def test_the_page_of_several_problems_has_both_errors_in_its_table(tmp_path, make_at):
    with make_at(tmp_path, "sweep") as store:
        store.write_run(replace(store.run(), problem_axes=("m",)))
        for position, record in enumerate(store.records()):
            assert record.measurement is not None
            apart = replace(record.measurement, errors={"cublas": 1.0})
            problem = {**record.problem, "m": 1024 * (1 + position % 8)}
            store.write(replace(record, problem=problem, measurement=apart), position)
        page = render(store)[0].read_text(encoding="utf-8")
    table = page.partition('id="problems"')[2].partition("</table>")[0]
    assert "largest error<small>" in table
    assert "largest error of cublas<small>" in table
