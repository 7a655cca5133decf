from fake_device import FakeDevice

from lab.gpu.job import Flush, Policy
from lab.gpu.measure import Clockwork, Contender, measure

QUICK = Policy(warmup_ms=0.0, rewarm_ms=0.0, warmup_limit_ms=0.0, min_samples=5, max_samples=7)


def timed(times_ms, policy=QUICK, device=None, clockwork=None):
    device = device or FakeDevice()
    contenders = []
    for name, ms in times_ms.items():

        def launch():
            pass

        device.durations[launch] = ms
        contenders.append(Contender(name, launch))
    return measure(device, contenders, policy, clockwork or Clockwork(), lambda: None), device


def test_variant_and_baseline_alternate():
    measurement, device = timed({"kernel": 2.0, "cublas": 1.0})
    samples = [call for call in device.calls[device.calls.index("calibrate") :] if call.startswith("time")][4:]
    assert samples == ["time 2 batch=1 rewarm=False", "time 1 batch=1 rewarm=False"] * 7
    assert measurement.ratio_to_baseline == 0.5
    assert (measurement.baseline_name, measurement.cache, measurement.samples.n) == ("cublas", "cold", 7)


def test_without_a_baseline_there_is_no_ratio():
    measurement, _ = timed({"kernel": 2.0})
    assert (measurement.baseline, measurement.baseline_name, measurement.ratio_to_baseline) == (None, None, None)


def test_short_kernels_are_batched_warm_and_the_batch_is_recorded():
    measurement, device = timed({"kernel": 0.01})
    assert (measurement.samples.batch, measurement.cache) == (100, "warm")
    assert device.calls[-1] == "time 0.01 batch=100 rewarm=True"


def test_flush_off_leaves_long_kernels_warm():
    policy = Policy(warmup_ms=0.0, rewarm_ms=0.0, warmup_limit_ms=0.0, flush=Flush.OFF)
    assert timed({"kernel": 5.0}, policy)[0].cache == "warm"


def test_a_very_slow_kernel_is_piloted_once_and_gets_the_least_number_of_samples():
    measurement, device = timed({"kernel": 2000.0})
    assert measurement.samples.n == 5
    assert sum(call.startswith("time") for call in device.calls) == 6
    assert not any(call.startswith("run") for call in device.calls)


def test_the_warm_up_goes_on_until_the_clock_is_steady():
    device = FakeDevice()
    device.clocks = iter([345, 900, 1500, 1980, 1980, 1980])
    policy = Policy(warmup_ms=0.0, warmup_limit_ms=60_000.0, max_samples=5)
    timed({"kernel": 5.0}, policy, device)
    assert sum(call.startswith("run") for call in device.calls) == 6


def test_the_run_clock_is_the_highest_median_and_a_slower_measurement_says_so():
    clockwork = Clockwork()
    assert timed({"kernel": 2.0}, clockwork=clockwork)[0].notes == ()
    device = FakeDevice()
    device.clocks = iter([1500] * 99)
    measurement, _ = timed({"kernel": 2.0}, device=device, clockwork=clockwork)
    assert clockwork.run_clock == 1980
    assert any(note.startswith("7 of 7 repetitions ran below 95%") for note in measurement.notes)


def test_a_starved_device_is_remarked_on_unless_the_launch_is_long():
    device = FakeDevice()
    device.starved = True
    notes = timed({"kernel": 0.06, "cublas": 50.0}, device=device)[0].notes
    assert [note.partition(",")[0] for note in notes] == [
        "kernel: in 7 of 7 repetitions the host may have queued launches more slowly than the GPU ran them"
    ]
