"""References at chosen elements, against the whole of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.operators.declared import budget
from lab.operators.declared.arrays import evaluate_arrays
from lab.operators.declared.budget import UnrestrictedError
from lab.operators.declared.elements import ELEMENT_TYPES, SINGLE
from lab.operators.declared.restricted import NamedArray, evaluate_at
from lab.operators.declared.tracked import Rules, Tracked
from lab.operators.indexed import PAGE, PagedArray, WholeArray

RULES = Rules(SINGLE)
RNG = np.random.default_rng(7)
N, M, K = 13, 7, 11
HELD = {
    "x": RNG.standard_normal(N),
    "y": RNG.standard_normal(N),
    "row": RNG.standard_normal(M),
    "a": RNG.standard_normal((N, K)),
    "b": RNG.standard_normal((K, M)),
    "c": RNG.standard_normal((N, M)),
    "t": RNG.standard_normal((3, N, M)),
    "i": RNG.integers(0, N, N),
}
EXPRESSIONS = [
    ("2 * x + y", (N,)),
    ("x[::-1]", (N,)),
    ("x[bitwise_xor(arange(n), 1) % n]", (N,)),
    ("x[i]", (N,)),
    ("x[i][i] - y[2]", (N,)),
    ("where(x > 0, x, exp(y))", (N,)),
    ("clip(x, -1, 1) ** 2", (N,)),
    ("cumsum(x)", (N,)),
    ("x - max(x)", (N,)),
    ("x / sum(x * x)", (N,)),
    ("matmul(a, b)", (N, M)),
    ("alpha * matmul(a, b) + c", (N, M)),
    ("matmul(a, b) + row", (N, M)),
    ("exp(c - max(c, axis=1, keepdims=True))", (N, M)),
    ("exp(c - max(c, 1, True)) / sum(exp(c - max(c, 1, True)), axis=-1, keepdims=True)", (N, M)),
    ("sum(c, axis=1)", (N,)),
    ("sum(t, axis=(0, 2))", (N,)),
    ("mean(t, axis=0)", (N, M)),
    ("sort(c, axis=1)", (N, M)),
    ("cumsum(c, axis=0)", (N, M)),
    ("transpose(b)", (M, K)),
    ("matmul(transpose(b), transpose(a))", (M, N)),
    ("t[1] + c[:, ::-1]", (N, M)),
    ("t[:, i]", (3, N, M)),
    ("row[newaxis, :] * c", (N, M)),
    ("x[None, :, None] * t", (3, N, M)),
    ("c[:, newaxis, 0] + zeros((n, 1))", (N, 1)),
    ("reshape(c, (m, n))", (M, N)),
    ("pad(x, 1)[:-2] + x", (N,)),
    ("concatenate([x, y])[:n]", (N,)),
    ("float32(argmax(c, axis=1))", (N,)),
    ("3", (N,)),
    ("ravel(t)[n:2 * n]", (N,)),
    ("reshape(t, (m, -1))", (M, 3 * N)),
    ("sum(reshape(y * take(x, i), (n, 1)), axis=1)", (N,)),
    ("ravel(cumsum(reshape(t, (n, 3 * m)), axis=1))", (3 * M * N,)),
    ("cumsum(c)", (N * M,)),
    ("c + 0.1 * pad(c[1:-1, :-2] + c[1:-1, 2:], 1)", (N, M)),
    ("pad(c, ((1, 2), (0, 3)), constant_values=4)", (N + 3, M + 3)),
    *((f"pad(c, ((9, 5), (2, 8)), '{mode}')", (N + 14, M + 10)) for mode in ("edge", "wrap", "reflect", "symmetric")),
    ("roll(t, 5)", (3, N, M)),
    ("roll(t, (2, -1), (1, -1))", (3, N, M)),
    ("flip(t)", (3, N, M)),
    ("flip(c, 1)", (N, M)),
    ("repeat(c, 3, axis=0)", (3 * N, M)),
    ("repeat(c, 2)", (2 * N * M,)),
    ("tile(c, (2, 3))", (2 * N, 3 * M)),
    ("tile(x, (2, 2))", (2, 2 * N)),
    ("broadcast_to(row, (n, m)) + c", (N, M)),
    ("broadcast_to(c[:, :1], (n, m))", (N, M)),
    ("expand_dims(c, 1)", (N, 1, M)),
    ("squeeze(expand_dims(c, 1))", (N, M)),
    ("transpose(t, (2, 0, 1))", (M, 3, N)),
    ("swapaxes(t, 0, -1)", (M, N, 3)),
    ("moveaxis(t, 0, 2)", (N, M, 3)),
    ("diagonal(c, 1) + diagonal(c, 1)", (M - 1,)),
    ("diagonal(c, -2)", (M,)),
    ("tril(c, 1) - triu(c)", (N, M)),
    ("diff(c, axis=0)", (N - 1, M)),
    ("diff(x)", (N - 1,)),
    ("stack([x, y, x[i]], axis=1)", (N, 3)),
    ("stack([x, y])", (2, N)),
    ("concatenate([c, t[0], i[:, None] * c], axis=1)", (N, 3 * M)),
    ("take(t, i, axis=1)", (3, N, M)),
    ("take(c, i % m)", (N,)),
    ("take(c, stack([i, i]) - 1)", (2, N)),
    ("c[i, i % m]", (N,)),
    ("t[0, :, i % m]", (N, N)),
    ("t[1, i]", (N, M)),
    ("t[:, i, i % m]", (3, N)),
    ("t[i % 3, :, i % m]", (N, N)),
    ("t[i % 3, newaxis, :, -1]", (N, 1, N)),
    ("t[:, i[:, None], arange(m)]", (3, N, M)),
    ("x[stack([i, n - 1 - i])]", (2, N)),
    ("c[:, None, 0] + x[None, ::-2][:, :1]", (N, 1)),
    ("matmul(a, b[:, 0])", (N,)),
    ("matmul(x, c)", (M,)),
    ("matmul(t, transpose(t, (0, 2, 1)))", (3, N, N)),
    ("matmul(t, b[:m])", (3, N, M)),
    ("dot(a, b)", (N, M)),
    ("x * dot(x, y)", (N,)),
    ("outer(x, row)", (N, M)),
    ("einsum('ki,kj->ij', b, b)", (M, M)),
    ("einsum('ij->i', a)", (N,)),
    ("einsum('bij,bkj->bik', t, t)", (3, N, N)),
    ("sum(b ** 2, axis=0)[:, None] - 2 * einsum('ki,kj->ij', b, b)", (M, M)),
    ("mean((c - mean(c, axis=1, keepdims=True)) ** 2, axis=1, keepdims=True) * c", (N, M)),
    ("std(c, axis=0) + var(c, 0, 1) - norm(c, axis=0)", (M,)),
    ("argsort(c, axis=0)", (N, M)),
    ("float32(argmin(x)) + x", (N,)),
    ("max(n, 3) * x", (N,)),
    ("any(c > 2, axis=1)", (N,)),
    ("real(ifft(fft(c, 1)))", (N, M)),
    ("zeros((n, m)) + full((n, m), x[:, None]) + ones(m)", (N, M)),
    ("full_like(c, 2) * zeros_like(c) + ones_like(c)", (N, M)),
    ("eye(n, m) + eye(m)[0]", (N, M)),
    ("arange(n, 0, -1) * x", (N,)),
    ("arange(0.5, n, 1.0)", (N,)),
    ("x if n > 3 else y", (N,)),
    ("clip(x, low=y, high=2)", (N,)),
    ("convolve(x, [1, 2, 1], 'same') + y", (N,)),
    ("bincount(i, minlength=n)[:n] + x", (N,)),
    ("x[x > 0][0] + y", (N,)),
    ("linspace(0, 1, n) * x", (N,)),
    ("searchsorted(sort(i), i)", (N,)),
    ("astype(1000 * x, 'int8')", (N,)),
    ("x > 0 and y > 0", (N,)),
    ("0 < x < 1", (N,)),
]
NUMBERS = {"n": RULES.literal(N), "m": RULES.literal(M), "alpha": RULES.literal(0.75)}


def named(name):
    held = HELD[name]
    element = ELEMENT_TYPES["int32" if held.dtype.kind == "i" else "float32"]
    return NamedArray(WholeArray(held.astype(element.dtype).reshape(-1)), held.shape, element)


ARRAYS = {name: named(name) for name in HELD}
WHOLE = {name: Tracked(one.element.widened(one.source.array).reshape(one.shape)) for name, one in ARRAYS.items()}


@pytest.mark.parametrize(("expression", "shape"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_chosen_elements_have_the_values_and_bounds_of_the_whole(expression, shape, data):
    size = int(np.prod(shape))
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1))))
    chosen_values = evaluate_at(expression, ARRAYS, NUMBERS, RULES, shape=shape, elements=chosen)
    whole = evaluate_arrays(expression, {**NUMBERS, **WHOLE}, RULES)
    wanted = np.broadcast_to(whole.values, shape).reshape(-1)[chosen]
    np.testing.assert_allclose(chosen_values.values, wanted, rtol=1e-13, atol=1e-13)
    bound = np.broadcast_to(whole.spread, shape).reshape(-1)[chosen]
    assert (np.broadcast_to(chosen_values.spread, chosen.shape) <= bound * (1 + 1e-9)).all()  # exact products have none


class Endless:
    """Elements of an array that is too large to be made."""

    dtype = np.dtype(np.float32)

    def __init__(self, size):
        self.size = size

    def read(self, start, stop):
        assert stop - start <= 1 << 14
        return (np.arange(start, stop) % 1001).astype(np.float32)


def endless(*shape):
    return NamedArray(Endless(int(np.prod(shape, dtype=np.int64))), shape, ELEMENT_TYPES["float32"])


def test_elements_of_arrays_that_are_never_made():
    n = 10_000_000_000
    arrays = {"x": endless(n), "y": endless(n)}
    chosen = np.array([0, 1, n // 2, n - 1])
    numbers = {"n": RULES.literal(n)}
    chosen_values = evaluate_at("2 * x[::-1] + y", arrays, numbers, RULES, shape=(n,), elements=chosen)
    assert chosen_values.values.tolist() == [float(2 * ((n - 1 - i) % 1001) + i % 1001) for i in chosen.tolist()]


def test_rows_and_columns_of_a_large_product():
    m = 1 << 20
    arrays = {"a": endless(m, 64), "b": endless(64, m)}
    chosen = np.array([5, m + 5, (m - 1) * m + m - 1])
    chosen_values = evaluate_at("matmul(a, b)", arrays, {}, RULES, shape=(m, m), elements=chosen)
    a = lambda i: np.arange(i * 64, i * 64 + 64) % 1001.0  # noqa: E731
    b = lambda j: (np.arange(64) * m + j) % 1001.0  # noqa: E731
    np.testing.assert_allclose(chosen_values.values, [a(0) @ b(5), a(1) @ b(5), a(m - 1) @ b(m - 1)], rtol=1e-13)


@pytest.mark.parametrize(
    "expression", ["sum(a) * ravel(a)", "cumsum(a)", "sort(ravel(a))", "convolve(ravel(a), [1, 2])"]
)
def test_what_needs_all_of_a_large_array_is_not_evaluated(expression):
    arrays = {"a": endless(1 << 15, 1 << 15)}
    numbers = {"n": RULES.literal(1 << 30)}
    with pytest.raises(UnrestrictedError):
        evaluate_at(expression, arrays, numbers, RULES, shape=(1 << 30,), elements=np.array([3]))


def test_products_that_take_too_long_are_not_evaluated(monkeypatch):
    monkeypatch.setattr(budget, "_MOST_PRODUCTS", 100)
    with pytest.raises(UnrestrictedError):
        evaluate_at("matmul(a, b)", ARRAYS, NUMBERS, RULES, shape=(N, M), elements=np.arange(N * M))


def test_long_sums_are_computed_once():
    n = 1 << 21
    source = PagedArray(
        np.dtype(np.float32), n, lambda i: (np.arange(i * PAGE, (i + 1) * PAGE) % 1001).astype(np.float32)
    )
    arrays, cache = {"x": NamedArray(source, (n,), ELEMENT_TYPES["float32"])}, dict[object, object]()
    element_values = [
        evaluate_at("x / sum(x)", arrays, {}, RULES, shape=(n,), elements=np.array([i]), cache=cache)
        for i in (1, 2, n - 1)
    ]
    assert len(cache) == 1
    total = (np.arange(n) % 1001).sum()
    np.testing.assert_allclose(
        [value.values[0] for value in element_values], [1 / total, 2 / total, (n - 1) % 1001 / total]
    )
    assert (
        len(evaluate_at("x - max(x[:9])", arrays, {}, RULES, shape=(n,), elements=np.array([5]), cache=cache).values)
        == 1
    )
    assert len(cache) == 1


@st.composite
def compositions(draw):
    """An expression of shape (n, m), composed at random."""

    def part(depth):
        if not depth:
            return draw(st.sampled_from(["p", "q", "p[i % n]", "r", "p[:, ::-1]", "3"]))
        inner = [part(depth - 1) for _ in range(2)]
        form = draw(
            st.sampled_from(
                [
                    "({0} + {1})",
                    "({0} * {1} - 2)",
                    "where({0} > {1}, {0}, {1})",
                    "exp(minimum({0}, 1))",
                    "({0} - mean(p * {1}, axis=1, keepdims=True))",
                    "({0} * sum(p + {1}, axis=0))",
                    "cumsum(p * {0}, axis=0)",
                    "sort(q + {0}, axis=1)",
                    "roll(p + {0}, (1, 2), (0, 1))",
                    "flip(p - {0}, 1)",
                    "transpose(transpose(q + {0}) * transpose(p + {1}))",
                    "reshape(ravel(p + {0}), (n, m))",
                    "pad(p + {0}, 1)[1:-1, 2:]",
                    "concatenate([(p + {0})[1:], (q * {1})[:1]])",
                    "matmul(p + {0}, matmul(transpose(q), p + {1}))",
                    "take(p + {0}, arange(m)[::-1], axis=1)",
                    "(p + {0})[arange(n), 0][:, None]",
                ]
            )
        )
        return form.format(*inner)

    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    return n, m, f"p * 0 + {part(draw(st.integers(1, 3)))}"


@settings(max_examples=50, deadline=None)
@given(made=compositions(), data=st.data())
def test_compositions_have_the_values_and_bounds_of_the_whole(made, data):
    n, m, expression = made
    rng = np.random.default_rng(n * 10 + m)
    given_ = {"p": rng.standard_normal((n, m)), "q": rng.standard_normal((n, m)), "r": rng.standard_normal(m)}
    arrays = {
        name: NamedArray(WholeArray(held.astype(np.float32).reshape(-1)), held.shape, ELEMENT_TYPES["float32"])
        for name, held in given_.items()
    }
    i = rng.integers(0, 9, n).astype(np.int32)
    arrays["i"] = NamedArray(WholeArray(i), i.shape, ELEMENT_TYPES["int32"])
    numbers = {"n": RULES.literal(n), "m": RULES.literal(m)}
    whole = {
        name: Tracked(one.element.widened(one.source.read(0, one.source.size)).reshape(one.shape))
        for name, one in arrays.items()
    }
    wanted = evaluate_arrays(expression, {**numbers, **whole}, RULES)
    assert wanted.shape == (n, m)
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, n * m - 1), min_size=1))))
    chosen_values = evaluate_at(expression, arrays, numbers, RULES, shape=(n, m), elements=chosen)
    np.testing.assert_allclose(chosen_values.values, wanted.values.reshape(-1)[chosen], rtol=1e-12, atol=1e-12)
    bound = np.broadcast_to(wanted.spread, (n, m)).reshape(-1)[chosen]
    assert (np.broadcast_to(chosen_values.spread, chosen.shape) <= bound * (1 + 1e-9)).all()
