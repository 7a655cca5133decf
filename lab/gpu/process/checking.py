"""Checking outputs on a backend: launch once, compare with the reference, and look twice at a failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lab.gpu.device.backend import Backend, Baseline, BaselineMissingError, DeviceError, Enqueue
from lab.gpu.process.job import BaselineResult
from lab.gpu.process.signs import SignsOfLife
from lab.measured.timing import Verification
from lab.operators.base import Array, Expected, Inputs, Operator, Problem


@dataclass(slots=True)
class ProblemData:
    """The data that jobs of one problem share.

    Attributes:
        key: `Job.data_key`.
        operator: The operator.
        problem: Its problem, complete.
        inputs: Its inputs, which are loaded on the device.
        reference: Expected outputs; None until they are needed.
        elementwise: Expected values as the device compares them, and the tolerance; None if it does not.
        baselines: Baselines made so far, by name; None in place of one that cannot be timed.
    """

    key: tuple[object, ...]
    operator: Operator[Any]
    problem: Problem
    inputs: Inputs
    reference: Mapping[str, Expected] | None = None
    elementwise: tuple[Mapping[str, Expected], float] | None = None
    baselines: dict[str, tuple[Baseline | None, BaselineResult]] = field(default_factory=dict)

    def expected(self) -> Mapping[str, Expected]:
        """Return the reference, computed once."""
        if self.reference is None:
            self.agreed(self.operator.reference(self.problem, self.inputs))
        assert self.reference is not None  # noqa: S101 - it was made above
        return self.reference

    def agreed(self, reference: Mapping[str, Expected]) -> None:
        """Compare with this reference from now on."""
        self.reference = reference
        self.elementwise = self.operator.elementwise(self.problem, reference)


class Checker:
    """Checks kernels and baselines on one backend."""

    def __init__(self, backend: Backend, signs: SignsOfLife) -> None:
        """Check on this backend.

        Args:
            backend: The device.
            signs: Told of every activity.
        """
        self._backend, self._signs = backend, signs

    def check(self, data: ProblemData, launch: Enqueue) -> Verification:
        """Launch a kernel once and verify its outputs.

        After a failure everything on the device is renewed and the kernel is launched again: the copies that stay on
        the device could have been overwritten, by this kernel or by an earlier one.
        """
        verification = self._launched(data, launch)
        if not verification.passed:
            self._backend.refresh()
            verification = self._launched(data, launch)
        return verification

    def outputs_of(self, launch: Enqueue) -> Mapping[str, Array]:
        """Launch a kernel once and return its outputs."""
        self._signs.begin("upload")
        self._backend.upload()
        self._signs.begin("launch")
        self._backend.run((launch,))
        return self._backend.outputs()

    def baseline(self, name: str, data: ProblemData, *, check: bool) -> tuple[Baseline | None, BaselineResult]:
        """Make a baseline for this problem, and check it once.

        Args:
            name: Its name.
            data: The problem.
            check: Compare its output with the reference, if it computes one.

        Returns:
            The baseline, or None if it cannot be timed, and its description.
        """
        if name not in data.baselines:
            data.baselines[name] = self._made(name, data, check=check)
        return data.baselines[name]

    def _launched(self, data: ProblemData, launch: Enqueue) -> Verification:
        self._signs.begin("upload")
        self._backend.upload()
        self._signs.begin("launch")
        self._backend.run((launch,))
        return self._verified(data, "the kernel")

    def _verified(self, data: ProblemData, what: str) -> Verification:
        """Compare on the device if possible; on the host if not, or if the device finds an error."""
        if data.reference is None:
            self._signs.begin("reference", on_host=True)
        reference = data.expected()
        self._signs.begin(f"verification of {what}", on_host=True)
        name = self._backend.describe().name
        overrun = self._backend.overrun()
        if data.elementwise and not overrun:
            expected, tolerance = data.elementwise
            largest = self._backend.largest_error(expected)
            if largest is not None and largest <= tolerance:
                return Verification(passed=True, max_error=largest, tolerance=tolerance, worst="", executed_on=name)
        outputs = self._backend.outputs()
        error, tolerance, worst = data.operator.verify(data.problem, reference, outputs)
        error, tolerance = float(error), float(tolerance)
        if overrun:
            error, worst = float("inf"), overrun
        return Verification(error <= tolerance, error, tolerance, worst, name)

    def _made(self, name: str, data: ProblemData, *, check: bool) -> tuple[Baseline | None, BaselineResult]:
        self._signs.begin("loading of the baseline", on_host=True)
        try:
            baseline = self._backend.baseline(name, data.operator.name, data.problem)
            verification = None
            if check and baseline.computes:
                self._signs.begin("launch of the baseline")
                self._backend.upload()
                self._backend.run((baseline.check or baseline.launch,))
                verification = self._verified(data, "the baseline")
        except (BaselineMissingError, DeviceError) as error:
            return None, BaselineResult(name, note=str(error))
        result = BaselineResult(name, baseline.library, baseline.kernel, verification, baseline.note, baseline.ptx)
        if verification is not None and not verification.passed:
            note = f"{name} is left out because its output is wrong: {verification.worst}"
            return None, replace(result, note=note)
        return baseline, result
