"""Spearman's rank correlation, compared with SciPy's."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from narrowing import known
from scipy import stats

from lab.report.rank_correlation import mean_ratio, rank_correlation, student_quantile

VALUES = st.sampled_from([-3.0, 0.0, 0.5, 1.0, 2.0, 7.25, 1e30])


@given(st.lists(st.tuples(VALUES, VALUES), min_size=3, max_size=30))
@pytest.mark.filterwarnings("ignore")
def test_it_is_scipys(pairs):
    found = rank_correlation(*zip(*pairs, strict=True))
    wanted = stats.spearmanr(*zip(*pairs, strict=True))
    assert found.rho == pytest.approx(wanted.statistic, abs=1e-12, nan_ok=True)
    assert found.p == pytest.approx(wanted.pvalue, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("pairs", [3, 4, 5, 240, 10_001])
@pytest.mark.parametrize("shuffled", [0.02, 0.5, 1.0])
def test_the_likelihood_of_many_pairs_is_scipys(pairs, shuffled):
    rng = np.random.default_rng(pairs)
    first = rng.normal(size=pairs)
    second = first + 10 * shuffled * rng.normal(size=pairs)
    assert rank_correlation(first, second).p == pytest.approx(stats.spearmanr(first, second).pvalue, abs=1e-12)


def test_ties_share_their_ranks():
    assert rank_correlation([1, 2, 2, 3], [10, 20, 20, 30]).rho == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]).rho == pytest.approx(-1)


@pytest.mark.parametrize(
    ("first", "second"), [([], []), ([1.0], [2.0]), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), ([1.0, math.nan], [1.0, 2.0])]
)
def test_there_is_none(first, second):
    assert math.isnan(rank_correlation(first, second).rho)


def test_nothing_waits_for_scipy_that_does_not_need_it():
    code = "import sys, lab.report.render, lab.runs.repeat, lab.stages.emulate; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_two_pairs_correlate_but_have_no_likelihood():
    for second, rho in (([3.0, 4.0], 1), ([4.0, 3.0], -1)):
        found = rank_correlation([1.0, 2.0], second)
        assert found.rho == pytest.approx(rho)
        assert math.isnan(found.p)
    assert rank_correlation([1, 2, 3], [1, 2, 3]).p == 0


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 30, 1000])
def test_the_quantile_of_students_distribution_is_scipys(freedom):
    assert student_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)


def test_an_interval_of_a_mean_ratio_covers_the_mean_in_19_of_20_samples():
    rng = np.random.default_rng(0)
    samples = np.exp(rng.normal(math.log(1.1), 0.05, size=(4000, 4)))
    intervals = [known(mean_ratio(sample).interval) for sample in samples.tolist()]
    assert np.mean([low < 1.1 < high for low, high in intervals]) == pytest.approx(0.95, abs=0.012)


def test_a_mean_ratio_is_the_geometric_mean():
    found = mean_ratio([2.0, 0.5, 1.0])
    assert found.ratio == pytest.approx(1.0)
    assert found.n == 3
    assert math.prod(known(found.interval)) == pytest.approx(1.0)
    assert mean_ratio([1.2, 1.3]).interval is None


def test_an_interval_of_a_correlation_covers_it_in_19_of_20_samples():
    rng = np.random.default_rng(0)
    rho, covered = 0.7, []
    spearman = 6 / math.pi * math.asin(rho / 2)  # of normal variables
    for _ in range(1500):
        x = rng.normal(size=24)
        y = rho * x + math.sqrt(1 - rho**2) * rng.normal(size=24)
        low, high = known(rank_correlation(x.tolist(), y.tolist()).interval)
        covered.append(low < spearman < high)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


def test_few_pairs_and_equal_orders_have_no_interval():
    assert rank_correlation([1, 2, 3], [1, 3, 2]).interval is None
    assert rank_correlation([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]).interval is None
    assert rank_correlation([1, 1, 1, 1, 1], [1, 2, 3, 4, 5]).interval is None
