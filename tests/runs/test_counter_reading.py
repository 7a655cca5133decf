"""Which variants are worth the profiler's time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.experiment.schema import ProfileModel
from lab.measured.timing import CardState, Measurement, Samples
from lab.recorded.predictions import Bound, Estimate, Prediction
from lab.recorded.run_records import Status, VariantRecord
from lab.runs.counter_reading import chosen


def record(n, kernel, ms, *, number=0, estimate=None, status=Status.VERIFIED):
    """A variant of `flops` 1e9: its throughput is 1 / ms TFLOP/s."""
    timed = Measurement(Samples((ms,)), None, None, "cold", CardState(), CardState()) if ms else None
    made = VariantRecord(
        f"{kernel}-{n}-{number}", kernel, "", "t", {}, {"n": n}, "sm_90", status, "", 10**9, 10**6, measurement=timed
    )
    return replace(made, estimate=Estimate(estimate, 1.0, {})) if estimate else made


def rules(**values):
    return ProfileModel.model_validate(values)


def test_the_best_of_each_kernel_for_each_problem():
    records = [record(n, kernel, ms, number=ms) for n in (1, 2) for kernel in "ab" for ms in (3, 1, 2)]
    assert chosen(records, rules()) == ("a-1-1", "b-1-1", "a-2-1", "b-2-1")
    assert set(chosen(records, rules(top=2))) == {f"{k}-{n}-{ms}" for k in "ab" for n in (1, 2) for ms in (1, 2)}


def test_the_best_is_so_by_its_ratio_to_the_baseline_in_turns():
    early, late = record(1, "a", 1.0), record(1, "a", 1.1, number=1)
    timed = [
        replace(one, measurement=replace(one.measurement, baseline=Samples((ms,)), baseline_name="cublas"))
        for one, ms in ((early, 1.0), (late, 1.2))
    ]
    assert chosen(timed, rules()) == (late.variant,)
    assert chosen([early, timed[1]], rules()) == (early.variant,)


def test_what_failed_was_pruned_or_was_not_timed_is_not_chosen():
    records = [record(1, "a", 1, status=status) for status in Status if not status.sound]
    assert chosen([*records, record(1, "b", None)], rules()) == ()


def test_strays_are_those_furthest_from_their_estimate_in_either_direction():
    records = [record(1, "a", 1.0, number=i, estimate=e) for i, e in enumerate((1.0, 0.4, 2.0, 1.1, 3.0))]
    assert chosen(records, rules(strays=2)) == ("a-1-0", "a-1-1", "a-1-4")  # the winner, 1 / 2.5 and 3
    assert chosen(records, rules(strays=0)) == ("a-1-0",)


def test_without_an_estimate_the_ceiling_is_what_a_stray_is_away_from():
    prediction = Prediction("H200", 1.0, 2, "registers", 66.9, (Bound("roofline", 60.0, ""),))
    records = [record(1, "a", 1.0), replace(record(1, "a", 2.0, number=1), prediction=prediction)]
    assert chosen(records, rules(strays=1)) == ("a-1-0", "a-1-1")


def test_of_many_problems_evenly_spread_ones_with_all_of_their_kernels():
    records = [record(n, kernel, 1.0) for n in range(10) for kernel in "ab"]
    assert chosen(records, rules(at_most=6)) == ("a-0-0", "b-0-0", "a-4-0", "b-4-0", "a-9-0", "b-9-0")
    assert chosen(records, rules(at_most=1)) == ("a-0-0",)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from("abc"), st.floats(0.1, 9), st.floats(0.1, 9)), max_size=40),
    st.integers(1, 12),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_never_more_than_asked_for_and_always_the_first_winner_there_is_room_for(made, most, top, strays):
    records = [record(n, kernel, ms, number=i, estimate=e) for i, (n, kernel, ms, e) in enumerate(made)]
    picked = chosen(records, rules(at_most=most, top=top, strays=strays))
    assert len(picked) <= most
    assert len(set(picked)) == len(picked)
    order = [record.variant for record in records]
    assert list(picked) == sorted(picked, key=order.index)
    if records and top and most > strays:
        first = [record for record in records if record.problem == records[0].problem]
        assert max(first, key=lambda one: one.throughput).variant in picked


@pytest.mark.parametrize("wrong", [{"top": -1}, {"at_most": 0}, {"seconds": 0}, {"best": 1}])
def test_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        rules(**wrong)
