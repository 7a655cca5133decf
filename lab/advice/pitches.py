"""Pitches and swizzles that remove bank conflicts, each checked by computing the wavefronts of the moved addresses."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import BANK_BYTES, BANKS, LINE_BYTES
from lab.emulator.results import AccessPattern
from lab.hardware.memory import ideal_wavefronts, shared_wavefronts

_ROW_BYTES: Final = BANKS * BANK_BYTES


@dataclass(frozen=True, slots=True)
class Relayout:
    """A layout without bank conflicts.

    Attributes:
        pitch: Bytes between the rows that lanes of a warp access now; other rows may lie between them.
        padded: The smallest larger pitch without conflicts; 0 where none was found.
        swizzled: An exclusive or of column and row removes them, too.
    """

    pitch: int
    padded: int
    swizzled: bool


def stride_of(pattern: AccessPattern) -> int | None:
    """Return the bytes from each active lane to the next; None where they differ."""
    lanes = [(lane, offset) for lane, offset in enumerate(pattern.lanes) if offset >= 0]
    steps = {Fraction(b - a, j - i) for (i, a), (j, b) in pairwise(lanes)}
    step = steps.pop() if len(steps) == 1 else None
    return int(step) if step is not None and step.denominator == 1 else None


def degree_of(pattern: AccessPattern) -> int:
    """Return the passes of the costliest request over those without conflicts, rounded: the n of an n-way conflict."""
    now, ideal = _cost(pattern, np.array(pattern.lanes, np.int64))
    return max(1, round(now / ideal)) if ideal else 1


def relayout(pattern: AccessPattern) -> Relayout | None:
    """Return a layout that removes the conflicts of a request; None where no pitch explains them."""
    offsets, pitch = np.array(pattern.lanes, np.int64), _pitch(pattern)
    if pitch is None:
        return None
    padded = next((pitch + pad for pad in _pads(pattern.width) if _free(pattern, _padded(offsets, pitch, pad))), 0)
    swizzled = not pitch % _ROW_BYTES and _free(pattern, _swizzled(offsets, pitch, pattern.width))
    return Relayout(pitch, padded, swizzled) if padded else None


def _pitch(pattern: AccessPattern) -> int | None:
    """Return the bytes between the rows that lanes access, each from some column on; None where these differ."""
    active = sorted({offset for offset in pattern.lanes if offset >= 0})
    starts = [b for a, b in pairwise([-pattern.width - 1, *active]) if b - a != pattern.width]
    common = gcd(*(b - a for a, b in pairwise(starts)))
    return common if common > pattern.width else None


def _pads(width: int) -> list[int]:
    least = max(width, BANK_BYTES)
    return [least << power for power in range(5) if least << power <= LINE_BYTES // 2]


def _padded(offsets: NDArray[np.int64], pitch: int, pad: int) -> NDArray[np.int64]:
    return np.where(offsets < 0, offsets, offsets + offsets // pitch * pad)


def _swizzled(offsets: NDArray[np.int64], pitch: int, width: int) -> NDArray[np.int64]:
    """Move each element within its line of 128 bytes by an exclusive or of its column with its row."""
    rows, columns = offsets // pitch, offsets % pitch
    cells = _ROW_BYTES // width
    moved = columns // _ROW_BYTES * _ROW_BYTES + (columns % _ROW_BYTES // width ^ rows % cells) * width
    return np.where(offsets < 0, offsets, rows * pitch + moved + columns % width)


def _free(pattern: AccessPattern, offsets: NDArray[np.int64]) -> bool:
    now, ideal = _cost(pattern, offsets)
    return now <= ideal


def _cost(pattern: AccessPattern, offsets: NDArray[np.int64]) -> tuple[int, int]:
    active, addresses = (offsets >= 0)[None], np.maximum(offsets, 0)[None]
    loads = pattern.key.endswith(".load")
    return (
        int(shared_wavefronts(addresses, pattern.width, active, loads=loads)[0]),
        int(ideal_wavefronts(addresses, pattern.width, active, loads=loads)[0]),
    )
