"""A search's prior for variants that were not measured yet."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from written_runs import sweep

from lab.recorded.run_records import Status
from lab.search.prior import as_columns, known_before, predicted_ms


def record():
    return sweep(measured=True)[0][0]


def test_rows_are_equally_long_and_logarithmic():
    assert as_columns([{"a": 0, "b": math.e - 1}, {"a": 3.0}]) == [(0.0, 1.0), (math.log(4), 0.0)]
    assert as_columns([]) == []


def test_a_build_says_what_it_uses():
    found = known_before(record())
    assert {"registers", "occupancy"} <= set(found)
    assert known_before(replace(record(), build=None, prediction=None, sass=None, launch=None, emulation=None)) == {}


def test_predictions_do_not_know_what_was_measured():
    one = record()
    (ms,) = predicted_ms([one]).values()
    assert ms == pytest.approx(next(iter(predicted_ms([replace(one, measurement=None)]).values())))
    assert predicted_ms([replace(one, status=Status.NOT_EXECUTED)]) == {}
