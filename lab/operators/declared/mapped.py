"""Tensor maps in an argument's text: ``as map[128, 64] swizzle 128``.

An im2col map is ``as im2col[64, 32] lower [-1, -1] upper [-1, -1] steps [2, 2]``: pixels and channels of a copy, the
corners of the box in which the filter's base may lie, and the traversal strides.

The map describes the whole array. ``of [k // 64, m, 64] strides [64, k, 1]`` describes it in other dimensions. Sizes
are expressions in elements, the slowest dimension first, as shapes are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_VIEWED, _SWIZZLED = "[of [EXTENTS] strides [STRIDES]]", "[swizzle 32|64|128]"
FORM: Final = f"as map[BOX] {_VIEWED} {_SWIZZLED}"
IM2COL_FORM: Final = (
    f"as im2col[PIXELS, CHANNELS] {_VIEWED} [lower [CORNER]] [upper [CORNER]] [steps [STEPS]] {_SWIZZLED}"
)

MARK: Final = re.compile(r"\s*\bas\s+(map|im2col)\s*(?=\[)")
"""Start of a tensor map in a text."""

PARTS: Final = {word: re.compile(rf"\s*{word}\s*(?=\[)") for word in ("of", "strides")}
"""Keywords in front of bracketed lists."""
IM2COL_PARTS: Final = {word: re.compile(rf"\s*{word}\s*(?=\[)") for word in ("lower", "upper", "steps")}
"""Keywords of im2col maps, after the others."""

IM2COL_DIMENSIONS: Final = (3, 4, 5)
"""Ranks of image tensors: images, one to three spatial dimensions, and channels."""

SWIZZLE: Final = re.compile(r"\s*swizzle\s+(.+)", re.DOTALL)

_OPENING, _CLOSING = "([", ")]"


@dataclass(frozen=True, slots=True)
class MappedView:
    """A tensor map of an array, as expressions, slowest dimension first.

    Attributes:
        box: Size of the box moved by one copy; for im2col, its pixels and channels.
        extents: Size of the tensor; empty for the array's shape.
        strides: Elements from one index to the next along each dimension; empty where `extents` is.
        swizzle: Span in bytes within which 16-byte chunks of shared memory are swizzled; ``0`` for none.
        corners: For im2col, the lower and the upper corner of its pixels, and their steps, each for every spatial
            dimension; empty for a tiled map.
    """

    box: tuple[str, ...]
    extents: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()
    swizzle: str = "0"
    corners: tuple[tuple[str, ...], ...] = ()

    @property
    def expressions(self) -> tuple[str, ...]:
        """Return every expression in it."""
        return (
            *self.box,
            *self.extents,
            *self.strides,
            self.swizzle,
            *(expression for corner in self.corners for expression in corner),
        )

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
        words = zip(IM2COL_PARTS, self.corners, strict=True) if self.corners else ()
        corners = "".join(f" {word} [{', '.join(corner)}]" for word, corner in words)
        return f"as {'im2col' if self.corners else 'map'}[{', '.join(self.box)}]{view}{corners}{swizzle}"


def bracketed(text: str, opening: int) -> tuple[list[tuple[int, str]], int] | None:
    """Split a bracketed list at its top-level commas.

    Args:
        text: The text.
        opening: Position of its `[`.

    Returns:
        Each element with its position, and the position after the closing bracket; None without one.
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
