"""Times on a real GPU: only relations that hold on any card."""

import pytest
from gpu_jobs import measurement_of
from gpu_support import QUICK, axpy_job

from lab.gpu.process.job import Policy
from lab.gpu.timing.cache import Flush

pytestmark = pytest.mark.gpu

ROUNDS = 200_000
"""A chain of dependent multiply-adds of a few cycles each: several hundred microseconds."""


def measured(session, job, policy=QUICK):
    result = session.run(job, policy)
    assert result.failure is None, result.failure
    return result.measurement


def test_twice_the_work_takes_about_twice_the_time(gpu, session):
    once = measured(session, axpy_job(gpu.arch, "busy", n=1 << 14, rounds=ROUNDS))
    twice = measured(session, axpy_job(gpu.arch, "busy", n=1 << 14, rounds=2 * ROUNDS))
    assert 1.8 < twice.samples.median / once.samples.median < 2.2
    assert once.samples.batch == 1
    assert once.cache == "cold"
    assert once.samples.n >= QUICK.min_samples
    assert once.baseline is None


def test_short_kernels_are_timed_in_warm_batches(gpu, session):
    short = measured(session, axpy_job(gpu.arch, n=4096))
    assert short.samples.batch > 1
    assert short.cache == "warm"
    # an empty launch takes a few microseconds; far more would be host time between the launches
    assert 0.0005 < short.samples.median < 0.03, short


def test_a_batch_and_single_launches_agree(gpu, session):
    """A kernel just above the limit, with the limit moved: both ways of timing must see the same kernel."""
    job = axpy_job(gpu.arch, "busy", n=1 << 14, rounds=ROUNDS)
    single = measured(session, job)
    limit_us = 2e3 * single.samples.median
    batched = measured(session, job, Policy(warmup_ms=50, budget_s=0.2, baseline=None, batch_below_us=limit_us))
    assert batched.samples.batch > 1
    assert 0.9 < batched.samples.median / single.samples.median < 1.1


@pytest.mark.parametrize(("flush", "cache"), [(Flush.ON, "cold"), (Flush.OFF, "warm")])
def test_the_record_says_cold_or_warm(gpu, session, flush, cache):
    policy = Policy(warmup_ms=10, rewarm_ms=10, budget_s=0.05, baseline=None, flush=flush)
    assert measured(session, axpy_job(gpu.arch, n=1 << 20), policy).cache == cache


def test_data_in_l2_is_read_faster_than_data_that_was_flushed(gpu, session):
    n = min(gpu.l2_bytes // 4, 16 << 20) // 12  # three arrays in a quarter of the cache
    cold = Policy(warmup_ms=50, rewarm_ms=20, budget_s=0.1, baseline=None, flush=Flush.ON)
    warm = Policy(warmup_ms=50, rewarm_ms=20, budget_s=0.1, baseline=None, flush=Flush.OFF)
    job = axpy_job(gpu.arch, n=n)
    assert measured(session, job, warm).samples.median < measured(session, job, cold).samples.median


def test_the_cards_state_is_recorded_where_nvml_answers(gpu, session):
    pytest.importorskip("pynvml")
    measurement = measured(session, axpy_job(gpu.arch, "busy", n=1 << 14, rounds=ROUNDS))
    assert 100 < measurement.before.sm_clock_mhz <= gpu.sm_clock_mhz
    assert 0 < measurement.after.temperature_c < 120
    assert 0 < measurement.after.power_w < 3000


def test_a_fresh_process_measures_about_the_same(gpu, session):
    job = axpy_job(gpu.arch, "busy", n=1 << 14, rounds=ROUNDS)
    first = session.run(job, QUICK)
    pid = session.process_id
    session.restart()
    assert session.process_id != pid
    second = measurement_of(session.run(job, QUICK))
    assert 0.8 < second.samples.median / measurement_of(first).samples.median < 1.25
