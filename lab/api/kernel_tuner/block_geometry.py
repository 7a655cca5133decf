"""Grid and block dimensions from a problem size, divisors and the names of block sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lab.api.kernel_tuner.tabulated_functions import Space, expression, tabulated
from lab.base.errors import UserError

BLOCK_SIZE_NAMES: Final = ("block_size_x", "block_size_y", "block_size_z")
SIZE_NAMES: Final = ("problem_size_x", "problem_size_y", "problem_size_z")
_DEFAULT_BLOCK: Final = (256, 1, 1)
_PLAIN = re.compile(r"\w+")
_ACCEPTED_SIZE = "an int, an expression over the parameters as text, a tuple of up to three, or a function"


@dataclass(frozen=True)
class TunedGeometry:
    """The launch geometry of every setting.

    Attributes:
        sizes: Numeric components of the problem size, by problem field.
        grid: Expressions, one per component of the problem size.
        block: Expressions for x, y and z.
    """

    sizes: dict[str, int]
    grid: tuple[str, ...]
    block: tuple[str, ...]


def geometry(
    problem_size: object,
    divisors: Sequence[object],
    block_size_names: Sequence[str] | None,
    space: Space,
) -> TunedGeometry:
    """Translate a problem size and its divisors.

    Args:
        problem_size: A number, text, a tuple of these, or a function of the parameters.
        divisors: Divisors of x, y, z: None for the block size, a list of names or expressions, or a function.
        block_size_names: Parameters that hold the block size, x first; None for the default ones.
        space: The tunable parameters.

    Raises:
        UserError: One of them has the wrong type.
    """
    names = _block_names(block_size_names, space)
    sizes: dict[str, int] = {}
    grid = []
    for i, extent in enumerate(_parts(problem_size, space)):
        size = extent if isinstance(extent, str) else SIZE_NAMES[i]
        if not isinstance(extent, str):
            sizes[size] = extent
        divisor = _divisor(divisors[i], names[i], space, f"grid_div_{'xyz'[i]}")
        grid.append(_quotient(size, divisor))
    block = tuple(name if name in space else str(size) for name, size in zip(names, _DEFAULT_BLOCK, strict=True))
    return TunedGeometry(sizes, tuple(grid), block)


def _block_names(requested: Sequence[str] | None, space: Space) -> tuple[str, ...]:
    if requested is None:
        return BLOCK_SIZE_NAMES
    if (
        isinstance(requested, str)
        or not all(isinstance(name, str) for name in requested)
        or len(requested) > len(BLOCK_SIZE_NAMES)
    ):
        raise UserError(
            "wrong value",
            code="wrong-value",
            key="block_size_names",
            found=requested,
            accepted="a list of up to three names",
        )
    for name in requested:
        if name not in space and name not in BLOCK_SIZE_NAMES:
            raise UserError(
                "no such parameter", code="unknown-name", key="block_size_names", found=name, accepted=list(space)
            )
    return (*requested, *BLOCK_SIZE_NAMES[len(requested) :])


def _parts(problem_size: object, space: Space) -> list[int | str]:
    """Return the components of a problem size: numbers, or expressions."""
    if callable(problem_size):
        table = tabulated(problem_size, space, "problem_size")
        parts = {setting: _tuple(value) for setting, value in table.items()}
        (count, *other_counts) = sorted({len(sizes) for sizes in parts.values()})
        if other_counts:
            raise UserError(
                "tuples of different lengths",
                code="mismatch",
                key="problem_size",
                accepted="the same number of sizes for all settings",
            )
        return [
            expression({setting: _whole(sizes[i]) for setting, sizes in parts.items()}, "problem_size")
            for i in range(count)
        ]
    return [component if isinstance(component, str) else _whole(component) for component in _tuple(problem_size)]


def _tuple(problem_size: object) -> tuple[Any, ...]:
    parts = tuple(problem_size) if isinstance(problem_size, tuple | list | np.ndarray) else (problem_size,)
    if not 1 <= len(parts) <= len(SIZE_NAMES):
        raise UserError(
            "wrong value", code="wrong-value", key="problem_size", found=problem_size, accepted=_ACCEPTED_SIZE
        )
    return parts


def _whole(extent: object) -> int:
    if (
        isinstance(extent, bool)
        or not isinstance(extent, int | np.integer | float | np.floating)
        or extent != int(extent)
    ):
        raise UserError("wrong value", code="wrong-value", key="problem_size", found=extent, accepted=_ACCEPTED_SIZE)
    if extent < 1:
        raise UserError("wrong value", code="wrong-value", key="problem_size", found=extent, accepted="at least 1")
    return int(extent)


def _divisor(divisor: object, block_name: str, space: Space, key: str) -> list[str]:
    """Return the factors of a size's divisor."""
    if divisor is None:
        return [block_name] if block_name in space else []
    if callable(divisor):
        called: Callable[[dict[str, Any]], Any] = divisor
        table = {setting: _number(value, key) for setting, value in tabulated(called, space, key).items()}
        return [expression(table, key)]
    parts = [divisor] if isinstance(divisor, str) else divisor
    if not isinstance(parts, list | tuple):
        raise UserError(
            "wrong value",
            code="wrong-value",
            key=key,
            found=divisor,
            accepted="a list of names or expressions, or a function",
        )
    return [factor if isinstance(factor, str) else repr(_number(factor, key)) for factor in parts]


def _number(divisor: object, key: str) -> int | float:
    number = divisor.item() if isinstance(divisor, np.generic) else divisor
    if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
        raise UserError("wrong value", code="wrong-value", key=key, found=divisor, accepted="a number above 0")
    return number


def _quotient(size: str, divisor: Sequence[str]) -> str:
    """Return the expression for the blocks along one axis, rounded up."""
    if not divisor:
        return size if _PLAIN.fullmatch(size) else f"ceil({size})"
    if all(_PLAIN.fullmatch(factor) for factor in divisor) and _PLAIN.fullmatch(size):
        return f"ceil_div({size}, {' * '.join(divisor)})"
    return f"ceil(({size}) / ({' * '.join(f'({factor})' for factor in divisor)}))"
