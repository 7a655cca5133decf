"""Spearman's rank correlation, compared with SciPy's."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.report.rank_correlation import rank_correlation

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
