from __future__ import annotations

import math
from dataclasses import astuple

import pytest

from lab.hardware.gpus import gpu_for
from lab.hardware.latencies import latencies_for, latencies_of


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
def test_a_suffix_names_the_same_sm(arch: str) -> None:
    assert latencies_of(arch) is latencies_of("sm_90") is not None


@pytest.mark.parametrize("arch", ["sm_80", "sm_100", "sm_9", "", "native"])
def test_an_architecture_that_was_never_compared_has_none(arch: str) -> None:
    assert latencies_of(arch) is None


def test_the_figures_of_sm_90_agree_with_the_table_of_gpus() -> None:
    latencies, gpu = latencies_of("sm_90"), gpu_for("H200")
    assert latencies is not None
    assert all(value > 0 for value in astuple(latencies) if not isinstance(value, (str, tuple)))
    sm = gpu.architecture
    assert (
        latencies.send == 32 / (sm.lsu_lanes / sm.sub_partitions) == 4
    )  # a quarter of the lanes sends a warp's addresses
    assert latencies.shared_latency < latencies.global_latency
    assert latencies.dram_share < 1
    assert latencies.l2_bytes % 32 == 0  # whole sectors


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_100"])
def test_an_architecture_that_was_never_compared_takes_what_is_published_and_says_so(arch: str) -> None:
    latencies, known = latencies_for(arch), latencies_for("sm_90")
    assert not latencies.compared
    assert known.compared
    assert latencies.source.endswith(f"figures of sm_90 where undocumented for {arch}")
    assert (latencies.l2_read_bytes == pytest.approx(47.4, abs=0.1)) is (arch == "sm_80")
    assert latencies.global_latency == known.global_latency


def test_fetched_instructions_lie_between_those_of_measured_warps() -> None:
    latencies = latencies_for("sm_90")
    assert latencies.fetched(32 << 10, 16) is None
    assert latencies.fetched(40_000, 16) == latencies.fetched(128 << 10, 16) == 2.1
    assert latencies.fetched(40_000, 1) == pytest.approx(0.85 / 4)
    assert latencies.fetched(40_000, 64) == 2.6
    assert 0.85 < (between := latencies.fetched(40_000, 6) or 0) < 1.3
    assert between == pytest.approx(0.85 + 0.45 * math.log2(1.5))
    assert latencies.fetched(200_000, 4) == 0.66
