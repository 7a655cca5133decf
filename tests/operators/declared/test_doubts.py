"""NaN and infinity out of finite inputs."""

from __future__ import annotations

import numpy as np
import pytest

from lab.operators.builtin import operator
from lab.operators.declared.declaration import declare
from lab.operators.declared.elements import ELEMENT_TYPES

ARGUMENTS = {"y": "out float32[n, 4]", "x": "float32[n, 4]", "n": "int32", "s": "float32 = 1"}


def doubted(folder, change=None, arguments=(), reference=None, tolerance=None, x=None):
    declaration, mistakes = declare(
        "k",
        arguments={**ARGUMENTS, **dict(arguments)},
        reference=reference,
        tolerance=tolerance,
        folder=folder,
        problem=["n"],
        parameters=(),
    )
    assert mistakes == ()
    computed = operator(declaration.reference)
    problem = computed.problem({"n": 3})
    host_inputs = computed.inputs(problem, 0)
    if x is not None:
        host_inputs.arrays["x"][5] = x
    element = ELEMENT_TYPES[declaration.argument["y"].dtype]
    outputs = {"y": element.stored(np.ones(12))}
    if change is not None:
        change(outputs["y"], element)
    return computed.doubts(problem, host_inputs, outputs)


def with_nan(y, element):
    y[6:8] = element.stored(np.full(2, np.nan))


def with_infinity(y, element):
    y[3] = element.stored(np.array([-np.inf]))[0]


def with_poison(y, element):
    y[6:] = element.poison(6)


def test_finite_outputs_are_not_doubted(tmp_path):
    assert doubted(tmp_path) == ()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_nan_out_of_finite_inputs_is_counted_and_placed(dtype, tmp_path):
    (sentence,) = doubted(tmp_path, with_nan, {"y": f"out {dtype}[n, 4]"})
    assert sentence.startswith("2 of 12 elements of y are NaN")
    assert sentence.endswith("y[1, 2]")


def test_infinity_is_doubted_where_there_is_no_reference(tmp_path):
    (sentence,) = doubted(tmp_path, with_infinity)
    assert sentence.startswith("1 of 12 elements of y is infinite")
    assert "y[0, 3]" in sentence
    assert doubted(tmp_path, with_infinity, reference={"y": "x"}) == ()


def test_nan_is_doubted_with_a_reference_too(tmp_path):
    (sentence,) = doubted(tmp_path, with_nan, reference={"y": "log(x)"})
    assert "reference" in sentence
    assert "2 of 12" in sentence


@pytest.mark.parametrize("x", [np.nan, np.inf])
def test_inputs_that_are_not_finite_excuse_outputs(x, tmp_path):
    assert doubted(tmp_path, with_nan, x=x) == ()


def test_a_scalar_that_is_not_finite_excuses_outputs(tmp_path):
    assert doubted(tmp_path, with_nan, {"s": "float32 = 1e39"}) == ()


def test_poison_is_not_counted(tmp_path):
    assert doubted(tmp_path, with_poison, {"y": "out partial float32[n, 4]"}) == ()


def test_outputs_that_do_not_matter_are_left_out(tmp_path):
    assert doubted(tmp_path, with_nan, tolerance={"y": {"absolute": float("inf")}}) == ()


def test_integers_have_no_nan(tmp_path):
    assert doubted(tmp_path, arguments={"y": "out int32[n, 4]"}) == ()
