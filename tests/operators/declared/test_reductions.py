"""Sums and products of many terms: every order of a kernel stays within the bound, and a missing term does not."""

from __future__ import annotations

import numpy as np
import pytest

from lab.operators.declared import reductions
from lab.operators.declared.elements import SINGLE
from lab.operators.declared.tracked import ArrayOperationError, Rules, Tracked

RULES = Rules(SINGLE)
ROOM = 2
FILLS = {
    "around zero": lambda rng, n: rng.standard_normal(n),
    "positive": lambda rng, n: rng.random(n),
    "large mean": lambda rng, n: 100 + rng.standard_normal(n),
    "slow wave": lambda rng, n: np.sin(np.arange(n) * 2 * np.pi / n) + 1e-3 * rng.random(n),
    "wide range": lambda rng, n: rng.standard_normal(n) * np.exp(3 * rng.standard_normal(n)),
}


def orders(x):
    """One after the other, backwards, by 32 and by 1024 threads, and pairwise; all in single precision."""
    yield np.cumsum(x, dtype=np.float32)[-1]
    yield np.cumsum(x[::-1], dtype=np.float32)[-1]
    for threads in (32, 1024):
        padded = np.pad(x, (0, -len(x) % threads)).reshape(-1, threads)
        yield np.cumsum(padded, axis=0, dtype=np.float32)[-1].sum()
    yield x.sum()


@pytest.mark.parametrize("n", [1, 2, 7, 100, 10_000, 1_000_000])
@pytest.mark.parametrize("fill", FILLS)
def test_every_order_of_a_sum_stays_within_the_bound(fill, n):
    for seed in range(1 if n > 10_000 else 20):
        x = FILLS[fill](np.random.default_rng(seed), n).astype(np.float32)
        tracked = reductions.total(RULES, Tracked(x.astype(np.float64)))
        for single in orders(x):
            assert abs(float(single) - tracked.values) <= ROOM * tracked.bound


@pytest.mark.parametrize("n", [100, 10_000, 1_000_000])
def test_a_missing_term_of_typical_size_is_found(n):
    x = np.random.default_rng(5).standard_normal(n).astype(np.float32)
    tracked = reductions.total(RULES, Tracked(x.astype(np.float64)))
    typical = np.argmin(np.abs(np.abs(x) - 0.6745))  # half of all terms are larger
    assert abs(float(np.delete(x, typical).sum()) - tracked.values) > ROOM * tracked.bound


@pytest.mark.parametrize(("m", "k", "n"), [(5, 1, 4), (64, 17, 32), (32, 4096, 48)])
@pytest.mark.parametrize("fill", ["around zero", "positive", "large mean"])
def test_a_matrix_product_stays_within_its_bound(fill, m, k, n):
    rng = np.random.default_rng(0)
    a = FILLS[fill](rng, m * k).reshape(m, k).astype(np.float32)
    b = FILLS[fill](rng, k * n).reshape(k, n).astype(np.float32)
    wide = Tracked(a.astype(np.float64)), Tracked(b.astype(np.float64))
    matrix_product, summed = reductions.matrix_product(RULES, *wide), reductions.summation(RULES, "ij,jk->ik", *wide)
    one_by_one = np.zeros((m, n), np.float32)
    for i in range(k):
        one_by_one += a[:, i : i + 1] * b[i]
    for product in (matrix_product, summed):
        for single in (a @ b, one_by_one):
            assert np.all(np.abs(single - product.values) <= ROOM * product.bound)
    if k > 1:
        without_last = a[:, :-1] @ b[:-1]
        assert np.any(np.abs(without_last - matrix_product.values) > ROOM * matrix_product.bound)


def test_errors_of_operands_are_carried_along():
    a, b = np.array([[1.0, -2.0]]), np.array([[3.0], [4.0]])
    tracked = reductions.matrix_product(RULES, Tracked(a, np.full((1, 2), 0.1)), Tracked(b, np.full((2, 1), 0.01)))
    assert tracked.bound[0, 0] == pytest.approx(0.1 * 3 + 0.1 * 4 + 0.01 * (1.1 + 2.1), rel=1e-4)


@pytest.mark.parametrize(
    "shape", [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((5, 2, 3), (5, 3, 4)), ((2, 3), (5, 3, 4))]
)
def test_matrix_products_have_numpys_shapes(shape):
    a, b = (np.random.default_rng(0).standard_normal(one) for one in shape)
    tracked = reductions.matrix_product(RULES, Tracked(a), Tracked(b))
    np.testing.assert_allclose(tracked.values, a @ b)
    assert tracked.bound.shape == (a @ b).shape


def test_integers_are_added_and_multiplied_exactly():
    x = Tracked(np.arange(12).reshape(3, 4))
    for tracked, expected in (
        (reductions.total(RULES, x, 0), x.values.sum(0)),
        (reductions.matrix_product(RULES, x, Tracked(x.values.T)), x.values @ x.values.T),
        (reductions.running_sum(RULES, x, 1), x.values.cumsum(1)),
        (reductions.product(RULES, x, 1), x.values.prod(1)),
    ):
        assert tracked.bound is None
        np.testing.assert_array_equal(tracked.values, expected)


def test_integer_products_that_a_float_does_not_hold_wrap_around():
    x = Tracked(np.array([[2**40 + 1, 3]]))
    y = Tracked(np.array([[2**30], [2**20]]))
    assert reductions.matrix_product(RULES, x, y).values[0, 0] == (2**70 + 2**30 + 3 * 2**20) % 2**64


def test_a_scan_stays_within_its_bound():
    x = np.random.default_rng(1).standard_normal((4, 50_000)).astype(np.float32)
    tracked = reductions.running_sum(RULES, Tracked(x.astype(np.float64)), 1)
    assert np.all(np.abs(np.cumsum(x, axis=1, dtype=np.float32) - tracked.values) <= ROOM * tracked.bound)
    shifted = np.cumsum(np.roll(x, 1, axis=1), axis=1, dtype=np.float32)
    assert np.mean(np.abs(shifted - tracked.values) > ROOM * tracked.bound) > 0.5


def test_the_place_of_a_rounded_maximum_is_doubtful_where_another_one_is_near():
    x = Tracked(np.array([[1.0, 2.0, 2.0001], [1.0, 2.0, 5.0]]), np.full((2, 3), 1e-3))
    tracked = reductions.place_of_greatest(RULES, x, 1)
    assert tracked.values.tolist() == [2, 2]
    assert tracked.bound.tolist() == [1, 0]


def test_a_doubtful_truth_is_carried_along():
    x = Tracked(np.array([[True, False], [False, False], [True, True]]), np.array([[0.0, 1], [0, 1], [0, 0]]))
    assert reductions.any_of(RULES, x, 1).bound.tolist() == [0, 1, 0]
    assert reductions.all_of(RULES, x, 1).bound.tolist() == [1, 0, 0]
    assert reductions.total(RULES, x).bound == 2


def test_a_histogram_of_rounded_values_is_off_where_they_lie_at_an_edge():
    x = Tracked(np.array([0, 1, 3, 3]), np.array([0.0, 1, 0, 0]))
    tracked = reductions.bincount(RULES, x, minlength=4)
    assert tracked.values.tolist() == [1, 1, 0, 2]
    assert tracked.bound.tolist() == [1, 1, 1, 0]


def test_fourier_transforms_stay_within_their_bound():
    x = np.random.default_rng(0).standard_normal((3, 1024)).astype(np.float32)
    tracked = reductions.fourier(RULES, Tracked(x.astype(np.float64)))
    single = np.fft.fft(x).astype(np.complex64)
    assert np.all(np.abs(single - tracked.values) <= ROOM * tracked.bound)
    naive = x @ np.exp(-2j * np.pi * np.outer(np.arange(1024), np.arange(1024)) / 1024).astype(np.complex64)
    assert np.all(np.abs(naive - tracked.values) <= 8 * ROOM * tracked.bound)
    back = reductions.inverse_fourier(RULES, tracked)
    np.testing.assert_allclose(back.values.real, x, atol=1e-6)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("size", [(3, 3), (4, 2), (1, 5)])
def test_two_dimensional_correlation_is_a_sum_of_shifted_matrices(mode, size):
    rng = np.random.default_rng(0)
    a, v = rng.standard_normal((9, 11)), rng.standard_normal(size)
    correlation = reductions.correlate2d(RULES, Tracked(a), Tracked(v), mode).values
    (p, q), (h, w) = a.shape, size
    full = np.zeros((p + h - 1, q + w - 1))
    for i in range(h):
        for j in range(w):
            full[h - 1 - i : h - 1 - i + p, w - 1 - j : w - 1 - j + q] += a * v[i, j]
    top, left = {"full": (0, 0), "same": ((h - 1) // 2, (w - 1) // 2), "valid": (h - 1, w - 1)}[mode]
    shape = {"full": full.shape, "same": a.shape, "valid": (p - h + 1, q - w + 1)}[mode]
    np.testing.assert_allclose(correlation, full[top : top + shape[0], left : left + shape[1]])


def test_what_takes_hours_is_refused():
    large = Tracked(np.broadcast_to(np.zeros(1), (2**16, 2**15)))
    with pytest.raises(ArrayOperationError, match="multiplications"):
        reductions.convolve(RULES, Tracked(large.values[0]), Tracked(np.broadcast_to(np.zeros(1), (2**30,))))
    with pytest.raises(ArrayOperationError, match="65536 x 65536"):
        reductions.matrix_product(RULES, large, Tracked(large.values.T))
