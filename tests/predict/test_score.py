from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.hardware.gpus import gpu_for
from lab.hardware.latencies import latencies_of
from lab.predict.score import ORDER, SHUFFLE_CYCLES, LaunchWork, busy_slices, score

H200 = gpu_for("H200")
CLOCK = H200.clock_mhz * 1e6
WORK = LaunchWork(blocks=132 * 64, warps_per_block=8, blocks_per_sm=8, instructions=1e9, by_class={"integer": 1e3})


def test_issue_slots_are_four_a_cycle_and_sm():
    found = score(H200, [WORK], 0)
    assert found.resources["issue slots"] == pytest.approx(1e9 / 132 / 4 / CLOCK)
    assert found.bound == "issue slots"


def test_the_least_bytes_take_the_copys_share_of_the_bandwidth():
    found = score(H200, [replace(WORK, instructions=0.0)], 10**9)
    assert found.resources["DRAM"] == pytest.approx(1e9 / (4.8e12 * 0.867))
    assert found.bound == "DRAM"


def test_the_whole_is_the_norm_of_the_resources_and_the_launch():
    found = score(H200, [WORK], 10**9)
    norm = sum(seconds**ORDER for seconds in found.resources.values()) ** (1 / ORDER)
    assert found.seconds == pytest.approx(norm + found.launches_s)
    assert max(found.resources.values()) < found.seconds
    assert list(found.resources.values()) == sorted(found.resources.values(), reverse=True)


def test_a_grid_that_does_not_fill_its_last_round_takes_as_long_as_one_that_does():
    """133 blocks are two rounds for the fullest SM."""
    full = replace(WORK, blocks=264, instructions=264e6)
    tail = replace(WORK, blocks=133, instructions=133e6)
    slots = [score(H200, [one], 0).resources["issue slots"] for one in (full, tail)]
    assert slots[0] == pytest.approx(slots[1])


def test_occupancy_hides_latency_and_loads_that_go_together_share_it():
    nothing = replace(WORK, instructions=0.0)
    loads = replace(nothing, load_requests=8.0 * WORK.blocks * WORK.warps_per_block)
    alone, more, together, without = (
        score(H200, [one], 0).resources["latency"]
        for one in (replace(loads, blocks_per_sm=1), loads, replace(loads, loads_together=8), nothing)
    )
    assert alone == pytest.approx(WORK.blocks_per_sm * more)
    assert more - without == pytest.approx(8 * (together - without))


@pytest.mark.parametrize(
    ("field", "resource"),
    [
        ("load_sectors", "L1 and L2"),
        ("store_sectors", "L1 and L2"),
        ("wavefronts", "shared memory"),
        ("updates", "atomics"),
        ("partial_bytes", "DRAM"),
    ],
)
def test_each_count_makes_its_resource_slower_and_no_other(field, resource):
    changed: dict[str, Any] = {field: 1e10}
    before = score(H200, [WORK], 10**6).resources
    after = score(H200, [replace(WORK, **changed)], 10**6).resources
    assert after[resource] > before.get(resource, 0.0)
    assert {n: s for n, s in after.items() if n != resource} == {n: s for n, s in before.items() if n != resource}


def test_float64_runs_on_its_own_lanes():
    work = replace(WORK, by_class={"fma": 1e9})
    single, double = (score(H200, [replace(work, double=d)], 0).resources["floating point"] for d in (0.0, 1.0))
    lanes = H200.architecture
    assert double / single == pytest.approx(lanes.fp32_lanes / (lanes.fp64_lanes or 0))


def test_launches_add_up():
    one, two = score(H200, [WORK], 0), score(H200, [WORK, WORK], 0)
    assert two.resources["issue slots"] == pytest.approx(2 * one.resources["issue slots"])
    assert two.launches_s == 2 * one.launches_s


def test_an_architecture_without_latencies_of_its_own_is_scored_too():
    assert score(gpu_for("A100"), [WORK], 10**6).seconds > 0


def resources(**changed):
    return score(H200, [replace(WORK, **changed)], 0).resources


def test_a_shuffle_takes_its_lanes_and_its_latency():
    shuffled = resources(instructions=0.0, by_class={"shuffle": 1e6})
    machine = latencies_of("sm_90")
    fullest = 64  # blocks
    assert shuffled["shuffles"] == pytest.approx(1e6 / 132 * 32 / 32 / CLOCK)
    each = 1e6 / (WORK.blocks * WORK.warps_per_block)
    assert machine is not None
    assert shuffled["latency"] == pytest.approx((each * SHUFFLE_CYCLES + machine.block_latency) * fullest / 8 / CLOCK)
    assert machine is not None


def test_stored_sectors_take_the_stores_share_of_l2():
    machine = latencies_of("sm_90")
    assert machine is not None
    assert resources(store_sectors=1e6)["L1 and L2"] == pytest.approx(1e6 / 132 * 32 / machine.store_bytes / CLOCK)
    assert resources(load_sectors=1e6)["L1 and L2"] == pytest.approx(1e6 / 132 * 32 / machine.l2_bytes / CLOCK)


def test_updates_spread_over_the_slices_that_hold_them():
    work = replace(WORK, updates=1e6)
    one, two, many = (score(H200, [replace(work, chunks=n)], 0).resources["atomics"] for n in (1, 2, 10_000))
    assert one == pytest.approx(0.732e-3)
    assert one / two == pytest.approx(2, rel=0.01)
    assert one / many == pytest.approx(76)
    assert busy_slices(0, 76) == pytest.approx(1)


def test_blocks_are_started_one_after_another():
    small, large = (replace(WORK, blocks=n, warps_per_block=1) for n in (1_000_000, 2_000_000))
    assert score(H200, [small], 0).resources["starts of blocks"] == pytest.approx(0.601e-3)
    assert score(H200, [small, large], 0).resources["starts of blocks"] == pytest.approx(1.803e-3)
