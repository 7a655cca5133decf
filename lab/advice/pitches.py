"""Pitches and swizzles that remove bank conflicts, each checked by computing the wavefronts of the moved addresses."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final

import numpy as np

from lab.base.warp import BANK_BYTES, BANKS, LINE_BYTES
from lab.emulator.results import AccessPattern
from lab.hardware.memory import ideal_wavefronts, shared_wavefronts

_ROW_BYTES: Final = BANKS * BANK_BYTES
_MOST_PITCHES: Final = 8


@dataclass(frozen=True, slots=True)
class Relayout:
    """A layout without bank conflicts.

    Attributes:
        pitch: Bytes from row to row now.
        padded: The smallest larger pitch without conflicts; 0 where none was found.
        swizzled: An exclusive or of column and row removes them, too.
    """

    pitch: int
    padded: int
    swizzled: bool


def stride_of(pattern: AccessPattern) -> int | None:
    """Return the bytes from each active lane to the next; None where they differ."""
    lanes = [(lane, offset) for lane, offset in enumerate(pattern.lanes) if offset >= 0]
    steps = {(b - a) // (j - i) for (i, a), (j, b) in zip(lanes, lanes[1:], strict=False) if (b - a) % (j - i) == 0}
    exact = len(steps) == 1 and all(b - a == (j - i) * next(iter(steps)) for (i, a), (j, b) in zip(lanes, lanes[1:]))
    return steps.pop() if exact else None


def degree_of(pattern: AccessPattern) -> int:
    """Return the passes of the costliest request over those without conflicts, rounded: the n of an n-way conflict."""
    now, ideal = _cost(pattern, np.array(pattern.lanes, np.int64))
    return max(1, round(now / ideal)) if ideal else 1


def relayout(pattern: AccessPattern) -> Relayout | None:
    """Return a layout that removes the conflicts of a request; None where no pitch explains them."""
    offsets = np.array(pattern.lanes, np.int64)
    found: Relayout | None = None
    for pitch in _pitches(pattern):
        padded = next((pitch + pad for pad in _pads(pattern.width) if _free(pattern, _padded(offsets, pitch, pad))), 0)
        swizzled = not pitch % _ROW_BYTES and _free(pattern, _swizzled(offsets, pitch, pattern.width))
        if padded and (found is None or padded - pitch < found.padded - found.pitch):
            found = Relayout(pitch, padded, swizzled)
    return found


def _pitches(pattern: AccessPattern) -> list[int]:
    """Return the pitches that addresses may have: what large steps between lanes are multiples of."""
    active = sorted({offset for offset in pattern.lanes if offset >= 0})
    least = max(2 * pattern.width, 8)
    steps = [b - a for a, b in zip(active, active[1:], strict=False) if b - a >= least]
    if not steps:
        return []
    common = gcd(*steps)
    if common < least:
        common = max(steps)
    halves = [common >> power for power in range(_MOST_PITCHES) if not common % (1 << power)]
    return [pitch for pitch in halves if pitch >= (least if pitch == common else LINE_BYTES)]


def _pads(width: int) -> list[int]:
    least = max(width, BANK_BYTES)
    return [least << power for power in range(5) if least << power <= LINE_BYTES // 2]


def _padded(offsets: np.ndarray, pitch: int, pad: int) -> np.ndarray:
    return np.where(offsets < 0, offsets, offsets + offsets // pitch * pad)


def _swizzled(offsets: np.ndarray, pitch: int, width: int) -> np.ndarray:
    """Move each element within its line of 128 bytes by an exclusive or of its column with its row."""
    rows, columns = offsets // pitch, offsets % pitch
    cells = _ROW_BYTES // width
    moved = columns // _ROW_BYTES * _ROW_BYTES + (columns % _ROW_BYTES // width ^ rows % cells) * width
    return np.where(offsets < 0, offsets, rows * pitch + moved + columns % width)


def _free(pattern: AccessPattern, offsets: np.ndarray) -> bool:
    now, ideal = _cost(pattern, offsets)
    return now <= ideal


def _cost(pattern: AccessPattern, offsets: np.ndarray) -> tuple[int, int]:
    active, addresses = (offsets >= 0)[None], np.maximum(offsets, 0)[None]
    loads = pattern.key.endswith(".load")
    return (
        int(shared_wavefronts(addresses, pattern.width, active, loads=loads)[0]),
        int(ideal_wavefronts(addresses, pattern.width, active, loads=loads)[0]),
    )
