"""What a reference function in Python asks for, read from its text: nothing is imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """The parameters of a Python function.

    Attributes:
        line: Line of its `def`, from 1.
        names: All its parameters, in order.
        required: Those without a default value.
        slice_ends: Names of the file in the ends of slices.
    """

    line: int
    names: tuple[str, ...]
    required: tuple[str, ...]
    slice_ends: frozenset[str] = frozenset()


def signature_in(file: Path, function: str) -> FunctionSignature | None:
    """Return the signature of a function that a file defines on its first level.

    Args:
        file: A Python file of a size that may be read.
        function: The function's name.

    Returns:
        None where the text does not tell: the name is imported or assigned, or the file is not valid Python.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # told with its line when the file is imported
        return None
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == function]
    if not found or found[-1].decorator_list:
        return None
    arguments = found[-1].args
    by_place = [*arguments.posonlyargs, *arguments.args]
    defaults = len(arguments.defaults)
    required = [one.arg for one in by_place[: len(by_place) - defaults]]
    required += [
        one.arg for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    names = tuple(one.arg for one in (*by_place, *arguments.kwonlyargs))
    uppers = [one.upper for one in ast.walk(tree) if isinstance(one, ast.Slice) and one.upper is not None]
    ends = frozenset(name.id for one in uppers for name in ast.walk(one) if isinstance(name, ast.Name))
    return FunctionSignature(found[-1].lineno, names, tuple(required), ends)
