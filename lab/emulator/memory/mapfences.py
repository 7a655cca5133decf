"""Fences of the tensor-map proxy, which caches maps from global memory.

PTX ISA, fence.proxy.tensormap. CUDA C++ Programming Guide, tensor memory accelerator: to read a map through a pointer
to global memory, each block needs an acquire before its first use.
"""

from __future__ import annotations

from enum import Enum


class MapState(Enum):
    """The fence state of a tensor map in global memory for a block."""

    FENCED = "fenced"
    NEVER_FENCED = "never fenced"
    CHANGED_SINCE = "changed since"


class MapFences:
    """The latest acquire of each tensor map in global memory, by block."""

    def __init__(self) -> None:
        """Start without fences."""
        self._acquired: dict[tuple[int, int], int] = {}

    def acquire(self, address: int, block: int, now: int) -> None:
        """Record an acquire.

        Args:
            address: Generic address of the map.
            block: The block's number in the launch.
            now: The time on the clock of store stamps.
        """
        self._acquired[address, block] = now

    def state(self, address: int, block: int, changed: int) -> MapState:
        """Return whether a block has acquired a map since its latest change (0 for never changed)."""
        acquired = self._acquired.get((address, block), 0)
        if changed >= acquired and changed:
            return MapState.CHANGED_SINCE
        return MapState.FENCED if acquired else MapState.NEVER_FENCED
