"""Comparisons: what is right passes, one wrong element fails and is named."""

from __future__ import annotations

import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.operators.declared import judging
from lab.operators.declared.elements import ELEMENT_TYPES, ElementKind
from lab.operators.declared.judging import Unwritten
from lab.operators.declared.tolerance import Tolerance
from lab.operators.declared.tracked import Rules, Tracked

FLOATS = ["float16", "bfloat16", "float32", "float64"]


def expected(dtype, values, bound=None, tolerance=None, shape=None):
    element = ELEMENT_TYPES[dtype]
    values = np.asarray(values)
    rules = Rules(element.arithmetic)
    reference = Tracked(values, None if bound is None else np.broadcast_to(np.asarray(bound, float), values.shape))
    return judging.expected(
        "c",
        element,
        values.shape if shape is None else shape,
        reference,
        tolerance=None if tolerance is None else Tolerance(tolerance),
        rules=rules,
    )


def judged(dtype, reference, got):
    element = ELEMENT_TYPES[dtype]
    stored = got if np.asarray(got).dtype == element.dtype else element.stored(np.asarray(got))
    return judging.compare("c", element, reference, stored, Unwritten.POISON)


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_exact_values_must_be_right(dtype):
    values = np.array([[0, 1, 0], [1, 1, 0]])
    wide = values.astype(ELEMENT_TYPES[dtype].wide)
    reference = expected(dtype, wide)
    assert judged(dtype, reference, wide) == (0.0, "")
    wide[1, 1] = 0
    error, words = judged(dtype, reference, wide)
    assert error > 1
    assert words == "c[1, 1]: got 0, expected 1; 1 of 6 elements are wrong" or words.startswith("c[1, 1]: got 0")


def test_a_nan_that_was_written_is_shown():
    element = ELEMENT_TYPES["float16"]
    reference = expected("float16", np.ones(8, element.wide))
    stored = element.stored(np.full(8, np.nan))
    assert judging.compare("c", element, reference, stored, Unwritten.POISON)[1].startswith("c[0]: got nan, expected 1")


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_what_was_not_written_is_said_so(dtype):
    element = ELEMENT_TYPES[dtype]
    reference = expected(dtype, np.ones(8, element.wide))
    stored = element.poison(8)
    stored[:5] = element.stored(np.ones(5))
    error, words = judging.compare("c", element, reference, stored, Unwritten.POISON)
    assert error > 1
    assert words.startswith("c[5]: got nothing: it was not written, expected 1")
    assert "3 of 8 elements are wrong" in words


@pytest.mark.parametrize("dtype", FLOATS)
def test_poison_is_wrong_where_nan_is_expected(dtype):
    element = ELEMENT_TYPES[dtype]
    reference = expected(dtype, np.array([1.0, np.nan, np.nan]))
    stored = element.stored(np.array([1.0, np.nan, np.nan]))
    assert judged(dtype, reference, stored)[0] == 0
    stored[2:] = element.poison(1)
    error, words = judged(dtype, reference, stored)
    assert error == np.inf
    assert words.startswith("c[2]: got nothing: it was not written")
    assert judging.laid_out(reference, Unwritten.POISON) is None  # the device takes any NaN for another


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_what_a_partial_output_leaves_out_is_not_compared(dtype):
    element = ELEMENT_TYPES[dtype]
    reference = expected(dtype, np.ones(8, element.wide))
    stored = element.poison(8)
    stored[:5] = element.stored(np.ones(5))
    assert judging.compare("c", element, reference, stored, Unwritten.PARTIAL)[0] == 0
    assert judging.laid_out(reference, Unwritten.PARTIAL) is None
    stored[4] = 0
    error, words = judging.compare("c", element, reference, stored, Unwritten.PARTIAL)
    assert error > 1
    assert words.startswith("c[4]: got 0")


def test_an_integer_may_be_the_poisons_bytes_where_that_is_expected():
    value = int(ELEMENT_TYPES["int32"].poison(1)[0])
    assert judged("int32", expected("int32", np.array([value])), np.array([value], np.int32))[0] == 0


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_nothing_is_expected_where_another_variant_wrote_nothing(dtype):
    element = ELEMENT_TYPES[dtype]
    got = element.stored(np.ones(8))
    got[5:] = element.poison(3)
    reference = judging.from_outputs(element, (8,), got, judging.unanalysed(element, 8))
    assert judging.compare("c", element, reference, element.stored(np.ones(8)), Unwritten.POISON)[0] == 0
    itself = judging.compare("c", element, reference, got, Unwritten.POISON)
    assert (itself[0] > 1) == element.has_certain_poison
    assert not element.has_certain_poison or "it was not written" in itself[1]


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_storing_of_coarse_types_is_within_the_bound(dtype):
    element = ELEMENT_TYPES[dtype]
    values = np.random.default_rng(0).standard_normal(4000)
    reference = expected(dtype, values, np.abs(values) * element.arithmetic.unit)
    assert judged(dtype, reference, values)[0] <= 1
    off = values.copy()
    off[7] *= 1 + 5 * element.storing.unit
    assert judged(dtype, reference, off)[0] > 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values_must_stand_where_the_reference_has_them(dtype):
    values = np.array([np.nan, np.inf, -np.inf, 1.0])
    reference = expected(dtype, values, 1e-6)
    assert judged(dtype, reference, values)[0] == 0
    for place, wrong in ((0, 1.0), (1, -np.inf), (1, 5.0), (2, np.nan), (3, np.nan), (3, np.inf)):
        got = values.copy()
        got[place] = wrong
        assert judged(dtype, reference, got)[0] == np.inf, (place, wrong)


def test_a_float16_overflows_where_the_reference_does():
    values = np.ones(50)
    values[:2] = 7e4, 65519.0
    reference = expected("float16", values, np.where(values > 1, 30.0, 0.0))
    for first, second, right in ((np.inf, np.inf, True), (np.inf, 65504, True), (65504, 65504, False)):
        got = np.array([first, second, *values[2:]], np.float16)
        assert (judged("float16", reference, got)[0] <= 1) == right


def test_integers_at_the_ends_of_their_type():
    reference = expected("int32", np.array([-(2**31), 2**31 - 1]))
    assert judged("int32", reference, np.array([-(2**31), 2**31 - 1], np.int32)) == (0.0, "")
    assert judged("int32", reference, np.array([2**31 - 1, -(2**31)], np.int32))[0] > 1e9
    large = expected("int64", np.array([2**62 + 1]))
    assert judged("int64", large, np.array([2**62], np.int64))[0] > 1


def test_integers_with_a_bound_may_be_off_by_it():
    reference = expected("int32", np.array([3, 4]), [1.0, 0.0])
    assert judged("int32", reference, np.array([4, 4]))[0] <= 1
    assert judged("int32", reference, np.array([3, 5]))[0] > 1


def test_a_bool_other_than_0_and_1_is_wrong():
    reference = expected("bool", np.array([True, False]))
    assert judged("bool", reference, np.array([2, 0], np.uint8).view(np.bool_))[0] > 1


def test_a_float_reference_of_an_integer_output_is_cut_off_as_in_c():
    assert expected("int32", np.array([2.9, -2.9])).held.tolist() == [2, -2]


def test_complex_numbers_are_compared_in_the_plane():
    reference = expected("complex64", np.array([1 + 1j, 2.0]), [1e-3, 1e-3])
    assert judged("complex64", reference, np.array([1.001 + 1j, 2 + 0.001j]))[0] <= 1
    assert judged("complex64", reference, np.array([1 + 1j, 2 + 0.01j]))[0] > 1
    assert ELEMENT_TYPES["complex64"].kind is ElementKind.COMPLEX


def test_a_tolerance_of_the_users_own():
    reference = expected("float32", [1.0, 100.0, 0.0], bound=0.0, tolerance=1e-2)
    assert judged("float32", reference, np.array([1.3, 100.9, 0.4]))[0] <= 1  # the root mean square is 57.7
    assert judged("float32", reference, np.array([1.0, 102.0, 0.0]))[0] > 1
    assert judged("float32", reference, np.array([1.0, 100.0, 0.6]))[0] > 1


def test_a_number_stands_for_every_element():
    reference = expected("float32", np.float64(3), shape=(2, 3))
    assert reference.held.shape == (2, 3)
    assert judged("float32", reference, np.full(6, 3))[0] == 0


def test_shapes_that_do_not_fit_are_both_named():
    with pytest.raises(UserError, check=coded("mismatch", key="reference.c")):
        expected("float32", np.ones((2, 2)), shape=(4,))


def test_a_complex_reference_of_a_real_output_is_refused():
    with pytest.raises(UserError, check=coded("mismatch", key="reference.c")):
        expected("float32", np.array([1j]))


def test_a_bound_that_says_nothing_is_refused():
    with pytest.raises(UserError) as caught:
        expected("float32", np.ones(4), [np.inf, np.inf, 0, 0])
    assert "50% of the elements of c" in caught.value.message
    assert "tolerance" in str(caught.value.accepted)
    assert expected("float32", np.ones(4), [np.inf, np.inf, 0, 0], tolerance=1e-3).scale.max() == pytest.approx(1e-3)


def test_another_variants_output_as_the_reference():
    element = ELEMENT_TYPES["float32"]
    got = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    tolerance = judging.unanalysed(element, 1000)
    reference = judging.from_outputs(element, (10, 100), got, tolerance)
    assert judging.compare("c", element, reference, got * np.float32(1 + 2e-6), Unwritten.POISON)[0] <= 1
    got[3] += 1e-3
    error, words = judging.compare("c", element, reference, got, Unwritten.POISON)
    assert error > 1
    assert words.startswith("c[0, 3]: ")
    assert judging.unanalysed(ELEMENT_TYPES["int32"], 1000) == Tolerance(0.0)
    assert judging.unanalysed(ELEMENT_TYPES["float16"], 1).relative > 2.0**-11


def test_the_largest_of_many_errors_is_found():
    values = np.zeros(3 * judging._CHUNK + 5)
    reference = expected("float64", values, 1.0)
    got = values.copy()
    got[[3, 2 * judging._CHUNK + 1]] = 7, 9
    error, words = judged("float64", reference, got)
    assert error == pytest.approx(4.5)
    assert words.startswith(f"c[{2 * judging._CHUNK + 1}]")
    assert f"2 of {values.size}" in words


def test_the_form_for_the_device():
    laid = judging.laid_out(expected("float32", np.array([[1.0, np.nan]]), 1e-6), Unwritten.KEPT)
    assert laid.values.shape == (2,)
    assert np.isnan(laid.scale).tolist() == [False, True]
    assert judging.laid_out(expected("float32", np.array([1.0, np.inf]), 1e-6), Unwritten.KEPT) is None


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16", "complex64"])
def test_sorted_outputs_are_multisets(dtype):
    element = ELEMENT_TYPES[dtype]
    values = np.array([3, 1, 2, 2, -5]).astype(element.wide)
    reference = expected(dtype, values)
    for order in ([4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        got = element.stored(values[order])
        assert judging.compare_sorted("c", element, reference, got, Unwritten.POISON)[0] == 0
    for wrong in ([3, 1, 2, 3, -5], [3, 1, 1, 2, -5]):
        got = element.stored(np.array(wrong).astype(element.wide))
        error, words = judging.compare_sorted("c", element, reference, got, Unwritten.POISON)
        assert error > 1
        assert words.startswith("sorted c[")


def test_a_sorted_partial_output_has_as_many_elements_as_its_reference():
    element = ELEMENT_TYPES["float32"]
    reference = expected("float32", np.array([2.0, np.nan, 1.0, np.nan]))
    for count, passes in ((1, False), (2, True), (3, False)):
        got = element.poison(4)
        got[:count] = np.array([1, 2, 3], np.float32)[:count]
        assert (judging.compare_sorted("c", element, reference, got, Unwritten.PARTIAL)[0] <= 1) == passes
        assert judging.compare_sorted("c", element, reference, got, Unwritten.POISON)[0] > 1
