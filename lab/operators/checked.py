"""An operator of the user's own, whose every error and every wrong result becomes one sentence that names its line."""

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
"""Characters of a wrong result that a message shows."""


class OperatorFault(LabError):  # noqa: N818 - a fault of the user's code, beside those of a kernel
    """Python code of the user's own raised, or returned what it must not; the message names its file and line."""


class Checked(Operator[Any]):
    """The same operator; what it raises and returns is checked.

    It is handed copies of arrays, and its inputs are copied: what it changes reaches neither kernels nor a later call.
    What it prints goes to stderr: stdout belongs to the command.
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
        """Check the fields of a problem; a `UserError` is the operator's way to refuse one."""
        return self._ask("problem", problem_fault, values)  # type: ignore[no-any-return]

    def restored(self, values: Mapping[str, Scalar]) -> Problem:
        """Return the problem whose plain form is `values`."""
        return self._ask("restored", problem_fault, values)  # type: ignore[no-any-return]

    def inputs(self, problem: Problem, seed: int) -> Inputs:
        """Make inputs."""
        found: Inputs = self._ask("inputs", inputs_fault, problem, seed)
        return replace(found, arrays=_copied(found.arrays))

    def reference(self, problem: Problem, inputs: Inputs) -> Mapping[str, Expected]:
        """Compute what each output must hold."""

        def fault(found: object) -> str:
            return reference_fault(found, inputs)

        return self._ask("reference", fault, problem, replace(inputs, arrays=_copied(inputs.arrays)))  # type: ignore[no-any-return]

    def verify(
        self, problem: Problem, reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare outputs with the reference."""
        largest, tolerance, worst = self._ask("verify", verify_fault, problem, reference, _copied(outputs))
        return float(largest), float(tolerance), worst

    def doubts(self, problem: Problem, inputs: Inputs, outputs: Mapping[str, Array]) -> tuple[str, ...]:
        """Say why outputs that passed are doubtful."""
        given = replace(inputs, arrays=_copied(inputs.arrays))
        return tuple(self._ask("doubts", doubts_fault, problem, given, _copied(outputs)))

    def elementwise(
        self, problem: Problem, reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float] | None:
        """Lay the reference out like the outputs' buffers."""
        return self._ask("elementwise", elementwise_fault, problem, reference)  # type: ignore[no-any-return]

    def reference_at(
        self, problem: Problem, inputs: IndexedInputs, wanted: Mapping[str, Index]
    ) -> Mapping[str, Expected] | None:
        """Take chosen elements of the reference; None where the arrays are large, or `elementwise` has nothing."""
        return whole_at(self, problem, inputs, wanted)

    def verify_at(
        self, problem: Problem, reference: Mapping[str, Expected], wanted: Mapping[str, Index], got: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare chosen elements as `elementwise` says."""
        del problem
        return verify_chosen(reference, wanted, got, lambda name, index: f"{name}[{index}]")

    def flops(self, problem: Problem) -> int:
        """Count operations."""
        return int(self._ask("flops", count_fault, problem))

    def bytes_moved(self, problem: Problem) -> int:
        """Count bytes."""
        return int(self._ask("bytes_moved", count_fault, problem))

    def fma_dtype(self, problem: Problem) -> np.dtype[Any]:
        """Return the arithmetic type."""
        found: np.dtype[Any] = np.dtype(self._ask("fma_dtype", dtype_fault, problem))
        return found

    def _ask(self, method: str, fault: Callable[[Any], str], *arguments: object) -> Any:  # noqa: ANN401
        what = f"{type(self._own).__name__}.{method}"
        function = getattr(self._own, method)
        found = guarded(self._file, what, function, *arguments)
        if wrong := guarded(self._file, f"the result of {what}", fault, found):
            raise OperatorFault(f"{self._defined(function)}: {what} {wrong}")
        return found

    def _defined(self, function: Callable[..., object]) -> str:
        """Where a method stands; the file alone where it is inherited."""
        code = getattr(inspect.unwrap(function), "__code__", None)
        inside = code is not None and Path(code.co_filename) == self._file
        return f"{self._file}:{code.co_firstlineno}" if code is not None and inside else str(self._file)


def _copied(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays of their own, which the user's code may change."""
    return {name: array.copy() for name, array in arrays.items()}


def guarded(file: Path, what: str, function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
    """Call a function of the user's.

    Args:
        file: The user's file.
        what: The function, as messages call it.
        function: The function.
        arguments: Its arguments.

    Raises:
        OperatorFault: It raised, or wanted to end the process.
        UserError: It refused its arguments with one.
        MemoryError: It needed more memory than its share.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return function(*arguments)
    except (UserError, OperatorFault, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit, too: the user's code does not end our process
        raise OperatorFault(f"{place_of(error, file)}: {what} {raised(error)}") from error


def raised(error: BaseException) -> str:
    """Say what was raised, on one line: ``raised KeyError: 'm'``."""
    if isinstance(error, SystemExit):
        return f"ends the process with sys.exit({'' if error.code is None else repr(error.code)}); remove that call"
    text = " ".join(str(error).split())
    return f"raised {type(error).__name__}{f': {text}' if text else ''}"


def place_of(error: BaseException, file: Path) -> str:
    """Return the innermost line of a file that an error passed, or the line of its syntax error: ``my_op.py:12``."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f"{file}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{file}:{lines[-1]}" if lines else str(file)


def problem_fault(found: object) -> str:
    """Say what is wrong with a problem; empty where nothing is."""
    if not isinstance(found, Problem):
        return _returned(found, "a lab.operators.base.Problem")
    wrong = [
        f"{name}={_short(value)}" for name, value in found.items() if not isinstance(value, bool | int | float | str)
    ]
    return f"returned the field {wrong[0]}; fields are int, float, bool or str" if wrong else ""


def inputs_fault(found: object) -> str:
    """Say what is wrong with inputs; empty where nothing is."""
    if not isinstance(found, Inputs):
        return _returned(found, "Inputs(scalars, arrays, outputs)")
    if not isinstance(found.scalars, Mapping) or not isinstance(found.arrays, Mapping):
        return "returned Inputs whose scalars or arrays are no mapping from names"
    for name, value in found.scalars.items():
        if not isinstance(value, bool | int | float | str):
            return f"returned the scalar {name}={_short(value)}; a scalar is int, float, bool or str"
    for name, array in found.arrays.items():
        if wrong := _buffer_fault(array):
            return f"returned the array {name}, which {wrong}"
    return _outputs_fault(found)


def _outputs_fault(found: Inputs) -> str:
    names = found.outputs if isinstance(found.outputs, tuple | list) else ()
    if not names or any(name not in found.arrays for name in names):
        return f"returned the outputs {found.outputs!r}; they name at least one of the arrays {', '.join(found.arrays)}"
    return _required_fault(found, names)


def _required_fault(found: Inputs, names: Sequence[str]) -> str:
    required = found.required if isinstance(found.required, tuple | list) else ("",)
    wrong = f"returned the required outputs {found.required!r}; accepted are those of {', '.join(names)}"
    return wrong if any(name not in names for name in required) else ""


def _buffer_fault(array: object) -> str:
    if not isinstance(array, np.ndarray):
        return f"is {_short(array)} and no NumPy array"
    if array.ndim != 1:
        return f"has the shape {array.shape}; it must be 1-D, as the kernel sees memory (numpy.ravel)"
    if not array.flags.c_contiguous:
        return "is not contiguous (numpy.ascontiguousarray)"
    if array.dtype.kind not in "biuf" or not array.dtype.isnative:
        return f"has elements of type {array.dtype}; accepted are integers and floats"
    return ""


def reference_fault(found: object, inputs: Inputs) -> str:
    """Say what is wrong with the reference of some inputs; empty where nothing is."""
    if not isinstance(found, Mapping) or set(found) != set(inputs.outputs):
        return _returned(found, f"a mapping with an Expected for each output: {', '.join(inputs.outputs)}")
    for name, one in found.items():
        if wrong := _expected_fault(one):
            return f"returned for {name} {wrong}"
        if not np.isfinite(one.values).all():
            return f"returned for {name} values that are not finite"
        if not (np.isfinite(one.scale) & (one.scale != 0)).all():
            return f"returned for {name} a scale that is 0 or not finite"
    return ""


def _expected_fault(one: object) -> str:
    if not isinstance(one, Expected):
        return f"{_short(one)}; accepted is Expected(values, scale)"
    for name, array in (("values", one.values), ("scale", one.scale)):
        if not isinstance(array, np.ndarray) or array.dtype != np.float64:
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            return f"{name} of type {kind}; accepted is a float64 array"
    if one.values.shape != one.scale.shape:
        return f"values of shape {one.values.shape} and a scale of shape {one.scale.shape}; accepted are equal shapes"
    return ""


def doubts_fault(found: object) -> str:
    """Say what is wrong with what `doubts` returned; empty where nothing is."""
    is_texts = isinstance(found, tuple | list) and all(isinstance(one, str) for one in found)
    return "" if is_texts else _returned(found, "a tuple of sentences")


def elementwise_fault(found: object) -> str:
    """Say what is wrong with what `elementwise` returned; empty where nothing is."""
    if found is None:
        return ""
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], Mapping):  # noqa: PLR2004
        return _returned(found, "None or (a mapping of Expected, the tolerance)")
    for name, one in found[0].items():
        if wrong := _expected_fault(one):
            return f"returned for {name} {wrong}"
        if one.values.ndim != 1:
            return f"returned for {name} values of shape {one.values.shape}; accepted is one dimension"
    return _tolerance_fault(found[1])


def verify_fault(found: object) -> str:
    """Say what is wrong with what `verify` returned; empty where nothing is."""
    accepted = "(the largest error, the tolerance, the worst element in words)"
    if not isinstance(found, tuple) or len(found) != 3:  # noqa: PLR2004
        return _returned(found, accepted)
    largest, tolerance, worst = found
    if not _is_real(largest) or not isinstance(worst, str):  # NaN is how outputs fail
        return _returned(found, accepted)
    return _tolerance_fault(tolerance)


def _tolerance_fault(tolerance: object) -> str:
    if _is_real(tolerance) and math.isfinite(tolerance) and tolerance >= 0:  # type: ignore[arg-type,operator]
        return ""
    return f"returned the tolerance {_short(tolerance)}; accepted is a finite number ≥ 0"


def count_fault(found: object) -> str:
    """Say what is wrong with a number of operations or bytes; empty where nothing is."""
    if isinstance(found, int | np.integer) and not isinstance(found, bool) and found >= 0:
        return ""
    return _returned(found, "an int ≥ 0")


def dtype_fault(found: object) -> str:
    """Say what is wrong with an arithmetic type; empty where nothing is."""
    try:
        kind = np.dtype(found).kind if found is not None else ""  # type: ignore[call-overload]
    except TypeError:
        kind = ""
    return "" if kind == "f" else _returned(found, "a floating-point numpy.dtype, such as numpy.dtype('float32')")


def _is_real(value: object) -> bool:
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)


def _returned(found: object, accepted: str) -> str:
    return f"returned {_short(found)}; accepted is {accepted}"


def _short(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - the user's class
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
