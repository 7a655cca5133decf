from __future__ import annotations

import math

import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.base.sizes import Size
from lab.library.grid import Grid, check_size, loss_of

GRID = Grid.of({(1, 1, 1): {"a": 1.0, "b": 2.0}, (2, 1, 1): {"a": 3.0, "b": 2.0}})


def test_missing_times_are_nan_and_kernels_keep_their_order() -> None:
    grid = Grid.of({(1, 1, 1): {"b": 2.0}, (2, 1, 1): {"a": 1.0, "b": 4.0}})
    assert grid.kernels == ("b", "a")
    assert math.isnan(grid.times[0][1])
    assert grid.fastest() == ("b", "a")


def test_losses_are_shares_of_the_best_time() -> None:
    assert GRID.losses.tolist() == [[0, 1], [0.5, 0]]


def test_the_loss_of_a_choice() -> None:
    loss = loss_of(GRID, ["a", "a"])
    assert (loss.mean, loss.max, loss.worst, loss.sizes, loss.unmeasured) == (0.25, 0.5, (2, 1, 1), 2, 0)
    assert loss_of(GRID, ["a", "b"]).max == 0


def test_sizes_at_which_the_picked_kernel_was_not_measured_count_apart() -> None:
    grid = Grid.of({(1, 1, 1): {"a": 1.0}, (9, 1, 1): {"b": 1.0}})
    loss = loss_of(grid, ["a", "a"])
    assert (loss.sizes, loss.unmeasured) == (1, 1)
    with pytest.raises(UserError, check=coded("nothing-left", found=["a", "b"])):
        loss_of(grid, ["b", "a"])


@pytest.mark.parametrize(
    "times",
    [
        {},
        {(1, 1, 1): {}},
        {(1, 1, 1): {"a": 0.0}},
        {(1, 1, 1): {"a": -1.0}},
        {(1, 1, 1): {"a": math.inf}},
        {(0, 1, 1): {"a": 1.0}},
    ],
)
def test_a_wrong_grid_is_refused(times: dict[Size, dict[str, float]]) -> None:
    with pytest.raises(UserError):
        Grid.of(times)


def test_rows_must_fit_sizes_and_kernels() -> None:
    with pytest.raises(UserError, check=coded("mismatch", key="times")):
        Grid(((1, 1, 1),), ("a", "b"), ((1.0,),))
    with pytest.raises(UserError, check=coded("wrong-value", key="sizes")):
        Grid(((1, 1, 1), (1, 1, 1)), ("a",), ((1.0,), (2.0,)))


@pytest.mark.parametrize("size", [(0, 1, 1), (1, -1, 1), (1, 1, 2**31), (1.5, 1, 1), ("a", 1, 1), (math.nan, 1, 1)])
def test_a_wrong_size_is_refused(size: tuple[int, int, int]) -> None:
    with pytest.raises(UserError, match="not a size"):
        check_size(*size)


def test_a_whole_number_of_another_type_is_a_size() -> None:
    assert check_size(np.int64(3), 4.0, 2**31 - 1) == (3, 4, 2**31 - 1)  # type: ignore[arg-type]


def test_the_worst_size_and_the_mean_of_those_that_are_known() -> None:
    grid = Grid.of({(1, 1, 1): {"a": 1.0, "b": 4.0}, (2, 1, 1): {"b": 1.0}, (3, 1, 1): {"a": 3.0, "b": 2.0}})
    loss = loss_of(grid, ["b", "a", "a"])
    assert (loss.mean, loss.max, loss.worst, loss.sizes, loss.unmeasured) == (1.75, 3.0, (1, 1, 1), 2, 1)
    assert loss_of(grid, ["a", "b", "b"]).unmeasured == 0
    assert loss_of(grid, ["a", "x", "b"]).unmeasured == 1


def test_a_kernel_twice_and_times_of_the_wrong_length_are_refused() -> None:
    with pytest.raises(UserError, check=coded("wrong-value", key="sizes")):
        Grid(((1, 1, 1),), ("a", "a"), ((1.0, 2.0),))
    with pytest.raises(UserError, check=coded("mismatch", key="times")):
        Grid(((1, 1, 1), (2, 1, 1)), ("a",), ((1.0,),))
    with pytest.raises(UserError, check=coded("nothing-left", key="times", found=(1, 1, 1))):
        Grid(((1, 1, 1),), ("a",), ((math.nan,),))
    assert Grid(((1, 1, 1),), ("a", "b"), ((math.nan, 1e-9),)).fastest() == ("b",)


@pytest.mark.parametrize("size", [(1, 1, 1), (2**31 - 1, 1, 2**31 - 1)])
def test_the_smallest_and_the_largest_size(size: tuple[int, int, int]) -> None:
    assert check_size(*size) == size
