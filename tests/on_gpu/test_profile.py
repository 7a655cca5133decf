"""Nsight Compute on the GPU's own counters: what is known of a kernel is what is counted."""

from dataclasses import replace

import pytest
from gpu_support import axpy_job

from lab.gpu.counters.profile import NOT_FLUSHED, REPLAYED, ProfileOrder, profiles
from lab.measured.counters import PIPES, STALLS
from lab.templates.launches import Launches
from lab.toolchain import locate

pytestmark = pytest.mark.gpu
N = 1 << 20  # x and y are 8 MiB, which L2 holds from one launch to the next


@pytest.fixture(scope="module")
def counted(gpu):
    """One launch from a cold L2, two in a sequence, one from a warm L2."""
    if locate.tool("ncu") is None:
        pytest.skip("Nsight Compute (ncu) is not here")
    job = axpy_job(gpu.arch, n=N)
    twice = replace(job, variant="twice", launches=Launches(job.launches.steps * 2))
    orders = [
        ProfileOrder(job, "cold"),
        ProfileOrder(twice, "cold"),
        ProfileOrder(replace(job, variant="warm"), "warm"),
    ]
    found = list(profiles(orders, seconds=300.0))
    notes = [note for part in found for note in part.notes]
    if any("ERR_NVGPUCTRPERM" in note for note in notes):
        pytest.skip(notes[0])
    return {variant: one for part in found for variant, one in part.profiles.items()}, notes


def test_every_metric_is_known_here(counted):
    profiles, notes = counted
    assert notes == []
    for profile in profiles.values():
        assert set(profile.pipes) == set(PIPES)
        assert set(profile.stalls) == set(STALLS)


def test_from_a_cold_cache_the_inputs_come_from_dram(counted):
    (launch,) = counted[0]["axpy"].launches
    assert launch.dram_read_bytes == pytest.approx(8 * N, rel=0.1)
    assert launch.l2_read_sectors * 32 >= 8 * N
    assert launch.l2_write_sectors * 32 >= 4 * N


def test_the_second_launch_of_a_sequence_reads_no_more_than_the_first(counted):
    first, second = counted[0]["twice"].launches
    assert first.dram_read_bytes == pytest.approx(8 * N, rel=0.1)
    assert second.dram_read_bytes < 1.1 * first.dram_read_bytes  # the profiler itself may empty L2 in between
    assert counted[0]["twice"].notes[0] == NOT_FLUSHED
    assert REPLAYED not in counted[0]["twice"].notes


def test_what_l2_held_before_is_not_counted_as_the_sequences(counted):
    first, _ = counted[0]["twice"].launches
    assert first.dram_write_bytes <= 4 * N * 1.5


def test_from_a_warm_cache_no_more_is_read_than_from_a_cold_one(counted):
    (launch,) = counted[0]["warm"].launches
    assert launch.dram_read_bytes < 1.1 * 8 * N


def test_shares_are_shares_and_instructions_are_counted(counted):
    (launch,) = counted[0]["axpy"].launches
    assert launch.instructions >= N / 32 * 5  # two loads, an fma, a store, an exit
    for share in (launch.occupancy, launch.issue_share, *launch.pipes.values()):
        assert 0 < share + 1e-9 <= 1
    assert launch.stalls["selected"] == pytest.approx(1, abs=0.05)  # a warp issues in each cycle with an issue
    assert sum(counted[0]["axpy"].waits.values()) == pytest.approx(1)
