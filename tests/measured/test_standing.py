"""Selection of the best of several measured variants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.measured.standing import baseline_beside, common_baseline, standing
from lab.measured.timing import CardState, Measurement, Samples

ALONE = Measurement(Samples((1.0,)), None, None, "cold", CardState(), CardState())


def test_a_baseline_is_beside_a_variant_where_it_was_timed():
    assert (baseline_beside(None), baseline_beside(ALONE)) == ("", "")
    assert baseline_beside(replace(ALONE, baseline_name="cublas")) == ""  # it failed
    assert baseline_beside(replace(ALONE, baseline=Samples((1.0,)), baseline_name="cublas")) == "cublas"
    assert baseline_beside(replace(ALONE, baseline=Samples((1.0,)))) == "the baseline"


@pytest.mark.parametrize(
    ("names", "common"),
    [(["a", "a"], "a"), (["a"], "a"), ([], ""), (["a", ""], ""), (["", "a"], ""), (["a", "b"], ""), ([""], "")],
)
def test_one_baseline_must_be_beside_all(names, common):
    assert common_baseline(names) == common


def test_a_common_clock_cancels():
    assert standing(50.0, 2.0) == standing(100.0, 1.0)
