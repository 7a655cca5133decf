"""Check a kernel on a backend: launch it twice, compare with the reference, and retry after a failure.

Before the second launch only the outputs are restored. Other arrays, the workspace and module variables stay as the
first launch left them. Timing repeats launches without restoring any of that
(`lab.gpu.timing.timed_variant`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import LabError
from lab.gpu.device.backend import Backend, Baseline, BaselineMissingError, DeviceError, Enqueue
from lab.gpu.process.hostmemory import within_free_memory
from lab.gpu.process.job import BaselineResult
from lab.gpu.process.signs import SignsOfLife
from lab.measured.timing import Verification
from lab.operators.base import Array, Expected, Inputs, Operator, Problem
from lab.operators.checked import OperatorFault

AGAIN: Final = "when it is launched again"
"""The prefix of failures that only the second launch shows."""

_TOO_LARGE: Final = (
    "the reference needs more memory than is free at this problem size; compute it in parts, or choose a smaller "
    "problem"
)


@dataclass(slots=True)
class ProblemData:
    """The data that jobs of one problem share.

    Attributes:
        key: `Job.data_key`.
        operator: The operator.
        problem: Its problem, complete.
        inputs: Its inputs, loaded on the device.
        reference: Expected outputs; None until they are needed.
        fault: The error that computing them raised; None if there was none.
        elementwise: Expected values as the device compares them, and the tolerance; None if the host compares.
        baselines: Baselines made so far, by name; None in place of one that cannot be timed.
    """

    key: tuple[object, ...]
    operator: Operator[Any]
    problem: Problem
    inputs: Inputs
    reference: Mapping[str, Expected] | None = None
    fault: LabError | None = None
    elementwise: tuple[Mapping[str, Expected], float] | None = None
    baselines: dict[str, tuple[Baseline | None, BaselineResult]] = field(default_factory=dict)

    def expected(self) -> Mapping[str, Expected]:
        """Return the reference, computed once, from the host's copy of the inputs.

        Raises:
            LabError: It cannot be computed; the first attempt's error is raised again.
        """
        if self.fault is not None:
            raise self.fault
        if self.reference is None:
            try:
                with within_free_memory():
                    self.agreed(self.operator.reference(self.problem, self.inputs))
            except LabError as error:
                self.fault = error
                raise
            except MemoryError as error:
                self.fault = OperatorFault(_TOO_LARGE)
                raise self.fault from error
        assert self.reference is not None  # noqa: S101 - it was made above
        return self.reference

    def agreed(self, reference: Mapping[str, Expected]) -> None:
        """Use this reference from now on."""
        self.reference = reference
        self.elementwise = self.operator.elementwise(self.problem, reference)


class Checker:
    """A checker of kernels and baselines on one backend."""

    def __init__(self, backend: Backend, signs: SignsOfLife) -> None:
        """Bind the checker to a backend.

        Args:
            backend: The device.
            signs: Receives every activity.
        """
        self._backend, self._signs = backend, signs

    def check(self, data: ProblemData, launch: Enqueue) -> tuple[Verification, bool]:
        """Launch a kernel twice and verify what it wrote.

        It fails if outputs differ from the reference, after the first launch or only after the second one; if an
        element of an output that must be written was not; and if it wrote anything else: beyond the ends of a buffer,
        or into an array that is not an output.

        After a failure of the first launch, all device data is uploaded again and the check is repeated, since this
        kernel or an earlier one may have overwritten the copies on the device.

        Returns:
            The verification, and whether it is the second launch that failed.
        """
        verification, again = self._launched(data, launch)
        if not verification.passed and not again:
            self._backend.refresh()
            verification, again = self._launched(data, launch)
        return verification, again

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

    def _launched(self, data: ProblemData, launch: Enqueue) -> tuple[Verification, bool]:
        """Check two launches; see `check`."""
        self._signs.begin("upload")
        self._backend.upload()
        fault = self._run(launch, "launch")
        first, outputs = self._verified(data, "the kernel", fault)
        unwritten = self._backend.unwritten() if data.inputs.required and not fault else {}
        if not first.passed and not unwritten:
            return first, False
        self._signs.begin("upload")
        self._backend.renew_outputs()
        fault = self._run(launch, "second launch")
        if unwritten and (words := describe_unwritten(unwritten, self._backend.unwritten(again=True))):
            return replace(first, passed=False, max_error=float("inf"), worst=words), False
        if not first.passed:
            return first, False
        second, _ = self._verified(data, "the kernel", fault, outputs)
        return (first, False) if second.passed else (replace(second, worst=f"{AGAIN}: {second.worst}"), True)

    def _run(self, launch: Enqueue, activity: str) -> str:
        """Launch once and describe any forbidden write; empty if there is none."""
        self._signs.begin(activity)
        self._backend.run((launch,))
        return self._backend.overrun() or self._backend.written_input()

    def _verified(
        self, data: ProblemData, subject: str, fault: str, passed: Mapping[str, Array] | None = None
    ) -> tuple[Verification, Mapping[str, Array] | None]:
        """Compare on the device if possible, on the host otherwise or after an error.

        Args:
            data: The problem.
            subject: Name of the launched routine.
            fault: Description of a forbidden write; empty if there is none.
            passed: Outputs that are known to pass; None if there are none.

        Returns:
            The verification, and the outputs where the host compared them.
        """
        if data.reference is None:
            self._signs.begin("reference", on_host=True)
        reference = data.expected()
        self._signs.begin(f"verification of {subject}", on_host=True)
        name = self._backend.describe().name
        if data.elementwise and not fault:
            expected, tolerance = data.elementwise
            largest = self._backend.largest_error(expected)
            if largest is not None and largest <= tolerance:
                return Verification(
                    passed=True, max_error=largest, tolerance=tolerance, worst="", executed_on=name
                ), None
        outputs = self._backend.outputs()
        if passed is not None and not fault and all(_same_bits(outputs[output], passed[output]) for output in passed):
            return Verification(passed=True, max_error=0.0, tolerance=0.0, worst="", executed_on=name), outputs
        error, tolerance, worst = data.operator.verify(data.problem, reference, outputs)
        error, tolerance = float(error), float(tolerance)
        if fault:
            error, worst = float("inf"), fault
        return Verification(error <= tolerance, error, tolerance, worst, name), outputs

    def _made(self, name: str, data: ProblemData, *, check: bool) -> tuple[Baseline | None, BaselineResult]:
        self._signs.begin("loading of the baseline", on_host=True)
        try:
            baseline = self._backend.baseline(name, data.operator.name, data.problem)
            verification = None
            if check and baseline.computes:
                self._signs.begin("launch of the baseline")
                self._backend.upload()
                self._backend.run((baseline.check or baseline.launch,))
                verification, _ = self._verified(data, "the baseline", self._backend.overrun())
        except (BaselineMissingError, DeviceError) as error:
            return None, BaselineResult(name, note=str(error))
        result = BaselineResult(name, baseline.library, baseline.kernel, verification, baseline.note, baseline.ptx)
        if verification is not None and not verification.passed:
            note = f"{name} is left out because its output is wrong: {verification.worst}"
            return None, replace(result, note=note)
        return baseline, result


def describe_unwritten(first: Mapping[str, NDArray[np.bool_]], second: Mapping[str, NDArray[np.bool_]]) -> str:
    """Describe the first output with elements that no launch wrote; empty if there is none.

    Args:
        first: By output, the elements that hold what they held before the first launch.
        second: The same for the second launch, before which they held something else.
    """
    for name, marks in first.items():
        indices = np.flatnonzero(marks & second[name]) if name in second else np.empty(0, np.int64)
        if len(indices):
            counted = f"{len(indices)} of {marks.size} elements were never written"
            return f"{name}: {counted}, first element {indices[0]} in memory order"
    return ""


def _same_bits(first: Array, second: Array) -> bool:
    return bool(np.array_equal(first.reshape(-1).view(np.uint8), second.reshape(-1).view(np.uint8)))
