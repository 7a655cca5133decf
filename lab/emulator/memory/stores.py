"""A log of the blocks that store to a buffer, and of where they store."""

from __future__ import annotations

from typing import Final

import numpy as np

from lab.emulator.arrays import Addresses, Indices, distinct

_SHIFT: Final = 40
"""Bits of an element's index; a segment has fewer bytes."""


class StoreLog:
    """The stores to one buffer, atomic updates and bulk copies included.

    Attributes:
        updated: Atomics or reductions updated it.
    """

    def __init__(self) -> None:
        self.updated = False
        self._blocks: list[Indices] = []
        self._spans: list[tuple[Addresses, int]] = []

    def note(self, blocks: Indices, offsets: Addresses, width: int, *, update: bool = False) -> None:
        """Note a store, or an update, of `width` bytes at (count,) byte offsets, by threads of (count,) blocks."""
        self.updated |= update
        self._blocks.append(blocks)
        self._spans.append((offsets, width))

    def elements(self, itemsize: int) -> tuple[Indices, Indices]:
        """Return (rows,) block and element of each element stored to: each pair once, ordered by block, then element.

        Args:
            itemsize: Bytes of an element.
        """
        keys: list[Indices] = [np.zeros(0, np.int64)]
        for blocks, (offsets, width) in zip(self._blocks, self._spans, strict=True):
            count = (width - 1) // itemsize + 1
            elements = (offsets // itemsize)[:, None] + np.arange(count)
            keys.append(((blocks << _SHIFT)[:, None] + elements).reshape(-1))
        found = distinct(np.concatenate(keys))  # one sort of numbers is ten times as fast as one of pairs
        return found >> _SHIFT, found & (1 << _SHIFT) - 1
