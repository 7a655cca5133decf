"""Wavefronts and sectors of known patterns."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.hardware import memory as traffic

LANES = np.arange(32)
ALL = np.ones((1, 32), bool)


def waves(addresses, width, active=ALL):
    return int(traffic.shared_wavefronts(np.asarray(addresses).reshape(1, 32), width, active, loads=True)[0])


@pytest.mark.parametrize(
    ("stride", "expected"), [(1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (31, 1), (32, 32), (33, 1), (0, 1)]
)
def test_strided_words(stride, expected):
    assert waves(LANES * 4 * stride, 4) == expected


def test_wide_accesses_take_a_phase_for_each_part_of_the_warp():
    assert waves(LANES * 8, 8) == 2
    assert waves(LANES * 16, 16) == 4
    assert waves(LANES * 0, 16) == 2  # all lanes agree, so two phases share a pass
    assert waves(LANES * 32, 16) == 8  # eight lanes on four groups of banks
    assert waves(LANES * 16, 8) == 4


def test_narrow_accesses_share_words():
    assert waves(LANES, 1) == 1
    assert waves(LANES * 2, 2) == 1
    assert waves(LANES * 128 + LANES % 4, 1) == 32


def test_inactive_lanes_do_not_count():
    half = (LANES < 16).reshape(1, 32)
    assert waves(LANES * 128, 4, half) == 16
    assert waves(LANES * 16, 16, half) == 2
    assert waves(LANES * 4, 4, np.zeros((1, 32), bool)) == 0


@pytest.mark.parametrize(("stride", "expected"), [(1, 4), (2, 8), (4, 16), (8, 32), (32, 32), (0, 1)])
def test_sectors(stride, expected):
    found = traffic.global_sectors((LANES * 4 * stride).reshape(1, 32), 4, ALL)
    assert found[0] == expected


def test_sectors_of_an_offset_and_of_vectors():
    assert traffic.global_sectors((LANES * 4 + 4).reshape(1, 32), 4, ALL)[0] == 5
    assert traffic.global_sectors((LANES * 16).reshape(1, 32), 16, ALL)[0] == 16


def test_a_copy_by_warps_has_a_row_for_each():
    flat = np.arange(64)
    copy = traffic.Copy(flat, flat + 1000, 4, flat >= 0, flat < 40).by_warp()
    assert copy.targets.shape == copy.sources.shape == copy.active.shape == copy.fetched.shape == (2, 32)
    assert copy.sources[1, 0] == 1032
    assert copy.fetched.sum(axis=1).tolist() == [32, 8]
    assert copy.width == 4


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_no_request_takes_fewer_passes_than_without_conflicts(width):
    rng = np.random.default_rng(7)
    addresses = rng.integers(0, 128, (200, 32)) * width
    active = rng.random((200, 32)) < 0.7
    for loads in (True, False):
        passes = traffic.shared_wavefronts(addresses, width, active, loads=loads)
        assert (passes >= traffic.ideal_wavefronts(addresses, width, active, loads=loads)).all()
        assert (passes <= active.sum(axis=1) * max(1, width // 4)).all()


def row(values):
    return np.asarray(values).reshape(1, 32)


def test_a_narrow_copy_reads_and_writes_in_the_same_passes():
    """One pass moves a word of the source and of the target: only what either side repeats costs more."""
    even = traffic.Copy(row(LANES * 4), row(LANES * 4), 4, ALL, ALL)
    assert traffic.copy_wavefronts(even).tolist() == [1]
    scattered = traffic.Copy(row(LANES * 128), row(LANES * 4), 4, ALL, ALL)
    assert traffic.copy_wavefronts(scattered).tolist() == [32]
    both = traffic.Copy(row(LANES * 128), row(LANES * 128), 4, ALL, ALL)
    assert traffic.copy_wavefronts(both).tolist() == [63]
    fills = traffic.Copy(row(LANES * 4), row(LANES * 4), 4, ALL, ~ALL)  # writes zeros, reads nothing
    assert traffic.copy_wavefronts(fills).tolist() == [1]


def test_a_wide_copy_moves_whole_sectors_where_the_halves_agree():
    straight = traffic.Copy(row(LANES * 16), row(LANES * 16), 16, ALL, ALL)
    assert traffic.copy_sectors(straight).tolist() == [16]
    # halves swapped in the target: two neighbours still fill both sectors
    swapped = traffic.Copy(row((LANES ^ 1) * 16), row(LANES * 16), 16, ALL, ALL)
    assert traffic.copy_sectors(swapped).tolist() == [16]
    # one lane a sector, at the same or at another place in it
    same = traffic.Copy(row(LANES * 32), row(LANES * 32), 16, ALL, ALL)
    other = traffic.Copy(row(LANES * 32), row(LANES * 32 + 16), 16, ALL, ALL)
    assert traffic.copy_sectors(same).tolist() == traffic.copy_sectors(other).tolist() == [32]
    few = row(LANES < 5)
    assert traffic.copy_sectors(traffic.Copy(row(LANES * 32), row(LANES * 32), 16, few, few)).tolist() == [5]


def test_halves_of_a_sector_that_distant_lanes_copy_make_one_request():
    sector, half = LANES // 4 * 2 + LANES % 2, LANES // 2 % 2
    places = row(sector * 32 + half * 16)
    assert traffic.copy_sectors(traffic.Copy(places, places, 16, ALL, ALL)).tolist() == [16]
    # the same halves, but each in the other half of its target
    crossed = row(sector * 32 + (1 - half) * 16)
    assert traffic.copy_sectors(traffic.Copy(crossed, places, 16, ALL, ALL)).tolist() == [32]


def test_inactive_lanes_add_no_value() -> None:
    assert traffic._distinct(row(LANES + 10), row(LANES < 3)).tolist() == [3]
    assert traffic._distinct(row(LANES // 8), ALL).tolist() == [4]
    assert traffic._distinct(row(LANES), row(LANES < 0)).tolist() == [0]


@pytest.mark.parametrize("shared", [False, True])
@given(data=st.data())
def test_updates_that_wait_for_each_other_are_those_of_a_slow_count(shared, data):
    counters = data.draw(st.sampled_from([1, 8, 32, 256, 4096]))
    places = data.draw(st.lists(st.tuples(st.integers(0, counters - 1), st.booleans()), min_size=32, max_size=32))
    addresses = 4 * np.array([[place for place, _ in places]], np.int64)
    active = np.array([[on for _, on in places]])
    taken = [4 * place for place, on in places if on]
    if shared:
        expected = max(Counter(address // 4 % 32 for address in taken).values(), default=0)
    else:
        sectors = {address // 32 for address in taken}
        expected = sum(max(Counter(a for a in taken if a // 32 == sector).values()) for sector in sectors)
    assert traffic.atomic_updates(addresses, active, shared=shared).tolist() == [expected]
