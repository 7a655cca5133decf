"""Calls in references at chosen elements; `test_restricted` compares their values with those of the whole."""

import numpy as np
import pytest

from lab.base import parser, syntax
from lab.operators.declared import calls
from lab.operators.declared.budget import UnrestrictedError, WorkBudgetError
from lab.operators.declared.elements import ELEMENT_TYPES, SINGLE
from lab.operators.declared.functions import ARRAY_FUNCTIONS
from lab.operators.declared.origins import ORIGINS
from lab.operators.declared.restricted import NamedArray, Restriction
from lab.operators.declared.tracked import Rules
from lab.operators.indexed import PAGE, PagedArray

LONG = 1 << 31


def restriction(**shapes):
    def named(shape):
        source = PagedArray(np.dtype(np.float32), int(np.prod(shape)), lambda number: np.full(PAGE, number, np.float32))
        return NamedArray(source, shape, ELEMENT_TYPES["float32"])

    rules = Rules(SINGLE)
    return Restriction({name: named(shape) for name, shape in shapes.items()}, {"n": rules.literal(LONG)}, rules)


def call_of(text):
    part = parser.parse(text)
    assert isinstance(part, syntax.Application)
    return part


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("where(x > 0, x, 1)", (LONG,)),
        ("reshape(x, (2, -1))", (2, LONG // 2)),
        ("sum(a, axis=1, keepdims=True)", (LONG, 1)),
        ("matmul(a, transpose(a[:4]))", (LONG, 4)),
        ("concatenate([x, x[1:]])", (2 * LONG - 1,)),
        ("pad(x, (1, 2))", (LONG + 3,)),
        ("cumsum(a)", (8 * LONG,)),
        ("take(a, [[1, 2], [3, 4]], axis=0)", (2, 2, 8)),
        ("arange(0, n, 2)", (LONG // 2,)),
    ],
)
def test_shapes_are_known_before_anything_is_evaluated(text, shape):
    assert calls.shape_of(restriction(x=(LONG,), a=(LONG, 8)), call_of(text)) == shape


@pytest.mark.parametrize("text", ["bincount(x)", "searchsorted(x, x)", "correlate(x, x)", "take_along_axis(x, x, 0)"])
def test_functions_that_need_everything_are_not_restricted(text):
    with pytest.raises(UnrestrictedError):
        calls.shape_of(restriction(x=(LONG,)), call_of(text))


def test_long_axes_cost_too_much_before_they_are_made():
    with pytest.raises(WorkBudgetError):
        calls.rewritten(restriction(x=(LONG,)), call_of("cumsum(x)"), (np.arange(3),))


def test_every_function_is_restricted_or_known_not_to_be():
    unrestricted = {
        "linspace", "convolve", "correlate", "correlate2d", "bincount", "searchsorted", "trace", "take_along_axis",
    }  # fmt: skip
    known = {*calls._OF_ELEMENTS, *calls._REDUCING, *ORIGINS, *calls._VALUES}
    assert set(calls._VALUES) == set(calls._SHAPES)
    assert ARRAY_FUNCTIONS.keys() - known == unrestricted
