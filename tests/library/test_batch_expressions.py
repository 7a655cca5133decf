from __future__ import annotations

import numpy as np
import pytest
from library_support import mapped_kernel

from lab.base.errors import UserError
from lab.library.batch_expressions import blocks, others, over, takes
from lab.library.package import LibraryKernel, LibraryLaunch

M = np.array([1, 7, 64, 4096])
N = np.array([3, 3, 5, 0])


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("m + n * 2", [7, 13, 74, 4096]),
        ("-m // 2", [-1, -4, -32, -2048]),
        ("-m % 4", [3, 1, 0, 0]),
        ("ceil_div(m, 32)", [1, 1, 2, 128]),
        ("min(m, 10) + max(n, 4)", [5, 11, 15, 14]),
        ("abs(n - m)", [2, 4, 59, 4096]),
        ("m if m < 10 else n", [1, 7, 5, 0]),
        ("1 < m < 100", [False, True, True, False]),
        ("m == 7 or n == 5", [False, True, True, False]),
        ("m > 1 and not n == 3", [False, False, True, True]),
        ("12", 12),
    ],
)
def test_an_expression_is_computed_for_every_size(expression: str, wanted: object) -> None:
    np.testing.assert_array_equal(over(expression, {"m": M, "n": N}), wanted)


@pytest.mark.parametrize("expression", ["m / 2", "m ** 2", "m in n", "k", "'m'"])
def test_what_is_not_defined_on_sizes_is_refused(expression: str) -> None:
    with pytest.raises(UserError, match="cannot compute"):
        over(expression, {"m": M, "n": N})


def launch(*grid: str, when: str = "", main: bool = False) -> LibraryLaunch:
    x, y, z = [*grid, "1", "1"][:3]
    return LibraryLaunch("e", (x, y, z), ("32", "1", "1"), "0", (), when, main)


def test_blocks_are_those_of_the_largest_launch_that_takes_place() -> None:
    kernel = LibraryKernel(
        "k", "k.cubin", "t", {}, (launch("ceil_div(m, 64)", "n"), launch("1000", when="k % 4 == 0"), launch("0 * m"))
    )
    sizes = np.array([[64, 2, 3], [65, 2, 3], [64, 2, 4]])
    assert blocks(kernel, "nt", sizes).tolist() == [2, 4, 1000]


def test_blocks_are_those_that_multiply_and_others_are_counted_for_themselves() -> None:
    pack = launch("m * k", when="lda % 8 != 0")
    kernel = LibraryKernel("k", "k.cubin", "t", {}, (pack, launch("ceil_div(m, 64)", main=True), launch("3")))
    sizes = np.array([[64, 2, 33], [65, 2, 40]])
    assert blocks(kernel, "nn", sizes).tolist() == blocks(kernel, "tn", sizes).tolist() == [1, 2]
    packed = np.array([65 * 40, 64 * 33]) * 32 / 2**20
    added = 3 * 32 / 2**20
    assert others(kernel, "nn", sizes).tolist() == [[1, added], [2, packed[0] + added]]  # lda is m
    assert others(kernel, "tn", sizes).tolist() == [[2, packed[1] + added], [1, added]]  # lda is k
    assert others(LibraryKernel("k", "k.cubin", "t", {}, (pack, launch("3"))), "nn", sizes) is None
    assert others(LibraryKernel("k", "k.cubin", "t", {}, (launch("3", main=True),)), "nn", sizes) is None


def test_a_kernel_that_launches_nothing_counts_one_block() -> None:
    kernel = LibraryKernel("k", "k.cubin", "t", {}, (launch("m", when="m < 0"),))
    assert blocks(kernel, "nt", np.array([[5, 5, 5]])).tolist() == [1]


def test_every_axis_of_a_grid_and_every_name_counts() -> None:
    sizes = np.array([[3, 5, 7]])
    grids = [
        ("m", "n", "k"),
        ("lda", "1", "2"),
        ("ldb", "1", "3"),
        ("ldc", "1", "4"),
        ("alpha", "1", "9"),
        ("beta", "8", "1"),
    ]
    found = [blocks(LibraryKernel("k", "k.cubin", "t", {}, (launch(*grid),)), "nt", sizes).tolist() for grid in grids]
    assert found == [[105], [6], [15], [12], [9], [8]]
    assert blocks(LibraryKernel("k", "k.cubin", "t", {}, ()), "nt", sizes).tolist() == [1]


def test_blocks_that_stay_count_as_one_for_each_tile() -> None:
    sizes = np.array([(32, 16, 8), (6400, 1600, 8)])
    np.testing.assert_array_equal(blocks(mapped_kernel(), "nt", sizes), [1, 20_000])


def test_what_a_kernel_requires_holds_or_not_at_every_size() -> None:
    sizes = np.array([(32, 16, 8), (33, 16, 8), (32, 17, 9)])
    np.testing.assert_array_equal(takes(mapped_kernel(), "nn", sizes), [True, False, True])
    np.testing.assert_array_equal(takes(mapped_kernel(), "tn", sizes), [True, False, False])
    plain = LibraryKernel("k", "k.cubin", "t", {}, (launch("m"),))
    np.testing.assert_array_equal(takes(plain, "nn", sizes), [True, True, True])
