"""The store log of a buffer: which blocks store where."""

from __future__ import annotations

from typing import Final

import numpy as np

from lab.emulator.arrays import Addresses, Indices, distinct

_SHIFT: Final = 40
"""The number of bits of an element's index; a segment has fewer bytes."""


class StoreLog:
    """The stores to one buffer, including atomic updates and bulk copies.

    Attributes:
        updated: Atomics or reductions updated it.
    """

    def __init__(self) -> None:
        self.updated = False
        self._blocks: list[Indices] = []
        self._spans: list[tuple[Addresses, int]] = []

    def note(self, blocks: Indices, offsets: Addresses, width: int, *, update: bool = False) -> None:
        """Record a store or update of `width` bytes at (count,) byte offsets, by threads of (count,) blocks."""
        self.updated |= update
        self._blocks.append(blocks)
        self._spans.append((offsets, width))

    def elements(self, itemsize: int) -> tuple[Indices, Indices]:
        """Return the distinct (rows,) pairs of block and element stored to, in order.

        Args:
            itemsize: Bytes of an element.
        """
        keys: list[Indices] = [np.zeros(0, np.int64)]
        for blocks, (offsets, width) in zip(self._blocks, self._spans, strict=True):
            count = (width - 1) // itemsize + 1
            elements = (offsets // itemsize)[:, None] + np.arange(count)
            keys.append(((blocks << _SHIFT)[:, None] + elements).reshape(-1))
        unique_keys = distinct(np.concatenate(keys))  # sorting numbers is ten times faster than sorting pairs
        return unique_keys >> _SHIFT, unique_keys & (1 << _SHIFT) - 1
