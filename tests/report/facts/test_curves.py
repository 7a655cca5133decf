"""Throughput along a problem axis."""

from __future__ import annotations

from dataclasses import replace

import pytest
from narrowing import known

from lab.measured.timing import Samples
from lab.report.facts.curves import curve
from lab.store.figures import response_of


@pytest.fixture
def axis_run(make):
    """A ladder's records at three sizes each, the second kernel overtaking the first."""
    store = make("ladder")
    run, records = replace(store.run(), problem_axes=("n",)), []
    two = [record for record in store.records() if record.measurement][:2]
    for i, n in enumerate((256, 512, 1024)):
        for j, record in enumerate(two):
            ms = [(1.0, 2.0), (1.0, 0.5), (3.0, 0.5)][i][j]
            measurement = replace(
                record.measurement,
                samples=Samples((ms,)),
                baseline=Samples((0.4 + 0.1 * j,)),
                baseline_name="copy",
                others={"torch": Samples((2.0,))},
            )
            problem = {**record.problem, "n": n}
            records.append(replace(record, kernel="ab"[j], problem=problem, measurement=measurement))
    return run, tuple(records)


def test_a_curve_has_the_best_of_each_kernel_and_every_baseline(axis_run):
    run, records = axis_run
    response = response_of(records)
    axis_curve = curve(run, records, response)
    assert (axis_curve.axis, axis_curve.kernels, axis_curve.baselines) == ("n", ("a", "b"), ("copy", "torch"))
    assert [(p.x, p.name) for p in axis_curve.points if p.best] == [(256.0, "a"), (512.0, "b"), (1024.0, "b")]
    assert not any(point.best for point in axis_curve.points if point.group == "baseline")
    copy = next(point for point in axis_curve.points if point.name == "copy")
    assert copy.value == pytest.approx((records[0].rate(0.4) + records[1].rate(0.5)) / 2)
    assert not axis_curve.wide


@pytest.fixture
def two_types(axis_run):
    """The same at two element types; in the second one `a` is ten times as fast."""
    run, records = axis_run
    variants = []
    for dtype in ("float16", "bfloat16"):
        for record in records:
            ms = record.measurement.samples.median / (10 if dtype == "bfloat16" and record.kernel == "a" else 1)
            measurement = replace(record.measurement, samples=Samples((ms,)))
            variant, problem = f"{record.variant}-{dtype}", {**record.problem, "dtype": dtype}
            variants.append(replace(record, variant=variant, problem=problem, measurement=measurement))
    return replace(run, problem_axes=("n", "dtype")), tuple(variants)


def test_words_beside_the_number_make_a_curve_each(two_types):
    run, records = two_types
    response = response_of(records)
    axis_curve = known(curve(run, records, response))
    assert axis_curve.parts == ("dtype=float16", "dtype=bfloat16")
    best = [(p.x, p.name) for p in axis_curve.only("dtype=float16").points if p.best]
    assert best == [(256.0, "a"), (512.0, "b"), (1024.0, "b")]
    assert {p.name for p in axis_curve.only("dtype=bfloat16").points if p.best} == {"a"}
    assert sum(len(axis_curve.only(part).points) for part in axis_curve.parts) == len(axis_curve.points)


def test_there_is_no_curve_of_one_problem_or_of_words(axis_run):
    run, records = axis_run
    response = response_of(records)
    assert curve(replace(run, problem_axes=()), records, response) is None
    assert curve(replace(run, problem_axes=("n", "m")), records, response) is None
    assert curve(replace(run, problem_axes=("layout",)), records, response) is None
    assert curve(run, records[:2], response) is None
