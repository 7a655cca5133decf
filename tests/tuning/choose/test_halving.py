from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from lab.tuning.choose import halving
from lab.tuning.file.size_lists import Sizes

GRID = tuple(itertools.product((16, 32, 64, 112, 176, 256, 352), (16, 32, 64, 112, 176), (3104,)))
size = st.tuples(*(st.integers(1, 10**6) for _ in range(3)))


def test_coarse_sizes_are_every_so_manieth_along_each_dimension_and_the_last():
    coarse_sizes = halving.coarse(Sizes(ranges=GRID), 4)
    assert coarse_sizes == tuple(itertools.product((16, 176, 352), (16, 176), (3104,)))
    assert set(halving.coarse(Sizes(ranges=GRID), 1)) == set(GRID)


@given(st.lists(size, min_size=1, max_size=30, unique=True), st.integers(1, 6))
def test_of_exact_sizes_a_share_is_taken_each_once(exact, every):
    coarse_sizes = halving.coarse(Sizes(exact=tuple(exact)), every)
    assert len(coarse_sizes) == len(set(coarse_sizes)) == -(-len(exact) // every)
    assert set(coarse_sizes) <= set(exact)


def test_exact_sizes_are_spread():
    near = tuple((1000 + i, 1000, 1000) for i in range(9))
    assert set(halving.coarse(Sizes(exact=(*near, (1, 1, 1), (1, 1, 500000))), 4)) >= {(1, 1, 1), (1, 1, 500000)}


def test_of_random_sizes_a_share_is_spread_beside_the_grid():
    near = tuple((1000 + i, 1000, 1000) for i in range(9))
    scattered = (*near, (1, 1, 1), (1, 1, 500000))
    coarse_sizes = halving.coarse(Sizes(ranges=(*GRID, *scattered), scattered=frozenset(scattered)), 4)
    assert coarse_sizes[:6] == halving.coarse(Sizes(ranges=GRID), 4)
    assert len(coarse_sizes) == 6 + 3
    assert set(coarse_sizes) >= {(1, 1, 1), (1, 1, 500000)}


def test_a_kernel_that_is_slow_all_around_is_left_out():
    times: halving.Ms = {
        "small": {(16, 16, 1): 1.0, (4096, 4096, 1): 9.0},
        "large": {(16, 16, 1): 3.0, (4096, 4096, 1): 4.0},
    }
    at = ((16, 16, 1), (4096, 4096, 1))
    assert halving.survivors((32, 32, 1), times, at, nearest=1, keep=0.3) == {"small"}
    assert halving.survivors((2048, 4096, 1), times, at, nearest=1, keep=0.3) == {"large"}
    assert halving.survivors((32, 32, 1), times, at, nearest=2, keep=0.3) == {"small", "large"}
    assert halving.survivors((32, 32, 1), times, at, nearest=1, keep=2.0) == {"small", "large"}


def test_sizes_without_a_time_do_not_count():
    times: halving.Ms = {"a": {(4096, 4096, 1): 1.0}}
    assert halving.survivors((16, 16, 1), times, ((16, 16, 1), (4096, 4096, 1)), nearest=1, keep=0.0) == {"a"}
    assert halving.survivors((16, 16, 1), {}, ((16, 16, 1),), nearest=1, keep=0.0) == frozenset()


def test_large_sizes_do_not_see_all_kernels():
    sizes = Sizes((), ((1000, 1000, 1000), (4000, 4000, 4000), (10, 10, 10)))
    assert set(halving.coarse(sizes, 1)) == set(sizes.exact)
    assert set(halving.coarse(sizes, 1, 2.0)) == {(1000, 1000, 1000), (10, 10, 10)}
    assert set(halving.coarse(sizes, 1, 1e-9)) == set(sizes.exact)  # somebody has to


@given(st.dictionaries(st.text(min_size=1), st.floats(0.01, 100), min_size=1), st.floats(1, 10))
def test_the_best_prediction_always_stays(predicted, times):
    kept = halving.promising(predicted, times)
    assert min(predicted, key=predicted.get) in kept
    assert all(predicted[name] <= times * min(predicted.values()) for name in kept)
    assert halving.promising(predicted, 0) == set(predicted)


@given(st.lists(size, min_size=2, max_size=20, unique=True), st.integers(0, 20), st.integers(0, 5))
def test_held_out_sizes_are_within_and_new(sizes, count, seed):
    held_out = halving.between(sizes, count, seed)
    assert len(held_out) <= count
    assert not set(held_out) & set(sizes)
    for axis in range(3):
        values = [size[axis] for size in sizes]
        assert all(min(values) <= one[axis] <= max(values) for one in held_out)
    assert halving.between(sizes, count, seed) == held_out
