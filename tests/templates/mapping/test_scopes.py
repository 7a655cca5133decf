from __future__ import annotations

import numpy as np
import pytest
from compiling import ptx_of
from mistakes import coded

from lab.base.errors import UserError
from lab.emulator.api import launch
from lab.templates.mapping.mapping_facts import facts
from lab.templates.mapping.scopes import SCOPES, LaunchShape, check_launch, number, units_of, wholes_of
from lab.templates.mapping.text import parse


def levels(text):
    return parse(text).scopes


@pytest.mark.parametrize(
    ("text", "found", "accepted"),
    [
        ("thread in warp: [1] | [64]", 64, "a power of two up to 32"),
        ("thread in warp: [1] | [12]", 12, "a power of two up to 32"),
        ("thread in block: [1] | [2048]", 2048, "at most 1024"),
        ("warp in block: [1] | [33]", "1056 threads", "at most 1024"),
        ("warp in block: [4] | [512] then thread in warp: [1] | [4]", "2048 threads", "at most 1024"),
        ("block in grid: [64] | [4] then thread in warp: [2] | [32]", "thread in warp", "thread in block"),
        ("thread in block: [4] | [8] then thread in block: [1] | [4]", "thread in block", "no further"),
        ("block in grid: [4] | [8] then [1] | [4]", "then", "a scope for each"),
        ("block in block: [4] | [8]", "block", "grid"),
        ("thread of block: [4] | [8]", "of", "'in'"),
        ("thread in grid yz: [4] | [8]", "grid", "grid, grid xy, grid xyz"),
        ("warp in grid xy: [4] | [8]", "grid", "block, grid"),
        ("thread in block [4] | [8]", "[", "':'"),
    ],
)
def test_a_scope_that_no_launch_has_is_refused(text, found, accepted):
    with pytest.raises(UserError) as caught:
        parse(text)
    assert caught.value.found == found
    assert accepted in str(caught.value.accepted)


def test_tiles_may_be_more_than_warps():
    assert parse("warp in block: [4] | [256] then thread in warp: [1] | [4]").threads == 1024


@pytest.mark.parametrize(
    ("text", "grid", "block", "found", "accepted"),
    [
        ("thread in block: [3] | [4]", 1, 5, 5, "4"),
        ("thread in block: [3] | [4]", 1, 3, 3, "4"),
        ("block in grid: [3] | [4]", 3, 32, 3, "4"),
        ("warp in block: [3] | [4]", 1, 100, "100 threads", "a multiple of 32"),
        ("warp in block: [3] | [4]", 1, 96, 3, "4"),
        ("thread in grid: [3] | [64]", 1, 32, 32, "64"),
        ("block in grid: [4] | [2] then thread in block: [1] | [4]", 2, 8, 8, "4"),
    ],
)
def test_a_launch_with_other_units_is_refused(text, grid, block, found, accepted):
    with pytest.raises(UserError) as caught:
        check_launch(levels(text), LaunchShape((grid, 1, 1), (block, 1, 1)))
    assert (caught.value.found, caught.value.accepted) == (found, accepted)


def test_threads_of_a_grid_are_numbered_along_x_alone():
    with pytest.raises(UserError, check=coded("unsupported", key="block", found="4,2,1")) as caught:
        check_launch(levels("thread in grid: [3] | [8]"), LaunchShape((1, 1, 1), (4, 2, 1)))
    assert (caught.value.key, caught.value.found) == ("block", "4,2,1")
    check_launch(levels("block in grid: [8] | [4] then thread in block: [1] | [8]"), LaunchShape((2, 2, 1), (4, 2, 1)))


def test_units_and_wholes_of_a_launch():
    shape = LaunchShape((6, 1, 1), (64, 1, 1))
    counted = {name: (units_of(scope, shape, 32), wholes_of(scope, shape, 32)) for name, scope in SCOPES.items()}
    assert counted == {
        "thread in warp": (32, 12),
        "thread in block": (64, 6),
        "thread in grid": (384, 1),
        "warp in block": (2, 6),
        "warp in grid": (12, 1),
        "block in grid": (6, 1),
        "thread in grid xy": (384, 1),
        "thread in grid xyz": (384, 1),
    }


@pytest.mark.parametrize(("axes", "last"), [("", 1), (" xy", 2), (" xyz", 3)])
def test_a_grids_threads_are_counted_along_the_axes_that_the_scope_names(axes, last):
    text = f"thread in grid{axes}: [3] | [16]"
    check_launch(levels(text), LaunchShape((2, 1, 1), (8, 1, 1)))
    for name, shape in (("grid", ((1, 1, 2), (8, 1, 1))), ("block", ((1, 1, 1), (8, 2, 1)))):
        used_axes = 3 if name == "grid" else 2
        if used_axes <= last:
            check_launch(levels(text), LaunchShape(*shape))
        else:
            with pytest.raises(UserError, check=coded("unsupported", key=name)):
                check_launch(levels(text), LaunchShape(*shape))


def test_the_numbers_of_a_grid_run_in_rows_across_blocks():
    """As `MapLinearWithDim` numbers them: x + (z * size of y + y) * size of x, over all threads of the grid."""
    grid, block = (3, 2, 2), (4, 2, 1)
    both = [levels(f"thread in grid {axes}: [1] | [96]") for axes in ("xy", "xyz")]
    at = number(levels("block in grid: [8] | [12] then thread in block: [1] | [8]"))
    writes = "".join(f"out[{n} * 96 + at] = {number(one)};\n" for n, one in enumerate(both))
    ptx = ptx_of(f'extern "C" __global__ void numbers(int *out) {{ const int at = {at};\n{writes} }}')
    out = np.full((2, 96), -1, np.int32)
    assert launch(ptx, "numbers", grid, block, [out]).clean
    thread, block_number = np.arange(96) % 8, np.arange(96) // 8
    x, y, z = thread % 4 + 4 * (block_number % 3), thread // 4 + 2 * (block_number // 3 % 2), block_number // 6
    assert out[0].tolist() == (x + 12 * y).tolist()
    assert out[1].tolist() == (x + 12 * (y + 4 * z)).tolist()


def test_coalescing_is_predicted_where_the_lanes_of_a_warp_follow_each_other():
    for block, is_known in (((32, 2, 1), True), ((16, 4, 1), False)):
        shape = LaunchShape((1, 2, 1), block)
        assert bool(facts(parse("thread in grid xy: [2] | [128]"), shape=shape).coalescing) is is_known
    assert not facts(parse("thread in grid xyz: [2] | [128]")).coalescing
    assert facts(parse("thread in grid: [2] | [128]")).coalescing


def test_the_numbers_are_those_of_the_launch():
    """Each thread writes its number in every scope; x counts first, then y, then z."""
    texts = [
        "thread in warp: [1] | [32]",
        "thread in warp: [1] | [4]",
        "thread in block: [1] | [64]",
        "warp in block: [1] | [2]",
        "block in grid: [1] | [6]",
        "block in grid: [64] | [6] then thread in block: [1] | [64]",
        "warp in block: [4] | [16] then thread in warp: [1] | [4]",
        "thread in grid: [1] | [384]",
        "warp in grid: [1] | [12]",
    ]
    all_levels = [levels(text) for text in texts]
    writes = "".join(f"out[{n} * 384 + at] = {number(one)};\n" for n, one in enumerate(all_levels))
    at = number(all_levels[5])
    text = f'extern "C" __global__ void numbers(int *out) {{ const int at = {at};\n{writes} }}'
    ptx = ptx_of(text)
    for grid, block, id_count in (((3, 2, 1), (8, 4, 2), 7), ((6, 1, 1), (64, 1, 1), 9)):
        out = np.full((len(texts), 384), -1, np.int32)
        assert launch(ptx, "numbers", grid, block, [out]).clean
        thread, block_number = np.arange(384) % 64, np.arange(384) // 64
        expected = [thread % 32, thread % 4, thread, thread // 32, block_number, np.arange(384), thread]
        expected += [np.arange(384), np.arange(384) // 32]
        assert out[:id_count].tolist() == [one.tolist() for one in expected[:id_count]]
