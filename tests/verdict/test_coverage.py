"""Coverage from sampled stores, against the stores of all blocks."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.emulator.batch import block_index
from lab.verdict.coverage import Coverage, coverage
from lab.verdict.sampling import sampled_blocks

ALONE = (1, 1, 1)


def judged(size, grid, stores, cluster=ALONE):
    """Coverage by sampled blocks; `stores` gives the elements of a block by its index."""
    numbers = sampled_blocks(grid, cluster, 1)
    rows = [np.unique(np.asarray(stores(*block_index(number, grid, cluster)), np.int64)) for number in numbers]
    blocks = np.repeat(np.array(numbers), [len(row) for row in rows])
    return coverage(size, grid, cluster, numbers, blocks=blocks, elements=np.concatenate(rows))


def line(n, threads=128, limit=None):
    def stores(x, _y, _z):
        elements = x * threads + np.arange(threads)
        return elements[elements < (n if limit is None else limit)]

    return stores


def tile(m, n, rows, columns, pitch=None):
    def stores(x, y, _z):
        i, j = y * rows + np.arange(rows), x * columns + np.arange(columns)
        i, j = i[i < m], j[j < n]
        return (i[:, None] * (pitch or n) + j).reshape(-1)

    return stores


@pytest.mark.parametrize("n", [1, 127, 128, 129, 1_000_003, 100_000_007])
def test_a_line_of_blocks_covers_what_its_grid_covers(n):
    grid = (-(-n // 128), 1, 1)
    assert judged(n, grid, line(n)).coverage is Coverage.COMPLETE


def test_a_grid_that_is_rounded_down_leaves_the_tail():
    judgement = judged(1_000_003, (1_000_003 // 128, 1, 1), line(1_000_003))
    assert judgement.coverage is Coverage.INCOMPLETE
    assert judgement.element == 1_000_003 // 128 * 128


def test_a_clamped_grid_leaves_nearly_everything():
    judgement = judged(1_000_003, (64, 1, 1), line(1_000_003))
    assert (judgement.coverage, judgement.element, judgement.missing) == (Coverage.INCOMPLETE, 8192, 1_000_003 - 8192)


def test_blocks_that_do_nothing_leave_their_elements():
    judgement = judged(1_000_003, (7813, 1, 1), line(1_000_003, limit=500_000))
    assert judgement.coverage is Coverage.INCOMPLETE
    assert judgement.element >= 500_000


def test_a_grid_stride_loop_covers_everything():
    n, grid = 1_000_003, (1056, 1, 1)

    def stores(x, _y, _z):
        return np.concatenate([np.arange(start, min(start + 256, n)) for start in range(x * 256, n, 1056 * 256)])

    assert judged(n, grid, stores).coverage is Coverage.COMPLETE


@pytest.mark.parametrize(("m", "n"), [(4096, 4096), (1000, 777), (129, 4095), (2048, 33)])
def test_tiles_cover_a_matrix(m, n):
    grid = (-(-n // 64), -(-m // 32), 1)
    assert judged(m * n, grid, tile(m, n, 32, 64)).coverage is Coverage.COMPLETE


def test_a_matrix_whose_last_columns_no_block_reaches():
    m, n = 1000, 777
    judgement = judged(m * n, (n // 64, -(-m // 32), 1), tile(m, n, 32, 64))
    assert judgement.coverage is Coverage.INCOMPLETE
    assert judgement.element % n >= n // 64 * 64


def test_a_guard_that_is_off_by_one_leaves_the_last_column():
    m, n = 1000, 777
    judgement = judged(m * n, (13, 32, 1), tile(m, n - 1, 32, 64, pitch=n))
    assert judgement.coverage is Coverage.INCOMPLETE
    assert judgement.element % n == n - 1


def test_a_guard_on_rows_that_is_too_small():
    m, n = 1000, 777
    judgement = judged(m * n, (13, 32, 1), tile(m - 10, n, 32, 64))
    assert judgement.coverage is Coverage.INCOMPLETE


def test_blocks_in_swizzled_order_are_compared_by_counts():
    grid = (64, 64, 1)

    def stores(x, y, z):
        number = x + 64 * y
        group, within = divmod(number, 64 * 8)
        return tile(4096, 4096, 64, 64)(within // 8, group * 8 + within % 8, z)

    assert judged(4096 * 4096, grid, stores).coverage is Coverage.COMPLETE


def test_unequal_blocks_out_of_order_are_unknown():
    def stores(x, _y, _z):
        start = x * x % 7919 * 100
        return np.arange(start, start + 60 + x % 3 * 50)

    assert judged(791_900, (7919, 1, 1), stores).coverage is Coverage.UNKNOWN


def test_blocks_whose_index_wraps_around_write_the_elements_of_others():
    judgement = judged(5_000_000_000, (19_531_250, 1, 1), lambda x, *_: np.arange(256) + x * 256 % 2**32)
    assert judgement.coverage is Coverage.INCOMPLETE
    assert judgement.element >= 2**32


def test_blocks_that_write_nothing_say_nothing():
    assert judged(1000, (1000, 1, 1), lambda *_: []).coverage is Coverage.UNKNOWN


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 40), st.integers(1, 40), st.integers(-1, 1), st.data())
def test_sampled_blocks_say_what_all_blocks_do(m, n, rows, columns, change, data):
    """A claim of completeness or of a hole holds of the union of all blocks."""
    grid = (max(1, -(-n // columns) + data.draw(st.integers(-1, 0))), max(1, -(-m // rows)), 1)
    guard = max(1, n + min(0, change))
    stores = tile(m, guard, rows, columns, pitch=n)
    judgement = judged(m * n, grid, stores)
    written = np.zeros(m * n, np.bool_)
    for number in range(math.prod(grid)):
        written[stores(*block_index(number, grid, ALONE))] = True
    if judgement.coverage is Coverage.COMPLETE:
        assert written.all()
    elif judgement.coverage is Coverage.INCOMPLETE:
        assert not written.all()
        assert judgement.element < 0 or not written[judgement.element]
