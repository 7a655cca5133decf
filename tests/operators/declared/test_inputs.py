"""Arguments of a launch: values, contents, poison and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.operators.declared.declaration import Declaration, declare
from lab.operators.declared.elements import ELEMENT_TYPES
from lab.operators.declared.inputs import inputs, plan


def made(arguments, problem, folder, seed=0):
    declaration, mistakes = declare(
        "k", arguments={"z": "out float32[1]", **arguments}, folder=folder, problem=problem.keys(), parameters=()
    )
    assert mistakes == ()
    assert declaration is not None
    return inputs(declaration, plan(declaration, problem), seed)


def refused(arguments, problem, folder):
    with pytest.raises(UserError) as caught:
        made(arguments, problem, folder)
    return caught.value


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_default_contents(dtype, tmp_path):
    element = ELEMENT_TYPES[dtype]
    generated = made({"a": f"{dtype}[n, 100]", "b": f"out {dtype}[n]"}, {"n": 100}, tmp_path)
    values = element.widened(generated.arrays["a"])
    assert generated.arrays["a"].shape == (10_000,)
    assert generated.arrays["a"].dtype == element.dtype
    if element.is_exact:
        assert set(np.unique(values)) == set(range(2 if dtype == "bool" else 100))
    else:
        assert abs(values.mean()) < 0.05
        assert np.real(values).std() == pytest.approx(1, abs=0.05)
    assert element.is_poison(generated.arrays["b"]).all()
    assert generated.outputs == ("z", "b")


def test_every_element_of_an_output_is_required(tmp_path):
    arguments = {
        "a": "out float32[n]",
        "b": "out partial {T}[n]",
        "c": "inout float32[n]",
        "d": "out float32[n]",
        "e": "out {T}[n]",
        "x": "float32[n]",
    }
    tolerance = {"a": {"relative": 1e-5, "absolute": 1e-6}, "d": {"absolute": float("inf")}}
    declaration, _ = declare(
        "k", arguments=arguments, tolerance=tolerance, folder=tmp_path, problem=["n", "T"], parameters=()
    )
    assert declaration is not None
    problem: dict[str, Scalar] = {"n": 4, "T": "float"}
    typed = Declaration.restored(declaration.reference).typed(problem)
    made = inputs(typed, plan(typed, problem), 0)
    assert made.outputs == ("a", "b", "c", "d", "e")
    assert made.required == ("a", "e")


def test_contents_depend_on_name_and_seed_alone(tmp_path):
    first = made({"a": "float32[n]", "b": "float32[n]"}, {"n": 50}, tmp_path)
    other = made({"x": "int32[n]", "b": "float32[n]"}, {"n": 50}, tmp_path)
    np.testing.assert_array_equal(first.arrays["b"], other.arrays["b"])
    assert not np.array_equal(first.arrays["a"], first.arrays["b"])
    assert not np.array_equal(first.arrays["a"], made({"a": "float32[n]"}, {"n": 50}, tmp_path, 1).arrays["a"])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("int32[n] zeros", [0, 0, 0, 0]),
        ("float16[n] ones", [1, 1, 1, 1]),
        ("inout uint8[2, 2] range", [0, 1, 2, 3]),
        ("int32[n] = 5 * arange(n) - 1", [-1, 4, 9, 14]),
        ("float32[2, 2] = outer(arange(2), ones(2)) / 2", [0, 0, 0.5, 0.5]),
        ("float64[n] = pi", [np.pi] * 4),
    ],
)
def test_contents_without_chance(text, values, tmp_path):
    assert made({"a": text}, {"n": 4}, tmp_path).arrays["a"].tolist() == values


def test_uniform_integers_exclude_their_upper_end(tmp_path):
    generated = made({"a": "int32[nnz] uniform -2 n", "b": "bool[nnz]"}, {"n": 3, "nnz": 5000}, tmp_path)
    assert set(generated.arrays["a"].tolist()) == {-2, -1, 0, 1, 2}


def test_uniform_and_normal_floats_with_bounds(tmp_path):
    arrays = made({"a": "float32[n] uniform 2 (2 + 1)", "b": "float64[n] normal 10 0.1"}, {"n": 5000}, tmp_path).arrays
    assert 2 <= arrays["a"].min() < 2.01
    assert 2.99 < arrays["a"].max() <= 3
    assert arrays["b"].mean() == pytest.approx(10, abs=0.01)
    assert arrays["b"].std() == pytest.approx(0.1, abs=0.01)


def test_scalars_are_what_their_types_hold(tmp_path):
    arguments = {"n": "int32", "m": "int64 = 3 * n", "alpha": "float32", "flag": "bool = n > 2", "a": "float32[m]"}
    generated = made(arguments, {"n": 4, "alpha": 0.1}, tmp_path)
    assert generated.scalars == {"n": 4, "m": 12, "alpha": float(np.float32(0.1)), "flag": True}
    assert generated.arrays["a"].shape == (12,)


@pytest.mark.parametrize(
    ("arguments", "problem", "message", "key"),
    [
        ({"n": "int32"}, {"n": 3 * 10**9}, "n is 3000000000, which int32 does not hold", "problem.n"),
        ({"n": "uint8 = -1"}, {}, "n is -1, which uint8 does not hold", "arguments.n"),
        ({"n": "int32"}, {"n": 1.5}, "n is not an integer", "problem.n"),
        ({"n": "bool"}, {"n": 2}, "n is not a bool", "problem.n"),
        ({"n": "int32"}, {"n": "x"}, "n is a text", "problem.n"),
        ({"a": "float32[n - 5]"}, {"n": 5}, "a dimension of a is 0", "arguments.a"),
        ({"a": "float32[n / 2]"}, {"n": 5}, "a dimension of a is 2.5", "arguments.a"),
        ({"a": "int8[n + 1]"}, {"n": 2**36}, "a has 68719476737 elements of 1 bytes", "arguments.a"),
        ({"a": "float64[n + 1]"}, {"n": 2**33}, "a has 8589934593 elements of 8 bytes", "arguments.a"),
        ({"a": "int8[n]"}, {"n": 2**35}, "the arrays take 34359738372 bytes", "problem"),
        ({"a": "float64[n]", "b": "float64[n]"}, {"n": 2**31 - 1}, "the arrays take 34359738356 bytes", "problem"),
        ({"a": "int8[n] range"}, {"n": 129}, "a is 128, which int8 does not hold", "arguments.a"),
        ({"a": "uint8[n] uniform 0 257"}, {"n": 1}, "a is 256, which uint8 does not hold", "arguments.a"),
        ({"a": "int32[n] uniform 3 3"}, {"n": 1}, "an empty range", "arguments.a"),
        ({"a": "int32[n] uniform 0 0.5"}, {"n": 1}, "bounds of integers must be integers", "arguments.a"),
        ({"a": "int32[n] = arange(3)"}, {"n": 4}, "a has shape [4], its values have shape [3]", "arguments.a"),
        ({"a": "bool[n] = 2"}, {"n": 4}, "values from 2 to 2 in an array of bool", "arguments.a"),
    ],
)  # fmt: skip
def test_what_does_not_fit(arguments, problem, message, key, tmp_path):
    error = refused(arguments, problem, tmp_path)
    assert message in error.message
    assert error.key == key


def test_arrays_that_are_too_large_to_be_made_can_be_described(tmp_path):
    arguments = {"y": "out float64[n]", "x": "int8[2, n]", "n": "int64"}
    computed, mistakes = declare("k", arguments=arguments, folder=tmp_path, problem=["n"], parameters=())
    assert mistakes == ()
    assert computed is not None
    problem = {"n": 2**33}
    planned = plan(computed, problem)
    assert planned.shapes == {"y": (2**33,), "x": (2, 2**33)}
    described = operator(computed.reference)
    assert described.bytes_moved(described.problem(problem)) == 10 * 2**33
    with pytest.raises(UserError) as caught:
        inputs(computed, planned, 0)
    assert caught.value.key == "problem"


def test_an_overflow_says_to_take_a_wider_type(tmp_path):
    assert "int64" in refused({"n": "int32"}, {"n": 2**31}, tmp_path).suggestion


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16", "bool", "complex64"])
def test_contents_from_a_file(dtype, tmp_path):
    element = ELEMENT_TYPES[dtype]
    values = np.array([[0, 1, 1], [1, 0, 1]])
    np.save(tmp_path / "my data.npy", values.astype("float32" if dtype == "bfloat16" else element.dtype))
    generated = made({"a": f"{dtype}[2, n] 'my data.npy'"}, {"n": 3}, tmp_path)
    assert generated.arrays["a"].dtype == element.dtype
    np.testing.assert_array_equal(element.widened(generated.arrays["a"]), values.reshape(-1))


def test_files_that_do_not_fit(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 3)))
    assert (
        "a has shape [3, 2], the file's array has shape [2, 3]"
        in refused({"a": "float64[3, 2] x.npy"}, {}, tmp_path).message
    )
    assert "the file holds float64" in refused({"a": "int32[2, 3] x.npy"}, {}, tmp_path).message
    np.save(tmp_path / "y.npy", np.array([300]))
    assert "300, which uint8 does not hold" in refused({"a": "uint8[1] y.npy"}, {}, tmp_path).message
    (tmp_path / "x.npy").write_bytes(b"nothing")
    assert "the file cannot be read" in refused({"a": "float64[2, 3] x.npy"}, {}, tmp_path).message
    np.save(tmp_path / "x.npy", np.array([{}]), allow_pickle=True)
    assert "the file cannot be read" in refused({"a": "float64[1] x.npy"}, {}, tmp_path).message


def test_a_calculation_in_place_of_a_number_is_calculated_for_the_user(tmp_path):
    assert refused({"n": "int32"}, {"n": "1920 * 1080"}, tmp_path).suggestion == "write 2073600"
    assert refused({"n": "int32"}, {"n": "10M"}, tmp_path).suggestion is None
