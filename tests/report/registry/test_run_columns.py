"""Which columns a run has."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lab.measured.metrics import DeclaredRate
from lab.measured.timing import Kind, Merit, Samples
from lab.report.columns import row
from lab.report.registry.run_columns import columns_for


@pytest.mark.parametrize("what", ["sweep", "ladder", "hostile", "failures", "no_gpu"])
def test_names_and_keys_are_unique_and_keys_are_safe_in_a_chart(make, what):
    store = make(what)
    columns = columns_for(store.run(), store.records())
    assert len({column.name for column in columns}) == len({column.key for column in columns}) == len(columns)
    assert all(re.fullmatch(r"[a-z0-9_]+", column.key) for column in columns)


@pytest.mark.parametrize("unit", ["ms", "spread", "peak_share", "bound", "sectors", "loss", "TFLOPS/W", "tflops", "%"])
def test_no_unit_makes_two_columns_of_one_name(make, unit):
    store = make("no_gpu")
    records = tuple(replace(r, declared_rate=DeclaredRate(unit, 1.0), merit=Merit.BANDWIDTH) for r in store.records())
    columns = columns_for(store.run(), records)
    assert len({column.name for column in columns}) == len({column.key for column in columns}) == len(columns)
    assert all(re.fullmatch(r"[a-z0-9_]+", column.key) for column in columns)


def test_declared_metrics_are_columns(make, counting_keys):
    store = counting_keys(make("sweep"))
    records = store.records()
    columns = {column.name: column for column in columns_for(store.run(), records)}
    timed = next(record for record in records if record.measurement)
    median = timed.measurement.samples.median
    cells = row(timed, columns.values())
    assert cells["measured_mkeys_s"] == pytest.approx(2000 / median)
    assert cells["metrics.ms"] == pytest.approx(median)
    assert cells["metrics.Gbit/s"] == pytest.approx(64e3 / (median / 1e3) / 1e9)
    assert {columns[name].kind for name in ("metrics.ms", "metrics.Gbit/s")} == {Kind.MEASURED}
    assert columns["measured_mkeys_s"].unit == columns["mkeys_s_p20"].unit == "Mkeys/s"
    assert columns["metrics.ms"].shown
    assert not [name for name in columns if "tflops" in name or "gb_s" in name]


def test_a_ceiling_gives_further_metrics_no_time(make, counting_keys):
    store = counting_keys(make("no_gpu"))
    records = [replace(record, emulation=None) for record in store.records()]
    columns = {column.name for column in columns_for(store.run(), records)}
    assert "predicted_mkeys_s" in columns
    assert "metrics.ms" not in columns


def test_swept_parameters_come_first_and_are_shown(make):
    store = make("sweep")
    parameters = [c for c in columns_for(store.run(), store.records()) if c.name.startswith("p.")]
    assert [c.name for c in parameters if c.shown] == ["p.unroll", "p.double_buffer", "p.vector_width"]
    assert [c.name for c in parameters[3:]] == ["p.block_m", "p.block_k", "p.padding"]


def test_the_compiler_is_shown_where_there_are_several(make):
    store = make("sweep")
    records = store.records()
    other = (replace(records[0], compiler="nvcc 12.9.86"), *records[1:])
    shown = [next(c for c in columns_for(store.run(), some) if c.name == "compiler").shown for some in (records, other)]
    assert shown == [False, True]


def test_a_further_baseline_has_a_ratio_and_a_time(make):
    store = make("sweep")
    first, *rest = store.records()
    first = replace(
        first, measurement=replace(first.measurement, samples=Samples((2.0,)), others={"torch": Samples((3.0,))})
    )
    columns = columns_for(store.run(), (first, *rest))
    assert [row(record, columns)["ratio_to_torch"] for record in (first, rest[0])] == [1.5, None]
    assert row(first, columns)["torch_ms"] == 3.0


def test_where_throughput_counts_bytes_no_column_speaks_of_operations(make, counting_bytes):
    store = counting_bytes(make("sweep"))
    columns = {column.name: column for column in columns_for(store.run(), store.records())}
    assert not [name for name in columns if "tflops" in name]
    assert {columns[name].unit for name in ("measured_gb_s", "gb_s_p20", "gb_s_p80", "predicted_gb_s")} == {"GB/s"}
