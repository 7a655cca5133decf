"""Timing on a device whose clock is played."""

from __future__ import annotations

import pytest

from lab.measured.timing import GpuDescription

GPU = GpuDescription("Fake", "sm_90", 1, 1000, 1 << 30, 1 << 10, "1.0", "13.0")


@pytest.fixture
def timer(cuda, monkeypatch):
    from lab.gpu.timing import timer as module  # noqa: PLC0415 - PyCUDA is played by now

    monkeypatch.setattr(module, "LEAST_SCRATCH_BYTES", 4096)
    return module.LaunchTimer(GPU, cuda.Stream(), lambda: 1980)


def queueing(cuda, ms, seen=None):
    def launch():
        if seen is not None:
            seen.append(cuda.ms)
        cuda.ms += ms

    return launch


def test_the_time_is_that_of_a_launch_between_the_events(timer, cuda):
    timing = timer.time(queueing(cuda, 2.0), batch=4, lead_ms=0.1, rewarm=True)
    assert timing.ms == 2.0
    assert timing.sm_clock_mhz == 1980
    assert timing.enqueue_ms >= 0
    assert not timing.starved


@pytest.mark.parametrize(("lead_ms", "memsets"), [(0.0, 1), (0.5, 1), (0.6, 2), (5.0, 10)])
def test_memsets_give_the_host_its_head_start(timer, cuda, lead_ms, memsets):
    began, seen = cuda.ms, list[float]()
    timer.time(queueing(cuda, 2.0, seen), batch=1, lead_ms=lead_ms, rewarm=False)
    assert seen == [began + memsets * cuda.memset_ms]


def test_a_warm_repetition_has_an_untimed_launch(timer, cuda):
    seen: list[float] = []
    timer.time(queueing(cuda, 2.0, seen), batch=3, lead_ms=0.1, rewarm=True)
    assert len(seen) == 4


def test_a_device_that_waits_for_the_host_is_starved(timer, cuda):
    cuda.eager = True
    assert timer.time(queueing(cuda, 2.0), batch=1, lead_ms=0.1, rewarm=False).starved


def test_memsets_are_timed_again_at_other_clocks(timer, cuda):
    cuda.memset_ms = 0.25
    timer.calibrate()
    began, seen = cuda.ms, list[float]()
    timer.time(queueing(cuda, 2.0, seen), batch=1, lead_ms=1.0, rewarm=False)
    assert seen == [began + 4 * 0.25]


def test_a_quick_time_is_the_median_of_a_few(timer, cuda):
    durations = iter([9.0, 2.0, 3.0, 1.0, 2.5])

    def launch():
        cuda.ms += next(durations)

    assert timer.quick(launch) == 2.5


def test_l2_is_emptied_by_reads_of_the_whole_scratch_buffer(timer, cuda):
    cuda.kernels["lab_read_all"] = lambda grid, *values: None
    for _ in range(2):
        timer.evict()
    assert len(cuda.loaded) == 1
    assert [values[1] * 16 for *_, values in cuda.launched] == [2 * GPU.l2_bytes + (1 << 20)] * 2


def test_a_time_has_the_digits_of_single_precision(timer, cuda):
    assert timer.time(queueing(cuda, 0.026240000501275063), batch=1, lead_ms=0.1, rewarm=True).ms == 0.02624
