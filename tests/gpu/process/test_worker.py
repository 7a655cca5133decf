"""The worker's loop, in this process."""

from pathlib import Path

import numpy as np
import pytest
from fake_device import FakeDevice

from lab.gpu.process.job import Job, Policy, Stage
from lab.gpu.process.worker import Worker
from lab.templates.launches import Launch, Launches

POLICY = Policy(warmup_ms=0.0, rewarm_ms=0.0, warmup_limit_ms=0.0, baseline="fake")
HERE = Path(__file__).parents[2] / "support"


def job(kernel="double", cubin=b"4", n=16, operator="fake_operator.py:Double"):
    launches = Launches((Launch(kernel, (1, 1, 1), (32, 1, 1), 0, ()),))
    return Job(
        "v1",
        cubin,
        launches,
        operator,
        {"n": n},
        0,
        HERE,
    )


@pytest.fixture
def worker():
    return Worker(FakeDevice(), lambda message: None)


def test_a_right_kernel_is_verified_and_timed_beside_its_baseline(worker):
    answer = worker.answer(job(), POLICY)
    assert answer.usable
    assert answer.result.failure is None
    assert answer.result.verification.passed
    assert answer.result.verification.executed_on == "Fake"
    assert answer.result.measurement.ratio_to_baseline == 0.5
    assert answer.result.baseline.library == "libfake 1.0"
    assert answer.result.baseline.verification.passed


@pytest.mark.parametrize(("kernel", "where"), [("wrong", "y[3]: got"), ("forgets_one", "y[15]: got nan")])
def test_a_wrong_kernel_is_not_timed(worker, kernel, where):
    answer = worker.answer(job(kernel), POLICY)
    assert answer.usable
    assert not answer.result.verification.passed
    assert answer.result.failure.stage is Stage.VERIFY
    assert answer.result.failure.reason.startswith(where)
    assert answer.result.measurement is None


def test_a_write_past_the_end_fails_verification_though_the_output_is_right(worker):
    result = worker.answer(job("overruns"), POLICY).result
    assert not result.verification.passed
    assert result.failure.reason == "y: written 0 bytes past its end of 64 bytes"


class Comparing(FakeDevice):
    """Compares by itself; `stale` makes the first comparison wrong, as an overwritten copy would."""

    stale, downloads = False, 0

    def largest_error(self, expected):
        error = np.abs(self.buffers["y"] - expected["y"].values).max()
        return float(error) + 1 if self.stale else float(error)

    def refresh(self):
        self.stale = False

    def outputs(self):
        self.downloads += 1
        outputs = super().outputs()
        return {"y": outputs["y"] + 1} if self.stale else outputs


@pytest.fixture
def comparing():
    return Worker(Comparing(), lambda message: None)


ELEMENTWISE = "fake_operator.py:ElementwiseDouble"


def test_outputs_that_are_right_on_the_device_are_not_downloaded(comparing):
    result = comparing.answer(job(operator=ELEMENTWISE), POLICY).result
    assert (result.verification.passed, result.verification.max_error) == (True, 0.0)
    assert comparing._backend.downloads == 0


def test_where_the_device_finds_an_error_the_host_says_which(comparing):
    result = comparing.answer(job("wrong", operator=ELEMENTWISE), POLICY).result
    assert result.failure.reason.startswith("y[3]: got")
    assert comparing._backend.downloads == 2


def test_a_failure_is_looked_at_again_with_everything_made_anew(comparing):
    comparing._backend.stale = True
    assert comparing.answer(job(operator=ELEMENTWISE), POLICY).result.verification.passed


def test_inputs_and_reference_are_made_once_a_problem(worker):
    worker.answer(job(), POLICY)
    operator = worker._data.operator
    worker.answer(job(), POLICY)
    assert worker._data.operator is operator
    assert worker._backend.calls.count("load") == 1
    worker.answer(job(n=17), POLICY)
    assert worker._backend.calls.count("load") == 2


def test_an_operator_that_raises_is_this_jobs_failure(worker):
    answer = worker.answer(job(n=13), POLICY)
    assert answer.usable
    assert (answer.result.failure.stage, answer.result.failure.reason) == (Stage.PREPARE, "ValueError: thirteen")


def test_a_refused_launch_leaves_the_worker_usable(worker):
    answer = worker.answer(job("refused"), POLICY)
    assert answer.usable
    assert answer.result.failure.stage is Stage.LAUNCH
    assert "232448" in answer.result.failure.reason


def test_a_cuda_error_costs_the_worker(worker):
    answer = worker.answer(job("illegal"), POLICY)
    assert not answer.usable
    assert answer.result.failure.stage is Stage.LAUNCH
    assert answer.result.failure.reason == (
        "CUDA error: an illegal memory access was encountered in cuStreamSynchronize (launch)"
    )


def test_an_unforeseen_error_is_named_with_what_went_on(worker, capsys):
    answer = worker.answer(job("bug"), POLICY)
    assert not answer.usable
    assert answer.result.failure.reason == "ZeroDivisionError: oh (launch)"
    assert "Traceback" in capsys.readouterr().err


def test_a_missing_baseline_is_a_note(worker):
    result = worker.answer(job(), Policy(baseline="missing", warmup_ms=0, warmup_limit_ms=0)).result
    assert result.failure is None
    assert result.measurement.baseline is None
    assert result.baseline.note == "libfake was not found"


def test_a_wrong_baseline_is_left_out_with_the_reason(worker):
    result = worker.answer(job(), Policy(baseline="wrong", warmup_ms=0, warmup_limit_ms=0)).result
    assert result.measurement.baseline is None
    assert result.baseline.note.startswith("wrong is left out: its output is wrong: y[3]")


def test_a_baseline_whose_result_lies_elsewhere_is_checked_by_a_call_of_its_own(worker):
    result = worker.answer(job(), Policy(baseline="elsewhere", warmup_ms=0, warmup_limit_ms=0)).result
    assert result.baseline.verification.passed
    assert result.measurement.baseline_name == "elsewhere"


def test_several_baselines_are_interleaved_and_named(worker):
    policy = Policy(baseline="fake", others=("missing", "second"), warmup_ms=0, warmup_limit_ms=0)
    result = worker.answer(job(), policy).result
    assert result.measurement.baseline_name == "fake"
    assert set(result.measurement.others) == {"second"}
    assert result.measurement.ratio_to("second") == result.measurement.ratio_to("fake") == 0.5
    assert result.measurement.ratio_to("missing") is None
    assert [(one.name, one.note) for one in result.others] == [("missing", "libfake was not found"), ("second", "")]


def test_a_baseline_that_computes_nothing_is_not_compared_with_the_reference(worker):
    result = worker.answer(job(), Policy(baseline="copy", warmup_ms=0, warmup_limit_ms=0)).result
    assert result.measurement.baseline_name == "copy"
    assert result.baseline.verification is None
    assert result.baseline.ptx == "// copy"


def test_check_and_measure_can_be_switched_off(worker):
    unchecked = worker.answer(job("wrong"), Policy(check=False, baseline=None, warmup_ms=0, warmup_limit_ms=0)).result
    assert unchecked.verification is None
    assert unchecked.measurement is not None
    unmeasured = worker.answer(job(), Policy(measure=False)).result
    assert unmeasured.verification.passed
    assert unmeasured.measurement is None


def test_outputs_are_fresh_before_the_timing_and_before_each_check(worker):
    worker.answer(job(), POLICY)
    worker._backend.calls.clear()
    worker.answer(job(), POLICY)
    first = [call.split()[0] for call in worker._backend.calls][:4]
    assert first == ["upload", "run", "upload", "time"]
