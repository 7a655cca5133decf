"""Tolerances in a user's own words."""

from __future__ import annotations

import numpy as np
import pytest

from lab.operators.declared import judging
from lab.operators.declared.declaration import Declaration, declare
from lab.operators.declared.elements import ELEMENT_TYPES
from lab.operators.declared.tolerance import Tolerance, typical_sizes


def test_a_relative_tolerance_allows_small_values_the_typical_size():
    bound = Tolerance(1e-3).bound(np.array([3.0, -4.0, 0.0]))
    typical = np.sqrt(25 / 3)
    assert bound == pytest.approx([3e-3, 4e-3, 1e-3 * typical])


def sizes(values):
    return typical_sizes(np.abs(np.asarray(values, float)))


@pytest.mark.parametrize("shape", [(40_000,), (40, 1000), (130, 64), (5000, 3), (20, 300)])
def test_among_normal_numbers_it_is_their_deviation(shape):
    values = 7 * np.random.default_rng(0).standard_normal(shape)
    found = sizes(values)
    assert found.shape == shape
    assert 2.5 < found.min() <= found.max() < 11
    assert np.median(found) == pytest.approx(7, rel=0.15)


def test_one_huge_element_does_not_loosen_the_others():
    values = np.random.default_rng(0).standard_normal(1000)
    values[500] = 3e38
    assert sizes(values).max() < 2
    assert sizes([3e38, *np.ones(63)]).max() < 4


def test_rows_are_judged_by_themselves():
    values = np.random.default_rng(0).standard_normal((6, 700)) * 10.0 ** np.arange(0, 60, 10)[:, None]
    assert (sizes(values).max(axis=1) < 2 * 10.0 ** np.arange(0, 60, 10)).all()


def test_where_sizes_span_orders_of_magnitude_it_is_that_of_small_ones():
    x = np.random.default_rng(0).uniform(0, 20, 1003)
    held = np.exp(3 * x)
    bound = judging.unanalysed(ELEMENT_TYPES["float32"], 1003).bound(held)
    assert (bound < held)[(x > 1) & (x < 3)].all()  # so that 0 in place of these is wrong


def test_zeros_do_not_count():
    values = np.maximum(np.random.default_rng(0).standard_normal(10_000), 0)
    assert sizes(values).min() > 0.5
    assert sizes(np.zeros(300)).max() == 0


def test_what_is_not_finite_does_not_count():
    values = np.ones(300)
    values[[3, 299]] = np.nan, np.inf
    assert sizes(values) == pytest.approx(np.ones(300), rel=1e-12)
    assert sizes(np.zeros((3, 0))).shape == (3, 0)


def test_the_last_elements_of_a_row_have_neighbours_before_them():
    values = np.concatenate([np.full(256, 5.0), [1e-9]])
    assert sizes(values)[-1] == pytest.approx(5, rel=0.01)


@pytest.mark.parametrize("k", [16, 1024])
def test_sums_that_cancel_pass(k):
    """A matrix product in float32, by rows that differ by 10^6."""
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((64, k), np.float32), rng.standard_normal((k, 300), np.float32)
    a *= np.logspace(-3, 3, 64, dtype=np.float32)[:, None]
    exact = a.astype(float) @ b
    got = np.zeros(exact.shape, np.float32)
    for i in range(k):
        got += a[:, i : i + 1] * b[i]
    assert np.abs(exact / exact.std(axis=1, keepdims=True)).min() < 1e-3
    allowed = judging.unanalysed(ELEMENT_TYPES["float32"], k).bound(exact)
    assert (np.abs(got - exact) <= allowed).all()
    assert (np.abs(a.astype(float)[:, :-1] @ b[:-1] - exact) > allowed).mean() > 0.9  # without the last term


def test_with_an_absolute_part_it_is_that_of_allclose():
    held = np.array([0.0, 1.0, -100.0])
    bound = Tolerance(1e-5, 1e-6).bound(held)
    assert bound == pytest.approx([1e-6, 1.1e-5, 1.001e-3])
    for sign in (0.99, 1.01):
        assert np.allclose(held + sign * bound, held, rtol=1e-5, atol=1e-6) == (sign < 1)


def declared(tmp_path, tolerance):
    arguments = {"c": "out float32[n]"}
    return declare("k", arguments=arguments, tolerance=tolerance, folder=tmp_path, problem=["n"], parameters=())


def test_both_forms_of_a_file(tmp_path):
    declaration, _ = declared(tmp_path, {"c": {"relative": 1e-5, "absolute": float("inf")}})
    assert dict(declaration.tolerances) == {"c": Tolerance(1e-5, float("inf"))}
    assert Declaration.restored(declaration.reference) == declaration
    declaration, _ = declared(tmp_path, 1e-4)
    assert dict(declaration.tolerances) == {"c": Tolerance(1e-4)}


@pytest.mark.parametrize(
    "wrong", [{}, {"relativ": 1}, {"relative": -1}, {"relative": float("inf")}, {"absolute": True}]
)
def test_a_wrong_mapping_says_what_is_accepted(tmp_path, wrong):
    _, mistakes = declared(tmp_path, {"c": wrong})
    assert [mistake.key for mistake in mistakes] == ["tolerance.c"]
    assert "absolute" in mistakes[0].accepted
