"""Kernel Tuner's conventions for sources: predefined macros and loop unroll factors."""

from __future__ import annotations

import itertools
import re
from collections import ChainMap
from collections.abc import Sequence
from pathlib import Path

from lab.api.given import is_code
from lab.api.kernel_tuner.tabulated_functions import Space, preprocessor, tabulated
from lab.base.errors import Location, UserError
from lab.base.expressions import evaluate
from lab.base.yamlfile import read_text

_GRID_SIZES = ("grid_size_x", "grid_size_y", "grid_size_z")
_KERNEL_SOURCE = "kernel_source"


def source_text(source: object, space: Space) -> tuple[str, Path | None]:
    """Return the text of a source, and its file if it has one.

    Args:
        source: The path of a file, CUDA text, or a function from the parameters to CUDA text.
        space: The tunable parameters.

    Raises:
        UserError: It has the wrong type, or the file cannot be read.
    """
    if callable(source):
        table = {setting: str(text) for setting, text in tabulated(source, space, _KERNEL_SOURCE).items()}
        return preprocessor(table, _KERNEL_SOURCE), None
    if isinstance(source, list | tuple) and len(source) == 1:
        return source_text(source[0], space)
    if not isinstance(source, str | Path):
        accepted = "a path, CUDA text, or a function that returns CUDA text; its includes are searched in its folder"
        raise UserError("wrong type", code="wrong-type", key=_KERNEL_SOURCE, found=source, accepted=accepted)
    if isinstance(source, str) and is_code(source):
        return source, None
    try:
        return read_text(Path(source), label="the source"), Path(source)
    except UserError as error:
        raise error.placed(None, _KERNEL_SOURCE) from None


def with_tuner_macros(text: str, space: Space, grid: Sequence[str], sizes: dict[str, int]) -> str:
    """Define the macros that the source uses besides the parameters, and handle unroll factors as the tuner does.

    `kernel_tuner` is 1; `grid_size_x` and so on are the grid dimensions. A parameter whose name begins with
    `loop_unroll_factor` removes a loop's pragma if it is 0.
    """
    defined = ["#define kernel_tuner 1"] if _mentions(text, "kernel_tuner") else []
    for name, size in itertools.zip_longest(_GRID_SIZES, grid, fillvalue="1"):
        if _mentions(text, name):
            table = tabulated(
                lambda setting, size=size, name=name: evaluate(
                    size, ChainMap(setting, {**sizes}), at=Location(name), key=name
                ),  # type: ignore[misc]
                space,
                name,
            )
            defined.append(
                preprocessor({assignment: f"#define {name} {value}" for assignment, value in table.items()}, name)
            )
    for name, values in space.items():
        if name.startswith("loop_unroll_factor") and 0 in values:
            pragma = re.compile(rf"^[ \t]*#pragma[ \t]+unroll[ \t(]+{re.escape(name)}\b.*$", re.MULTILINE)
            text = pragma.sub(lambda match, name=name: f"#if {name} > 0\n{match[0]}\n#endif", text)  # type: ignore[misc]
    return "\n".join([*defined, "#line 1", text]) if defined else text


def uses_grid(text: str) -> bool:
    """Return whether the source uses its grid size, which ties it to one problem size."""
    return any(_mentions(text, name) for name in _GRID_SIZES)


def kernel_expression(name: str, space: Space) -> str:
    """Return a kernel's name with the parameters among its template arguments in braces."""
    base, bracket, template_arguments = name.partition("<")
    if not bracket:
        return name
    return (
        base
        + bracket
        + re.sub(r"\b[A-Za-z_]\w*\b", lambda m: f"{{{m[0]}}}" if m[0] in space else m[0], template_arguments)
    )


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None
