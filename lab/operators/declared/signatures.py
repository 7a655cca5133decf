"""Signatures of Python reference functions, parsed from source without importing it."""

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
    """Return the signature of a top-level function of a file.

    Args:
        file: A Python file of acceptable size.
        function: The function's name.

    Returns:
        None if the source does not define it: the name is imported or assigned, or the file is not valid Python.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # reported with its line when the file is imported
        return None
    definitions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    if not definitions or definitions[-1].decorator_list:
        return None
    arguments = definitions[-1].args
    by_place = [*arguments.posonlyargs, *arguments.args]
    defaults = len(arguments.defaults)
    required = [parameter.arg for parameter in by_place[: len(by_place) - defaults]]
    required += [
        parameter.arg
        for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    names = tuple(parameter.arg for parameter in (*by_place, *arguments.kwonlyargs))
    uppers = [node.upper for node in ast.walk(tree) if isinstance(node, ast.Slice) and node.upper is not None]
    ends = frozenset(name.id for upper in uppers for name in ast.walk(upper) if isinstance(name, ast.Name))
    return FunctionSignature(definitions[-1].lineno, names, tuple(required), ends)
