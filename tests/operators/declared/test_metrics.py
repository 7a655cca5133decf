"""Declared figures: units, work, and what is no rate."""

from __future__ import annotations

import pytest

from lab.base.errors import UserError
from lab.operators.declared.metrics import Metric, MetricKind


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
    with pytest.raises(UserError, match="no number"):
        Metric("GB/s", "'x'").value({}, 1.0)
