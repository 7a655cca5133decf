"""Conversion of a list of arrays and scalars, with the answer, to named arguments and references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.api.mapping import ArraysByCase
from lab.base.errors import UserError
from lab.isa.cuda.kernels import SourceKernel

RELATIVE: Final = 1e-5
"""Relative tolerance used together with `atol`, as in ``numpy.allclose``."""

_ACCEPTED = "NumPy arrays, and NumPy scalars such as np.int32(n) for scalars"


@dataclass(frozen=True)
class SmallerProblem:
    """The replacement of the problem for emulation.

    Attributes:
        sizes: Components of the problem size.
        arguments: As for the problem.
        answer: As for the problem; None if the problem has none.
    """

    sizes: Mapping[str, int]
    arguments: Sequence[Any]
    answer: Sequence[Any] | None


@dataclass
class NamedArguments:
    """Keys of an experiment.

    Attributes:
        problem: Scalars as fields of the problem.
        emulate: Those of the smaller problem; empty without one.
        arguments: Arguments by name, in the kernel's order.
        reference: Expected outputs; empty without an answer.
        tolerance: Tolerances by output.
    """

    problem: dict[str, Any] = field(default_factory=dict)
    emulate: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    reference: dict[str, Any] = field(default_factory=dict)
    tolerance: dict[str, Any] = field(default_factory=dict)


def named_arguments(
    values: Sequence[Any],
    answer: Sequence[Any] | None,
    atol: float,
    *,
    kernel: SourceKernel | None,
    smaller: SmallerProblem | None,
    reserved: Sequence[str],
) -> NamedArguments:
    """Name arguments after the kernel's parameters, and determine which are outputs.

    With an answer, its arrays are the outputs; other arrays that the kernel may write are not compared. Without one,
    every array that it may write is an output.

    Args:
        values: Arrays and scalars, in the kernel's order.
        answer: Expected arrays and None, in the same order; None without one.
        atol: Absolute tolerance.
        kernel: The kernel's signature; None if it cannot be parsed.
        smaller: The problem to emulate; None if nothing is emulated, or the problem itself is.
        reserved: Names that are already in use.

    Raises:
        UserError: A value has the wrong type, or the lists have different lengths.
    """
    _check(values, answer, "")
    if smaller is not None:
        _check(smaller.arguments, smaller.answer, "emulate.")
        _check_alike(values, answer, smaller)
    parameters = kernel.parameters if kernel and len(kernel.parameters) == len(values) else ()
    result = NamedArguments()
    for i, value in enumerate(values):
        name = parameters[i].name if parameters and parameters[i].name else f"argument_{i}"
        name = f"{name}_" if name in reserved or name in result.arguments else name
        small = None if smaller is None else smaller.arguments[i]
        if not isinstance(value, np.ndarray) or not value.ndim:
            _scalar(result, name, value, small)
            continue
        expected = None if answer is None else answer[i]
        is_written = not parameters or not (parameters[i].is_const and parameters[i].is_pointer)
        array = value if small is None else ArraysByCase(value, small)
        if not is_written and expected is None:
            result.arguments[name] = _sized(result, name, "", value, array)
            continue
        result.arguments[name] = _sized(result, name, "inout ", value, array)
        if expected is not None:
            small_answer = None if smaller is None or smaller.answer is None else smaller.answer[i]
            result.reference[name] = expected if small_answer is None else ArraysByCase(expected, small_answer)
            result.tolerance[name] = {"relative": RELATIVE, "absolute": float(atol)}
        elif answer is not None:
            result.reference[name] = array  # not compared: any difference is allowed
            result.tolerance[name] = {"relative": 0.0, "absolute": float("inf")}
    return result


def _check(values: object, answer: object, prefix: str) -> None:
    key = f"{prefix}arguments"
    if not isinstance(values, list | tuple) or not values:
        raise UserError("wrong type", code="wrong-type", key=key, found=values, accepted=f"a list of {_ACCEPTED}")
    for i, value in enumerate(values):
        if not isinstance(value, np.ndarray | np.generic):
            hint = "np.int32(…) or np.float32(…)" if isinstance(value, int | float) else None
            raise UserError(
                "wrong type", code="wrong-type", key=f"{key}[{i}]", found=value, accepted=_ACCEPTED, suggestion=hint
            )
    if answer is None:
        return
    if not isinstance(answer, list | tuple) or len(answer) != len(values):
        accepted = f"a list of {len(values)}, with None for each argument that is not compared"
        raise UserError(
            "the answer does not match the arguments", code="mismatch", key=f"{prefix}answer", accepted=accepted
        )
    for i, value in enumerate(answer):
        if value is None:
            continue
        array = values[i]
        if not isinstance(value, np.ndarray) or not isinstance(array, np.ndarray) or value.size != array.size:
            accepted = f"None, or an array of {array.size} elements"
            raise UserError(
                "wrong value",
                code="wrong-value",
                key=f"{prefix}answer[{i}]",
                found=type(value).__name__,
                accepted=accepted,
            )
    if all(value is None for value in answer):
        raise UserError(
            "the answer contains no arrays",
            code="missing-key",
            key=f"{prefix}answer",
            accepted="an array for each output",
        )


def _check_alike(values: Sequence[Any], answer: Sequence[Any] | None, smaller: SmallerProblem) -> None:
    """Check that the arguments of the emulated problem match those of the problem."""
    if len(smaller.arguments) != len(values):
        raise UserError(
            "the number of arguments differs",
            code="mismatch",
            key="emulate.arguments",
            accepted=f"a list of {len(values)}",
        )
    for i, (value, small) in enumerate(zip(values, smaller.arguments, strict=True)):
        if value.dtype != small.dtype or value.ndim != small.ndim:
            accepted = f"{value.dtype} with {value.ndim} dimensions"
            raise UserError(
                "another type",
                code="wrong-type",
                key=f"emulate.arguments[{i}]",
                found=str(small.dtype),
                accepted=accepted,
            )
    if (answer is None) != (smaller.answer is None):
        key = "emulate.answer" if smaller.answer is None else "answer"
        raise UserError(
            "only one of the problems has an answer",
            code="conflict",
            key=key,
            accepted="an answer for both, or none",
        )


def _scalar(result: NamedArguments, name: str, value: Any, small: Any) -> None:  # noqa: ANN401 - NumPy's numbers
    result.arguments[name] = value.dtype.name
    result.problem[name] = value.item()
    if small is not None:
        result.emulate[name] = small.item()


def _sized(
    result: NamedArguments, name: str, direction: str, value: NDArray[Any], array: NDArray[Any] | ArraysByCase
) -> Any:  # noqa: ANN401 - an argument of a mapping
    """Return an array with its shape; dimensions that the smaller problem changes become fields of the problem."""
    shape = [str(extent) for extent in value.shape]
    if isinstance(array, ArraysByCase):
        for i, (extent, small) in enumerate(zip(value.shape, array.emulated.shape, strict=True)):
            if extent != small:
                shape[i] = f"{name}_size{i}"
                result.problem[shape[i]], result.emulate[shape[i]] = extent, small
    text = f"{direction}{value.dtype.name}[{', '.join(shape)}]"
    if not isinstance(array, ArraysByCase) and not value.any():
        return f"{text} zeros"
    return text, array
