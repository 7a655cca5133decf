"""Verification and baselines on the fake device."""

from __future__ import annotations

import numpy as np
import pytest
from fake_device import FakeDevice
from gpu_jobs import HERE, job

from lab.gpu.process.checking import Checker, ProblemData
from lab.gpu.process.signs import SignsOfLife
from lab.operators.builtin import operator


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
    return checker.check(data, device.kernel(wanted.cubin, wanted.launches))


def test_a_right_output_passes_with_its_error():
    verification = checked(FakeDevice(), "double")
    assert (verification.passed, verification.max_error, verification.worst) == (True, 0.0, "")
    assert verification.executed_on == "Fake"


def test_a_write_past_the_end_fails_though_the_output_is_right():
    verification = checked(FakeDevice(), "overruns")
    assert not verification.passed
    assert verification.max_error == float("inf")
    assert verification.worst == "y: written 0 bytes past its end of 64 bytes"


def test_outputs_that_are_right_on_the_device_are_not_downloaded():
    device = Comparing()
    verification = checked(device, "double", "ElementwiseDouble")
    assert (verification.passed, verification.max_error, device.downloads) == (True, 0.0, 0)


def test_if_the_device_finds_an_error_the_host_says_where():
    device = Comparing()
    assert checked(device, "wrong", "ElementwiseDouble").worst.startswith("y[3]: got")
    assert device.downloads == 2


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
