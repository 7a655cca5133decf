"""Hardware counters as figures, table rows and a sentence: only what was counted is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.measured.counters import LaunchCounters, Profile
from lab.report.facts import counted


@pytest.fixture
def record(make):
    with make("sweep") as store:
        return replace(store.records()[0], bytes_moved=1_000_000)


def with_profile(record, *launches, notes=()):
    return replace(record, profile=Profile("Nsight Compute 2025.3", "cold", launches, notes))


def test_without_counters_there_is_nothing_to_say(record):
    assert counted.rows(record) == []
    assert counted.sentence(record) == ""
    assert counted.wait(record) is None
    assert counted.dram_per_needed(record) is None


def test_what_was_not_counted_is_left_out(record):
    empty = with_profile(record, LaunchCounters("gemm"), notes=("ncu was old",))
    assert counted.rows(empty) == [("profiler", "Nsight Compute 2025.3"), ("L2 cache", "cold"), ("note", "ncu was old")]
    assert counted.sentence(empty) == ""
    assert counted.busiest(empty.profile) is None
    assert counted.l2_per_needed(empty) is None


def test_traffic_is_set_beside_the_bytes_needed(record):
    profiled = with_profile(record, LaunchCounters("gemm", dram_read_bytes=1_500_000.0, dram_write_bytes=500_000.0))
    assert counted.dram_per_needed(profiled) == 2.0
    assert dict(counted.rows(profiled))["DRAM traffic"] == "2.00 MB, 2.00 per byte needed"
    assert counted.sentence(profiled) == "According to the hardware counters, DRAM moves 2.00 bytes per byte needed."
    unknown = replace(profiled, bytes_moved=0)
    assert counted.dram_per_needed(unknown) is None
    assert dict(counted.rows(unknown))["DRAM traffic"] == "2.00 MB"


def test_each_of_several_launches_has_a_row(record):
    profiled = with_profile(
        record,
        LaunchCounters("pack", dram_read_bytes=1e6, dram_write_bytes=2e6),
        LaunchCounters("sgemm", dram_read_bytes=3e6, dram_write_bytes=0.0, occupancy=0.25),
    )
    shown = dict(counted.rows(profiled))
    assert shown["pack"] == "1.00 MB read from DRAM; 2.00 MB written"
    assert shown["sgemm"] == "3.00 MB read from DRAM; 0.00 MB written; occupancy 25%"
    assert "pack" not in dict(counted.rows(with_profile(record, profiled.profile.launches[0])))


def test_a_state_is_text():
    assert counted.words("long_scoreboard") == "long scoreboard"
