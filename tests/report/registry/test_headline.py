"""Identity and the figures that readers look at first."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_runs import variant

from lab.measured.timing import Samples
from lab.recorded.run_records import Status, VariantRecord
from lab.report.columns import Value
from lab.report.registry.headline import HEADLINE, IDENTITY

COLUMNS = {column.name: column for column in (*IDENTITY, *HEADLINE)}
RECORD, _ = variant("tiled", {"unroll": 1}, "unroll=1", 64, 4, 9, 0.8, measured=True)


def timed(*ms: float) -> VariantRecord:
    """The record with these samples."""
    assert RECORD.measurement is not None
    return replace(RECORD, measurement=replace(RECORD.measurement, samples=Samples(ms)))


def values(record: VariantRecord, *names: str) -> list[Value]:
    return [COLUMNS[name].get(record) for name in names]


def test_a_columns_name_and_its_title_name_the_same_percentile():
    found = {name: re.findall(r"p\d+", name) for name in COLUMNS}
    assert {"tflops_p20", "tflops_p80", "p20_ms", "p80_ms"} == {
        name for name, percentiles in found.items() if percentiles
    }
    for name, percentiles in found.items():
        assert re.findall(r"p\d+", COLUMNS[name].title) == percentiles


def test_p20_of_the_throughput_is_its_own_20th_percentile():
    record = timed(*(float(ms) for ms in range(10, 21)))
    rates = [record.rate(ms) for ms in range(10, 21)]
    low, high = values(record, "tflops_p20", "tflops_p80")
    assert low == pytest.approx(np.quantile(rates, 0.2))
    assert high == pytest.approx(np.quantile(rates, 0.8))
    slow, fast = values(record, "p80_ms", "p20_ms")
    assert (slow, fast) == (18.0, 12.0)


def test_the_best_sample_is_the_fastest_of_those_that_count():
    record = timed(12.0, 10.0, 9.0, 11.0)
    assert values(record, "best_ms", "tflops_best") == [9.0, record.rate(9.0)]
    assert record.measurement is not None
    unused = replace(record.measurement, samples=replace(record.measurement.samples, unused=(2,)))
    assert values(replace(record, measurement=unused), "best_ms", "tflops_best") == [10.0, record.rate(10.0)]
    assert values(replace(record, measurement=None), "best_ms", "tflops_best") == [None, None]


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12))
def test_percentiles_of_the_throughput_rise(ms):
    names = ("tflops_p20", "measured_tflops", "tflops_p80", "tflops_best")
    found = [value for value in values(timed(*ms), *names) if isinstance(value, float)]
    assert len(found) == len(names)
    assert all(slow <= fast * (1 + 1e-12) for slow, fast in itertools.pairwise(found))


def test_a_failed_variant_has_no_measured_figure_though_it_was_timed():
    failed = replace(RECORD, status=Status.WRONG, reason="C[0, 0]: got 1, expected 2")
    measured = [column for column in HEADLINE if column.kind == "measured"]
    assert len(measured) > 8
    assert all(column.get(failed) is None for column in measured)
    assert values(failed, "status", "reason") == [Status.WRONG, "C[0, 0]: got 1, expected 2"]


def test_what_was_not_compiled_has_no_figures():
    bare = replace(
        RECORD, build=None, ptx=None, sass=None, prediction=None, verification=None, measurement=None, launch=None
    )
    assert {column.get(bare) for column in HEADLINE} == {None}
