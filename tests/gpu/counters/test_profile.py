"""Variants under a profiler that is played, on a device that is none."""

import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from lab.gpu.counters import profile
from lab.gpu.counters.ncu import MetricRow, ProfilerError
from lab.gpu.counters.profile import ProfileOrder, counters, matched, profiles
from lab.gpu.process.job import Job
from lab.measured.counters import LaunchCounters, Profile
from lab.templates.launches import Launch, Launches
from lab.toolchain import locate

HERE = Path(__file__).parents[2] / "support"
TARGET = (sys.executable, str(HERE / "fake_profiled.py"))


def order(variant, *entries, cache="cold", n=16):
    steps = tuple(Launch(entry, (1, 1, 1), (32, 1, 1), 0, ()) for entry in entries)
    job = Job(variant, b"1", Launches(steps), "fake_operator.py:Double", {"n": n}, 0, HERE)
    return ProfileOrder(job, cache)


class Count:
    """Profiles orders; `calls` holds the cache control of each run of the profiler."""

    def __init__(self, profiler, folder, monkeypatch):
        self.profiler, self.log, self.monkeypatch = profiler, folder / "calls", monkeypatch
        self.calls: list[str] = []

    def __call__(self, *orders, how="", seconds=60.0, **named):
        self.monkeypatch.setenv("FAKE_NCU", how)
        self.monkeypatch.setenv("FAKE_NCU_LOG", str(self.log))
        found = list(profiles(orders, seconds=seconds, profiler=self.profiler, target=TARGET, **named))
        self.calls = [line.split()[0] for line in self.log.read_text().splitlines()] if self.log.exists() else []
        merged = {variant: one for part in found for variant, one in part.profiles.items()}
        return merged, [note for part in found for note in part.notes]


@pytest.fixture
def count(fake_ncu, monkeypatch, tmp_path):
    return Count(fake_ncu, tmp_path, monkeypatch)


def test_single_launches_from_a_cold_cache_take_one_process(count):
    profiles, notes = count(order("v1", "double"), order("v2", "double", n=17))
    assert (set(profiles), notes, count.calls) == ({"v1", "v2"}, [], ["all"])
    one = profiles["v1"]
    assert (one.profiler, one.cache, one.notes) == ("Nsight Compute 2025.3.1.0", "cold", ())
    assert (one.dram_bytes, one.occupancy, one.issue_share, one.duration_ms) == (1536.0, 0.75, 0.4, 0.002)
    assert one.pipes == dict.fromkeys(("fma", "alu", "lsu", "xu", "tensor"), 0.01)
    assert next(iter(one.waits)) == "long_scoreboard"


def test_a_sequence_is_counted_whole_without_a_flush_between_its_launches(count):
    profiles, notes = count(order("v1", "double"), order("v2", "double", "other", "double"))
    assert count.calls == ["all", "none", "none"]
    assert notes == []
    assert [launch.kernel for launch in profiles["v2"].launches] == ["double", "other", "double"]
    assert profiles["v2"].dram_bytes == 3 * 1536
    assert profiles["v2"].notes == (profile.NOT_FLUSHED,)
    assert profiles["v1"].notes == ()


def test_from_a_warm_cache_the_second_launch_counts(count):
    profiles, _ = count(order("v1", "double", cache="warm"))
    assert (profiles["v1"].cache, len(profiles["v1"].launches), count.calls) == ("warm", 1, ["none", "none"])


def test_traffic_that_took_several_passes_is_remarked_on(count):
    profiles, _ = count(order("v1", "double", "double"), how="3 passes")
    assert profile.REPLAYED in profiles["v1"].notes


def test_a_variant_that_cannot_be_launched_costs_itself_alone(count):
    profiles, notes = count(order("v1", "refused"), order("v2", "double"))
    assert set(profiles) == {"v2"}
    assert notes == ["v1 was not profiled: 300000 bytes of shared memory per block; this GPU has 232448."]


def test_after_a_device_error_what_was_launched_before_is_kept(count):
    profiles, notes = count(order("v1", "double"), order("v2", "illegal"), order("v3", "double"))
    assert set(profiles) == {"v1"}
    assert notes[0].startswith("v2 was not profiled: CUDA error")


def test_an_unknown_metric_is_a_note_and_the_rest_is_there(count):
    metric = "sm__warps_active.avg.pct_of_peak_sustained_active"
    profiles, notes = count(order("v1", "double"), how=f"knows not {metric}")
    assert notes == [f"Nsight Compute does not know the metric {metric}."]
    assert (profiles["v1"].occupancy, profiles["v1"].dram_bytes) == (None, 1536.0)


@pytest.mark.parametrize(("how", "said"), [("forbidden", "run as root"), ("loses one", "saw other launches")])
def test_what_hinders_it_altogether_is_one_note(count, how, said):
    profiles, notes = count(order("v1", "double"), order("v2", "double"), how=how)
    assert (profiles, len(notes)) == ({}, 1)
    assert notes[0].startswith("No hardware counters were read")
    assert said in notes[0]


def test_a_part_that_fails_takes_nothing_from_the_others(count, monkeypatch):
    whole = profile._profile

    def without_sequences(orders, fields, profiler, *, flush):
        if fields is profile.TRAFFIC:
            raise ProfilerError("it broke")
        return whole(orders, fields, profiler, flush=flush)

    monkeypatch.setattr(profile, "_profile", without_sequences)
    profiles, notes = count(order("v1", "double"), order("v2", "double", "double"))
    assert notes == ["Some hardware counters were not read: it broke."]
    assert profiles["v1"].dram_bytes == 1536.0
    assert (profiles["v2"].dram_bytes, profiles["v2"].occupancy) == (None, 0.75)


def test_no_profiler_is_one_note(monkeypatch):
    monkeypatch.setattr(locate, "tool", lambda name: None)
    (found,) = profiles([order("v1", "double")], seconds=60.0)
    assert not found.profiles
    assert "Nsight Compute was not found" in found.notes[0]


def test_chunks_keep_problems_together_and_end_at_the_time_limit(count):
    orders = [order(f"v{i}", "double", n=16 + i % 2) for i in range(4)]
    clock = iter([100.0, 160.5])  # at the start, and before the second chunk
    profiles, notes = count(*orders, chunk=2, now=lambda: next(clock))
    assert set(profiles) == {"v0", "v2"}
    assert notes == ["The counters of 2 variants were not read: the limit of 60 s had passed."]
    clock = iter([100.0, 159.5])
    assert set(count(*orders, chunk=2, now=lambda: next(clock))[0]) == {"v0", "v1", "v2", "v3"}


def test_rows_of_other_kernels_than_the_program_launched_are_refused():
    orders = [order("v1", "a", "b")]
    said = [{"variant": "v1", "times": 1}]
    assert set(matched(orders, said, [MetricRow("a(int)", {}), MetricRow("b", {})])) == {"v1"}
    for rows in (["a"], ["b", "a"], ["a", "b", "a"], []):
        with pytest.raises(ProfilerError):
            matched(orders, said, [MetricRow(name, {}) for name in rows])


def test_every_metric_has_a_field():
    every = {**profile.TRAFFIC, **profile.EXECUTION}
    kernel_counters = counters("k", dict.fromkeys(every, 50.0))
    assert kernel_counters.occupancy == kernel_counters.issue_share == kernel_counters.pipes["xu"] == 0.5
    assert kernel_counters.stalls["wait"] == kernel_counters.dram_read_bytes == 50.0
    assert {name for name in every if "." not in name} == {
        name for name, value in asdict(kernel_counters).items() if isinstance(value, float)
    }
    assert counters("k", {}) == LaunchCounters("k")
    assert Profile("p", "cold", (kernel_counters,)).dram_bytes == 100.0
