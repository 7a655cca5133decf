"""The rows of the first screen say what the fastest costs, what limits it and why the slowest is slow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.measured.timing import Kind
from lab.predict.variant_scores import lean
from lab.report.facts.screen import cost, screen_rows
from lab.store import published
from lab.store.figures import ranked, response_of

H200 = Path(__file__).parents[3] / "reports" / "h200"


def rows_of(run, records):
    return {row.label: row for row in screen_rows(run, records, response_of(records))}


@pytest.fixture(scope="module")
def unrolled():
    kept = published.read_records(H200 / "gemm_unroll")
    return kept.run, tuple(map(lean, kept.records))


def test_the_first_screen_of_a_measured_run(unrolled):
    run, records = unrolled
    best, *_, slowest = ranked(records, response_of(records))
    rows = rows_of(run, records)
    assert list(rows) == ["Fastest", "What limits it", "Why the slowest is slow"]
    assert rows["Fastest"].variant == best.variant
    assert f"{best.build.resources.registers} registers a thread" in rows["Fastest"].text
    assert "2 blocks per SM (25% occupancy, limited by registers)" in rows["Fastest"].text
    assert rows["What limits it"].kind is Kind.MEASURED  # by hardware counters
    assert "the fma pipe is at" in rows["What limits it"].text
    assert rows["Why the slowest is slow"].variant == slowest.variant
    assert "blocks per SM from 2 to 1" in rows["Why the slowest is slow"].text


def test_without_counters_the_predicted_time_says_what_limits(unrolled):
    kept = published.read_records(H200 / "plain" / "transpose")
    records = tuple(map(lean, kept.records))
    row = rows_of(kept.run, records)["What limits it"]
    assert row.kind is Kind.PREDICTED
    assert "DRAM" in row.text


def test_variants_that_tie_have_no_slowest(unrolled):
    run, records = unrolled
    alike = tuple(replace(record, measurement=records[0].measurement) for record in records)
    assert "Why the slowest is slow" not in rows_of(run, alike)
    assert screen_rows(run, (), response_of(())) == ()


def test_spills_are_a_cost(unrolled):
    record = unrolled[1][0]
    used = replace(record.build.resources, spill_store_bytes=8)
    assert "8 B spilled" in cost(replace(record, build=replace(record.build, resources=used)))
    assert "no spills" in cost(record)
