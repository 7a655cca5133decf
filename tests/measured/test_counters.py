"""Hardware counters of several launches, combined."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.measured.counters import PIPES, STALLS, LaunchCounters, Profile

FIRST = LaunchCounters(
    "a",
    100.0,
    20.0,
    4.0,
    1.0,
    1000.0,
    10.0,
    0.5,
    7.0,
    6.0,
    0.6,
    {"fma": 0.2, "xu": 0.1},
    {"wait": 1.0, "selected": 1.0},
    clock_hz=1.8e9,
)
SECOND = LaunchCounters(
    "b",
    10.0,
    2.0,
    2.0,
    1.0,
    3000.0,
    30.0,
    0.9,
    5.0,
    2.0,
    0.2,
    {"fma": 0.6, "xu": 0.5},
    {"wait": 9.0, "selected": 1.0},
    clock_hz=1.4e9,
)

SHARES = st.floats(0, 1)
AMOUNTS = st.floats(1, 1e12)
LAUNCHES = st.builds(
    LaunchCounters,
    st.just("k"),
    *[AMOUNTS] * 6,
    SHARES,
    *[AMOUNTS] * 2,
    SHARES,
    st.fixed_dictionaries(dict.fromkeys(PIPES, SHARES)),
    st.fixed_dictionaries(dict.fromkeys(STALLS, st.floats(0.01, 50))),
)


def profile(*launches: LaunchCounters) -> Profile:
    return Profile("Nsight Compute", "cold", launches)


def test_amounts_add_up_and_shares_are_weighted_by_what_they_are_shares_of():
    combined = profile(FIRST, SECOND)
    assert (combined.dram_bytes, combined.l2_bytes, combined.duration_ms, combined.instructions) == (
        132.0,
        8 * 32,
        0.004,
        12.0,
    )
    assert combined.clock_hz == pytest.approx((1000 * 1.8e9 + 3000 * 1.4e9) / 4000)
    assert combined.occupancy == pytest.approx((10 * 0.5 + 30 * 0.9) / 40)
    assert combined.issue_share == pytest.approx((10 * 0.6 + 30 * 0.2) / 40)
    assert combined.pipes == pytest.approx({"fma": 0.5, "xu": 0.4})
    assert combined.stalls == pytest.approx({"wait": (6 * 1 + 2 * 9) / 8, "selected": 1.0})


def test_warps_that_could_issue_wait_for_nothing():
    one = profile(
        LaunchCounters("k", issue_share=0.4, stalls={"wait": 1, "barrier": 3, "selected": 1, "not_selected": 9})
    )
    assert one.waits == {"barrier": 0.75, "wait": 0.25}
    assert one.idle == pytest.approx({"barrier": 0.45, "wait": 0.15})


def test_what_one_launch_lacks_all_lack():
    combined = profile(FIRST, LaunchCounters("b"))
    memory = combined.dram_bytes, combined.l2_bytes
    assert (*memory, combined.occupancy, combined.pipes, combined.stalls, combined.idle) == (
        None, None, None, {}, {}, {},
    )  # fmt: skip
    assert profile(LaunchCounters("b", occupancy=0.5)).occupancy == 0.5


@given(st.lists(LAUNCHES, min_size=1, max_size=5))
def test_means_lie_between_the_launches_and_waits_are_whole(launches):
    combined = profile(*launches)
    assert combined.issue_share is not None
    for mean, of in ((combined.occupancy, "occupancy"), (combined.issue_share, "issue_share")):
        values = [getattr(launch, of) for launch in launches]
        assert min(values) - 1e-9 <= mean <= max(values) + 1e-9
    assert combined.dram_bytes == pytest.approx(
        sum(launch.dram_read_bytes + launch.dram_write_bytes for launch in launches)
    )
    assert sum(combined.waits.values()) == pytest.approx(1)
    assert sum(combined.idle.values()) == pytest.approx(1 - combined.issue_share)
    assert list(combined.waits.values()) == sorted(combined.waits.values(), reverse=True)
