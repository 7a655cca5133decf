"""Fences of the tensor-map proxy, which reads maps in global memory through a cache of its own.

PTX ISA, fence.proxy.tensormap. CUDA C++ Programming Guide, tensor memory accelerator: who reads a map through a pointer
to global memory needs an acquire in each block before the block's first use of it.
"""

from __future__ import annotations

from enum import Enum


class MapState(Enum):
    """What a block may do with a map in global memory."""

    FENCED = "fenced"
    NEVER_FENCED = "never fenced"
    CHANGED_SINCE = "changed since"


class MapFences:
    """When each block of a launch acquired each tensor map in global memory."""

    def __init__(self) -> None:
        """Begin with no fence."""
        self._acquired: dict[tuple[int, int], int] = {}

    def acquire(self, address: int, block: int, now: int) -> None:
        """Note an acquire.

        Args:
            address: Generic address of the map.
            block: The block in the launch.
            now: Time on the clock that stores are stamped with.
        """
        self._acquired[address, block] = now

    def state(self, address: int, block: int, changed: int) -> MapState:
        """Return whether a block has acquired a map that threads of the launch last changed at a time, 0 for never."""
        acquired = self._acquired.get((address, block), 0)
        if changed >= acquired and changed:
            return MapState.CHANGED_SINCE
        return MapState.FENCED if acquired else MapState.NEVER_FENCED
