"""The repetition of a winner."""

from __future__ import annotations

from gpu_jobs import measurement_of

from lab.gpu.process.job import JobResult, JobStage
from lab.measured.timing import CardState, Measurement, Samples
from lab.runs.finals import repeated


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
