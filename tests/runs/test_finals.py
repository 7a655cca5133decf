"""The repetition of a winner."""

from __future__ import annotations

from dataclasses import replace

from gpu_jobs import measurement_of

from lab.gpu.process.job import JobResult, JobStage
from lab.measured.timing import CardState, EarlierTiming, Measurement, Samples
from lab.runs.finals import in_turns, repeated


def result(ms, notes=()):
    timed = Measurement(Samples((ms,) * 3), Samples((2.0,) * 3), "fake", "cold", CardState(), CardState(), notes=notes)
    return JobResult("v1", measurement=timed)


def test_a_repetition_adds_its_samples_and_says_how_they_differ():
    again = repeated(measurement_of(result(4.0)), result(4.2, ("noisy",)))
    assert again.samples == Samples((4.0,) * 3)
    assert again.remeasured == Samples((4.2,) * 3)
    assert again.notes == (
        "in a fresh process: median 4.2 ms (+5.0%), 0.476 of fake's throughput there",
        "in the fresh process: noisy",
    )


def test_a_failed_repetition_is_a_note_on_the_first_measurement():
    again = repeated(measurement_of(result(4.0)), JobResult("v1").failed(JobStage.CRASH, "worker ended"))
    assert again.remeasured is None
    assert again.notes == ("measured once only: the repetition in a fresh process failed: worker ended",)


def turn(ms, baseline=2.0, batch=1, unused=()):
    timed = measurement_of(result(ms))
    return replace(timed, samples=Samples((ms,) * 3, batch, unused), baseline=Samples((baseline,) * 3, batch, unused))


def test_turns_of_a_final_become_one_measurement_with_the_sweeps_beside_it():
    first = replace(measurement_of(result(4.4)), card="GPU-b", doubt="slow")
    measurement = in_turns(first, [turn(4.0, unused=(1,)), turn(4.1), turn(4.2)], "GPU-a", 3)
    assert measurement.samples.ms == (4.0,) * 3 + (4.1,) * 3 + (4.2,) * 3
    assert measurement.samples.unused == measurement.baseline.unused == (1,)
    assert measurement.baseline.ms == (2.0,) * 9
    assert (measurement.card, measurement.doubt) == ("GPU-a", "")
    assert measurement.sweep == EarlierTiming("GPU-b", first.samples, first.baseline)
    assert measurement.notes == (
        "timed again on one card, interleaved with 2 others, in 3 rounds: median 4.1 ms; the sweep's was 4.4 ms",
    )
    again = in_turns(measurement, [turn(4.0)] * 3, "GPU-a", 2)  # a challenge
    assert again.sweep == measurement.sweep
    assert again.samples.median == 4.0


def test_a_baseline_that_a_turn_lacks_is_left_out_and_ratios_stay_those_of_one_card():
    measurement = in_turns(measurement_of(result(4.0)), [turn(4.0), replace(turn(4.0), baseline=None)], "GPU-a", 1)
    assert (measurement.baseline, measurement.baseline_name, measurement.ratio_to_baseline) == (None, None, None)
