"""Declared metrics: units, work, and metrics that are not rates."""

from __future__ import annotations

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.operators.declared.declared_metrics import Metric, MetricKind


@pytest.mark.parametrize(
    ("unit", "kind", "factor"),
    [
        ("GB/s", MetricKind.BYTES, 1e9),
        ("TB/s", MetricKind.BYTES, 1e12),
        ("GiB/s", MetricKind.BYTES, 2.0**30),
        ("B/s", MetricKind.BYTES, 1),
        ("GFLOP/s", MetricKind.FLOPS, 1e9),
        ("TFLOP/s", MetricKind.FLOPS, 1e12),
        ("GFLOPS", MetricKind.FLOPS, 1e9),
        ("FLOP/s", MetricKind.FLOPS, 1),
        ("Gelem/s", MetricKind.OTHER, 1e9),
        ("Mpixel/s", MetricKind.OTHER, 1e6),
        ("kB/s", MetricKind.BYTES, 1e3),
        ("keys/s", MetricKind.OTHER, 1),
        ("ms", MetricKind.OTHER, 1),
        ("launches/s", MetricKind.OTHER, 1),
        ("Points/s", MetricKind.OTHER, 1),
        ("Tokens/s", MetricKind.OTHER, 1),
        ("Kitems/s", MetricKind.OTHER, 1),
        ("Mitems/s", MetricKind.OTHER, 1e6),
        ("Gitems/s", MetricKind.OTHER, 1e9),
        ("kSamples/s", MetricKind.OTHER, 1e3),
        ("updates/ns", MetricKind.OTHER, 1),
    ],
)
def test_a_unit_says_what_is_counted_and_in_what(unit, kind, factor):
    metric = Metric(unit, "n / time")
    assert (metric.kind, metric.factor) == (kind, factor)


def test_a_figure_is_work_over_time_in_its_unit():
    metric = Metric("GB/s", "12 * n / time")
    assert metric.value({"n": 10**9}, 2.0) == 6.0
    assert metric.work({"n": 1000}) == 12000


def test_a_figure_need_not_be_a_rate_unless_it_is_throughput():
    assert Metric("ms", "1000 * time").value({}, 0.25) == 250
    with pytest.raises(UserError) as caught:
        Metric("GB/s", "12 * n * time").work({"n": 3})
    assert caught.value.key == "metrics.GB/s"
    with pytest.raises(UserError, check=coded("wrong-type", key="metrics.GB/s", found="'x'")):
        Metric("GB/s", "'x'").value({}, 1.0)


@pytest.mark.parametrize(
    ("unit", "expression", "instead"),
    [
        ("TFLOP/s", "2e-12 * n * n * n / time", "floating-point operations a second: 2 * n * n * n / time"),
        ("GB/s", "12 * n / time / 1e9", "bytes a second: 12 * n / time"),
        ("GB/s", "12 * n / 1_000_000_000 / time", "bytes a second: 12 * n / time"),
        ("GB/s", "12 * n / 10**9 / time", "bytes a second: 12 * n / time"),
        ("GB/s", "1e-9 * 12 * n / time", "bytes a second: 12 * n / time"),
        ("GB/s", "12 * n * 1e-9 / time", "bytes a second: 12 * n / time"),
        ("GB/s", "12 * n / (1e9 * time)", "bytes a second: 12 * n / (time)"),
        ("GiB/s", "12 * n / 2**30 / time", "bytes a second: 12 * n / time"),
        ("Mkeys/s", "n / time / 1e6", "keys a second: n / time"),
    ],
)
@pytest.mark.parametrize("n", [4096, 16384])
def test_an_expression_that_divides_by_the_prefix_too_is_refused(unit, expression, instead, n):
    """Also where the work of a launch is so large that one unit of it is left."""
    with pytest.raises(UserError) as caught:
        Metric(unit, expression).work({"n": n}, 12 * n * n)
    assert caught.value.accepted == instead
    assert caught.value.found == expression
    assert "divides by" in (caught.value.suggestion or "")


def test_next_to_no_work_is_refused_where_nothing_says_why():
    with pytest.raises(UserError) as caught:
        Metric("GB/s", "n / k / time").work({"n": 1, "k": 1000})
    assert caught.value.accepted == "bytes a second: 10**9 * (n / k / time)"
    with pytest.raises(UserError, check=coded("out-of-range", key="metrics.B/s", found="0.5 / time")):
        Metric("B/s", "0.5 / time").work({})


def test_one_unit_that_is_left_of_large_work_is_refused():
    with pytest.raises(UserError, check=coded("out-of-range", key="metrics.GB/s", found="12e-9 * n / time")):
        Metric("GB/s", "12e-9 * n / time").work({"n": 10**9}, 12 * 10**9)
    with pytest.raises(UserError, check=coded("out-of-range", key="metrics.GB/s", found="12 * n / 1e9 / time")):
        Metric("GB/s", "12 * n / 1e9 / time").work({"n": 10**8}, 12 * 10**8)


def test_little_work_of_large_arrays_is_no_mistake():
    assert Metric("GB/s", "0.5 * n / time").work({"n": 100}, 10**12) == 50
    assert Metric("GB/s", "12 * n / time").work({"n": 1}) == 12
    assert Metric("updates/ns", "1e-9 * n / time").amount({"n": 10}, 10**12) == pytest.approx(1e-8)
