import pytest

from lab.gpu.process.job import Policy
from lab.gpu.timing import layout
from lab.gpu.timing.cache import Flush
from lab.measured.timing import Samples

POLICY = Policy(min_samples=5, max_samples=30, budget_s=1.0)


def test_long_kernels_are_timed_cold_one_by_one():
    plan = layout.make_plan([3.0, 2.5], [0.005, 0.01], POLICY)
    assert (plan.cache, [side.batch for side in plan.sides], plan.n) == ("cold", [1, 1], 30)


def test_a_short_kernel_makes_the_pair_warm_and_batches_only_the_short_side():
    plan = layout.make_plan([0.01, 0.4], [0.005, 0.01], POLICY)
    assert plan.cache == "warm"
    assert [side.batch for side in plan.sides] == [100, 1]


def test_a_short_baseline_makes_the_pair_warm_too():
    assert layout.make_plan([0.4, 0.01], [0.005, 0.005], POLICY).cache == "warm"


def test_flush_on_is_cold_even_for_short_kernels_and_off_is_warm_for_long_ones():
    cold = layout.make_plan([0.005], [0.005], Policy(flush=Flush.ON))
    warm = layout.make_plan([5.0], [0.005], Policy(flush=Flush.OFF))
    assert (cold.cache, cold.sides[0].batch) == ("cold", 1)
    assert (warm.cache, warm.sides[0].batch) == ("warm", 1)


def test_the_head_start_covers_the_queueing_of_the_whole_batch():
    side = layout.make_plan([0.002], [0.006], POLICY).sides[0]
    assert side.batch == layout.MOST_LAUNCHES
    assert side.lead_ms > side.batch * 0.006


@pytest.mark.parametrize(
    ("pilot_ms", "batch"), [(0.05, 1), (0.049, 21), (0.01, 100), (0.001, 256), (0.0, 256), (0.0499999, 21)]
)
def test_batches_last_about_a_millisecond(pilot_ms, batch):
    assert layout.warm_batch(pilot_ms, 50.0) == batch


@pytest.mark.parametrize(("cost_ms", "n"), [(0.01, 30), (100.0, 10), (190.0, 5), (5000.0, 5)])
def test_the_budget_bounds_the_samples_and_the_least_number_overrides_it(cost_ms, n):
    assert layout.sample_count(cost_ms, POLICY) == n


@pytest.mark.parametrize(
    ("clocks", "steady"),
    [
        ([], False),
        ([1980, 1980], False),
        ([345, 1980, 1980, 1965], True),
        ([1500, 1700, 1980], False),
        ([None], True),
    ],
)
def test_the_clock_is_steady_when_the_last_readings_agree(clocks, steady):
    assert layout.is_steady(clocks) is steady


def test_slow_clocks_get_a_note_with_their_number():
    clocks = [1980, 1980, 1500, None]
    slow = layout.slow_repetitions(clocks, 1980)
    assert slow == (2,)
    assert layout.unused_repetitions(slow, 4, min_samples=3) == (2,)
    assert layout.unused_repetitions(slow, 4, min_samples=4) == ()
    (note,) = layout.clock_notes(clocks, slow, slow, 1980)
    assert note.startswith("1 of 4 repetitions ran below 95% of the run's SM clock of 1980 MHz")
    assert note.endswith("lowest 1500 MHz); they are left out")
    assert layout.slow_repetitions([1980, 1970], 1980) == ()
    assert layout.slow_repetitions([None], None) == ()
    assert layout.clock_notes([1980, 1970], (), (), 1980) == ()


def test_a_noisy_side_is_named():
    assert layout.spread_notes("cublas", Samples((1.0, 1.001, 1.002))) == ()
    (note,) = layout.spread_notes("cublas", Samples((1.0, 1.5, 2.0)))
    assert note == "cublas: noisy, p20 to p80 spans 40% of the median"


def test_a_warm_up_chunk_lasts_about_ten_milliseconds():
    assert [layout.warmup_repeats(ms) for ms in (0.0, 0.01, 1.0, 80.0)] == [200, 200, 10, 1]
