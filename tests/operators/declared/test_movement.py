"""Functions that move elements: bounds move with their values."""

from __future__ import annotations

import numpy as np
import pytest

from lab.operators.declared import movement
from lab.operators.declared.elements import SINGLE
from lab.operators.declared.tracked import ArrayOperationError, Rules, Tracked

RULES = Rules(SINGLE)
X = np.arange(12.0).reshape(3, 4)
A = Tracked(X, X / 100)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: movement.transpose(RULES, a),
        lambda a: movement.swapaxes(RULES, a, 0, 1),
        lambda a: movement.moveaxis(RULES, a, 0, 1),
        lambda a: movement.reshape(RULES, a, (2, -1)),
        lambda a: movement.ravel(RULES, a),
        lambda a: movement.squeeze(RULES, movement.expand_dims(RULES, a, 1)),
        lambda a: movement.flip(RULES, a, 1),
        lambda a: movement.roll(RULES, a, 5),
        lambda a: movement.repeat(RULES, a, 3, 0),
        lambda a: movement.tile(RULES, a, (2, 1)),
        lambda a: movement.pad(RULES, a, 1, "reflect"),
        lambda a: movement.concatenate(RULES, (a, a), 1),
        lambda a: movement.stack(RULES, (a, a), 2),
        lambda a: movement.take(RULES, a, Tracked(np.array([[3, 1]]))),
        lambda a: movement.take_along_axis(RULES, a, Tracked(np.array([[3], [1], [0]])), 1),
        lambda a: movement.tril(RULES, a),
        lambda a: movement.diagonal(RULES, a, 1),
        lambda a: movement.item(RULES, a, (slice(1, None), None, np.array([0, 2]))),
    ],
)
def test_the_bound_moves_with_its_value(function):
    found = function(A)
    np.testing.assert_allclose(found.bound, found.values / 100)
    assert function(Tracked(X)).bound is None


def test_what_is_added_around_is_exact():
    found = movement.pad(RULES, A, ((0, 1), (0, 0)), constant_values=7)
    assert found.values[3].tolist() == [7] * 4
    assert found.bound[3].tolist() == [0] * 4


def test_sorting_may_exchange_what_is_close():
    assert movement.sort(RULES, A, 1).bound[:, 0].tolist() == (X / 100).max(axis=1).tolist()
    with pytest.raises(ArrayOperationError, match="rounded"):
        movement.argsort(RULES, A)


def test_differences_along_an_axis():
    np.testing.assert_allclose(movement.diff(RULES, A, 0).values, np.diff(X, axis=0))


def test_conversions_are_those_of_c():
    x = Tracked(np.array([2.7, -2.7, 300.0]))
    assert movement.astype(RULES, x, "int32").values.tolist() == [2, -2, 300]
    assert movement.converter("uint8")(RULES, x).values.tolist() == [2, 254, 44]
    assert movement.astype(RULES, Tracked(np.array([2.0**63])), "uint64").values.tolist() == [2**63]
    half = movement.astype(RULES, Tracked(np.array([1.0001]), np.array([1e-6])), "float16")
    assert half.values.tolist() == [1.0]
    assert half.bound[0] > 2.0**-11
    with pytest.raises(ArrayOperationError, match="complex"):
        movement.astype(RULES, Tracked(np.array([1j])), "float32")


def test_a_place_among_sorted_values():
    found = movement.searchsorted(RULES, Tracked(np.array([1.0, 2.0])), Tracked(np.array([0.5, 2.0])), "right")
    assert found.values.tolist() == [0, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda: movement.broadcast_to(RULES, A, (2**20, 3, 4, 2**10)),
        lambda: movement.eye(RULES, 2**20),
        lambda: movement.linspace(RULES, 0, 1, 2**40),
        lambda: movement.zeros(RULES, (-1,)),
        lambda: movement.item(RULES, A, (np.broadcast_to(np.zeros(1, np.int64), (2**15, 2**15)), slice(None))),
    ],
)
def test_what_exhausts_the_machine_is_refused(call):
    with pytest.raises(ArrayOperationError):
        call()
