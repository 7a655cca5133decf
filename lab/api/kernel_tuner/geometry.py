"""Grid and block from a problem size, divisors and the names of block sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lab.api.kernel_tuner.tables import Space, expression, tabulated
from lab.base.errors import UserError

BLOCK_SIZE_NAMES: Final = ("block_size_x", "block_size_y", "block_size_z")
SIZE_NAMES: Final = ("problem_size_x", "problem_size_y", "problem_size_z")
_DEFAULT_BLOCK: Final = (256, 1, 1)
_PLAIN = re.compile(r"\w+")
_ACCEPTED_SIZE = "an int, an expression over the parameters as text, a tuple of up to three, or a function"


@dataclass(frozen=True)
class TunedGeometry:
    """How every setting is launched.

    Attributes:
        sizes: The parts of the problem size that are numbers, by their field of the problem.
        grid: Expressions, one for each part of the problem size.
        block: Expressions of x, y and z.
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
        divisors: Of x, y, z: None for the block size, a list of names or expressions, or a function.
        block_size_names: Parameters that hold the block's size, x first; None for the usual ones.
        space: The tunable parameters.

    Raises:
        UserError: One of them is of another kind.
    """
    names = _block_names(block_size_names, space)
    sizes: dict[str, int] = {}
    grid = []
    for i, part in enumerate(_parts(problem_size, space)):
        size = part if isinstance(part, str) else SIZE_NAMES[i]
        if not isinstance(part, str):
            sizes[size] = part
        divisor = _divisor(divisors[i], names[i], space, f"grid_div_{'xyz'[i]}")
        grid.append(_quotient(size, divisor))
    block = tuple(name if name in space else str(size) for name, size in zip(names, _DEFAULT_BLOCK, strict=True))
    return TunedGeometry(sizes, tuple(grid), block)


def _block_names(given: Sequence[str] | None, space: Space) -> tuple[str, ...]:
    if given is None:
        return BLOCK_SIZE_NAMES
    if isinstance(given, str) or not all(isinstance(name, str) for name in given) or len(given) > len(BLOCK_SIZE_NAMES):
        raise UserError(
            "wrong value",
            code="wrong-value",
            key="block_size_names",
            found=given,
            accepted="a list of up to three names",
        )
    for name in given:
        if name not in space and name not in BLOCK_SIZE_NAMES:
            raise UserError(
                "no such parameter", code="unknown-name", key="block_size_names", found=name, accepted=list(space)
            )
    return (*given, *BLOCK_SIZE_NAMES[len(given) :])


def _parts(given: object, space: Space) -> list[int | str]:
    """The parts of a problem size: numbers, or expressions."""
    if callable(given):
        table = tabulated(given, space, "problem_size")
        parts = {setting: _tuple(value) for setting, value in table.items()}
        (count, *others) = sorted({len(one) for one in parts.values()})
        if others:
            raise UserError(
                "tuples of several lengths",
                code="mismatch",
                key="problem_size",
                accepted="as many sizes for all settings",
            )
        return [
            expression({setting: _whole(one[i]) for setting, one in parts.items()}, "problem_size")
            for i in range(count)
        ]
    return [one if isinstance(one, str) else _whole(one) for one in _tuple(given)]


def _tuple(given: object) -> tuple[Any, ...]:
    parts = tuple(given) if isinstance(given, tuple | list | np.ndarray) else (given,)
    if not 1 <= len(parts) <= len(SIZE_NAMES):
        raise UserError("wrong value", code="wrong-value", key="problem_size", found=given, accepted=_ACCEPTED_SIZE)
    return parts


def _whole(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer | float | np.floating) or given != int(given):
        raise UserError("wrong value", code="wrong-value", key="problem_size", found=given, accepted=_ACCEPTED_SIZE)
    if given < 1:
        raise UserError("wrong value", code="wrong-value", key="problem_size", found=given, accepted="at least 1")
    return int(given)


def _divisor(given: object, block_name: str, space: Space, key: str) -> list[str]:
    """What a size is divided by: the product of these."""
    if given is None:
        return [block_name] if block_name in space else []
    if callable(given):
        called: Callable[[dict[str, Any]], Any] = given
        table = {setting: _number(value, key) for setting, value in tabulated(called, space, key).items()}
        return [expression(table, key)]
    parts = [given] if isinstance(given, str) else given
    if not isinstance(parts, list | tuple):
        raise UserError(
            "wrong value",
            code="wrong-value",
            key=key,
            found=given,
            accepted="a list of names or expressions, or a function",
        )
    return [one if isinstance(one, str) else repr(_number(one, key)) for one in parts]


def _number(given: object, key: str) -> int | float:
    held = given.item() if isinstance(given, np.generic) else given
    if isinstance(held, bool) or not isinstance(held, int | float) or held <= 0:
        raise UserError("wrong value", code="wrong-value", key=key, found=given, accepted="a number above 0")
    return held


def _quotient(size: str, divisor: Sequence[str]) -> str:
    """Expression of the blocks along one axis, rounded up."""
    if not divisor:
        return size if _PLAIN.fullmatch(size) else f"ceil({size})"
    if all(_PLAIN.fullmatch(one) for one in divisor) and _PLAIN.fullmatch(size):
        return f"ceil_div({size}, {' * '.join(divisor)})"
    return f"ceil(({size}) / ({' * '.join(f'({one})' for one in divisor)}))"
