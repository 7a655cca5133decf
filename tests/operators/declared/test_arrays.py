"""References over arrays: what they compute, that single precision stays within their bounds, and what is refused."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special

from lab.base.errors import UserError
from lab.operators.bfloat16 import from_float32, to_float32
from lab.operators.declared.arrays import check, evaluate_arrays, names_of
from lab.operators.declared.elements import DOUBLE, SINGLE
from lab.operators.declared.judging import _ROOM
from lab.operators.declared.tracked import Rules, Tracked

RNG = np.random.default_rng(3)
N = 257
ARRAYS: dict[str, NDArray[Any]] = {
    "a": RNG.standard_normal(N).astype(np.float32),
    "b": RNG.standard_normal(N).astype(np.float32),
    "c": RNG.random(N).astype(np.float32),
    "x": RNG.standard_normal((16, 33)).astype(np.float32),
    "y": RNG.standard_normal((33, 7)).astype(np.float32),
    "i": RNG.integers(0, 50, N).astype(np.int64),
}
NUMBERS = {"n": N, "alpha": 0.3}


def tracked(arrays, rules):
    wide = {k: Tracked(v.astype(np.float64) if v.dtype.kind == "f" else v) for k, v in arrays.items()}
    return {**wide, **{name: rules.literal(value) for name, value in NUMBERS.items()}}


def value_of(text, arrays=None, arithmetic=SINGLE):
    rules = Rules(arithmetic)
    return evaluate_arrays(text, tracked(arrays or ARRAYS, rules), rules)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a + b * c", lambda a, b, c, **_: a + b * c),
        ("-a / (c + 1)", lambda a, c, **_: -a / (c + 1)),
        ("a ** 3 - 2 ** i", lambda a, i, **_: a**3 - 2.0**i),
        ("i // 7 + i % 7", lambda i, **_: i // 7 + i % 7),
        ("(i << 3) ^ (i >> 1) & 15", lambda i, **_: (i << 3) ^ ((i >> 1) & 15)),
        ("bitwise_or(i, 8) + invert(i)", lambda i, **_: (i | 8) + ~i),
        ("a[1:] - a[:-1]", lambda a, **_: a[1:] - a[:-1]),
        ("x[::2, -1]", lambda x, **_: x[::2, -1]),
        ("a[:, None] * b[newaxis, :4]", lambda a, b, **_: a[:, None] * b[None, :4]),
        ("a[a > 0]", lambda a, **_: a[a > 0]),
        ("a[i]", lambda a, i, **_: a[i]),
        ("take(a, i)", lambda a, i, **_: a[i]),
        ("0 < a < 1", lambda a, **_: (a > 0) & (a < 1)),
        ("where(a > b and not c > 0.5, a, 0)", lambda a, b, c, **_: np.where((a > b) & ~(c > 0.5), a, 0)),
        ("a if n > 100 else b", lambda a, **_: a),
        ("a if n < 100 or n == 1 else b", lambda b, **_: b),
        ("matmul(x, y)", lambda x, y, **_: x @ y),
        ("dot(x, y[:, 0])", lambda x, y, **_: x @ y[:, 0]),
        ("einsum('ij,jk->ki', x, y)", lambda x, y, **_: (x @ y).T),
        ("outer(a[:3], b[:2])", lambda a, b, **_: np.outer(a[:3], b[:2])),
        ("transpose(x)", lambda x, **_: x.T),
        ("transpose(reshape(x, (4, 4, 33)), (2, 0, 1))", lambda x, **_: x.reshape(4, 4, 33).transpose(2, 0, 1)),
        ("swapaxes(x, 0, 1)", lambda x, **_: x.T),
        ("sum(x, axis=1)", lambda x, **_: x.sum(axis=1)),
        ("mean(x, axis=(0, 1))", lambda x, **_: x.mean()),
        ("var(x, axis=0, ddof=1) + std(x, axis=0)", lambda x, **_: x.var(axis=0, ddof=1) + x.std(axis=0)),
        ("x - max(x, axis=1, keepdims=true)", lambda x, **_: x - x.max(axis=1, keepdims=True)),
        ("min(x, axis=-1)", lambda x, **_: x.min(axis=-1)),
        ("argmax(x, axis=1) - argmin(x)", lambda x, **_: x.argmax(axis=1) - x.argmin()),
        ("any(a > 2) + all(a > 2)", lambda a, **_: int((a > 2).any()) + int((a > 2).all())),
        ("cumsum(a)", lambda a, **_: np.cumsum(a)),
        ("cumsum(x, axis=0)", lambda x, **_: np.cumsum(x, axis=0)),
        ("cumprod(c[:9])", lambda c, **_: np.cumprod(c[:9])),
        ("prod(1 + x / 8, axis=1)", lambda x, **_: np.prod(1 + x / 8, axis=1)),
        ("norm(x, axis=1)", lambda x, **_: np.linalg.norm(x, axis=1)),
        ("roll(x, (1, -2), axis=(0, 1))", lambda x, **_: np.roll(x, (1, -2), axis=(0, 1))),
        ("clip(a, -1, 1)", lambda a, **_: np.clip(a, -1, 1)),
        ("maximum(a, 0) + fmin(a, b)", lambda a, b, **_: np.maximum(a, 0) + np.fmin(a, b)),
        ("concatenate([a, b])", lambda a, b, **_: np.concatenate([a, b])),
        ("stack((a, b), axis=1)", lambda a, b, **_: np.stack([a, b], axis=1)),
        ("flip(x, axis=0)", lambda x, **_: x[::-1]),
        ("pad(x, ((1, 2), (0, 1)), constant_values=3)", lambda x, **_: np.pad(x, ((1, 2), (0, 1)), constant_values=3)),
        ("pad(x, 2, mode='wrap')", lambda x, **_: np.pad(x, 2, mode="wrap")),
        ("diff(x, axis=0)", lambda x, **_: np.diff(x, axis=0)),
        ("sort(x, axis=0)", lambda x, **_: np.sort(x, axis=0)),
        ("take(a, argsort(i))", lambda a, i, **_: a[np.argsort(i, kind="stable")]),
        ("bincount(i, minlength=64)", lambda i, **_: np.bincount(i, minlength=64)),
        ("bincount(i, weights=a)", lambda i, a, **_: np.bincount(i, weights=a)),
        (
            "searchsorted(arange(0, 50, 5), i, side='right')",
            lambda i, **_: np.searchsorted(np.arange(0, 50, 5), i, "right"),
        ),
        ("tril(x) + triu(x, 2)", lambda x, **_: np.tril(x) + np.triu(x, 2)),
        ("trace(x[:, :16]) + sum(diagonal(x, 1))", lambda x, **_: np.trace(x) + np.diagonal(x, 1).sum()),
        ("repeat(a, 2) + tile(a, 2)", lambda a, **_: np.repeat(a, 2) + np.tile(a, 2)),
        ("broadcast_to(a, (2, n))", lambda a, **_: np.broadcast_to(a, (2, N))),
        ("convolve(a, b[:5], mode='same')", lambda a, b, **_: np.convolve(a, b[:5], "same")),
        ("correlate(a, b[:5])", lambda a, b, **_: np.correlate(a, b[:5])),
        (
            "real(fft(a)) + imag(ifft(complex(a, b)))",
            lambda a, b, **_: np.fft.fft(a).real + np.fft.ifft(a + 1j * b).imag,
        ),
        ("abs(conj(complex(a, b)))", lambda a, b, **_: np.abs(a + 1j * b)),
        (
            "int8(a * 100) + uint32(-i)",
            lambda a, i, **_: (a * 100).astype(int).astype(np.int8) + (-i).astype(np.uint32).astype(int),
        ),
        ("float16(a)", lambda a, **_: a.astype(np.float16)),
        ("astype(a, 'bfloat16') - a", lambda a, **_: _bf16(a) - a),
        ("fmod(-i, 7) + mod(-i, 7)", lambda i, **_: np.fmod(-i, 7) + np.mod(-i, 7)),
        ("trunc_divide(-i, 7) + ceil_div(i, 7)", lambda i, **_: -(i // 7) + -(-i // 7)),
        ("erf(a) + normcdf(b) + rsqrt(c)", lambda a, b, c, **_: special.erf(a) + special.ndtr(b) + 1 / np.sqrt(c)),
        ("arctan2(a, b) + hypot(a, b)", lambda a, b, **_: np.arctan2(a, b) + np.hypot(a, b)),
        ("zeros((2, 3)) + ones(3) + full((2, 1), pi) + eye(2, 3)", lambda **_: 1 + np.pi + np.eye(2, 3)),
        ("arange(1, 9, 2) + linspace(0, 1, 4)", lambda **_: np.arange(1, 9, 2) + np.linspace(0, 1, 4)),
        ("isnan(a) + isfinite(a / 0)", lambda a, **_: np.zeros(N)),
        ("[1, 2, 3]", lambda **_: np.array([1, 2, 3])),
        ("max(n, 3)", lambda **_: N),
    ],
)
def test_a_reference_is_what_numpy_says(text, wanted):
    wide = {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in ARRAYS.items()}
    with np.errstate(all="ignore"):
        expected = wanted(**wide)
    tracked = value_of(text)
    assert check(text, frozenset({*ARRAYS, *NUMBERS})) == []
    np.testing.assert_allclose(tracked.values, expected, rtol=1e-12, atol=1e-12)
    if tracked.bound is not None:
        assert np.broadcast_shapes(tracked.bound.shape, tracked.shape) == tracked.shape
        assert not np.any(tracked.bound < 0)


def _bf16(values):
    return to_float32(from_float32(values.astype(np.float32))).astype(np.float64)


# ---- single precision stays within the bounds

LEAVES = st.sampled_from(["a", "b", "c", "(0.1 * c)", "(3 - c)", "(a + 2)", "b[::-1]"])
UNARY = [
    "exp({})",
    "sqrt(abs({}))",
    "log(abs({}) + 0.1)",
    "sin({})",
    "cos({})",
    "tanh({})",
    "-{}",
    "abs({})",
    "({})**2",
    "arctan({})",
    "cumsum({})",
    "({} - mean({}))",
    "floor({} * 3)",
]
BINARY = ["({} + {})", "({} - {})", "({} * {})", "({} / (1 + abs({})))", "maximum({}, {})", "where({} > {}, a, b)"]
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda form, x: form.replace("{}", x), st.sampled_from(UNARY), inner),
        st.builds(lambda form, x, y: form.replace("{}", x, 1).replace("{}", y), st.sampled_from(BINARY), inner, inner),
    ),
    max_leaves=8,
).filter(lambda text: len(text) < 900)
NUMPY = {
    one.__name__: one
    for one in (
        np.exp,
        np.sqrt,
        np.log,
        np.sin,
        np.cos,
        np.tanh,
        np.arctan,
        np.cumsum,
        np.mean,
        np.floor,
        np.maximum,
        np.where,
    )
}


@settings(max_examples=150)
@given(EXPRESSIONS)
def test_single_precision_stays_within_the_bound(text):
    tracked = value_of(f"{text} ")
    singles = {k: v for k, v in ARRAYS.items() if v.dtype == np.float32 and v.ndim == 1}
    with np.errstate(all="ignore"):
        single = eval(f"{text}", {**NUMPY, **singles})  # noqa: S307 - text of this test
        error = np.abs(single.astype(np.float64) - tracked.values)
        bound = _ROOM * tracked.spread
    assert single.dtype == np.float32
    overflowed = ~np.isfinite(single) | ~np.isfinite(tracked.values)  # `judging` treats these
    inside = (error <= bound) | overflowed | np.isnan(bound)
    assert inside.all(), (text, error[~inside], np.broadcast_to(bound, error.shape)[~inside])


@pytest.mark.parametrize("text", ["a * b + c", "exp(a) / (1 + c)", "sum(x, axis=1)", "matmul(x, y)"])
def test_a_bound_is_not_much_wider_than_the_error(text):
    tracked = value_of(text)
    assert np.median(tracked.spread / np.abs(tracked.values)) < 2e-6


def test_double_precision_has_bounds_of_its_own():
    assert value_of("a * b", arithmetic=DOUBLE).bound.max() < 1e-14
    assert value_of("a * 0.1", arithmetic=DOUBLE).bound.max() < value_of("a * 0.1").bound.max() / 1e8


# ---- what is refused


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a +", "not an expression", None),
        ("a + d", "unknown name 'd' (column 5)", None),
        ("alpa * a", "unknown name 'alpa' (column 1)", "alpha"),
        ("array([1, 2])", "unknown function 'array' (column 1)", "a list needs no function"),
        ("summ(a)", "unknown function 'summ' (column 1)", "sum"),
        ("atan(a)", "unknown function 'atan' (column 1)", "arctan"),
        ("a.tofile('x')", "values have no attributes", None),
        ("a.shape", "values have no attributes", None),
        ("a + x", "arrays of shapes [257] and [16, 33] do not go together (column 3)", None),
        ("matmul(a, x)", "do not go together", None),
        ("sum(x, axis=2)", "axis=2 of an array of shape [16, 33]", None),
        ("sum(x, axes=1)", "sum: got an unexpected keyword argument 'axes'", None),
        ("sum(x, axis=0.5)", "sum: wrong axis", None),
        ("sum()", "sum: missing a required argument: 'a'", None),
        ("zeros((100000, 100000))", "a result of 100000 x 100000 elements", None),
        ("a[:, None] * ones(10000000)", "a result of 257 x 10000000 elements", None),
        ("tile(a, 100000000)", "a result of 257 x 100000000 elements", None),
        ("arange(10 ** 18)", "a result of", None),
        ("arange(0, 1, 0)", "a step of 0", None),
        ("2 ** 70", "the result of ** is too large", None),
        ("i << 64", "a shift by too many places", None),
        ("a & 1", "a bit operation of floats", None),
        ("a[3000]", "out of bounds", None),
        ("a[0.5]", "an index must be an integer", None),
        ("a[0, 0]", "too many indices", None),
        ("i / 0 // 1 if a > 0 else i", "'if' with an array as its condition", None),
        ("i // 0", "// by an integer that is 0", None),
        ("take(a, int32(floor(0 * a + 0.1 * 10)))", "an index depends on rounded values", None),
        ("einsum('ij,jk', x, y)", "the subscripts 'ij,jk' are not those of 2 arrays", None),
        ("einsum('ij,jk->il', x, y)", "wrong letters in the result", None),
        ("einsum('ij,ik->jk', x, y)", "index i has 16 and 33 values", None),
        ("reshape(a, (2, 2))", "cannot reshape array", None),
        ("pad(a, -1)", "a negative width", None),
        ("bincount(i - 50)", "bincount of negative values", None),
        ("astype(a, 'flaot')", "unknown type 'flaot'", None),
        ("int32(a / 0)", "int32 of a number beyond 64 bits", None),
        ("'text'", "the value is not an array", None),
        ("None", "the value is not an array", None),
        ("a in b", "'in' of arrays", None),
        ("concatenate([])", "nothing to join", None),
        ("sin(complex(a, b))", "this function of complex numbers", None),
    ],
)
def test_what_has_no_value_is_refused_with_its_place(text, message, hint):
    with pytest.raises(UserError) as caught:
        value_of(text)
    assert message in caught.value.message
    assert "(column " in caught.value.message or "at column" in caught.value.message
    assert hint is None or hint in caught.value.suggestion


def test_all_unknown_names_are_found_at_once():
    mistakes = check("foo(a) + bar + a.b", frozenset("a"))
    assert sorted(mistake.message for mistake in mistakes) == [
        "unknown function 'foo' (column 1)",
        "unknown name 'bar' (column 10)",
        "values have no attributes (column 17)",
    ]


def test_names_of_a_reference():
    assert names_of("sum(a, axis=k) + pi * b[i]") == {"a", "k", "pi", "b", "i"}


WORDS = [
    *ARRAYS, "sum", "pad", "einsum", "(", ")", "[", "]", ",", ":", "+", "**", "1", "'ij->j'",
    "axis=", "None", "if", "else", "<", "take", "9", ".", "reshape",
]  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_no_text_raises_anything_but_a_users_error(parts):
    with contextlib.suppress(UserError):
        value_of(" ".join(parts))


def test_a_matrix_product_has_pythons_sign():
    assert check("2 * a @ b + c", frozenset("abc")) == []
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    tracked = evaluate_arrays("-x @ y", {"x": Tracked(x), "y": Tracked(y)}, Rules(DOUBLE))
    assert (tracked.values == -x @ y).all()


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("np.add(a, b)", "write add without np."),
        ("np.pi * a", "write pi without np."),
        ("a.sum()", "write sum(a)"),
        ("a.shape[0]", None),
    ],
)
def test_numpys_spelling_gets_ours_as_a_suggestion(text, suggestion):
    [mistake] = check(text, frozenset("ab"))
    assert (mistake.message.split(" (")[0], mistake.suggestion) == ("values have no attributes", suggestion)
