"""Predictions against measurements, in figures that can be worked out by hand."""

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from narrowing import as_

from lab.measured.timing import Kind, Samples
from lab.predict.variant_scores import scores
from lab.recorded.predictions import Estimate
from lab.report.facts.agreement import agreement, agreements, loss
from lab.report.facts.answer import answer
from lab.report.render import render
from lab.report.variant.details import variant_detail
from lab.runs.sides import read_side
from lab.store.figures import Basis, estimated, response_of

COUNTED = Path(__file__).parents[3] / "reports/h200/hgemm_counters"
"""Variants that were executed on the CPU and measured."""


@pytest.fixture
def measured(make):
    """A store whose measured variants have estimates 10 % above what was measured, the last one twice that."""
    store = make("sweep")
    for position, record in enumerate(store.records()):
        if record.measurement is not None:
            timed = replace(record.measurement, samples=Samples((1.0 + position,)))
            rate = record.rate(1.0 + position)
            shares = {"fma": 0.7, "register banks": 0.2, "shared memory": 0.1}
            store.write(replace(record, measurement=timed, estimate=Estimate(1.1 * rate, 100.0, shares)), position)
    return store


def test_error_and_rank(measured):
    (estimate,) = agreements(measured.records())  # a ceiling is a bound, which has no error
    assert estimate.name == "estimate"
    assert estimate.error == pytest.approx(0.1)
    assert estimate.correlation == pytest.approx(1.0)
    assert f"n = {len(estimate.points)}" in estimate.sentence
    assert "10.0%" in estimate.sentence


def test_times_by_counted_work_are_held_against_measured_ones():
    records = read_side(str(COUNTED)).records
    one = next(agreement for agreement in agreements(records) if agreement.name == "predicted time")
    made = scores(records)
    errors = [r.measurement.samples.median / (made[r.variant].seconds * 1e3) - 1 for r in records if r.measurement]
    assert one.error == pytest.approx(median(abs(error) for error in errors), rel=1e-3)
    assert len(one.points) == len(errors)


def test_what_costs_most_besides_fma(measured):
    record = next(record for record in measured.records() if record.estimate)
    assert loss(record) == "register banks 20%"
    assert estimated(record) == record.estimate.tflops


def test_too_few_say_nothing(measured):
    few = [record for record in measured.records() if record.estimate][:3]
    assert agreements(few) == ()


def test_the_page_says_it(measured):
    files = {path.name: path for path in render(measured)}
    text = files["index.html"].read_text()
    assert files["model.png"].read_bytes().startswith(b"\x89PNG")
    assert "How accurate the predictions are" in text
    record = next(record for record in measured.records() if record.estimate)
    sections = {heading: dict(rows) for heading, _, rows in as_(list, variant_detail(record)["sections"])}
    assert sections["Where the cycles go"]["register banks"] == "20.0%"


def test_without_measurements_the_estimate_ranks(make):
    store = make("no_gpu")
    for position, record in enumerate(store.records()):
        store.write(
            replace(record, estimate=Estimate(10.0 + position, 100.0, {"fma": 0.6, "busy pipe": 0.4})), position
        )
    records = store.records()
    response = response_of(records)
    assert (response.basis, response.kind) == (Basis.ESTIMATE, Kind.PREDICTED)
    best = max(records, key=lambda record: record.estimate.tflops)
    found = answer(store.run(), records, response)
    assert f"≈ {best.estimate.tflops:.0f} TFLOP/s estimated" in found.headline
    assert "most of its cycles go to busy pipe (40%)" in found.text
    text = next(path for path in render(store) if path.name == "index.html").read_text()
    assert "a model of the SM's schedulers that issues" in text
    store.write(replace(records[0], estimate=None), 0)  # one without: all are compared by their ceilings
    assert response_of(store.records()).basis is Basis.CEILING


@pytest.mark.parametrize("changed", [{"flops": 0}, {"flops": 0, "bytes_moved": 0}, {"samples": Samples((0.0,))}])
def test_records_without_work_or_time_do_not_break_the_report(request, measured, changed):
    """Such a throughput compares with nothing, and nothing divides by it."""
    if "bytes_moved" in changed:  # then nothing has a throughput
        request.getfixturevalue("painted_small")
    for position, record in enumerate(measured.records()):
        if record.measurement is None:
            continue
        if "samples" in changed:
            measured.write(replace(record, measurement=replace(record.measurement, **changed)), position)
        else:
            measured.write(replace(record, **changed), position)
    assert agreements(measured.records()) == ()
    assert agreement("estimate", "estimated_tflops", [(str(x), 0.0, 1.0) for x in range(9)]) is None
    assert "index.html" in {path.name for path in render(measured)}


@pytest.mark.parametrize(("factor", "usable"), [(1.9, True), (2.1, False)])
def test_a_prediction_of_another_scale_is_named_and_not_shown(factor, usable):
    compared = agreement("estimate", "estimated_tflops", [(str(x), float(x), factor * x) for x in range(1, 6)])
    assert compared is not None
    assert compared.usable is usable
    assert ("%" in compared.sentence) is usable
    assert ("off by more than a factor of two at the median, and not shown, n = 5" in compared.sentence) is not usable
