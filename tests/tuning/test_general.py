"""Kernels that cannot take every size, in the logic of a library."""

from __future__ import annotations

import math

import pytest
from library_support import mapped_kernel

from lab.library.grid import Grid
from lab.library.tree import Logic, Split
from lab.tuning.general import Requiring

GENERAL = Logic(("small", "large"), 0, (Split(0, 300, ~0, ~1),))
REQUIRING = Requiring({"mapped": mapped_kernel()}, "nn", GENERAL)


def test_what_a_kernel_cannot_take_costs_what_another_one_takes():
    grid = Grid.of(
        {
            (32, 8, 8): {"mapped": 1.0, "small": 2.0, "large": 3.0},
            (33, 8, 8): {"mapped": 1.0, "small": 2.0, "large": 3.0},
            (301, 8, 8): {"small": 2.0, "large": 3.0},
        }
    )
    times = dict(zip(grid.sizes, REQUIRING.with_others(grid).times, strict=True))
    assert times == {(32, 8, 8): (1.0, 2.0, 3.0), (33, 8, 8): (2.0, 2.0, 3.0), (301, 8, 8): (3.0, 2.0, 3.0)}


def test_where_the_other_kernel_has_no_time_there_is_none():
    grid = Grid.of({(33, 8, 8): {"mapped": 1.0, "large": 3.0}})
    (row,) = REQUIRING.with_others(grid).times
    assert math.isnan(row[0])
    assert row[1] == 3.0


def test_a_kernel_gains_on_the_pick_that_runs_without_it():
    grid = Grid.of(
        {
            (32, 8, 8): {"mapped": 1.0, "small": 2.0, "large": 3.0},
            (64, 8, 8): {"mapped": 4.0, "small": 2.0, "large": 1.0},
            (33, 8, 8): {"mapped": 1.0, "small": 2.0, "large": 3.0},
            (304, 8, 8): {"mapped": 2.0, "small": 3.0},
            (308, 8, 8): {"mapped": 2.0},
            (312, 8, 8): {"large": 2.0},
        }
    )
    (gains,) = REQUIRING.gains(grid).values()
    assert gains.tolist() == pytest.approx([1.0, -2.0, math.nan, 0.5, 1.0, -math.inf], nan_ok=True)


def test_grids_of_other_kernels_stay_as_they_are():
    grid = Grid.of({(33, 8, 8): {"small": 1.0}})
    assert REQUIRING.with_others(grid) is grid
    assert not REQUIRING.gains(grid)


@pytest.mark.parametrize(("size", "name"), [((32, 8, 8), "mapped"), ((33, 8, 8), "small"), ((333, 8, 8), "large")])
def test_the_kernel_that_runs_is_named(size, name):
    assert REQUIRING.pick(Logic(("mapped", "small", "large"), ~0), size) == name
