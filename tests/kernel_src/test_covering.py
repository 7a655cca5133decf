"""The cases that the gate runs have every pair of values that all cases have."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from covering import cover, gated, pairs
from hypothesis import given
from hypothesis import strategies as st


def covered(cases):
    return [cases[position] for position in cover([pairs(*case) for case in cases])]


@given(st.lists(st.integers(1, 5), min_size=2, max_size=4))
def test_every_pair_of_values_of_two_axes_still_appears(sizes):
    chosen = covered(list(product(*map(range, sizes))))
    for first, second in combinations(range(len(sizes)), 2):
        every = set(product(range(sizes[first]), range(sizes[second])))
        assert {(case[first], case[second]) for case in chosen} == every


@given(st.lists(st.frozensets(st.integers(0, 20)), max_size=20))
def test_no_feature_is_lost_and_no_case_is_chosen_for_nothing(cases):
    chosen = cover(cases)
    assert frozenset().union(*(cases[position] for position in chosen)) == frozenset().union(*cases)
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= len(frozenset().union(*cases))


@pytest.mark.parametrize(("sizes", "most"), [((4, 4, 4), 20), ((31, 2, 2, 2), 62), ((2,) * 6, 8), ((9, 3, 3, 2), 27)])
def test_few_cases_are_chosen(sizes, most):
    """As many as the two longest axes need, or nearly so."""
    assert len(covered(list(product(*map(range, sizes))))) <= most


def test_other_cases_are_thorough():
    cases = gated(product(("nn", "tt"), (1, 2), ((3, "x"),)), lambda layout, *_: {layout})
    assert [case.id for case in cases] == ["nn-1-3/x", "nn-2-3/x", "tt-1-3/x", "tt-2-3/x"]
    in_gate = [case.values[0] for case in cases if not case.marks]
    assert in_gate == ["nn", "tt"]
    assert {mark.name for case in cases for mark in case.marks} == {"thorough"}
