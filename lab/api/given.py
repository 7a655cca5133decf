"""Conversion of values in a mapping to the content of an experiment file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lab.base.errors import CollectedError, UserError, together
from lab.operators.declared.specification import FillKind, parse

_CODE = re.compile(r"__global__|\n|\{")


def is_code(source: str) -> bool:
    """Return whether a source is CUDA text rather than the path of a file."""
    return _CODE.search(source) is not None


def plain(value: object, key: str) -> Any:  # noqa: ANN401 - what YAML can hold
    """Return a value as YAML types: NumPy numbers as Python's, sequences as lists, paths as text.

    Raises:
        UserError: Its type is not supported.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.generic():
            return plain(value.item(), key)
        case Path():
            return str(value)
        case Mapping():
            return {str(name): plain(member, f"{key}.{name}") for name, member in value.items()}
        case np.ndarray() if value.ndim == 1:
            return [plain(element, key) for element in value]
        case Sequence() | range():
            return [plain(element, f"{key}[{i}]") for i, element in enumerate(value)]
        case _:
            accepted = "numbers, text, true and false, and lists and mappings of these"
            raise UserError("wrong type", code="wrong-type", key=key, found=value, accepted=accepted)


def yaml_of(data: Mapping[str, object]) -> str:
    """Return plain data as YAML, one key per line."""
    return "".join(f"{name}: {_flow(value)}\n" for name, value in data.items())


def _flow(value: object) -> str:
    match value:
        case None | bool():
            return "null" if value is None else str(value).lower()
        case float() if not math.isfinite(value):
            return ".nan" if math.isnan(value) else f"{'-' if value < 0 else ''}.inf"
        case int() | float():
            return repr(value)
        case Mapping():
            return "{" + ", ".join(f"{json.dumps(str(name))}: {_flow(member)}" for name, member in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case _:
            return json.dumps(str(value), ensure_ascii=False)


def anchored(name: str, text: str, folder: Path | None = None) -> str:
    """Return the text of an argument with its file path made absolute.

    Args:
        name: The argument.
        text: Its declaration.
        folder: Where a relative path starts; the working directory by default.
    """
    try:
        argument = parse(name, text)
    except UserError:
        return text  # the mistake is reported later, with all others
    if argument.fill is None or argument.fill.kind is not FillKind.FILE:
        return text
    path = argument.fill.operands[0]
    absolute = str((folder or Path.cwd()) / path)
    return text.replace(path, absolute if _quoted(text) else _quote(absolute))


def _quoted(text: str) -> bool:
    return text.rstrip().endswith(("'", '"'))


def _quote(absolute: str) -> str:
    return f'"{absolute}"' if "'" in absolute else f"'{absolute}'"


def without_file(error: UserError, file: Path) -> UserError:
    """Return a mistake in a mapping: located by its key rather than by a line of the generated file."""
    if isinstance(error, CollectedError):
        return together([without_file(member, file) for member in error.errors])
    if error.at is None or Path(error.at.file) != file:
        return error
    key = error.key or _top(error.at.line, file)
    return error.placed(None, key)


def _top(line: int | None, file: Path) -> str | None:
    """Return the top-level key on a line of a file written by `yaml_of`."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return lines[line - 1].partition(":")[0] if line and line <= len(lines) else None
