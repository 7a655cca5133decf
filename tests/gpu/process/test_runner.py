"""Jobs and surveys on the fake device, in this process."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_device import FakeDevice
from gpu_jobs import QUIET, failure_of, job

from lab.base.errors import UserError
from lab.gpu.process.job import JobStage, Policy
from lab.gpu.process.runner import JobRunner, cuda_words, in_words
from lab.gpu.timing.cache import Flush
from lab.gpu.timing.survey import Entrant, Ground, Survey, SurveyPolicy
from lab.operators.base import Expected, StandInMismatchError
from lab.templates.launches import Launches


@pytest.fixture
def device():
    return FakeDevice()


@pytest.fixture
def runner(device):
    return JobRunner(device, lambda message: None)


def test_a_right_kernel_is_verified_and_timed_beside_its_baseline(runner):
    answer = runner.answer(job(), QUIET)
    assert answer.usable
    assert answer.result.failure is None
    assert answer.result.verification.passed
    assert answer.result.verification.executed_on == "Fake"
    assert answer.result.measurement.ratio_to_baseline == 0.5
    assert answer.result.baseline.library == "libfake 1.0"
    assert answer.result.baseline.verification.passed


@pytest.mark.parametrize(("first", "passes"), [(16, False), (8, True)])
def test_a_stand_in_with_arrays_of_other_sizes_is_not_compared_with(runner, monkeypatch, first, passes):
    def as_expected(_, problem, outputs, first=None):
        if first is not None and first.n != problem.n:
            raise StandInMismatchError("x has another shape", code="mismatch")
        return {"y": Expected(outputs["y"], np.ones_like(outputs["y"]))}

    monkeypatch.setattr("lab.operators.checked.Checked.as_expected", as_expected, raising=False)
    answer = runner.answer(replace(job("wrong"), reference=job("double", n=first)), QUIET)
    assert answer.usable
    assert answer.result.verification.passed is passes


@pytest.mark.parametrize(("kernel", "where"), [("wrong", "y[3]: got"), ("forgets_one", "y[15]: got nan")])
def test_a_wrong_kernel_is_not_timed(runner, kernel, where):
    answer = runner.answer(job(kernel), QUIET)
    assert answer.usable
    assert not answer.result.verification.passed
    assert answer.result.failure.stage is JobStage.VERIFY
    assert answer.result.failure.reason.startswith(where)
    assert answer.result.measurement is None


def test_inputs_and_reference_are_made_once_a_problem(device):
    said: list[Any] = []
    runner = JobRunner(device, said.append)
    for n in (16, 16, 17):
        runner.answer(job(n=n), QUIET)
    activities = [message.activity for message in said]
    assert activities.count("inputs") == activities.count("reference") == device.calls.count("load") == 2


def test_an_operator_that_raises_is_this_jobs_failure(runner):
    answer = runner.answer(job(n=13), QUIET)
    assert answer.usable
    assert answer.result.failure.stage is JobStage.PREPARE
    assert re.fullmatch(
        r".*fake_operator\.py:\d+: Double\.inputs raised ValueError: thirteen", answer.result.failure.reason
    )
    assert runner.answer(job(), QUIET).result.failure is None


def test_an_operator_whose_reference_is_wrong_is_this_jobs_failure_and_costs_no_worker(runner, monkeypatch):
    monkeypatch.setattr("lab.operators.checked.reference_fault", lambda found, inputs: "returned nothing")
    answer = runner.answer(job(), QUIET)
    assert answer.usable
    assert answer.result.failure.stage is JobStage.PREPARE
    assert "Double.reference returned nothing" in answer.result.failure.reason


def test_a_reference_that_takes_too_much_memory_is_told_without_a_traceback(runner, monkeypatch, capsys):
    def expected(_):
        raise UserError(
            "a result of 16 x 8192 x 8192 elements",
            code="wrong-value",
            key="reference.d",
            accepted="at most 268435456 elements",
        )

    monkeypatch.setattr("lab.gpu.process.checking.ProblemData.expected", expected)
    answer = runner.answer(job(), QUIET)
    assert answer.usable
    assert answer.result.failure.stage is JobStage.PREPARE
    assert answer.result.failure.reason.startswith("a result of 16 x 8192 x 8192 elements")
    assert "Traceback" not in "".join(capsys.readouterr())


def test_arrays_that_do_not_fit_are_this_jobs_failure(device, monkeypatch):
    runner = JobRunner(device, lambda message: None)

    def full(inputs):
        raise device.errors[0]("cuMemAlloc failed: out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(device, "load", full)
        answer = runner.answer(job(), QUIET)
    assert answer.usable
    assert failure_of(answer.result).stage is JobStage.PREPARE
    assert failure_of(answer.result).reason == (
        "RuntimeError: the arrays do not fit on the GPU: out of memory in cuMemAlloc"
    )
    assert runner.answer(job(), QUIET).result.failure is None


def test_a_refused_launch_leaves_the_worker_usable(runner):
    answer = runner.answer(job("refused"), QUIET)
    assert answer.usable
    assert answer.result.failure.stage is JobStage.LAUNCH
    assert "232448" in answer.result.failure.reason


def test_a_cuda_error_costs_the_worker(runner):
    answer = runner.answer(job("illegal"), QUIET)
    assert not answer.usable
    assert answer.result.failure.stage is JobStage.LAUNCH
    assert answer.result.failure.reason == (
        "CUDA error: an illegal memory access was encountered in cuStreamSynchronize (launch)"
    )


def test_an_unforeseen_error_is_named_with_the_activity(runner, capsys):
    answer = runner.answer(job("bug"), QUIET)
    assert not answer.usable
    assert answer.result.failure.stage is JobStage.CRASH
    assert answer.result.failure.reason == "ZeroDivisionError: oh (launch)"
    assert "Traceback" in capsys.readouterr().err


def test_several_baselines_are_interleaved_and_named(runner):
    policy = Policy(baseline="fake", others=("missing", "second"), warmup_ms=0, warmup_limit_ms=0)
    result = runner.answer(job(), policy).result
    assert result.measurement.baseline_name == "fake"
    assert set(result.measurement.others) == {"second"}
    assert result.measurement.ratio_to("second") == result.measurement.ratio_to("fake") == 0.5
    assert result.measurement.ratio_to("missing") is None
    assert [(one.name, one.note) for one in result.others] == [("missing", "libfake was not found"), ("second", "")]


def test_without_a_baseline_only_the_kernel_is_timed(runner):
    result = runner.answer(job(), Policy(baseline=None, warmup_ms=0, warmup_limit_ms=0)).result
    assert (result.baseline, result.others, result.measurement.baseline) == (None, (), None)


def test_check_and_measure_can_be_switched_off(runner):
    unchecked = runner.answer(job("wrong"), Policy(check=False, baseline=None, warmup_ms=0, warmup_limit_ms=0)).result
    assert unchecked.verification is None
    assert unchecked.measurement is not None
    unmeasured = runner.answer(job(), Policy(measure=False)).result
    assert unmeasured.verification.passed
    assert unmeasured.measurement is None


def test_outputs_are_fresh_before_the_timing_and_before_each_check(runner, device):
    runner.answer(job(), QUIET)
    device.calls.clear()
    runner.answer(job(), QUIET)
    assert [call.split()[0] for call in device.calls][:6] == ["upload", "run", "renew", "run", "upload", "time"]


@pytest.mark.parametrize(
    ("flush", "calls"), [(Flush.ON, ["upload", "evict", "run 2"]), (Flush.OFF, ["upload", "run 2"])]
)
def test_for_a_profiler_the_sequence_runs_alone_from_the_wanted_cache_state(runner, device, flush, calls):
    policy = Policy(check=False, measure=False, baseline=None, launches=2, flush=flush)
    assert runner.answer(job(), policy).result.failure is None
    assert device.calls[1:] == calls  # after the load


def survey(**cubins):
    entrants = tuple(Entrant(name, Launches(())) for name in cubins)
    ground = Ground("float32", (64, 64, 64), 0, 0)
    return Survey(ground, {"m": 8, "n": 8, "k": 8}, entrants, False, SurveyPolicy(warmup_ms=0.0), cubins)


def test_a_survey_is_answered_and_the_next_job_loads_its_arrays_again(runner, device):
    runner.answer(job(), QUIET)
    answer = runner.survey(survey(a=b"1.0"))
    assert (answer.usable, [point.kernel for point in answer.points]) == (True, ["a"])
    runner.answer(job(), QUIET)
    assert device.calls.count("load") == 2


def test_a_device_error_in_a_survey_is_blamed_on_the_kernel_that_ran(runner):
    answer = runner.survey(survey(a=b"1.0", bad=b"illegal", c=b"1.0"))
    (point,) = answer.points
    assert not answer.usable
    assert point.kernel == "bad"
    assert point.failure == "CUDA error: an illegal memory access was encountered in cuStreamSynchronize (launch)"


def test_an_unforeseen_error_in_a_survey_is_named(runner, capsys):
    (point,) = runner.survey(survey(a=b"not a number")).points
    assert point.kernel == "a"
    assert point.failure.startswith("ValueError: could not convert")
    assert "Traceback" in capsys.readouterr().err


def test_errors_are_put_into_words():
    assert in_words(ValueError("two")) == "ValueError: two"
    assert in_words(ValueError()) == "ValueError"
    assert cuda_words(RuntimeError("cuInit failed: no device")) == "no device in cuInit"
    assert cuda_words(RuntimeError("no device")) == "no device"
