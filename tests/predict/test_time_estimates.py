from __future__ import annotations

from dataclasses import replace

import pytest

from lab.emulator.results import ExecutedCounts
from lab.isa.model import InstructionClass
from lab.predict.time_estimates import COUNTS, SCHEDULERS, SWEEP_ERROR, TimeEstimate, cannot_tell, estimates
from lab.predict.variant_scores import scores
from lab.recorded.predictions import Estimate
from lab.recorded.run_records import EmulationRecord, Status


def with_estimate(record, tflops=1.0):
    return replace(record, flops=2 * 10**9, estimate=Estimate(tflops, 100.0, {"fma": 0.7, "barriers": 0.3}))


@pytest.fixture
def records(make):
    return [record for record in make("no_gpu").records() if not record.status.failed]


def test_the_schedulers_give_the_time_where_every_variant_has_theirs(records):
    found = estimates([with_estimate(record) for record in records])
    assert len(found) == len(records)
    estimate = found[records[0].variant]
    assert estimate.ms == pytest.approx(2.0)
    assert estimate.origin == SCHEDULERS
    assert estimate.low_ms < estimate.ms < estimate.high_ms
    assert estimate.cost == "fma 70%, barriers 30%"


def test_counted_work_gives_the_time_of_all_where_one_lacks_the_schedulers(records):
    mixed = [with_estimate(records[0]), *(replace(one, estimate=None) for one in records[1:])]
    found, times = estimates(mixed), scores(mixed)
    assert found.keys() == times.keys()
    assert {one.origin for one in found.values()} <= {COUNTS}
    for variant, estimate in found.items():
        assert estimate.ms >= times[variant].seconds * 1e3 * (1 - 1e-12)
        assert estimate.low_ms <= estimate.ms <= estimate.high_ms


def test_a_failed_variant_decides_nothing(records):
    failed = replace(records[0], variant="failed", status=Status.COMPILE_FAILED, estimate=None)
    found = estimates([failed, *(with_estimate(record) for record in records)])
    assert {one.origin for one in found.values()} == {SCHEDULERS}


def timed(ms, origin=COUNTS):
    return TimeEstimate(ms, ms / 2, 2 * ms, origin)


def test_times_closer_than_they_err_against_each_other_are_not_told_apart():
    close, apart = SWEEP_ERROR * 0.99, SWEEP_ERROR * 1.01
    assert cannot_tell([timed(1.0), timed(close)])
    assert not cannot_tell([timed(1.0), timed(close), timed(apart)])
    assert not cannot_tell([timed(1.0)])
    assert not cannot_tell([timed(1.0, SCHEDULERS), timed(close, SCHEDULERS)])


@pytest.mark.parametrize(("flops", "origin"), [(2 * 320, SCHEDULERS), (4 * 320, COUNTS)])
def test_operations_that_are_no_fma_are_left_to_counted_work(records, flops, origin):
    """The schedulers' model knows the work by its fma: 320 of all threads are 640 operations."""
    executed = ExecutedCounts(10, 320, {}, {InstructionClass.FMA: 320}, {}, {}, {})
    done = EmulationRecord({}, (), executed=executed, flops=flops)
    made = [with_estimate(replace(record, emulation=done)) for record in records]
    counted = scores(made)
    assert {variant for variant, one in estimates(made).items() if one.origin == SCHEDULERS} == (
        {one.variant for one in made} if origin == SCHEDULERS else set()
    )
    assert origin == SCHEDULERS or estimates(made).keys() == counted.keys()
