"""Arithmetic on arrays with bounds: types, doubt, and the room that orders of operations need."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lab.operators.declared.elements import SINGLE
from lab.operators.declared.tracked import ArrayOperationError, Rules, Tracked, between

RULES = Rules(SINGLE)
U = 2.0**-24


def rounded(*values, by=1e-3):
    return Tracked(np.array(values), np.full(len(values), by))


def whole(*values, dtype=np.int64):
    return Tracked(np.array(values, dtype))


def test_integers_wrap_around_at_64_bits_and_stay_exact():
    product = RULES.multiply(whole(2**62, -3), whole(4, 5))
    assert product.values.tolist() == [0, -15]
    assert product.bound is None
    assert RULES.add(whole(2**64 - 1, dtype=np.uint64), whole(1)).values.tolist() == [0]


def test_unsigned_integers_are_compared_as_they_are():
    assert RULES.compare(whole(2**64 - 1, dtype=np.uint64), whole(-1), np.greater).values.tolist() == [True]


def test_an_integer_that_a_float_does_not_hold_is_rounded():
    assert RULES.real(whole(2**24)).bound is None
    assert RULES.real(whole(2**24 + 1)).bound.max() > 0.9


def test_a_literal_is_rounded_where_the_kernels_type_does_not_hold_it():
    assert RULES.literal(0.5).bound is None
    assert RULES.literal(0.1).bound == pytest.approx(0.1 * U)
    assert RULES.literal(7).bound is None


def test_the_bound_of_a_sum_holds_for_every_order():
    rng = np.random.default_rng(1)
    terms = rng.standard_normal((3, 20000)).astype(np.float32)
    a, b, c = (Tracked(term.astype(np.float64)) for term in terms)
    found = RULES.add(RULES.add(a, b), c)
    for x, y, z in itertools.permutations(terms):
        assert np.all(np.abs((x + y) + z - found.values) <= 2 * found.bound)


def test_errors_of_operands_are_carried_along():
    product = RULES.multiply(rounded(2.0), Tracked(np.array([3.0])))
    assert product.bound[0] == pytest.approx(3e-3, rel=1e-3)
    quotient = RULES.divide(rounded(2.0), rounded(4.0))
    assert quotient.bound[0] == pytest.approx((1e-3 + 0.5e-3) / (4 - 1e-3), rel=1e-3)
    assert RULES.divide(rounded(2.0), rounded(1e-4)).bound[0] == np.inf


def test_a_comparison_within_the_errors_may_have_either_result():
    doubtful = RULES.compare(rounded(1.0, 2.0), Tracked(np.array(1.0005)), np.less)
    assert doubtful.values.tolist() == [True, False]
    assert doubtful.bound.tolist() == [1.0, 0.0]
    chosen = RULES.where(doubtful, Tracked(np.array([5.0, 5.0])), Tracked(np.array([1.0, 1.0])))
    assert chosen.values.tolist() == [5.0, 1.0]
    assert chosen.bound.tolist() == [4.0, 0.0]
    assert RULES.compare(rounded(1.0), Tracked(np.array(1.1)), np.less).bound is None


def test_a_monotone_step_is_off_by_one_next_to_an_edge():
    found = between(np.floor, rounded(0.9995, 1.5, 2.0))
    assert found.values.tolist() == [0, 1, 2]
    assert found.bound.tolist() == [1, 0, 1]


def test_whole_numbers_are_added_and_multiplied_without_rounding():
    """Else `int32(floor(x) + 8)` could be anything next to its value."""
    steps = between(np.floor, rounded(0.5, 1.9999, by=1e-3))
    shifted = RULES.add(steps, Tracked(np.asarray(8)))
    assert shifted.values.tolist() == [8, 9]
    assert shifted.bound.tolist() == [0, 1]
    assert RULES.multiply(steps, Tracked(np.asarray(3.0))).bound.tolist() == [0, 3]
    large = Tracked(np.array([2.0**24]))
    assert RULES.add(large, Tracked(np.array([1.0]))).bound[0] > 1


def test_a_remainder_next_to_its_edge_may_be_anything_in_its_range():
    found = RULES.modulo(rounded(2.9999, 1.5), Tracked(np.array(3.0)))
    assert found.bound[0] > 3
    assert found.bound[1] < 2e-3


@pytest.mark.parametrize("exponent", [0.5, 3.0, -1.5])
def test_a_power_stays_within_its_bound_in_single_precision(exponent):
    x = (np.random.default_rng(0).random(5000) * 50).astype(np.float32)
    found = RULES.power(Tracked(x.astype(np.float64)), Tracked(np.asarray(exponent)))
    fast = np.exp2(np.float32(exponent) * np.log2(x))  # what --use_fast_math makes of powf
    for single in (x ** np.float32(exponent), fast):
        assert np.all(np.abs(single - found.values) <= 2 * found.bound)


def test_what_exhausts_the_machine_is_refused():
    column = Tracked(np.broadcast_to(np.zeros(1), (100_000, 1)))
    row = Tracked(np.broadcast_to(np.zeros(1), (1, 100_000)))
    with pytest.raises(ArrayOperationError, match="100000 x 100000"):
        RULES.add(column, row)
    with pytest.raises(ArrayOperationError, match="multiplications"):
        RULES.check_work(2**50, 2**40)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda: RULES.power(whole(2), whole(-1)), "negative power"),
        (lambda: RULES.shift(whole(1), whole(-1), np.left_shift), "too many places"),
        (lambda: RULES.floor_divide(whole(1), whole(0)), "0"),
        (lambda: RULES.literal(2**64), "too large"),
        (lambda: RULES.bits(rounded(1.0), whole(1), np.bitwise_and), "of floats"),
    ],
)
def test_operations_without_a_value_are_refused(operation, message):
    with pytest.raises(ArrayOperationError, match=message):
        operation()
