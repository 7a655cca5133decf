"""The baselines that a run meets."""

from __future__ import annotations

import pytest

from lab.gpu.process.cards import Ran
from lab.gpu.process.job import BaselineResult, JobResult
from lab.measured.timing import CardState, Measurement, Samples
from lab.runs.baseline_checks import DRIFT, BaselineWatch


def ran(ms, worker=1, *, card="GPU-a", name="cublas", library="libcublas 13"):
    timed = Measurement(Samples((1.0,)), Samples((ms,)), name, "cold", CardState(), CardState())
    return Ran(JobResult("v", measurement=timed, baseline=BaselineResult(name, library)), card, worker)


def test_the_first_variant_of_a_problem_says_what_its_baseline_is():
    watch = BaselineWatch({"m=1": "cublas (known before)"})
    watch.meet("m=1", ran(1.0, 1))
    watch.meet("m=2", ran(1.0, 1))
    watch.meet("m=2", ran(1.0, 1, library="another"))
    assert watch.found == {"m=1": "cublas (known before)", "m=2": "cublas (libcublas 13)"}


@pytest.mark.parametrize(("change", "noted"), [(0.5 * DRIFT, False), (2 * DRIFT, True), (-2 * DRIFT, True)])
def test_a_baseline_that_moves_with_a_new_worker_is_noted(change, noted):
    watch = BaselineWatch({})
    assert watch.meet("m=1", ran(2.0, 1)) == ()
    notes = watch.meet("m=1", ran(2.0 * (1 + change), 2))
    assert bool(notes) is noted
    if noted:
        assert notes[0].startswith(
            f"In GPU worker 2 the baseline of m=1 takes {change:+.1%} more time than in worker 1"
        )


def test_scatter_within_one_worker_and_other_problems_are_not_drift():
    watch = BaselineWatch({})
    assert watch.meet("m=1", ran(1.0, 1)) == ()
    assert watch.meet("m=1", ran(1.5, 1)) == ()
    assert watch.meet("m=2", ran(9.0, 2)) == ()


def test_two_cards_are_not_two_workers_of_one():
    watch = BaselineWatch({})
    assert watch.meet("m=1", ran(1.0, 1, card="GPU-a")) == ()
    assert watch.meet("m=1", ran(1.5, 2, card="GPU-b")) == ()


def test_a_baseline_that_is_another_one_on_another_card_is_noted_once():
    watch = BaselineWatch({})
    assert watch.meet("m=1", ran(1.0)) == ()
    assert watch.meet("m=1", ran(1.0, card="GPU-b")) == ()
    (note,) = watch.meet("m=1", ran(1.0, card="GPU-c", library="libcublas 12"))
    assert note.startswith(
        "The baseline of m=1 is not the same on all cards: on GPU-a cublas (libcublas 13); on GPU-c "
    )
    assert watch.meet("m=1", ran(1.0, card="GPU-c", library="libcublas 12")) == ()


def test_a_baseline_that_is_missing_is_noted_and_a_job_without_one_says_nothing():
    watch = BaselineWatch({})
    missing = JobResult(
        "v",
        measurement=Measurement(Samples((1.0,)), None, None, "cold", CardState(), CardState()),
        baseline=BaselineResult("torch", note="torch cannot be imported here"),
    )
    assert watch.meet("", Ran(missing, "GPU-a", 1)) == (
        "The baseline torch was left out: torch cannot be imported here.",
    )
    assert watch.meet("", Ran(JobResult("v"), "GPU-a", 1)) == ()
