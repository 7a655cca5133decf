"""Figures of the user's own, at times that can be worked out by hand."""

from __future__ import annotations

import pytest

from lab.measured.metrics import DeclaredFigure, DeclaredRate


def test_a_rate_is_an_amount_over_the_time() -> None:
    blocks = DeclaredRate("blocks/ns", 1e-3)
    assert blocks.rate(0.5) == pytest.approx(2.0)
    assert blocks.rate(0.0) == 0.0


def test_a_figure_is_an_expression_over_seconds_in_its_unit() -> None:
    assert DeclaredFigure("ms", "1000 * time", {}).value(0.25) == pytest.approx(0.25)
    assert DeclaredFigure("GB/s", "12 * n / time", {"n": 10**9}, 1e9).value(2000.0) == pytest.approx(6.0)
    assert DeclaredFigure("blocks", "n / 2", {"n": 7}).value(1.0) == 3.5


@pytest.mark.parametrize("expression", ["1 / (time - 1)", "sqrt(time - 2)", "m / time", "n /", "'fast'", "n > 1"])
def test_what_has_no_number_is_an_empty_cell(expression: str) -> None:
    """As a record from another version, or from a stranger, may have it."""
    assert DeclaredFigure("x", expression, {"n": 3}).value(1000.0) is None
