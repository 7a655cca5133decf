"""The records of a run as a DataFrame."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from mistakes import coded

from lab.base.errors import StoreError, UserError
from lab.recorded.run_records import Status
from lab.report.render import render
from lab.runs.frame import ExperimentRun, frame, read_frame
from lab.runs.pipeline import RunOutcome


@pytest.fixture
def measured(make):
    return make("sweep")


def outcome(store, records=None):
    return RunOutcome(store.folder, store.run(), store.records if records is None else lambda: records, (), False)


def test_a_row_for_each_variant_and_the_columns_of_the_csv(measured):
    render(measured)
    measured.close()
    table = read_frame(measured.folder)
    rows = list(csv.DictReader((measured.folder / "records.csv").open()))
    assert list(table.columns) == list(rows[0])
    assert len(table) == len(rows) == 24
    for name in ("variant", "kernel", "status"):
        assert list(table[name]) == [row[name] for row in rows]
    assert np.allclose(table["measured_tflops"], [float(row["measured_tflops"]) for row in rows])


def test_dtypes_are_those_of_the_figures(measured):
    table = frame(measured.run(), measured.records())
    dtypes = {name: str(table[name].dtype) for name in ("variant", "p.unroll", "p.double_buffer", "measured_tflops")}
    assert dtypes == {
        "variant": "string",
        "p.unroll": "Int64",
        "p.double_buffer": "boolean",
        "measured_tflops": "float64",
    }
    best = table.sort_values("measured_tflops").iloc[-1]
    assert best["p.double_buffer"]
    assert table.groupby("p.unroll")["measured_tflops"].mean().is_monotonic_increasing


def test_an_empty_cell_is_missing_and_an_empty_column_keeps_its_kind(make):
    store = make("no_gpu")
    first, *others = store.records()
    table = frame(store.run(), [replace(first, build=None, sass=None), *others])
    assert str(table["measured_tflops"].dtype) == "float64"
    assert table["measured_tflops"].isna().all()
    registers = table["registers"]
    assert (str(registers.dtype), registers.isna().tolist()[:2]) == ("Int64", [True, False])
    assert table["reason"].isna().all()


def test_a_parameter_of_several_types_is_not_converted(make):
    store = make("sweep")
    first, second, *_ = store.records()
    mixed = [replace(one, parameters={"k": value}) for one, value in ((first, 4), (second, "auto"))]
    assert frame(store.run(), mixed)["p.k"].tolist() == [4, "auto"]
    assert frame(store.run(), mixed)["p.k"].dtype == np.dtype(object)


def test_a_run_without_records_has_columns_and_no_rows(make):
    store = make("sweep")
    table = frame(store.run(), [])
    assert isinstance(table, pd.DataFrame)
    assert len(table) == 0
    assert "variant" in table


def test_the_best_variant_is_the_fastest_that_did_not_fail(measured):
    records = measured.records()
    fastest = max(records, key=lambda one: one.throughput)
    assert ExperimentRun(outcome(measured)).best == fastest
    broken = tuple(replace(record, status=Status.WRONG) if record == fastest else record for record in records)
    best = ExperimentRun(outcome(measured, broken)).best
    assert best.throughput == max(one.throughput for one in broken if not one.status.failed)
    assert ExperimentRun(outcome(measured, ())).best is None


def test_folder_and_page(measured):
    done = ExperimentRun(outcome(measured))
    assert done.page == measured.folder / "index.html"
    assert done.folder == measured.folder


def test_a_folder_without_a_run_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="holds no run"):
        read_frame(tmp_path)


def test_a_variant_has_its_texts(make):
    store = make("sweep")
    done = ExperimentRun(outcome(store))
    first = done.records[0]
    variant = done.variant(first.variant[:8])
    assert (variant.id, variant.record, variant.parameters) == (first.variant, first, first.parameters)
    assert variant.time_ms == first.measurement.samples.median
    assert [variant.id for variant in done.variants] == [record.variant for record in done.records]
    assert first.variant in repr(variant)
    store.write_files(first.variant, {"kernel.ptx": "// p", "kernel.sass": "// s", "kernel.cu": "// c"})
    assert (variant.ptx, variant.sass, variant.source) == ("// p", "// s", "// c")
    assert isinstance(variant.log, str)
    with pytest.raises(StoreError):
        variant._text("nothing.txt")


def test_an_unknown_variant_names_those_that_there_are(measured):
    done = ExperimentRun(outcome(measured))
    for wrong in ("nothing", ""):
        with pytest.raises(UserError, check=coded("unknown-name", key="variant")) as caught:
            done.variant(wrong)
        assert done.records[0].variant in str(caught.value)


def test_a_run_is_opened_again(measured):
    done = ExperimentRun.of(measured.folder)
    assert done.records == measured.records()
    assert done.best.variant in repr(done)
    assert "<table>" in done._repr_html_()
    with pytest.raises(StoreError, match="holds no run"):
        ExperimentRun.of(measured.folder / "nothing")
