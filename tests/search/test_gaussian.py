"""The Gaussian process: it passes through what it was told, is unsure elsewhere, and its derivatives are right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from lab.search import gaussian
from lab.search.gaussian import Fitted, condition, fit

RNG = np.random.default_rng(0)
X = RNG.random((30, 3))
Y = np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] ** 2
NONE = np.zeros(30)


def test_it_knows_what_it_was_told_and_little_of_what_is_far():
    fitted = Fitted(np.array([0.3, 0.3, 0.3]), 1.0, 1e-3)
    process = condition(fitted, X, Y, NONE)
    mean, deviation = process.expected(X, NONE)
    assert np.abs(mean - Y).max() < 0.01
    assert deviation.max() < 0.01
    far, unsure = process.expected(np.full((1, 3), 5.0), np.zeros(1))
    assert unsure[0] == pytest.approx(1.0, abs=1e-6)
    assert far[0] == pytest.approx(process.mean)


def test_a_fit_finds_the_axis_that_does_not_matter_and_predicts_better():
    start = Fitted.at_first(3)
    fitted = fit(start, X, Y, NONE)
    assert fitted.lengths[2] > 2 * fitted.lengths[0]
    new = RNG.random((50, 3))
    truth = np.sin(3 * new[:, 0]) + 0.5 * new[:, 1] ** 2

    def error(one):
        return np.abs(condition(one, X, Y, NONE).expected(new, np.zeros(50))[0] - truth).mean()

    assert error(fitted) < 0.7 * error(start)


def test_derivatives_agree_with_differences(monkeypatch):
    captured = {}

    def keep(function, begin, **_):
        captured["function"], captured["begin"] = function, begin
        return type("Found", (), {"x": begin})

    monkeypatch.setattr(gaussian, "minimize", keep)
    lean = RNG.normal(size=30) * 0.3
    fit(Fitted(np.array([0.4, 0.7, 1.5]), 0.6, 0.05), X, Y, lean)
    value, gradient = captured["function"](captured["begin"])
    assert np.isfinite(value)
    numeric = approx_fprime(captured["begin"], lambda logs: captured["function"](logs)[0], 1e-6)
    assert np.allclose(gradient, numeric, rtol=1e-3, atol=1e-3)


def test_a_prior_that_is_right_leaves_nothing_to_learn():
    process = condition(Fitted(np.full(3, 0.5), 0.3, 0.01), X[:3], Y[:3], Y[:3])
    mean, _ = process.expected(X, Y)
    assert np.abs(mean - Y).max() < 1e-6


def test_likeness_is_1_for_equal_points_and_falls():
    process = condition(Fitted(np.full(3, 0.5), 0.3, 0.01), X[:3], Y[:3], NONE[:3])
    alike = process.alike(X[:3], X[:3])
    assert np.allclose(np.diag(alike), 1)
    assert process.alike(X[:1], X[:1] + 10)[0, 0] < 1e-6
