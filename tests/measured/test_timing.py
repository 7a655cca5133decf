from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.measured.timing import CardState, Measurement, Merit, Samples

times = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30).map(tuple)


@given(times, st.floats(0, 1))
def test_quantiles_are_numpys(ms: tuple[float, ...], q: float) -> None:
    assert Samples(ms).quantile(q) == pytest.approx(float(np.quantile(ms, q)), rel=1e-12)


def test_unused_samples_count_nowhere() -> None:
    samples = Samples((1.0, 50.0, 3.0, 2.0), unused=(1,))
    assert samples.used == (1.0, 3.0, 2.0)
    assert (samples.n, samples.median) == (3, 2.0)
    assert samples.p80 == pytest.approx(2.6)


def test_spread_is_a_share_of_the_median() -> None:
    samples = Samples((1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    assert (samples.p20, samples.p80) == (2.0, 5.0)
    assert samples.spread == pytest.approx(3 / 3.5)
    assert Samples((7.0,)).spread == 0


def test_rates_are_in_the_units_of_the_merit() -> None:
    assert Merit.TFLOPS.rate(flops=2 * 10**12, bytes_moved=1, ms=1000) == pytest.approx(2)
    assert Merit.BANDWIDTH.rate(flops=1, bytes_moved=5 * 10**9, ms=1000) == pytest.approx(5)


def measured(**changes: object) -> Measurement:
    facts = {
        "samples": Samples((2.0,)),
        "baseline": Samples((3.0,)),
        "baseline_name": "cublas",
        "cache": "cold",
        "before": CardState(),
        "after": CardState(),
        "others": {"copy": Samples((1.0,))},
    } | changes
    return Measurement(**facts)  # type: ignore[arg-type]  # the fields by name


def test_a_ratio_above_one_is_faster_than_the_baseline() -> None:
    assert measured().ratio_to_baseline == 1.5
    assert measured().ratio_to("cublas") == 1.5
    assert measured().ratio_to("copy") == 0.5


def test_no_time_is_no_rate() -> None:
    for merit, expected in ((Merit.TFLOPS, 1.5), (Merit.BANDWIDTH, 1000.0)):
        assert merit.rate(3 * 10**9, 2 * 10**9, 2.0) == expected
        assert merit.rate(3, 2, 0.0) == merit.rate(3, 2, -1.0) == 0
        assert merit.rate(3, 2, 1e-9) > 0


def test_there_is_no_ratio_to_what_was_not_timed() -> None:
    alone = measured(baseline=None, baseline_name=None, others={})
    assert alone.ratio_to_baseline is None
    assert alone.ratio_to("cublas") is None
    assert measured().ratio_to("torch") is None


def test_a_quantile_of_equal_samples_is_that_sample() -> None:
    assert not math.isnan(Samples((4.0,) * 5).p20)
    assert Samples((4.0,) * 5).quantile(0.37) == 4.0
