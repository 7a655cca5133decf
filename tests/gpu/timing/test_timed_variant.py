from dataclasses import replace

from fake_device import FakeDevice

from lab.gpu.process.job import Policy
from lab.gpu.timing.cache import Flush
from lab.gpu.timing.timed_variant import IDLE_S, CardHistory, Contender, measure

QUICK = Policy(warmup_ms=0.0, rewarm_ms=0.0, warmup_limit_ms=0.0, min_samples=5, max_samples=7)


def timed(times_ms, policy=QUICK, device=None, history=None):
    device = device or FakeDevice()
    contenders = []
    for name, ms in times_ms.items():

        def launch():
            pass

        device.durations[launch] = ms
        contenders.append(Contender(name, launch))
    return measure(device, contenders, policy, history or CardHistory(), lambda: None), device


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


def test_a_variant_that_cannot_win_is_sampled_once():
    slow, device = timed({"kernel": 2.0, "cublas": 1.0}, replace(QUICK, beaten_ms=1.5))
    assert (slow.samples.n, slow.baseline.n) == (1, 1)
    assert slow.notes[-1] == "sampled once: slower than 1.5 ms, beyond which it cannot win"
    assert sum(call.startswith("time") for call in device.calls[device.calls.index("calibrate") :]) == 4 + 2
    fast, _ = timed({"kernel": 1.0}, replace(QUICK, beaten_ms=1.5))
    assert fast.samples.n == 7
    assert not any("sampled once" in note for note in fast.notes)


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
    history = CardHistory()
    assert timed({"kernel": 2.0}, history=history)[0].notes == ()
    device = FakeDevice()
    device.clocks = iter([1500] * 99)
    measurement, _ = timed({"kernel": 2.0}, device=device, history=history)
    assert history.run_clock == 1980
    (note,) = measurement.notes
    assert note.startswith("21 of 21 repetitions ran below 95%")
    assert note.endswith("they are kept because too few others are left")
    assert (measurement.samples.unused, measurement.samples.n) == ((), 21)


def test_samples_at_a_low_clock_are_kept_but_not_used_and_made_up_for():
    device = FakeDevice()
    device.clocks = iter([1980] * 4 + [1500] * 2 + [1980] * 99)
    measurement, _ = timed({"kernel": 2.0, "cublas": 1.0}, device=device)
    assert measurement.samples.unused == measurement.baseline.unused == (4, 5)
    assert len(measurement.samples.ms) == 14
    assert measurement.samples.n == 12
    assert measurement.notes[0].startswith("2 of 14 repetitions ran below 95%")
    assert measurement.notes[0].endswith("they are left out")


STEADY = Policy(warmup_ms=0.0, rewarm_ms=0.0, warmup_limit_ms=0.0, first_samples=6)


def test_a_variant_that_has_settled_is_done_early():
    measurement, _ = timed({"kernel": 2.0, "cublas": 1.0}, STEADY)
    assert (measurement.samples.n, measurement.baseline.n) == (6, 6)


class Scattering(FakeDevice):
    """Every other launch takes longer; after `calm` launches none does."""

    def __init__(self, by, calm=10**6):
        super().__init__()
        self.by, self.left = by, calm

    def time(self, launch, **how):
        self.left -= 1
        timing = super().time(launch, **how)
        return replace(timing, ms=timing.ms * (1 + self.by * (self.left % 2) * (self.left > 0)))


def test_a_variant_that_scatters_a_little_gets_all_samples():
    assert timed({"kernel": 2.0}, STEADY, Scattering(0.03))[0].samples.n == 30


def test_a_noisy_variant_is_measured_longer_and_then_marked():
    noisy = timed({"kernel": 2.0}, STEADY, Scattering(0.5))[0]
    assert noisy.samples.n == 90
    assert noisy.notes[0].startswith("kernel: noisy")
    calmed = timed({"kernel": 2.0}, STEADY, Scattering(0.5, calm=22))[0]
    assert calmed.samples.n == 60
    assert calmed.notes == ()


class Clock:
    """The host's clock: a look at it takes half a millisecond."""

    now = 50.0

    def __call__(self):
        self.now += 0.0005
        return self.now


def test_the_warm_up_lasts_its_least_time_and_later_ones_are_shorter():
    device, clock = FakeDevice(), Clock()
    history = CardHistory(now=clock)
    policy = Policy(warmup_ms=100.0, rewarm_ms=10.0, warmup_limit_ms=1000.0)
    runs = []
    for _ in range(2):
        device.calls.clear()
        timed({"kernel": 2.0}, policy, device, history)
        runs.append(sum(call.startswith("run") for call in device.calls))
        clock.now += 10 * IDLE_S
    first, second = runs
    assert 190 < first <= 200
    assert 15 < second <= 20


def test_the_warm_up_ends_at_its_limit_though_the_clock_is_not_steady():
    device = FakeDevice()
    device.clocks = iter([1000, 1980] * 10_000)
    policy = Policy(warmup_ms=0.0, warmup_limit_ms=10.0, max_samples=5)
    timed({"kernel": 5.0}, policy, device, CardHistory(now=Clock()))
    assert 15 < sum(call.startswith("run") for call in device.calls) <= 20


def test_a_card_that_comes_straight_from_another_measurement_needs_no_warm_up():
    device, clock = FakeDevice(), Clock()
    history = CardHistory(now=clock)
    timed({"kernel": 2.0}, Policy(), device, history)
    assert any(call.startswith("run") for call in device.calls)
    device.calls.clear()
    clock.now += IDLE_S / 2
    timed({"kernel": 2.0}, Policy(), device, history)
    assert not any(call.startswith("run") or call == "calibrate" for call in device.calls)
    clock.now += 2 * IDLE_S
    timed({"kernel": 2.0}, Policy(), device, history)
    assert any(call.startswith("run") for call in device.calls)


def test_a_card_whose_clock_has_dropped_is_warmed_up_again():
    history = CardHistory(now=Clock(), run_clock=1980, warmed=True, busy_until=50.0)
    assert history.is_warm([1980, 1970, None])
    assert not history.is_warm([1980, 1500])


def test_a_starved_device_gets_a_note_unless_the_launch_is_long():
    device = FakeDevice()
    device.starved = True
    notes = timed({"kernel": 0.06, "cublas": 50.0}, device=device)[0].notes
    assert [note.partition(",")[0] for note in notes] == [
        "kernel: in 7 of 7 repetitions the host may have queued launches more slowly than the GPU ran them"
    ]
