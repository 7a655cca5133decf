"""Records as Kernel Tuner returns them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from mistakes import coded

from lab.api.kernel_tuner.tuner_results import best, results
from lab.base.errors import UserError
from lab.recorded.run_records import Status
from lab.store import figures
from lab.store.figures import response_of


def returned(store, metrics=None, records=None):
    records = store.records() if records is None else records
    return results(store.run(), records, ["unroll"], metrics, Path("out"))


def test_a_measured_run(make):
    store = make("sweep")
    results, environment = returned(store, {"x": "time * 2", "y": lambda p: p["x"] + p["unroll"]})
    first = store.records()[0]
    assert len(results) == len(store.records())
    assert results[0]["unroll"] == first.parameters["unroll"]
    assert results[0]["time"] == first.measurement.samples.median
    assert results[0]["times"] == list(first.measurement.samples.ms)
    assert results[0]["y"] == 2 * results[0]["time"] + results[0]["unroll"]
    assert environment["time"] == "measured"
    assert environment["device_name"] == store.run().gpu.name
    assert environment["failed"] == []


def test_without_a_gpu_the_time_does_the_work_at_the_predicted_rate(make):
    store = make("no_gpu")
    records = store.records()
    response = response_of(records)
    results, environment = returned(store)
    assert environment["time"] in ("predicted", "lower bound")
    assert environment["device_name"] is None
    assert environment["notes"][0] == store.run().not_measured
    first = next(record for record in records if response.of(record) is not None)
    assert first.rate(figures.time_ms(first, response)) == pytest.approx(response.of(first))
    assert "times" not in results[0]


def test_what_failed_is_listed_apart(make):
    store = make("sweep")
    first, *others = store.records()
    broken = replace(first, status=Status.COMPILE_FAILED, reason="why")
    results, environment = returned(store, records=(broken, *others))
    assert len(results) == len(others)
    assert environment["failed"] == [
        {"unroll": first.parameters["unroll"], "status": "compile failed", "reason": "why"}
    ]


def test_a_suspect_setting_failed_and_one_verified_in_part_is_told_from_a_verified_one(make):
    store = make("sweep")
    first, second, *others = store.records()
    suspect = replace(first, status=Status.SUSPECT, reason="in another order")
    partial = replace(second, status=Status.PARTIAL)
    results, environment = returned(store, records=(suspect, partial, *others))
    assert [(one["status"], one["reason"]) for one in environment["failed"]] == [(Status.SUSPECT, "in another order")]
    assert [result["status"] for result in results] == [Status.PARTIAL, *[Status.VERIFIED] * len(others)]
    assert all(result["verified"] for result in results)


@pytest.mark.parametrize("metric", [3, "tme", lambda p: p["none"]])
def test_a_wrong_metric_is_named(make, metric):
    with pytest.raises(UserError) as caught:
        returned(make("sweep"), {"GB/s": metric})
    assert caught.value.key == "metrics.GB/s"


def test_the_best_by_an_objective():
    results = [{"time": 2.0, "x": 1.0}, {"time": 1.0, "x": 0.5}]
    assert best(results, "time", higher_is_better=False) is results[1]
    assert best(results, "x", higher_is_better=True) is results[0]
    assert best([], "time", higher_is_better=False) is None
    with pytest.raises(UserError, check=coded("unknown-name", key="objective", found="energy")):
        best(results, "energy", higher_is_better=False)
