"""Functions of parameters, as expressions that say the same."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistakes import coded

from lab.api.kernel_tuner.tabulated_functions import constraints, expression, literal, preprocessor, tabulated
from lab.base.errors import Location, UserError
from lab.base.expressions import evaluate

SPACE: dict[str, list[Any]] = {"x": [1, 2, 4], "y": [1, 2], "kind": ["a", "b"]}


def value(text, names):
    return evaluate(text, names, at=Location("t"), key="k")


def points(space):
    return (dict(zip(space, values, strict=True)) for values in itertools.product(*space.values()))


def test_a_table_holds_the_parameters_that_are_read():
    table = tabulated(lambda p: p["x"] * p.get("y"), SPACE, "k")
    assert table == {(("x", x), ("y", y)): x * y for x in (1, 2, 4) for y in (1, 2)}
    assert next(iter(tabulated(lambda p: sum(1 for _ in p), SPACE, "k"))) == (("x", 1), ("y", 1), ("kind", "a"))
    assert tabulated(lambda p: 3, SPACE, "k") == {(): 3}


@given(st.lists(st.integers(1, 3), min_size=12, max_size=12))
@settings(max_examples=30)
def test_an_expression_has_the_functions_values(values):
    known = {tuple(point.values()): result for point, result in zip(points(SPACE), values, strict=True)}
    table = tabulated(lambda p: known[p["x"], p["y"], p["kind"]], SPACE, "k")
    text = expression(table, "k")
    assert [value(text, point) for point in points(SPACE)] == values


@given(st.lists(st.booleans(), min_size=12, max_size=12))
@settings(max_examples=30)
def test_constraints_allow_what_the_function_allows(allowed):
    known = {tuple(point.values()): result for point, result in zip(points(SPACE), allowed, strict=True)}
    found = constraints(tabulated(lambda p: known[p["x"], p["y"], p["kind"]], SPACE, "k"), "k")
    assert [all(value(one, point) for one in found) for point in points(SPACE)] == allowed


def test_literals():
    assert [literal(one) for one in (True, 1, 0.5, 'a"b')] == ["true", "1", "0.5", '"a\\"b"']


def test_a_function_that_fails_is_named():
    with pytest.raises(
        UserError, check=coded("user-code", key="grid_div_x", found={"x": 2, "y": 1, "kind": "a"})
    ) as caught:
        tabulated(lambda p: 1 // (p["x"] - 2), SPACE, "grid_div_x")
    assert caught.value.key == "grid_div_x"
    assert "'x': 2" in str(caught.value)


def test_what_becomes_too_long_says_what_to_write_instead():
    space = {"x": list(range(300)), "y": [1, 2]}
    with pytest.raises(UserError, check=coded("out-of-range", key="k")):
        expression(tabulated(lambda p: p["x"] ** 2, space, "k"), "k")
    with pytest.raises(UserError, check=coded("out-of-range", key="k")):
        constraints(tabulated(lambda p: (p["x"] * p["y"]) % 7 == 0, {"x": range(3000), "y": [1, 2]}, "k"), "k")
    with pytest.raises(UserError, check=coded("out-of-range", key="k")):
        tabulated(len, {"x": range(1000), "y": range(1000)}, "k")


def test_texts_become_a_chain_of_conditions():
    text = preprocessor({(("x", 1), ("b", True)): "one", (("x", 2), ("b", True)): "two"}, "k")
    assert text == "#if x == 1 && b == 1\none\n#elif x == 2 && b == 1\ntwo\n#endif"
    assert preprocessor({(("x", 1),): "same", (("x", 2),): "same"}, "k") == "same"
    with pytest.raises(UserError, check=coded("conflict", key="kernel_source", found={"x": 0.5})):
        preprocessor({(("x", 0.5),): "one", (("x", 2),): "two"}, "kernel_source")
