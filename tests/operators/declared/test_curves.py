"""Functions of single elements: single precision, and CUDA's fast intrinsics, stay within their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from lab.operators.declared import curves
from lab.operators.declared.elements import SINGLE
from lab.operators.declared.tracked import Rules, Tracked

RULES = Rules(SINGLE)
ROOM = 2
DOMAIN = {"arcsin": (-1, 1), "arccos": (-1, 1), "arctanh": (-0.99, 0.99), "arccosh": (1, 50), "log1p": (-0.9, 20)}
POSITIVE = {"sqrt", "rsqrt", "log", "log2", "log10"}


def operand(name):
    low, high = DOMAIN.get(name, (1e-3, 50) if name in POSITIVE else (-20, 20))
    return np.random.default_rng(0).uniform(low, high, 20000).astype(np.float32)


@pytest.mark.parametrize("name", curves.MONOTONE)
def test_single_precision_stays_within_the_bound(name):
    x = operand(name)
    curve = curves.MONOTONE[name]
    found = curve(RULES, Tracked(x.astype(np.float64)))
    single = curve.function(x).astype(np.float32)
    assert np.all(np.abs(single - found.values) <= ROOM * found.bound)


@pytest.mark.parametrize("name", curves.MONOTONE)
def test_the_error_of_an_operand_is_carried_along(name):
    x = operand(name).astype(np.float64)
    error = np.full(x.shape, 1e-4)
    found = curves.MONOTONE[name](RULES, Tracked(x, error))
    for sign in (-1, 1):
        with np.errstate(all="ignore"):
            moved = curves.MONOTONE[name].function(x + sign * error)
        assert np.all((np.abs(moved - found.values) <= found.bound * (1 + 1e-9)) | np.isnan(moved))


@pytest.mark.parametrize(
    ("name", "fast"),
    [
        # the largest errors that the programming guide gives for the intrinsics, on the side where they hurt
        ("exp", lambda x, y: y * (1 + (2 + np.floor(np.abs(1.173 * x))) * 2.0**-23)),
        (
            "log",
            lambda x, y: np.where((x >= 0.5) & (x <= 2), y + 2.0**-21.41, y + 3 * np.spacing(y.astype(np.float32))),
        ),
        ("log2", lambda x, y: np.where((x >= 0.5) & (x <= 2), y + 2.0**-22, y + 2 * np.spacing(y.astype(np.float32)))),
        ("rsqrt", lambda x, y: y * (1 + 2.0**-22)),
    ],
)
def test_fast_intrinsics_stay_within_the_bound(name, fast):
    x = operand(name).astype(np.float64)
    found = curves.MONOTONE[name](RULES, Tracked(x))
    assert np.all(np.abs(fast(x, found.values) - found.values) <= ROOM * found.bound)


@pytest.mark.parametrize(("function", "exact"), [(curves.sine, np.sin), (curves.cosine, np.cos)])
def test_waves(function, exact):
    x = np.random.default_rng(0).uniform(-np.pi, np.pi, 9999).astype(np.float32)
    found = function(RULES, Tracked(x.astype(np.float64)))
    assert np.all(np.abs(exact(x) - found.values) <= ROOM * found.bound)
    assert found.bound.min() > 2.0**-21.41 / ROOM
    assert found.bound.max() < 2e-6
    assert function(RULES, Tracked(np.zeros(1), np.full(1, 100.0))).bound.max() < 2.1


def test_functions_of_two_operands():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 5000)).astype(np.float32)
    wide = [Tracked(one.astype(np.float64)) for one in (x, y)]
    for function, single in ((curves.hypotenuse, np.hypot), (curves.arctangent2, np.arctan2)):
        found = function(RULES, *wide)
        assert np.all(np.abs(single(x, y) - found.values) <= ROOM * found.bound)


def test_remainders_have_the_sign_that_c_gives_them():
    a, b = Tracked(np.array([-7, 7, -7])), Tracked(np.array([3, -3, -3]))
    assert curves.remainder(RULES, a, b).values.tolist() == np.fmod([-7, 7, -7], [3, -3, -3]).tolist()


def test_rounding_and_signs_of_integers_change_nothing():
    x = Tracked(np.array([-3, 0, 5]))
    assert curves.rounding(np.floor)(RULES, x) is x
    assert curves.sign(RULES, x).values.tolist() == [-1, 0, 1]
    assert curves.magnitude(RULES, x).values.tolist() == [3, 0, 5]


def test_tests_of_special_values():
    x = Tracked(np.array([1.0, np.nan, np.inf]))
    assert curves.is_nan(RULES, x).values.tolist() == [False, True, False]
    assert curves.is_infinite(RULES, x).values.tolist() == [False, False, True]
    assert curves.is_finite(RULES, x).values.tolist() == [True, False, False]


def test_even_and_complex_functions():
    x = Tracked(np.linspace(-9, 9, 99))
    np.testing.assert_allclose(curves.hyperbolic_cosine(RULES, x).values, np.cosh(x.values))
    np.testing.assert_allclose(curves.tangent(RULES, x).values, np.tan(x.values))
    z = Tracked(np.array([1 + 2j]))
    assert curves.exponential(RULES, z).values[0] == np.exp(1 + 2j)
    assert special.erf(0) == 0
