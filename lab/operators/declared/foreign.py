"""Reference functions written by the user in Python: ``./ref.py:function``.

The function is called with the arguments, problem fields and parameters named by its own parameters; arrays have their
shapes. It returns the output, or a mapping from outputs to arrays. Importing the file runs its code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np

from lab.base.errors import UserError
from lab.operators.declared.tracked import Tracked
from lab.operators.userfile import imported


class ReferenceRaisedError(UserError):
    """A user's function raised an error."""


def function_of(reference: str, folder: Path) -> Callable[..., object]:
    """Return a user's function.

    Raises:
        UserError: There is no such file or function, or the file raises an error.
    """
    path_text, _, name = reference.rpartition(":")
    path = (folder / path_text).resolve()
    if not path.is_file():
        raise UserError(
            "no such file", code="missing-file", key="reference", found=reference, accepted="./file.py:function"
        )
    module = imported(path, reference, None, "reference")
    candidate = getattr(module, name, None)
    if not callable(candidate):
        functions = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise UserError(
            "no such function in the reference file",
            code="unknown-name",
            key="reference",
            found=name,
            accepted=functions,
        )
    function: Callable[..., object] = candidate
    return function


def called(
    reference: str, folder: Path, available: Mapping[str, object], outputs: tuple[str, ...]
) -> Mapping[str, Tracked]:
    """Call a user's function.

    Args:
        reference: ``./ref.py:function``.
        folder: Base of a relative path.
        available: Arrays, scalars, problem fields and parameters by name. The function gets copies of the arrays, so it
            may change them.
        outputs: Names of the outputs.

    Returns:
        The value of each output, without a bound.

    Raises:
        UserError: The function wants something else, raises an error, or returns something else.
    """
    return results(function_of(reference, folder), reference, available, outputs)


def results(
    function: Callable[..., object], reference: str, available: Mapping[str, object], outputs: tuple[str, ...]
) -> Mapping[str, Tracked]:
    """Call a function with the available values named by its parameters.

    Args:
        function: The function.
        reference: Its name in errors.
        available: As for `called`.
        outputs: Names of the outputs.

    Returns:
        The value of each output, without a bound.

    Raises:
        UserError: The function wants something else, raises an error, or returns something else.
    """
    parameters = inspect.signature(function).parameters
    takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    for name, parameter in parameters.items():
        plain = parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        if plain and name not in available and parameter.default is inspect.Parameter.empty:
            message = f"the function asks for {name!r}, which is neither an input nor a number of the problem"
            raise UserError(message, code="mismatch", key="reference", found=reference, accepted=sorted(available))
    arguments = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in available.items()
        if takes_all or name in parameters
    }
    try:
        result = function(**arguments)
    except Exception as error:  # the user's code may raise anything
        place = next((frame for frame in reversed(extract_tb(error.__traceback__)) if frame.filename != __file__), None)
        source_line = f" ({Path(place.filename).name}:{place.lineno}: {place.line})" if place else ""
        message = f"the function raised {type(error).__name__}: {error}{source_line}"
        raise ReferenceRaisedError(message, code="mismatch", key="reference", found=reference) from error
    by_name = _by_name(result, outputs, reference)
    return {name: tracked(name, by_name[name], reference) for name in outputs}


def _by_name(result: object, outputs: tuple[str, ...], reference: str) -> Mapping[str, object]:
    if isinstance(result, Mapping):
        missing = [name for name in outputs if name not in result]
        if missing:
            message = f"the function does not return {missing[0]}"
            raise UserError(
                message, code="mismatch", key="reference", found=reference, accepted=f"a value for {', '.join(outputs)}"
            )
        return result
    if len(outputs) == 1:
        return {outputs[0]: result}
    if isinstance(result, tuple) and len(result) == len(outputs):
        return dict(zip(outputs, result, strict=True))
    accepted = f"a mapping with {', '.join(outputs)}, or a tuple of these in order"
    raise UserError(
        "the function returns one value for several outputs",
        code="mismatch",
        key="reference",
        found=reference,
        accepted=accepted,
    )


def tracked(name: str, value: object, reference: str) -> Tracked:
    """Convert a value to the type references compute in, without a bound.

    Raises:
        UserError: It does not hold numbers.
    """
    array: np.ndarray[Any, Any] = np.asarray(value)
    match array.dtype.kind:
        case "f":
            return Tracked(array.astype(np.float64, copy=False))
        case "c":
            return Tracked(array.astype(np.complex128, copy=False))
        case "u":
            return Tracked(array.astype(np.uint64 if array.dtype.itemsize == 8 else np.int64))  # noqa: PLR2004 - bytes
        case "i":
            return Tracked(array.astype(np.int64, copy=False))
        case "b":
            return Tracked(array)
        case _:
            message = f"the reference of {name} holds {array.dtype}"
            raise UserError(message, code="unsupported", key="reference", found=reference, accepted="numbers")
