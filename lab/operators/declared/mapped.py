"""How an argument's text says that a kernel takes its array as a tensor map: ``as map[128, 64] swizzle 128``.

The map describes the whole array. ``of [k // 64, m, 64] strides [64, k, 1]`` describes it in other dimensions. Sizes
are expressions in elements, the slowest dimension first, as shapes are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FORM: Final = "as map[BOX] [of [EXTENTS] strides [STRIDES]] [swizzle 32|64|128]"

MARK: Final = re.compile(r"\s*\bas\s+map\s*(?=\[)")
"""Begins what a text says of a map."""

PARTS: Final = {"of": re.compile(r"\s*of\s*(?=\[)"), "strides": re.compile(r"\s*strides\s*(?=\[)")}
"""Words in front of lists in brackets."""

SWIZZLE: Final = re.compile(r"\s*swizzle\s+(.+)", re.DOTALL)

_OPENING, _CLOSING = "([", ")]"


@dataclass(frozen=True, slots=True)
class MappedView:
    """What a tensor map says of an array, as expressions, the slowest dimension first.

    Attributes:
        box: Size of the box that one copy moves.
        extents: Size of the tensor; empty for the array's shape.
        strides: Elements from one index to the next along each dimension; empty where `extents` is.
        swizzle: Bytes of the span in shared memory within which pieces of 16 bytes are swizzled; ``0`` for none.
    """

    box: tuple[str, ...]
    extents: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()
    swizzle: str = "0"

    @property
    def expressions(self) -> tuple[str, ...]:
        """Return every expression in it."""
        return (*self.box, *self.extents, *self.strides, self.swizzle)

    def sides(self, shape: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the extents, and the strides of all dimensions but the contiguous one; the contiguous one comes first.

        Args:
            shape: The array's, the slowest dimension first.
        """
        if self.extents:
            return self.extents[::-1], self.strides[-2::-1]
        extents, strides = tuple(shape)[::-1], list[str]()
        for extent in extents[:-1]:
            strides.append(f"({extent}) * {strides[-1]}" if strides else f"({extent})")
        return extents, tuple(strides)

    def __str__(self) -> str:
        """Return its text."""
        view = f" of [{', '.join(self.extents)}] strides [{', '.join(self.strides)}]" if self.extents else ""
        swizzle = "" if self.swizzle == "0" else f" swizzle {self.swizzle}"
        return f"as map[{', '.join(self.box)}]{view}{swizzle}"


def bracketed(text: str, opening: int) -> tuple[list[tuple[int, str]], int] | None:
    """Split a list in brackets at the commas that stand in no inner brackets.

    Args:
        text: The text.
        opening: Where its `[` stands.

    Returns:
        Each part with its place, and the place behind the closing bracket; None where there is none.
    """
    parts, begin, depth = list[tuple[int, str]](), opening + 1, 0
    for i in range(opening, len(text)):
        sign = text[i]
        depth += (sign in _OPENING) - (sign in _CLOSING)
        if (sign == "," and depth == 1) or depth == 0:
            parts.append((begin, text[begin:i]))
            begin = i + 1
        if depth == 0:
            return parts, begin
    return None
