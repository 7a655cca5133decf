"""A wrapper for user-defined operators: errors and invalid results become messages that name the line."""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lab.base.errors import LabError, UserError
from lab.base.expressions import Scalar
from lab.operators.base import Array, Expected, Inputs, Operator, Problem
from lab.operators.boxes import Index
from lab.operators.chosen import verify_chosen, whole_at
from lab.operators.indexed import IndexedInputs

_SHOWN = 60
"""Maximum characters of an invalid result shown in a message."""


class OperatorFault(LabError):  # noqa: N818 - a fault of the user's code, beside those of a kernel
    """The user's Python code raised or returned an invalid result; the message names its file and line."""


class Checked(Operator[Any]):
    """A user-defined operator whose exceptions and results are checked.

    Arrays are copied on the way in and out, so that its changes reach neither kernels nor later calls. Its output goes
    to stderr: stdout belongs to the command.
    """

    def __init__(self, own: Operator[Any], file: Path) -> None:
        """Wrap an operator.

        Args:
            own: The operator.
            file: The user's file, whose lines messages name.
        """
        self._own, self._file = own, file
        self.name, self.merit, self.problem_type = own.name, own.merit, own.problem_type

    def problem(self, values: Mapping[str, object]) -> Problem:
        """Validate the fields of a problem; the operator rejects one with a `UserError`."""
        return self._ask("problem", problem_fault, values)  # type: ignore[no-any-return]

    def restored(self, values: Mapping[str, Scalar]) -> Problem:
        """Rebuild a problem from its plain form."""
        return self._ask("restored", problem_fault, values)  # type: ignore[no-any-return]

    def inputs(self, problem: Problem, seed: int) -> Inputs:
        """Make inputs."""
        made_inputs: Inputs = self._ask("inputs", inputs_fault, problem, seed)
        return replace(made_inputs, arrays=_copied(made_inputs.arrays))

    def reference(self, problem: Problem, inputs: Inputs) -> Mapping[str, Expected]:
        """Compute the expected outputs."""

        def fault(result: object) -> str:
            return reference_fault(result, inputs)

        return self._ask("reference", fault, problem, replace(inputs, arrays=_copied(inputs.arrays)))  # type: ignore[no-any-return]

    def verify(
        self, problem: Problem, reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare outputs with the reference."""
        largest, tolerance, worst = self._ask("verify", verify_fault, problem, reference, _copied(outputs))
        return float(largest), float(tolerance), worst

    def doubts(self, problem: Problem, inputs: Inputs, outputs: Mapping[str, Array]) -> tuple[str, ...]:
        """Return reasons to doubt outputs that passed."""
        inputs_copy = replace(inputs, arrays=_copied(inputs.arrays))
        return tuple(self._ask("doubts", doubts_fault, problem, inputs_copy, _copied(outputs)))

    def elementwise(
        self, problem: Problem, reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float] | None:
        """Lay the reference out like the outputs' buffers."""
        return self._ask("elementwise", elementwise_fault, problem, reference)  # type: ignore[no-any-return]

    def reference_at(
        self, problem: Problem, inputs: IndexedInputs, indices: Mapping[str, Index]
    ) -> Mapping[str, Expected] | None:
        """Select elements of the reference; None if the arrays are large or `elementwise` returns None."""
        return whole_at(self, problem, inputs, indices)

    def verify_at(
        self,
        problem: Problem,
        reference: Mapping[str, Expected],
        indices: Mapping[str, Index],
        got: Mapping[str, Array],
    ) -> tuple[float, float, str]:
        """Compare selected elements with the layout and tolerance of `elementwise`."""
        del problem
        return verify_chosen(reference, indices, got, lambda name, index: f"{name}[{index}]")

    def flops(self, problem: Problem) -> int:
        """Count operations."""
        return int(self._ask("flops", count_fault, problem))

    def bytes_moved(self, problem: Problem) -> int:
        """Count bytes."""
        return int(self._ask("bytes_moved", count_fault, problem))

    def fma_dtype(self, problem: Problem) -> np.dtype[Any]:
        """Return the arithmetic type."""
        dtype: np.dtype[Any] = np.dtype(self._ask("fma_dtype", dtype_fault, problem))
        return dtype

    def _ask(self, method: str, fault: Callable[[Any], str], *arguments: object) -> Any:  # noqa: ANN401
        label = f"{type(self._own).__name__}.{method}"
        function = getattr(self._own, method)
        result = guarded(self._file, label, function, *arguments)
        if wrong := guarded(self._file, f"the result of {label}", fault, result):
            raise OperatorFault(f"{self._defined(function)}: {label} {wrong}")
        return result

    def _defined(self, function: Callable[..., object]) -> str:
        """Return a method's file and line; the file alone if it is inherited."""
        code = getattr(inspect.unwrap(function), "__code__", None)
        inside = code is not None and Path(code.co_filename) == self._file
        return f"{self._file}:{code.co_firstlineno}" if code is not None and inside else str(self._file)


def _copied(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return copies of arrays, which the user's code may change."""
    return {name: array.copy() for name, array in arrays.items()}


def guarded(file: Path, label: str, function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
    """Call a user's function and turn its exceptions into `OperatorFault`.

    Args:
        file: The user's file.
        label: The function's name in messages.
        function: The function.
        arguments: Its arguments.

    Raises:
        OperatorFault: It raised, or tried to end the process.
        UserError: It rejected its arguments with one.
        MemoryError: It needed more memory than its share.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return function(*arguments)
    except (UserError, OperatorFault, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit, too: the user's code does not end our process
        raise OperatorFault(f"{place_of(error, file)}: {label} {raised(error)}") from error


def raised(error: BaseException) -> str:
    """Describe an exception on one line: ``raised KeyError: 'm'``."""
    if isinstance(error, SystemExit):
        return f"ends the process with sys.exit({'' if error.code is None else repr(error.code)}); remove that call"
    text = " ".join(str(error).split())
    return f"raised {type(error).__name__}{f': {text}' if text else ''}"


def place_of(error: BaseException, file: Path) -> str:
    """Return the innermost line of a file in an error's traceback, or of its syntax error: ``my_op.py:12``."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f"{file}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{file}:{lines[-1]}" if lines else str(file)


def problem_fault(result: object) -> str:
    """Describe what is wrong with a problem; empty if it is valid."""
    if not isinstance(result, Problem):
        return _returned(result, "a lab.operators.base.Problem")
    wrong = [
        f"{name}={_short(value)}" for name, value in result.items() if not isinstance(value, bool | int | float | str)
    ]
    return f"returned the field {wrong[0]}; fields are int, float, bool or str" if wrong else ""


def inputs_fault(result: object) -> str:
    """Describe what is wrong with inputs; empty if they are valid."""
    if not isinstance(result, Inputs):
        return _returned(result, "Inputs(scalars, arrays, outputs)")
    if not isinstance(result.scalars, Mapping) or not isinstance(result.arrays, Mapping):
        return "returned Inputs whose scalars or arrays are not mappings from names"
    for name, value in result.scalars.items():
        if not isinstance(value, bool | int | float | str):
            return f"returned the scalar {name}={_short(value)}; a scalar is int, float, bool or str"
    for name, array in result.arrays.items():
        if wrong := _buffer_fault(array):
            return f"returned the array {name}, which {wrong}"
    return _outputs_fault(result)


def _outputs_fault(inputs: Inputs) -> str:
    names = inputs.outputs if isinstance(inputs.outputs, tuple | list) else ()
    if not names or any(name not in inputs.arrays for name in names):
        return (
            f"returned the outputs {inputs.outputs!r}; they name at least one of the arrays {', '.join(inputs.arrays)}"
        )
    return _required_fault(inputs, names)


def _required_fault(inputs: Inputs, names: Sequence[str]) -> str:
    required = inputs.required if isinstance(inputs.required, tuple | list) else ("",)
    wrong = f"returned the required outputs {inputs.required!r}; accepted are those of {', '.join(names)}"
    return wrong if any(name not in names for name in required) else ""


def _buffer_fault(array: object) -> str:
    if not isinstance(array, np.ndarray):
        return f"is {_short(array)}, not a NumPy array"
    if array.ndim != 1:
        return f"has the shape {array.shape}; it must be 1-D, as the kernel sees memory (numpy.ravel)"
    if not array.flags.c_contiguous:
        return "is not contiguous (numpy.ascontiguousarray)"
    if array.dtype.kind not in "biuf" or not array.dtype.isnative:
        return f"has elements of type {array.dtype}; accepted are integers and floats"
    return ""


def reference_fault(result: object, inputs: Inputs) -> str:
    """Describe what is wrong with the reference for some inputs; empty if it is valid."""
    if not isinstance(result, Mapping) or set(result) != set(inputs.outputs):
        return _returned(result, f"a mapping with an Expected for each output: {', '.join(inputs.outputs)}")
    for name, expected in result.items():
        if wrong := _expected_fault(expected):
            return f"returned for {name} {wrong}"
        if not np.isfinite(expected.values).all():
            return f"returned for {name} values that are not finite"
        if not (np.isfinite(expected.scale) & (expected.scale != 0)).all():
            return f"returned for {name} a scale that is 0 or not finite"
    return ""


def _expected_fault(entry: object) -> str:
    if not isinstance(entry, Expected):
        return f"{_short(entry)}; accepted is Expected(values, scale)"
    for name, array in (("values", entry.values), ("scale", entry.scale)):
        if not isinstance(array, np.ndarray) or array.dtype != np.float64:
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            return f"{name} of type {kind}; accepted is a float64 array"
    if entry.values.shape != entry.scale.shape:
        return (
            f"values of shape {entry.values.shape} and a scale of shape {entry.scale.shape}; accepted are equal shapes"
        )
    return ""


def doubts_fault(result: object) -> str:
    """Describe what is wrong with the result of `doubts`; empty if it is valid."""
    is_texts = isinstance(result, tuple | list) and all(isinstance(sentence, str) for sentence in result)
    return "" if is_texts else _returned(result, "a tuple of sentences")


def elementwise_fault(result: object) -> str:
    """Describe what is wrong with the result of `elementwise`; empty if it is valid."""
    if result is None:
        return ""
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], Mapping):  # noqa: PLR2004
        return _returned(result, "None or (a mapping of Expected, the tolerance)")
    for name, expected in result[0].items():
        if wrong := _expected_fault(expected):
            return f"returned for {name} {wrong}"
        if expected.values.ndim != 1:
            return f"returned for {name} values of shape {expected.values.shape}; accepted is one dimension"
    return _tolerance_fault(result[1])


def verify_fault(result: object) -> str:
    """Describe what is wrong with the result of `verify`; empty if it is valid."""
    accepted = "(the largest error, the tolerance, the worst element in words)"
    if not isinstance(result, tuple) or len(result) != 3:  # noqa: PLR2004
        return _returned(result, accepted)
    largest, tolerance, worst = result
    if not _is_real(largest) or not isinstance(worst, str):  # NaN is how outputs fail
        return _returned(result, accepted)
    return _tolerance_fault(tolerance)


def _tolerance_fault(tolerance: object) -> str:
    if _is_real(tolerance) and math.isfinite(tolerance) and tolerance >= 0:  # type: ignore[arg-type,operator]
        return ""
    return f"returned the tolerance {_short(tolerance)}; accepted is a finite number ≥ 0"


def count_fault(result: object) -> str:
    """Describe what is wrong with a count of operations or bytes; empty if it is valid."""
    if isinstance(result, int | np.integer) and not isinstance(result, bool) and result >= 0:
        return ""
    return _returned(result, "an int ≥ 0")


def dtype_fault(result: object) -> str:
    """Describe what is wrong with an arithmetic type; empty if it is valid."""
    try:
        kind = np.dtype(result).kind if result is not None else ""  # type: ignore[call-overload]
    except TypeError:
        kind = ""
    return "" if kind == "f" else _returned(result, "a floating-point numpy.dtype, such as numpy.dtype('float32')")


def _is_real(value: object) -> bool:
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)


def _returned(result: object, accepted: str) -> str:
    return f"returned {_short(result)}; accepted is {accepted}"


def _short(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - the user's class
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
