"""Tolerances in a user's own words."""

from __future__ import annotations

import numpy as np
import pytest

from lab.operators.declared.declaration import Declaration, declare
from lab.operators.declared.tolerance import Tolerance


def test_a_relative_tolerance_allows_small_values_the_typical_size():
    bound = Tolerance(1e-3).bound(np.array([3.0, -4.0, 0.0]))
    typical = np.sqrt(25 / 3)
    assert bound == pytest.approx([3e-3, 4e-3, 1e-3 * typical])


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
    assert [one.key for one in mistakes] == ["tolerance.c"]
    assert "absolute" in mistakes[0].accepted
