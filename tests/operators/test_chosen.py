"""Chosen elements of the operators that are built in, against references that are computed as a whole."""

from typing import Any

import numpy as np
import pytest

from lab.operators.base import Inputs
from lab.operators.builtin import operator
from lab.operators.chosen import ExpectedAt, errors_at, verify_chosen, whole_at
from lab.operators.stored import empty

CASES: list[tuple[str, dict[str, Any]]] = [
    ("gemm", {"m": 37, "n": 23, "k": 19}),
    ("gemm", {"m": 37, "n": 23, "k": 19, "layout": "tt", "alpha": 0.5, "beta": -2.0, "lda": 20, "ldb": 30, "ldc": 41}),
    ("gemm", {"m": 16, "n": 24, "k": 8, "layout": "nt", "batch": 3, "ldc": 18}),
    (
        "gemm",
        {"m": 16, "n": 24, "k": 8, "layout": "tn", "dtype": "complex64", "beta": 1.0, "beta_imag": 0.5},
    ),
    ("gemm", {"m": 16, "n": 24, "k": 40, "dtype": "float16", "epilogue": "bias_gelu", "ldc": 20}),
    ("gemm", {"m": 16, "n": 24, "k": 40, "dtype": "bfloat16"}),
    ("gemm", {"m": 16, "n": 24, "k": 40, "dtype": "float8_e4m3fn", "layout": "tn"}),
    ("gemm", {"m": 16, "n": 24, "k": 40, "dtype": "int8", "ldc": 18, "ldb": 48}),
    ("gemm", {"m": 16, "n": 24, "k": 40, "data": "scaled", "layout": "nt"}),
    ("gemm", {"m": 16, "n": 24, "k": 40, "alpha": 0.0, "beta": 2.0}),
    ("softmax", {"m": 30, "n": 21, "ldx": 25, "ldy": 24}),
    ("softmax", {"m": 30, "n": 21, "values": "special", "dtype": "bfloat16"}),
    ("masked_softmax", {"m": 24, "n": 15, "queries": 6, "ldy": 17}),
    ("masked_softmax", {"m": 24, "n": 15, "queries": 6, "mask": "additive", "ldm": 16, "dtype": "float16"}),
    ("softmax_backward", {"m": 30, "n": 21, "ldy": 22, "lddx": 23}),
    ("layer_norm", {"m": 30, "n": 21, "ldx": 25, "ldy": 24}),
    ("rms_norm", {"m": 30, "n": 21, "dtype": "float16"}),
    ("copy", {"m": 30, "n": 21, "lda": 31, "ldb": 35}),
    ("transpose", {"m": 30, "n": 21, "lda": 31, "ldb": 22, "dtype": "float64"}),
    ("contraction", {"einsum": "ikl,lj->ijk", "i": 5, "j": 6, "k": 7, "l": 8}),
]
IDS = [f"{name}-{'-'.join(map(str, fields.values()))}" for name, fields in CASES]


def both(name, fields):
    """An operator, its problem, and its inputs described and as arrays."""
    computed = operator(name)
    problem = computed.problem(fields)
    indexed = computed.indexed_inputs(problem, 5)
    arrays = {key: one.read(0, one.size) for key, one in indexed.arrays.items()}
    return computed, problem, indexed, Inputs(indexed.scalars, arrays, indexed.outputs, indexed.required)


@pytest.mark.parametrize(("name", "fields"), CASES, ids=IDS)
def test_chosen_elements_have_the_values_and_scales_of_the_whole(name, fields):
    computed, problem, indexed, inputs = both(name, fields)
    (output,) = inputs.outputs
    laid, tolerance = computed.elementwise(problem, computed.reference(problem, inputs))
    size = inputs.arrays[output].size
    chosen = np.sort(np.random.default_rng(3).choice(size, 60, replace=False))
    chosen_values = computed.reference_at(problem, indexed, {output: chosen})[output]
    values, scale = (one.reshape(size, -1)[chosen].reshape(-1) for one in (laid[output].values, laid[output].scale))
    assert chosen_values.tolerance == tolerance
    np.testing.assert_array_equal(np.isnan(chosen_values.scale), np.isnan(scale))
    kept = ~np.isnan(scale)
    assert kept.any()
    np.testing.assert_allclose(chosen_values.values[kept], values[kept], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(chosen_values.scale[kept], scale[kept], rtol=1e-9)


@pytest.mark.parametrize(("name", "fields"), CASES, ids=IDS)
def test_described_inputs_are_of_the_kind_of_the_others(name, fields):
    computed, problem, _, described = both(name, fields)
    made = computed.inputs(problem, 5)
    assert described.scalars == made.scalars
    assert (described.outputs, described.required) == (made.outputs, made.required)
    assert described.arrays.keys() == made.arrays.keys()
    for key, array in made.arrays.items():
        assert described.arrays[key].dtype == array.dtype
        assert described.arrays[key].size == array.size
        if array.dtype.kind in "fc" and key != "M":
            np.testing.assert_array_equal(np.isnan(described.arrays[key]), np.isnan(array), err_msg=key)


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("gemm", {"m": 37, "n": 23, "k": 19, "ldc": 40}, "C[3, 2]"),
        ("gemm", {"m": 37, "n": 23, "k": 19, "ldc": 40, "dtype": "complex64"}, "real part of C[3, 2]"),
        ("gemm", {"m": 37, "n": 1, "k": 19, "ldc": 40, "batch": 4}, "C[3, 0] of member 2"),
        ("softmax", {"m": 30, "n": 21, "ldy": 24}, "Y[3, 11]"),
        ("copy", {"m": 30, "n": 21, "ldb": 35}, "B[13, 2]"),
        ("contraction", {"einsum": "ikl,lj->ijk", "i": 5, "j": 6, "k": 7, "l": 8}, "C[3, 4, 2]"),
    ],
)
def test_a_wrong_element_is_named(name, fields, words):
    computed, problem, indexed, _ = both(name, fields)
    (output,) = indexed.outputs
    places = {output: np.array([0, 83, 84])}
    expected = computed.reference_at(problem, indexed, places)
    values, dtype = expected[output].values, indexed.arrays[output].dtype
    array = (values.view(np.complex128) if values.size > 3 else values).astype(dtype)
    largest, tolerance, worst = computed.verify_at(problem, expected, places, {output: array})
    assert largest <= tolerance
    assert worst == ""
    array[1] += 1
    largest, tolerance, worst = computed.verify_at(problem, expected, places, {output: array})
    assert largest > tolerance
    assert worst.startswith(f"{words}: ")


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_what_lies_in_padding_must_be_as_it_was(dtype):
    computed, problem, indexed, _ = both("gemm", {"m": 10, "n": 3, "k": 4, "ldc": 12, "dtype": dtype})
    places = {"C": np.array([9, 10, 11])}
    expected = computed.reference_at(problem, indexed, places)
    got = empty(3, problem.dtypes["C"])
    got[0] = expected["C"].values[0]
    assert computed.verify_at(problem, expected, places, {"C": got})[0] <= expected["C"].tolerance
    got[2] = 1
    assert computed.verify_at(problem, expected, places, {"C": got})[0] == np.inf


def test_nan_is_no_value():
    expected = ExpectedAt(np.array([1.0, 2.0]), np.ones(2), 0.5)
    assert errors_at(expected, np.array([np.nan, 2.25])).tolist() == [np.inf, 0.25]
    got = {"y": np.array([np.nan, 2.25])}
    largest, _, words = verify_chosen({"y": expected}, {"y": np.array([4, 7])}, got, lambda name, i: f"{name}({i})")
    assert largest == np.inf
    assert words.startswith("y(4): got nan, expected 1; 1 of 2 ")


def test_large_problems_are_not_computed_as_a_whole():
    computed = operator("contraction")
    problem = computed.problem({"einsum": "ik,kj->ij", "i": 1024, "j": 1024, "k": 4096})
    indexed = computed.indexed_inputs(problem, 1)
    assert indexed is not None
    assert whole_at(computed, problem, indexed, {"C": np.array([0])}) is None


def test_matrices_of_any_size_are_described_at_once():
    computed = operator("gemm")
    problem = computed.problem({"m": 40000, "n": 40000, "k": 512})
    indexed = computed.indexed_inputs(problem, 1)
    assert indexed is not None
    places = {"C": np.array([0, 40000 * 39999 + 39999])}
    expected = dict(computed.reference_at(problem, indexed, places) or {})["C"]
    rows, columns = np.array([0, 39999]), np.arange(512)
    a = indexed.arrays["A"].read
    b = indexed.arrays["B"].read
    for i, row in enumerate(rows.tolist()):
        left = np.array([a(int(k) * 40000 + row, int(k) * 40000 + row + 1)[0] for k in columns], np.float64)
        assert expected.values[i] == pytest.approx(left @ b(512 * row, 512 * row + 512).astype(np.float64))
