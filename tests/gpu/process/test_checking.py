"""Verification and baselines on the fake device."""

from __future__ import annotations

import numpy as np
import pytest
from fake_device import FakeDevice
from gpu_jobs import HERE, QUIET, failure_of, job

from lab.gpu.process.checking import Checker, ProblemData, describe_unwritten
from lab.gpu.process.job import JobStage
from lab.gpu.process.runner import JobRunner
from lab.gpu.process.signs import SignsOfLife
from lab.operators.builtin import operator
from lab.operators.checked import OperatorFault


class Comparing(FakeDevice):
    """Compares by itself; `stale` makes the first comparison wrong, as an overwritten copy would."""

    stale, downloads = False, 0

    def largest_error(self, expected):
        error = np.abs(self.buffers["y"] - expected["y"].values).max()
        return float(error) + 1 if self.stale else float(error)

    def refresh(self):
        super().refresh()
        self.stale = False

    def outputs(self):
        self.downloads += 1
        outputs = super().outputs()
        return {"y": outputs["y"] + 1} if self.stale else outputs


def prepared(device, name="Double"):
    """The checker and a loaded problem."""
    reference = f"fake_operator.py:{name}"
    computed = operator(reference, HERE)
    problem = computed.problem({"n": 16})
    data = ProblemData((), computed, problem, computed.inputs(problem, 0))
    device.load(data.inputs)
    return Checker(device, SignsOfLife(lambda message: None)), data


def checked(device, kernel, name="Double"):
    checker, data = prepared(device, name)
    wanted = job(kernel)
    return checker.check(data, device.kernel(wanted.cubin, wanted.launches))[0]


def test_a_right_output_passes_with_its_error():
    verification = checked(FakeDevice(), "double")
    assert (verification.passed, verification.max_error, verification.worst) == (True, 0.0, "")
    assert verification.executed_on == "Fake"


def test_a_write_past_the_end_fails_though_the_output_is_right():
    verification = checked(FakeDevice(), "overruns")
    assert not verification.passed
    assert verification.max_error == float("inf")
    assert verification.worst.startswith("y: 8 bytes written beyond its end")


def test_a_write_to_an_input_fails_though_the_output_is_right():
    verification = checked(FakeDevice(), "writes_its_input")
    assert not verification.passed
    assert verification.max_error == float("inf")
    assert verification.worst.startswith("x is not declared as an output, but x[2]")


@pytest.mark.parametrize("operator", ["Double", "ElementwiseDouble"])
def test_what_only_the_second_launch_does_wrong_fails(operator):
    device = Comparing() if operator == "ElementwiseDouble" else FakeDevice()
    verification = checked(device, "counts", operator)
    assert not verification.passed
    assert verification.worst.startswith("when it is launched again: y[7]: got")
    assert "refresh" not in device.calls  # a third launch would begin with what the second one left


def test_the_second_launch_restores_the_outputs_alone():
    device = FakeDevice()
    assert checked(device, "double").passed
    assert device.calls[1:] == ["upload", "run 1", "renew outputs", "run 1"]


def test_an_input_that_the_second_launch_writes_is_found():
    class Late(FakeDevice):
        def _late(self):
            self._double()
            self.buffers["x"][1] += self.launches
            self.launches += 1

    worst = checked(Late(), "late").worst
    assert worst.startswith("when it is launched again: x is not declared as an output")


@pytest.mark.parametrize("kernel", ["forgets_one", "writes_nan"])
def test_an_element_that_is_not_written_fails_though_no_value_of_it_is_wrong(kernel):
    class Writing(FakeDevice):
        def _writes_nan(self):
            self._double()
            self.buffers["y"][-1] = np.nan

    verification = checked(Writing(), kernel, "LastUncompared")
    assert verification.passed is (kernel == "writes_nan")
    if kernel == "forgets_one":
        assert verification.worst == "y: 1 of 16 elements were never written, first element 15 in memory order"
        assert verification.max_error == float("inf")


def test_a_wrong_value_is_not_called_unwritten_because_it_is_the_poison():
    class Late(FakeDevice):
        def _late(self):
            self._double()
            self.buffers["y"][4] = np.nan

    assert checked(Late(), "late", "Required").worst == "y[4]: got nan"


def test_only_outputs_without_any_unwritten_element_are_passed_over():
    marks = np.array([False, True, True])
    assert describe_unwritten({"a": marks, "y": marks}, {"y": np.array([True, False, True])}) == (
        "y: 1 of 3 elements were never written, first element 2 in memory order"
    )
    assert describe_unwritten({"y": marks}, {"y": ~marks}) == describe_unwritten({"y": marks}, {}) == ""


def test_outputs_that_are_right_on_the_device_are_not_downloaded():
    device = Comparing()
    verification = checked(device, "double", "ElementwiseDouble")
    assert (verification.passed, verification.max_error, device.downloads) == (True, 0.0, 0)


def test_if_the_device_finds_an_error_the_host_says_where():
    device = Comparing()
    assert checked(device, "wrong", "ElementwiseDouble").worst.startswith("y[3]: got")
    assert device.downloads == 2


def test_outputs_like_those_that_passed_are_not_compared_again_on_the_host(monkeypatch):
    compared = []
    own = FakeDevice()
    checker, data = prepared(own)
    verify = data.operator.verify

    def counted(*given):
        compared.append(1)
        return verify(*given)

    monkeypatch.setattr(data.operator, "verify", counted)
    wanted = job("double")
    verification, again = checker.check(data, own.kernel(wanted.cubin, wanted.launches))
    assert (verification.passed, again) == (True, False)
    assert len(compared) == 1


def test_a_failure_is_looked_at_again_with_everything_renewed():
    device = Comparing()
    device.stale = True
    assert checked(device, "double", "ElementwiseDouble").passed
    assert device.calls.count("refresh") == 1


def test_a_failure_that_persists_is_checked_twice():
    device = FakeDevice()
    assert not checked(device, "wrong").passed
    assert [call for call in device.calls if call in {"run 1", "refresh"}] == ["run 1", "refresh", "run 1"]


@pytest.mark.parametrize(
    ("name", "timed", "passed", "note"),
    [
        ("fake", True, True, ""),
        ("missing", False, None, "libfake was not found"),
        ("wrong", False, False, "wrong is left out because its output is wrong: y[3]"),
        ("elsewhere", True, True, ""),  # its result lies elsewhere: a call of its own is checked
        ("copy", True, None, ""),  # it computes nothing, so there is nothing to compare
    ],
)
def test_baselines_are_checked_once(name, timed, passed, note):
    device = FakeDevice()
    checker, data = prepared(device)
    baseline, result = checker.baseline(name, data, check=True)
    assert (baseline is not None) is timed
    assert (result.verification.passed if result.verification else None) is passed
    assert result.note.startswith(note)
    launched = list(device.calls)
    assert checker.baseline(name, data, check=True) == (baseline, result)
    assert device.calls == launched


def test_without_checks_a_wrong_baseline_is_timed():
    device = FakeDevice()
    checker, data = prepared(device)
    baseline, result = checker.baseline("wrong", data, check=False)
    assert baseline is not None
    assert result.verification is None
    assert not any(call.startswith("run") for call in device.calls)


def test_a_baselines_ptx_is_kept():
    checker, data = prepared(FakeDevice())
    assert checker.baseline("copy", data, check=True)[1].ptx == "// copy"


def test_the_reference_is_computed_once():
    _, data = prepared(FakeDevice(), "ElementwiseDouble")
    assert data.elementwise is None
    first = data.expected()
    assert data.expected() is first
    assert data.elementwise == (first, 1e-12)


@pytest.mark.parametrize("error", [MemoryError("1 TiB"), OperatorFault("ref.py:3: no")])
def test_a_reference_that_cannot_be_computed_is_tried_once(monkeypatch, error):
    tried = []

    def reference(problem, inputs):
        tried.append(1)
        raise error

    _, data = prepared(FakeDevice())
    monkeypatch.setattr(data.operator, "reference", reference)
    for _ in range(2):
        with pytest.raises(OperatorFault, match=r"needs more memory|ref\.py:3: no"):
            data.expected()
    assert tried == [1]


def test_a_reference_without_room_costs_its_job_and_not_the_worker(monkeypatch):
    def reference(self, problem, inputs):
        return np.empty(1 << 46, np.uint8)  # more than any machine has

    monkeypatch.setattr("lab.operators.checked.Checked.reference", reference)
    answer = JobRunner(FakeDevice(), lambda message: None).answer(job(), QUIET)
    assert answer.usable
    assert failure_of(answer.result).stage is JobStage.PREPARE
    assert "the reference needs more memory" in failure_of(answer.result).reason
