"""Outliers between prediction and measurement, and the explanation by counters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from narrowing import as_

from lab.measured.counters import STALLS, LaunchCounters, Profile
from lab.predict.schedulers.simulate import Cause
from lab.recorded.predictions import Estimate
from lab.recorded.run_records import Status
from lab.report.facts import counted
from lab.report.facts.answer import answer
from lab.report.facts.strays import CAUSES, ISSUING, MOST, missing, strays
from lab.report.render import render
from lab.report.variant.details import variant_detail
from lab.store.figures import response_of


def profile(issue, /, **stalls):
    launch = LaunchCounters(
        "gemm", 3e6, 1e6, 1e5, 1e5, 1e6, 1e6, 0.25, 5e8, 4e8, issue, {"fma": 0.7, "alu": 0.2}, stalls
    )
    return Profile("Nsight Compute 2025.3.1.0", "cold", (launch,))


SHARES = {"fma": 0.6, "other instructions": 0.1, "global memory": 0.1, "register banks": 0.2}


def test_a_prediction_that_is_too_high_lacks_what_the_gpu_waits_for():
    # 100 predicted cycles took 125: 70 with an issue (56 %), 40 for global memory, 15 for banks
    found = missing(profile(0.56, long_scoreboard=40.0, dispatch_stall=15.0, selected=1.0), SHARES, 1.25)
    assert found == "global memory: 40 cycles of each 100 predicted, 10 in the model"


def test_one_that_is_too_low_has_a_cost_too_many():
    # 100 predicted cycles took 80: 70 with an issue, 10 for global memory, none for banks
    found = missing(profile(0.875, long_scoreboard=1.0), SHARES, 0.8)
    assert found == "register banks: 0 cycles of each 100 predicted, 20 in the model"


def test_more_instructions_than_predicted_are_a_cost_too():
    assert missing(profile(1.0, selected=1.0), {"fma": 1.0}, 1.5).startswith(f"{ISSUING}: 150 cycles")


def test_a_ceiling_has_no_waiting():
    found = missing(profile(0.5, barrier=3.0, wait=1.0), {}, 2.0)
    assert found == "block barrier: 75 cycles of each 100 predicted, 0 in the ceiling"


def test_states_that_the_model_does_not_know_keep_their_names():
    assert missing(profile(0.5, no_instruction=1.0), SHARES, 2.0).startswith("no instruction: 100 cycles")
    assert missing(Profile("ncu", "cold", (LaunchCounters("k"),)), SHARES, 2.0) == ""
    assert set(CAUSES) <= set(STALLS)
    assert set(CAUSES.values()) <= set(Cause)


@given(
    st.floats(0.01, 1),
    st.dictionaries(st.sampled_from(sorted(STALLS)), st.floats(0.01, 50), min_size=1),
    st.dictionaries(st.sampled_from([str(cause) for cause in Cause]), st.floats(0.01, 1), min_size=1),
    st.floats(0.2, 5),
)
def test_an_error_always_has_a_cost_that_explains_it(issue, stalls, shares, ratio):
    """The differences add up to the error, so one of them points its way."""
    whole = sum(shares.values())
    shares = {cause: share / whole for cause, share in shares.items()}
    waiting = set(stalls) - {"selected", "not_selected"}
    made = profile(issue if waiting else 1.0, **stalls)
    if abs(ratio - 1) > 1e-6:
        assert missing(made, shares, ratio)


@pytest.fixture
def run(make):
    """Eight profiled variants with estimates that are off by 10 %, 20 %, …"""
    store = make("sweep")
    store.stray = []
    for position, record in enumerate(store.records()):
        if position % 3 == 0:
            estimate = Estimate(record.tflops * (1.1 + position / 30), 100.0, SHARES)
            counters = profile(0.5, long_scoreboard=2.0, barrier=1.0, selected=1.0)
            store.write(replace(record, estimate=estimate, profile=counters), position)
            store.stray.append(record.variant)
    return store


def test_the_furthest_off_come_first_and_only_profiled_ones(run):
    found = strays(run.records())
    assert [one.variant for one in found] == run.stray[::-1][:MOST]
    stray = found[0]
    assert (stray.prediction, stray.issue, stray.pipe) == ("estimate", "50%", "fma 70%")
    assert stray.ratio == pytest.approx(1.8)
    assert stray.modelled == "register banks 20%"
    assert stray.waits == "long scoreboard 67%, barrier 33%"
    assert stray.missing.startswith("global memory: 60 cycles of each 100 predicted")


def test_without_an_estimate_the_ceiling_is_set_against_the_measurement(run):
    records = [replace(record, estimate=None) for record in run.records()]
    assert {one.prediction for one in strays(records)} == {"ceiling"}
    assert strays([replace(record, status=Status.WRONG) for record in records]) == ()


def test_the_page_shows_them_and_the_winner_has_a_sentence(run):
    text = next(path for path in render(run) if path.name == "index.html").read_text()
    assert "What the hardware counters say about the variants furthest off" in text
    assert "long scoreboard 67%, barrier 33%" in text
    records = run.records()
    best = max(records, key=lambda record: record.tflops)
    made = [replace(r, profile=profile(0.5, wait=1.0)) if r is best else r for r in records]
    said = answer(run.run(), tuple(made), response_of(tuple(made))).text
    assert (
        "According to the hardware counters, its schedulers issue in 50% of the cycles; the fma pipe is at 70% of its"
        in said
    )


def test_a_variant_shows_all_of_its_counters(run):
    record = next(record for record in run.records() if record.profile)
    sections = {heading: dict(rows) for heading, _, rows in as_(list, variant_detail(record)["sections"])}
    shown = sections["Hardware counters"]
    assert shown["DRAM traffic"].startswith("4.00 MB")
    assert shown["occupancy"] == "25.0% achieved"
    assert shown["long scoreboard"].startswith("66.7% of the stalled warps")
    assert counted.rows(replace(record, profile=None)) == []
    sequence = replace(record.profile, launches=record.profile.launches * 2)
    assert dict(counted.rows(replace(record, profile=sequence)))["gemm"].startswith("3.00 MB read from DRAM; 1.00 MB")
