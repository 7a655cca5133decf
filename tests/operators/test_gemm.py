from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistakes import coded
from narrowing import known

from lab.base.errors import UserError
from lab.operators.base import Inputs
from lab.operators.builtin import operator
from lab.operators.matrices import matrix
from lab.operators.stored import stored, widened

GEMM = operator("gemm")


def problem(**values):
    return GEMM.problem({"m": 7, "n": 5, "k": 3, **values})


def by_hand(p, inputs):
    """The definition, element by element, with none of the operator's views."""
    m, n, k = p["m"], p["n"], p["k"]
    complex_ = p["dtype"].startswith("complex")
    a, b, c = (inputs.arrays[x].astype(np.complex128 if complex_ else np.float64) for x in "ABC")
    alpha, beta = (complex(p[name], p[f"{name}_imag"]) if complex_ else p[name] for name in ("alpha", "beta"))
    out = inputs.arrays["C"].copy()
    for i, j in itertools.product(range(m), range(n)):
        total = 0.0
        if alpha:
            for q in range(k):
                left = a[i + q * p["lda"]] if p["layout"][0] == "n" else a[q + i * p["lda"]]
                right = b[q + j * p["ldb"]] if p["layout"][1] == "n" else b[j + q * p["ldb"]]
                total += alpha * left * right
        if beta:
            total += beta * c[i + j * p["ldc"]]
        out[i + j * p["ldc"]] = total
    return out


problems = st.fixed_dictionaries(
    {
        "m": st.integers(1, 9),
        "n": st.integers(1, 9),
        "k": st.integers(1, 9),
        "dtype": st.sampled_from(["float32", "float64", "complex64", "complex128"]),
        "layout": st.sampled_from(["nn", "nt", "tn", "tt"]),
        "alpha": st.sampled_from([0, 1.0, -1.5]),
        "beta": st.sampled_from([0, 1.0, 0.5]),
        "lda": st.integers(9, 12),
        "ldb": st.integers(9, 12),
        "ldc": st.integers(9, 12),
    }
)


@given(problems, st.integers(0, 3), st.sampled_from([0.0, 0.75]))
def test_the_reference_is_the_definition(values, seed, imaginary):
    if values["dtype"].startswith("complex"):
        values = {**values, "alpha_imag": imaginary, "beta_imag": -imaginary}
    p = GEMM.problem(values)
    inputs = GEMM.inputs(p, seed)
    reference = GEMM.reference(p, inputs)
    right = by_hand(p, inputs)
    error, tolerance, worst = GEMM.verify(p, reference, {"C": right})
    assert error <= tolerance, worst
    assert worst == ""


@given(problems, st.data())
def test_one_wrong_element_is_found_and_named(values, data):
    p = GEMM.problem(values)
    inputs = GEMM.inputs(p, 0)
    reference = GEMM.reference(p, inputs)
    wrong = by_hand(p, inputs)
    row = data.draw(st.integers(0, p["m"] - 1))
    column = data.draw(st.integers(0, p["n"] - 1))
    at = row + column * p["ldc"]
    wrong[at] = data.draw(st.sampled_from([np.nan, np.inf, wrong[at] + 1e-3 * (1 + abs(wrong[at])) + 1e-3]))
    error, tolerance, worst = GEMM.verify(p, reference, {"C": wrong})
    assert not error <= tolerance
    assert f"C[{row}, {column}]" in worst
    assert worst.startswith("C[") or values["dtype"].startswith("complex")


@pytest.mark.parametrize(("part", "offset"), [("real", 1.0), ("imaginary", 1.0j)])
def test_the_wrong_part_of_a_complex_element_is_named(part, offset):
    p = problem(dtype="complex64", alpha_imag=0.5, ldc=9)
    inputs = GEMM.inputs(p, 0)
    reference, right = GEMM.reference(p, inputs), by_hand(p, inputs)
    wrong = right.copy()
    wrong[9 + 2] += offset
    assert GEMM.verify(p, reference, {"C": wrong})[2].startswith(f"{part} part of C[2, 1]: got ")
    stray = right.copy()
    stray.view(np.float32)[2 * (9 + 7) + 1] = 0.0  # the imaginary part alone
    error, _, worst = GEMM.verify(p, reference, {"C": stray})
    assert (error, worst) == (np.inf, "C[7, 1]: written, but C has 7 rows")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_elements_are_compared_where_they_lie(dtype):
    p = problem(dtype=dtype, beta_imag=1.0, ldc=9)
    inputs = GEMM.inputs(p, 0)
    reference, right = GEMM.reference(p, inputs), by_hand(p, inputs)
    laid, tolerance = known(GEMM.elementwise(p, reference))
    got = right.view("f4" if dtype == "complex64" else "f8").astype(np.float64)
    assert laid["C"].values.shape == got.shape == (2 * 9 * 5,)
    apart = np.abs(got - laid["C"].values) / laid["C"].scale
    assert np.nanmax(apart) == GEMM.verify(p, reference, {"C": right})[0] <= tolerance
    assert np.isnan(apart).sum() == np.isnan(laid["C"].scale).sum() == 2 * 2 * 5


def test_complex_factors_decide_what_is_read():
    p = problem(dtype="complex128", alpha=0.0, alpha_imag=0.0, beta=0.0, beta_imag=2.0)
    inputs = GEMM.inputs(p, 0)
    assert np.isnan(inputs.arrays["A"].real).all()
    assert np.isnan(inputs.arrays["A"].imag).all()
    assert not np.isnan(inputs.arrays["C"]).any()
    assert inputs.scalars["beta_imag"] == 2.0


def test_real_problems_have_no_imaginary_parts():
    assert "alpha_imag" not in problem()
    assert "alpha_imag" not in GEMM.inputs(problem(), 0).scalars
    with pytest.raises(UserError) as caught:
        problem(beta_imag=1.0)
    assert (caught.value.key, caught.value.accepted) == ("problem.beta_imag", "no value with dtype float32")


def test_a_write_between_columns_is_found():
    p = problem(ldc=9)
    inputs = GEMM.inputs(p, 0)
    wrong = by_hand(p, inputs)
    wrong[7] = 0.0
    error, _, worst = GEMM.verify(p, GEMM.reference(p, inputs), {"C": wrong})
    assert error == np.inf
    assert worst.startswith("C[7, 0]")


def test_tf32_would_not_pass():
    p = problem(m=64, n=64, k=512)
    inputs = GEMM.inputs(p, 0)
    rounded = {name: (array.view(np.uint32) & 0xFFFFE000).view(np.float32) for name, array in inputs.arrays.items()}
    a = rounded["A"].reshape(512, 64).T.astype(np.float64)
    b = rounded["B"].reshape(64, 512).T.astype(np.float64)
    out = {"C": (a @ b).T.astype(np.float32).ravel()}
    error, tolerance, _ = GEMM.verify(p, GEMM.reference(p, inputs), out)
    assert error > 10 * tolerance


def test_float32_arithmetic_passes_with_room():
    p = problem(m=256, n=256, k=1024)
    inputs = GEMM.inputs(p, 0)
    a, b = inputs.arrays["A"].reshape(1024, 256).T, inputs.arrays["B"].reshape(256, 1024).T
    total = np.zeros((256, 256), np.float32)
    for q in range(1024):
        total += np.outer(a[:, q], b[q])
    error, tolerance, _ = GEMM.verify(p, GEMM.reference(p, inputs), {"C": total.T.ravel()})
    assert error < tolerance / 3


def test_what_must_not_be_read_is_nan():
    inputs = GEMM.inputs(problem(beta=0, lda=9), 0)
    assert np.isnan(inputs.arrays["C"]).all()
    assert np.isnan(inputs.arrays["A"].reshape(3, 9)[:, 7:]).all()
    assert np.isnan(GEMM.inputs(problem(alpha=0, beta=1), 0).arrays["A"]).all()


def test_counts():
    p = problem()
    assert GEMM.flops(p) == 2 * 7 * 5 * 3
    assert GEMM.flops(problem(dtype="complex64")) == 8 * 7 * 5 * 3
    assert GEMM.bytes_moved(problem(dtype="complex64")) == 8 * (7 * 3 + 3 * 5 + 7 * 5)
    assert GEMM.fma_dtype(problem(dtype="complex128")) == np.float64
    assert GEMM.bytes_moved(p) == 4 * (7 * 3 + 3 * 5 + 7 * 5)
    assert GEMM.bytes_moved(problem(beta=1, dtype="float64")) == 8 * (7 * 3 + 3 * 5 + 2 * 7 * 5)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"lba": 3}, "problem.lba"),
        ({"m": 0}, "problem.m"),
        ({"m": 2.0}, "problem.m"),
        ({"m": True}, "problem.m"),
        ({"lda": 6}, "problem.lda"),
        ({"layout": "tn", "lda": 2}, "problem.lda"),
        ({"layout": "xx"}, "problem.layout"),
        ({"dtype": "int4"}, "problem.dtype"),
        ({"dtype": "int8", "alpha": 0.5}, "problem.alpha"),
        ({"dtype": "int8", "out_dtype": "float32"}, "problem.out_dtype"),
        ({"dtype": "int8", "precision": "tf32"}, "problem.precision"),
        ({"dtype": "float8_e5m2", "out_dtype": "int32"}, "problem.out_dtype"),
        ({"dtype": "float8_e5m2", "precision": "tf32"}, "problem.precision"),
        ({"alpha": "one"}, "problem.alpha"),
        ({"m": 70000, "n": 70000}, "problem"),
    ],
)
def test_bad_problems_are_named(values, key):
    with pytest.raises(UserError) as caught:
        problem(**values)
    assert caught.value.key == key


def test_a_dimension_is_needed():
    with pytest.raises(UserError, check=coded("missing-key", key="problem.k")):
        GEMM.problem({"m": 1, "n": 1})


HALF_TYPES = [(a, c) for a in ("float16", "bfloat16") for c in ("float16", "bfloat16", "float32")]


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("dtype", "out"), HALF_TYPES)
def test_a_half_product_accepts_sums_in_single_precision_and_misses_no_term(dtype, out, layout):
    p = problem(m=17, n=9, k=24, dtype=dtype, out_dtype=out, layout=layout, alpha=1.5, beta=0.5, ldc=20)
    inputs = GEMM.inputs(p, 1)
    a, b, c = (widened(inputs.arrays[x]).astype(np.float32) for x in "ABC")
    a, b = a.reshape(-1, p.lda).T, b.reshape(-1, p.ldb).T
    a, b = (a if layout[0] == "n" else a.T), (b if layout[1] == "n" else b.T)

    def judged(terms):
        sums = np.float32(1.5) * (a[:, :terms] @ b[:terms]) + np.float32(0.5) * c.reshape(-1, p.ldc).T[:17]
        whole = inputs.arrays["C"].copy()
        whole.reshape(-1, p.ldc)[:, :17] = stored(sums.T, out)
        return GEMM.verify(p, GEMM.reference(p, inputs), {"C": whole})

    error, tolerance, complaint = judged(24)
    assert (tolerance, complaint) == (1.0, "")
    assert error <= 1
    assert judged(23)[0] > 1


def test_a_write_between_columns_of_a_bfloat16_result_is_found():
    p = problem(dtype="bfloat16", alpha=0, ldc=8)
    inputs = GEMM.inputs(p, 0)
    whole = np.zeros_like(inputs.arrays["C"])
    assert "written, but C has 7 rows" in GEMM.verify(p, GEMM.reference(p, inputs), {"C": whole})[2]


def test_the_type_of_the_result_belongs_to_half_inputs_and_other_problems_keep_their_identity():
    assert "out_dtype" not in problem()
    assert problem(dtype="bfloat16")["out_dtype"] == "bfloat16"
    with pytest.raises(UserError, check=coded("wrong-value", key="problem.out_dtype", found="float16")):
        problem(out_dtype="float16")


def test_bytes_count_each_matrix_in_its_own_type():
    p = problem(dtype="float16", out_dtype="float32")
    assert GEMM.bytes_moved(p) == 2 * (7 * 3 + 3 * 5) + 4 * 7 * 5
    assert GEMM.fma_dtype(p) == np.float32


def cut_off(array, bits):
    """The upper bits of float32 numbers, as tensor cores read them."""
    return (array.view(np.uint32) & np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)).view(np.float32)


@pytest.mark.parametrize("layout", ["nn", "tt"])
@pytest.mark.parametrize("k", [1, 24, 517])
def test_a_named_precision_accepts_factors_that_are_cut_off_and_misses_no_term(layout, k):
    p = problem(m=17, n=9, k=k, precision="tf32", layout=layout, alpha=1.5, ldc=20)
    inputs = GEMM.inputs(p, 1)
    a, b = inputs.arrays["A"].reshape(-1, p.lda).T, inputs.arrays["B"].reshape(-1, p.ldb).T
    a, b = (a if layout[0] == "n" else a.T), (b if layout[1] == "n" else b.T)

    def judged(terms, bits):
        whole = inputs.arrays["C"].copy()
        left, right = (cut_off(np.ascontiguousarray(x), bits) for x in (a[:, :terms], b[:terms]))
        whole.reshape(-1, p.ldc)[:, :17] = (np.float32(1.5) * (left @ right)).T
        return GEMM.verify(p, GEMM.reference(p, inputs), {"C": whole})

    for bits in (0, 13):
        error, tolerance, complaint = judged(k, bits)
        assert (tolerance, complaint) == (1.0, "")
        assert error <= 1
    assert judged(k, 16)[0] > 1  # seven bits, as bfloat16 has them
    assert judged(k - 1, 13)[0] > 1


def chunks_of(k, most):
    return [slice(at, min(k, at + most)) for at in range(0, k, most)]


def cut_to_13(terms):
    """Sum along the last axis as wgmma accumulates FP8: 13 bits below the largest leading bit."""
    total = np.zeros(terms.shape[:-1])
    for chunk in chunks_of(terms.shape[-1], 32):
        held = np.concatenate([total[..., None], terms[..., chunk]], axis=-1)
        place = np.ldexp(1.0, np.frexp(np.abs(held).max(axis=-1))[1] - 1 - 13)
        total = (np.trunc(held / place[..., None]) * place[..., None]).sum(axis=-1)
    return total


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("k", [1, 33, 4096])
def test_eight_bits_accept_sums_of_thirteen_and_miss_no_tile(dtype, k):
    p = problem(m=17, n=13, k=k, dtype=dtype, out_dtype="float32", layout="tn", alpha=1.5)
    inputs = GEMM.inputs(p, 1)
    a, b = (widened(inputs.arrays[x], dtype).reshape(-1, k) for x in "AB")
    factor = 1.5 * float(inputs.arrays["scale_a"][0]) * float(inputs.arrays["scale_b"][0])
    terms = a[:, None] * b[None]

    def judged(sums, *, factor=factor, fast):
        asked = GEMM.problem({**p, "precision": "fast_accumulation"}) if fast else p
        out = {"C": (factor * sums).T.astype(np.float32).ravel()}
        error, tolerance, _ = GEMM.verify(asked, GEMM.reference(asked, inputs), out)
        assert tolerance == 1
        return error

    promoted = sum(cut_to_13(terms[..., part]) for part in chunks_of(k, 128))
    assert judged(promoted, fast=False) < 0.6
    assert judged(cut_to_13(terms), fast=True) < 0.6
    for fast in (False, True):
        assert judged(promoted, factor=1.5, fast=fast) > 1  # without the scales
        assert judged(cut_to_13(terms[..., : max(0, k - 32)]), fast=fast) > 1
    if k == 4096 and dtype == "float8_e4m3fn":
        assert judged(cut_to_13(terms), fast=False) > 1


@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_integers_are_equal_modulo_their_range(layout):
    p = problem(m=17, n=9, k=24, dtype="int8", layout=layout, alpha=90000, beta=-3, ldc=20)
    inputs = GEMM.inputs(p, 1)
    a, b, c = (inputs.arrays[x].astype(np.int64) for x in "ABC")
    a, b = a.reshape(-1, p.lda).T, b.reshape(-1, p.ldb).T
    a, b = (a if layout[0] == "n" else a.T), (b if layout[1] == "n" else b.T)
    exact = 90000 * (a @ b) - 3 * c.reshape(-1, p.ldc).T[:17]
    assert np.abs(exact).max() > 2**31
    whole = inputs.arrays["C"].copy()
    assert whole.dtype == np.int32
    whole.reshape(-1, p.ldc)[:, :17] = exact.T.astype(np.int32)
    expected = GEMM.reference(p, inputs)
    assert GEMM.verify(p, expected, {"C": whole})[0] == 0
    whole[3] += 1
    error, tolerance, worst = GEMM.verify(p, expected, {"C": whole})
    assert error > tolerance
    assert worst.startswith("C[3, 0]")
    whole[3] -= 1
    whole[18] = 0
    assert "written, but C has 17 rows" in GEMM.verify(p, expected, {"C": whole})[2]


def test_eight_bits_have_a_scale_for_each_operand_and_a_wider_result():
    p = problem(dtype="float8_e4m3fn")
    inputs = GEMM.inputs(p, 0)
    assert (p.out_dtype, problem(dtype="int8").out_dtype) == ("bfloat16", "int32")
    assert {name: array.dtype.name for name, array in inputs.arrays.items()} == {
        "A": "uint8", "B": "uint8", "C": "uint16", "scale_a": "float32", "scale_b": "float32",
    }  # fmt: skip
    assert GEMM.bytes_moved(p) == 7 * 3 + 3 * 5 + 2 * 7 * 5
    assert GEMM.fma_dtype(p) == GEMM.fma_dtype(problem(dtype="int8")) == np.float32


def test_a_precision_belongs_to_float32_and_other_problems_keep_their_identity():
    assert "precision" not in problem()
    assert problem(precision="tf32")["precision"] == "tf32"
    assert problem(precision="tf32")["out_dtype"] == "float32"
    with pytest.raises(UserError, check=coded("wrong-value", key="problem.precision", found="tf32")):
        problem(dtype="float16", precision="tf32")
    with pytest.raises(UserError, check=coded("wrong-value", key="problem.precision", found="tf16")):
        problem(precision="tf16")


@pytest.mark.parametrize("precision", ["3xtf32", "bf16x6", "bf16x9"])
def test_products_of_parts_keep_the_tolerance_of_float32(precision):
    p = problem(m=8, n=8, k=64, precision=precision)
    inputs = GEMM.inputs(p, 0)
    plain = problem(m=8, n=8, k=64)
    expected, usual = GEMM.reference(p, inputs), GEMM.reference(plain, GEMM.inputs(plain, 0))
    assert (expected["C"].values == usual["C"].values).all()
    assert (expected["C"].scale == usual["C"].scale).all()
    outputs = {"C": expected["C"].values.T.astype(np.float32).reshape(-1)}
    assert GEMM.verify(p, expected, outputs)[1] == GEMM.verify(plain, usual, outputs)[1] == 16 * 2.0**-24


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_scaled_data_differ_from_normal_ones_by_a_power_of_two_a_row_of_a_and_a_column_of_b(dtype, layout):
    given = {"m": 5, "n": 7, "k": 3, "lda": 8, "ldb": 9, "dtype": dtype, "layout": layout}
    normal, scaled = (GEMM.inputs(problem(**given, data=data), 1) for data in ("normal", "scaled"))
    for name, plain in (("A", layout[0] == "n"), ("B", layout[1] == "t")):
        rows, columns, leading = problem(**given).shapes[name]
        few, many = (widened(matrix(one.arrays[name], rows, columns, leading)) for one in (normal, scaled))
        ratio = np.log2(many / few)
        assert (ratio == np.round(ratio)).all()
        assert np.abs(ratio).max() <= 50
        first = ratio[:, :1] if plain else ratio[:1]
        assert (ratio == first).all()
        assert len(np.unique(first)) > 1


def test_data_without_a_value_are_normal_and_float16_has_no_room_for_scaled_ones():
    plain, named = (GEMM.inputs(problem(**given), 0).arrays for given in ({}, {"data": "normal"}))
    assert all(np.array_equal(plain[name], named[name], equal_nan=True) for name in plain)
    assert "data" not in problem()
    with pytest.raises(UserError, check=coded("wrong-value", key="problem.data", found="scaled")):
        problem(dtype="float16", data="scaled")


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_a_batch_is_its_members(layout, dtype):
    slack = {"lda": 9, "ldb": 10, "ldc": 11}
    p = problem(layout=layout, dtype=dtype, alpha=1.5, beta=-0.5, batch=3, **slack)
    inputs = GEMM.inputs(p, 0)
    got, apart = GEMM.reference(p, inputs)["C"], [p[f"stride_{name}"] for name in "abc"]
    assert [len(inputs.arrays[name]) for name in "ABC"] == [3 * step for step in apart]
    alone = problem(layout=layout, dtype=dtype, alpha=1.5, beta=-0.5, **slack)
    assert GEMM.flops(p) == 3 * GEMM.flops(alone)
    assert GEMM.bytes_moved(p) == 3 * GEMM.bytes_moved(alone)
    for i in range(3):
        parts = {n: inputs.arrays[n][i * step : (i + 1) * step] for n, step in zip("ABC", apart, strict=True)}
        own = GEMM.reference(alone, Inputs(inputs.scalars, parts, ("C",)))["C"]
        assert np.array_equal(got.values[:, i * 5 : (i + 1) * 5], own.values)
        assert np.array_equal(got.scale[:, i * 5 : (i + 1) * 5], own.scale)


def test_a_wrong_element_of_a_batch_is_named_with_its_member():
    p = problem(batch=3)
    inputs = GEMM.inputs(p, 0)
    reference = GEMM.reference(p, inputs)
    out = reference["C"].values.astype(np.float32).ravel(order="F")
    assert GEMM.verify(p, reference, {"C": out})[2] == ""
    out[2 * 35 + 3 * 7 + 4] += 1
    assert GEMM.verify(p, reference, {"C": out})[2].startswith("C[4, 3] of member 2: ")


def test_a_batch_has_strides_and_other_problems_have_none():
    assert not problem(batch=None).keys() & {"batch", "batches", "stride_a", "stride_b", "stride_c"}
    assert problem(batch=1)["batches"] == "strided"
    for wrong in ({"batch": 0}, {"batch": 2**30}, {"batch": 2, "dtype": "float16", "epilogue": "bias"}):
        with pytest.raises(UserError):
            problem(**wrong)
