"""Grid and block as Kernel Tuner documents them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lab.api.kernel_tuner.block_geometry import geometry
from lab.base.errors import Location, UserError
from lab.base.expressions import evaluate

SPACE = {"block_size_x": [32, 64], "block_size_y": [4], "tile": [1, 3]}
NONE = (None, None, None)


def grid(problem_size, divisors=NONE, names=None, space=SPACE, **setting):
    made = geometry(problem_size, divisors, names, space)
    point = {**{name: values[0] for name, values in space.items()}, **setting, **made.sizes}
    return [evaluate(one, point, at=Location("t"), key="k") for one in made.grid]


def test_block_sizes_divide_by_default():
    assert grid(100) == [4]
    assert grid((100, 9)) == [4, 3]
    assert grid((100, 9, 5)) == [4, 3, 5]
    assert grid(np.int64(100), block_size_x=64) == [2]
    assert geometry(100, NONE, None, SPACE).sizes == {"problem_size_x": 100}


def test_a_list_multiplies_and_an_empty_one_does_not_divide():
    assert grid(1000, (["block_size_x", "tile"], None, None), tile=3) == [math.ceil(1000 / 96)]
    assert grid(10, ([], None, None)) == [10]
    assert grid(100, (["block_size_x/32"], None, None), block_size_x=64) == [50]
    assert grid(100, ("tile", None, None), tile=3) == [34]


def test_functions_and_texts():
    assert grid(100, (lambda p: p["block_size_x"] / 32, None, None), block_size_x=64) == [50]
    assert grid(lambda p: (p["tile"] * 64, 7), block_size_x=64, tile=3) == [3, 2]
    assert grid("tile * 64") == [2]
    assert grid(("tile * 64", 8), ([], [], None)) == [64, 8]


def test_the_block():
    assert geometry(1, NONE, None, SPACE).block == ("block_size_x", "block_size_y", "1")
    assert geometry(1, NONE, None, {}).block == ("256", "1", "1")
    named = geometry(64, NONE, ["tile"], SPACE)
    assert named.block == ("tile", "block_size_y", "1")
    assert named.grid == ("ceil_div(problem_size_x, tile)",)


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ((0,), "problem_size"),
        ((1.5,), "problem_size"),
        (((1, 2, 3, 4),), "problem_size"),
        ((True,), "problem_size"),
        ((lambda p: (1,) * p["tile"],), "problem_size"),
        ((1, (3, None, None)), "grid_div_x"),
        (((1, 1), (None, [0], None)), "grid_div_y"),
        ((1, NONE, ["nothing"]), "block_size_names"),
        ((1, NONE, "tile"), "block_size_names"),
    ],
)
def test_what_is_wrong_is_named(arguments, key):
    with pytest.raises(UserError) as caught:
        grid(*arguments)
    assert caught.value.key == key
