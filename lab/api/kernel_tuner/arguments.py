"""A kernel's arguments as a list of arrays and scalars, with the answer, as named arguments and references."""

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
"""Relative tolerance beside `atol`, that of ``numpy.allclose``."""

_ACCEPTED = "NumPy arrays, and NumPy's numbers such as np.int32(n) for scalars"


@dataclass(frozen=True)
class SmallerProblem:
    """What replaces the problem where it is executed on the CPU.

    Attributes:
        sizes: Parts of the problem size.
        arguments: As for the problem.
        answer: As for the problem; None where the problem has none.
    """

    sizes: Mapping[str, int]
    arguments: Sequence[Any]
    answer: Sequence[Any] | None


@dataclass
class NamedArguments:
    """Keys of an experiment.

    Attributes:
        problem: Scalars as fields of the problem.
        emulate: Those of the smaller problem; empty where there is none.
        arguments: By name, in the kernel's order.
        reference: What outputs must hold; empty without an answer.
        tolerance: By output.
    """

    problem: dict[str, Any] = field(default_factory=dict)
    emulate: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    reference: dict[str, Any] = field(default_factory=dict)
    tolerance: dict[str, Any] = field(default_factory=dict)


def named_arguments(
    given: Sequence[Any],
    answer: Sequence[Any] | None,
    atol: float,
    *,
    kernel: SourceKernel | None,
    smaller: SmallerProblem | None,
    taken: Sequence[str],
) -> NamedArguments:
    """Name arguments after the kernel's parameters, and say which are written.

    With an answer, its arrays are outputs; what the kernel may write besides is not compared. Without one, every array
    that it may write is an output.

    Args:
        given: Arrays and scalars, in the kernel's order.
        answer: Expected arrays and None, in the same order; None without one.
        atol: Absolute tolerance.
        kernel: The kernel's head; None where it cannot be read.
        smaller: Of the CPU; None where nothing is executed there, or the problem itself is.
        taken: Names that stand for something else.

    Raises:
        UserError: Something is of another kind, or the lists are of different lengths.
    """
    _check(given, answer, "")
    if smaller is not None:
        _check(smaller.arguments, smaller.answer, "emulate.")
        _check_alike(given, answer, smaller)
    parameters = kernel.parameters if kernel and len(kernel.parameters) == len(given) else ()
    found = NamedArguments()
    for i, value in enumerate(given):
        name = parameters[i].name if parameters and parameters[i].name else f"argument_{i}"
        name = f"{name}_" if name in taken or name in found.arguments else name
        small = None if smaller is None else smaller.arguments[i]
        if not isinstance(value, np.ndarray) or not value.ndim:
            _scalar(found, name, value, small)
            continue
        expected = None if answer is None else answer[i]
        written = not parameters or not (parameters[i].is_const and parameters[i].is_pointer)
        array = value if small is None else ArraysByCase(value, small)
        if not written and expected is None:
            found.arguments[name] = _sized(found, name, "", value, array)
            continue
        found.arguments[name] = _sized(found, name, "inout ", value, array)
        if expected is not None:
            small_answer = None if smaller is None or smaller.answer is None else smaller.answer[i]
            found.reference[name] = expected if small_answer is None else ArraysByCase(expected, small_answer)
            found.tolerance[name] = {"relative": RELATIVE, "absolute": float(atol)}
        elif answer is not None:
            found.reference[name] = array  # compared with nothing: any difference is allowed
            found.tolerance[name] = {"relative": 0.0, "absolute": float("inf")}
    return found


def _check(given: object, answer: object, prefix: str) -> None:
    key = f"{prefix}arguments"
    if not isinstance(given, list | tuple) or not given:
        raise UserError("wrong type", code="wrong-type", key=key, found=given, accepted=f"a list of {_ACCEPTED}")
    for i, value in enumerate(given):
        if not isinstance(value, np.ndarray | np.generic):
            hint = "np.int32(…) or np.float32(…)" if isinstance(value, int | float) else None
            raise UserError(
                "wrong type", code="wrong-type", key=f"{key}[{i}]", found=value, accepted=_ACCEPTED, suggestion=hint
            )
    if answer is None:
        return
    if not isinstance(answer, list | tuple) or len(answer) != len(given):
        accepted = f"a list of {len(given)}, with None for each argument that is not compared"
        raise UserError(
            "the answer does not fit the arguments", code="mismatch", key=f"{prefix}answer", accepted=accepted
        )
    for i, value in enumerate(answer):
        if value is None:
            continue
        array = given[i]
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
            "the answer holds no array", code="missing-key", key=f"{prefix}answer", accepted="an array for each output"
        )


def _check_alike(given: Sequence[Any], answer: Sequence[Any] | None, smaller: SmallerProblem) -> None:
    """Check that the problem for the CPU has the arguments of the other."""
    if len(smaller.arguments) != len(given):
        raise UserError(
            "as many arguments are needed", code="mismatch", key="emulate.arguments", accepted=f"a list of {len(given)}"
        )
    for i, (value, small) in enumerate(zip(given, smaller.arguments, strict=True)):
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
            "one problem has an answer, the other none",
            code="conflict",
            key=key,
            accepted="an answer for both, or none",
        )


def _scalar(found: NamedArguments, name: str, value: Any, small: Any) -> None:  # noqa: ANN401 - NumPy's numbers
    found.arguments[name] = value.dtype.name
    found.problem[name] = value.item()
    if small is not None:
        found.emulate[name] = small.item()


def _sized(
    found: NamedArguments, name: str, direction: str, value: NDArray[Any], array: NDArray[Any] | ArraysByCase
) -> Any:  # noqa: ANN401 - an argument of a mapping
    """An array with its shape; dimensions that the smaller problem changes become fields of the problem."""
    shape = [str(extent) for extent in value.shape]
    if isinstance(array, ArraysByCase):
        for i, (extent, small) in enumerate(zip(value.shape, array.emulated.shape, strict=True)):
            if extent != small:
                shape[i] = f"{name}_size{i}"
                found.problem[shape[i]], found.emulate[shape[i]] = extent, small
    text = f"{direction}{value.dtype.name}[{', '.join(shape)}]"
    if not isinstance(array, ArraysByCase) and not value.any():
        return f"{text} zeros"
    return text, array
