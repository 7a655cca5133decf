"""`benchmarks/unseen_kernels.py`: estimates against times that came later."""

from __future__ import annotations

import pytest

from lab.predict.time_estimates import COUNTS, TimeEstimate


def test_agreement_of_a_kernel(benchmark_script):
    script = benchmark_script("unseen_kernels")
    pairs = [(ms, TimeEstimate(estimated, 1.0, 3.0, COUNTS)) for ms, estimated in ((1.0, 1.1), (2.0, 1.0), (4.0, 5.0))]
    agreement = script.agreement_of(pairs)
    assert agreement.errors == pytest.approx((0.1, 0.5, 0.25))
    assert (agreement.bias, agreement.rank) == pytest.approx((0.1, 0.5))
    assert (agreement.first_pick, agreement.spread, agreement.within) == pytest.approx((0.5, 4.0, 2 / 3))
    rows = script.table([("k", agreement, agreement)]).splitlines()
    assert rows[2].startswith("| k | 3 | 4.00 | 25.0% | 25.0% | 45% | 45% | +10.0% | 0.50 | 0.50 | 0.50 | 0.50 | 67% |")
