from __future__ import annotations

from dataclasses import replace

import pytest
from fake_device import FakeDevice, FakeError
from gpu_jobs import samples_of

from lab.gpu.timing.survey import BASELINE, Entrant, Ground, Survey, Surveyor, SurveyPolicy, room, warm_batch
from lab.templates.launches import Launches, Workspace

GROUND = Ground("float32", (64, 64, 64), 0, 0)
PROBLEM = {"m": 8, "n": 8, "k": 8}


def survey(device, cubins, *, baseline=False, kept=(), **policy):
    surveyor = Surveyor(device, lambda *_: None)
    return {point.kernel: point for point in surveyor.answer(order(cubins, baseline=baseline, kept=kept, **policy))}


def order(cubins, *, baseline=False, kept=(), **policy):
    entrants = tuple(Entrant(name, Launches(())) for name in cubins)
    wanted = SurveyPolicy(**{"warmup_ms": 0.0, **policy})
    return Survey(GROUND, PROBLEM, entrants, baseline, wanted, cubins, frozenset(kept))


def test_a_kernel_far_behind_the_fastest_gets_one_sample():
    points = survey(FakeDevice(), {"fast": b"1.0", "near": b"1.1", "far": b"1.3"}, samples=4)
    assert [points[name].samples.n for name in ("fast", "near", "far")] == [4, 4, 1]
    assert points["far"].samples.median == 1.3
    assert {point.cache for point in points.values()} == {"cold"}


def test_of_a_long_kernel_three_samples_do():
    points = survey(FakeDevice(), {"long": b"20.0", "short": b"18"}, samples=6, enough_ms=57)
    assert [points[name].samples.n for name in ("long", "short")] == [3, 4]


def test_nothing_is_dropped_where_nothing_may_be():
    points = survey(FakeDevice(), {"fast": b"1.0", "far": b"9"}, samples=3, drop=None)
    assert [point.samples.n for point in points.values()] == [3, 3]


def test_a_kernel_that_is_kept_gets_all_samples():
    assert survey(FakeDevice(), {"fast": b"1", "far": b"9"}, kept=["far"], samples=3)["far"].samples.n == 3


def test_short_launches_are_timed_warm_and_in_batches():
    device = FakeDevice()
    points = survey(device, {"a": b"0.01", "b": b"0.4"}, samples=2)
    assert (points["a"].cache, points["a"].samples.batch, points["a"].samples.n) == ("warm", warm_batch(0.01), 2)
    # a kernel that is dropped was timed in the same way, once
    assert (points["b"].cache, points["b"].samples.batch, points["b"].samples.n) == ("warm", warm_batch(0.4), 1)
    assert f"time 0.01 batch={warm_batch(0.01)} rewarm=True" in device.calls


def test_batches_are_bounded():
    assert warm_batch(1.0) == 1
    assert warm_batch(1e-9) == 32


def test_a_wrong_kernel_is_not_timed():
    device = FakeDevice()
    points = survey(device, {"right": b"1.0", "wrong": b"wrong", "refused": b"refused"})
    assert "wrong" in points["wrong"].failure
    assert points["wrong"].samples is None
    assert points["refused"].failure == "too much shared memory"
    assert points["right"].error == 1e-8
    assert len([call for call in device.calls if call.startswith("time")]) == points["right"].samples.n


def test_the_baseline_takes_turns_with_the_kernels():
    device = FakeDevice()
    points = survey(device, {"a": b"1.0", "b": b"1.05"}, baseline=True, samples=3)
    assert points[BASELINE].samples.n == 3
    assert points[BASELINE].note == "libfake 1.0"
    times = [call.split()[1] for call in device.calls if call.startswith("time")]
    assert times == ["1", "1.05", "2"] * 3


def test_a_faster_baseline_drops_nobody():
    points = survey(FakeDevice(), {"fast": b"8.0", "near": b"8.8", "far": b"13"}, baseline=True, samples=3)
    assert points[BASELINE].samples.median < 8.0
    assert [points[name].samples.n for name in ("fast", "near", "far")] == [3, 3, 1]


def test_the_field_is_made_once_and_the_reference_once_a_size():
    device = FakeDevice()
    surveyor = Surveyor(device, lambda *_: None)
    for _ in range(3):
        surveyor.answer(order({"a": b"1"}))
    assert device.calls.count("field") == 1
    assert device.calls.count("expect 8") == 3


def test_without_checks_nothing_is_compared():
    device = FakeDevice()
    assert survey(device, {"wrong": b"wrong"}, verify=False)["wrong"].error is None
    assert not [call for call in device.calls if call.startswith("expect")]


def test_the_warm_up_happens_once_a_worker_and_lasts_its_time():
    device, looks = FakeDevice(), iter(range(10**6))
    surveyor = Surveyor(device, lambda *_: None, now=lambda: next(looks) * 0.001)
    for _ in range(2):
        surveyor.answer(order({"a": b"1"}, warmup_ms=100.0))
    assert device.calls.count("run 1") == 99
    assert device.calls.count("calibrate") == 1


def test_the_host_sleeps_before_each_sample_where_a_pause_is_asked_for():
    device, slept, announced = FakeDevice(), [], []

    def sleep(seconds):
        slept.append(seconds)
        device.calls.append("sleep")

    surveyor = Surveyor(device, lambda *words: announced.append(words), sleep=sleep)
    surveyor.answer(order({"a": b"1.0", "b": b"1.05"}, baseline=True, samples=2, pause_ms=250.0))
    calls = [call.split()[0] for call in device.calls if call.startswith(("sleep", "time"))]
    assert calls == ["sleep", "time"] * 6
    assert slept == [0.25] * 6
    assert announced.count(("pause", "a")) == 2
    surveyor.answer(order({"a": b"1.0"}, samples=2))
    assert len(slept) == 6


def test_whatever_begins_is_announced_with_its_kernel():
    announced = []
    surveyor = Surveyor(FakeDevice(), lambda *words: announced.append(words))
    surveyor.answer(order({"a": b"1"}, baseline=True, samples=1))
    assert list(dict.fromkeys(announced)) == [
        ("allocation", ""),
        ("reference", ""),
        ("launch", "a"),
        ("launch of the baseline", BASELINE),
        ("measurement", "a"),
        ("measurement", BASELINE),
    ]


def test_machine_code_that_was_sent_before_is_kept():
    surveyor = Surveyor(FakeDevice(), lambda *_: None)
    first = order({"a": b"1.5"})
    surveyor.answer(first)
    (point,) = surveyor.answer(replace(first, cubins={}))
    assert samples_of(point).median == 1.5


def test_a_device_error_is_raised():
    with pytest.raises(FakeError, match="illegal memory access"):
        survey(FakeDevice(), {"good": b"1.0", "bad": b"illegal"})


@pytest.mark.parametrize(("elements", "size"), [(0, 0), (1, 256), (64, 256), (65, 512)])
def test_workspace_buffers_are_aligned_like_allocations(elements, size):
    assert room(Workspace("scratch", "float32", elements)) == size


@pytest.mark.parametrize(("dtype", "right"), [("float32", True), ("float64", False)])
def test_the_tolerance_is_that_of_the_type(dtype, right):
    # the device that is played tells an error of 1e-8: 0.17 units in the last place of float32, and 9e7 of float64
    plain = order({"a": b"1.0"})
    problem = {**plain.problem, "dtype": dtype}
    wanted = replace(plain, ground=replace(GROUND, dtype=dtype), problem=problem)
    (point,) = Surveyor(FakeDevice(), lambda *_: None).answer(wanted)
    assert point.error == 1e-8
    assert ("the result is wrong" in point.failure) != right
