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
    assert traffic.distinct_values(row(LANES + 10), row(LANES < 3)).tolist() == [3]
    assert traffic.distinct_values(row(LANES // 8), ALL).tolist() == [4]
    assert traffic.distinct_values(row(LANES), row(LANES < 0)).tolist() == [0]


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


def slow_passes(addresses, width, on, lanes):
    """The busiest bank's words, phase by phase."""
    total = 0
    for begin in range(0, 32, lanes):
        words = {
            (addresses[lane] // 4 + part)
            for lane in range(begin, begin + lanes)
            if on[lane]
            for part in range(max(1, width // 4))
        }
        total += max(Counter(word % 32 for word in words).values(), default=0)
    return total


def slow_wavefronts(addresses, width, on, *, loads):
    lanes = {8: 16, 16: 8}.get(width, 32)
    pairs = [all(addresses[i] == addresses[i ^ d] or not (on[i] and on[i ^ d]) for i in range(32)) for d in (1, 2)]
    if loads and width > 4 and any(pairs):
        lanes *= 2
    return slow_passes(addresses, width, on, lanes), sum(any(on[i : i + lanes]) for i in range(0, 32, lanes))


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("loads", [True, False])
def test_wavefronts_and_sectors_are_those_of_a_slow_count(width, loads):
    rng = np.random.default_rng(11)
    spread = rng.choice([1, 2, 4, 40, 700], (120, 1))
    addresses = rng.integers(0, 10**6, (120, 32)) % spread * width
    addresses[::3] = addresses[::3][:, LANES & ~1]
    addresses[1::3] = addresses[1::3][:, LANES & ~2]
    active = rng.random((120, 32)) < rng.choice([0.1, 0.6, 1.0], (120, 1))
    found = traffic.shared_wavefronts(addresses, width, active, loads=loads).tolist()
    ideal = traffic.ideal_wavefronts(addresses, width, active, loads=loads).tolist()
    slow = [
        slow_wavefronts(a, width, on, loads=loads) for a, on in zip(addresses.tolist(), active.tolist(), strict=True)
    ]
    assert list(zip(found, ideal, strict=True)) == slow
    moved = addresses + 1  # not aligned: an access may touch two sectors
    touched = [
        len({byte // 32 for x, taken in zip(row_, on, strict=True) if taken for byte in (x, x + width - 1)})
        for row_, on in zip(moved.tolist(), active.tolist(), strict=True)
    ]
    assert traffic.global_sectors(moved, width, active).tolist() == touched


def slow_units(copy, warp, on):
    """Source, target and wholeness of what moves each lane's 16 bytes."""
    to, of = copy.targets[warp].tolist(), copy.sources[warp].tolist()
    units = {}
    for lane in range(32):
        other = lane ^ 1
        joint = on[other] and to[lane] // 32 == to[other] // 32 and of[lane] // 32 == of[other] // 32
        joint = joint and to[lane] != to[other] and of[lane] != of[other]
        whole = joint or to[lane] % 32 == of[lane] % 32
        units[lane] = (of[lane] // 32 * 32, to[lane] // 32 * 32, True) if whole else (of[lane], to[lane], False)
    return units


@pytest.mark.parametrize("width", [4, 8, 16])
def test_copies_are_those_of_a_slow_count(width):
    rng = np.random.default_rng(12)
    targets, sources = (rng.integers(0, 10**6, (90, 32)) % rng.choice([8, 60, 900], (90, 1)) * width for _ in range(2))
    targets[::3] = sources[::3] = LANES * width
    sources[1::3] = sources[1::3][:, :1] + (LANES ^ 1) * width
    targets[1::3] = LANES * width
    active = rng.random((90, 32)) < rng.choice([0.3, 1.0], (90, 1))
    fetched = active & (rng.random((90, 32)) < 0.8)
    copy = traffic.Copy(targets, sources, width, active, fetched)
    waves_, sectors = [], []
    for warp in range(90):
        on, read = active[warp].tolist(), fetched[warp].tolist()
        if width == 16:
            units = slow_units(copy, warp, on)
            waves_.append(
                len({(s // 128, t // 128, (s ^ t) // 16 % 8) for lane, (s, t, _) in units.items() if on[lane]})
            )
            units = slow_units(copy, warp, read)
            sectors.append(len({unit for lane, unit in units.items() if read[lane]}))
            continue
        total, lanes = 0, 32 if width == 4 else 16
        for begin in range(0, 32, lanes):
            most = []
            for addresses, taken in ((targets[warp], on), (sources[warp], read)):
                banks = Counter(
                    (int(addresses[lane]) // 4 + part) % 32
                    for lane in range(begin, begin + lanes)
                    if taken[lane]
                    for part in range(width // 4)
                )
                most.append(max(banks.values(), default=0))
            total += sum(most) - all(most)
        waves_.append(total)
        sectors.append(len({int(a) // 32 for a, taken in zip(sources[warp], read, strict=True) if taken}))
    assert traffic.copy_wavefronts(copy).tolist() == waves_
    assert traffic.copy_sectors(copy).tolist() == sectors
