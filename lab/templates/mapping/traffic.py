"""Predicted memory traffic of a mapping: sectors of its requests, bank conflicts of its shared-memory accesses.

A warp is 32 threads with consecutive numbers; in one request each of them accesses one local index, or a vector of
them. Sectors and wavefronts are counted by the emulator's own rules, on the addresses that the mapping yields.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.base.warp import WARP_SIZE
from lab.hardware.memory import global_sectors, ideal_wavefronts, shared_wavefronts

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_FAR = 1 << 28
"""Bytes between rows of a matrix if only their separation matters: more than any tile has."""


def requests(elements: Integers, vector: int) -> Integers:
    """Return the first element of each lane in each request, requests x 32; −1 for an idle lane.

    Requests without any access are left out.

    Args:
        elements: Element of each thread and local index, threads x items; −1 for no access.
        vector: Local indices that one request covers.
    """
    threads, items = elements.shape
    padded = np.full((-(-threads // WARP_SIZE) * WARP_SIZE, items // vector), -1, np.int64)
    padded[:threads] = elements[:, : items // vector * vector : vector]
    by_warp = padded.reshape(-1, WARP_SIZE, padded.shape[1]).transpose(0, 2, 1).reshape(-1, WARP_SIZE)
    return by_warp[(by_warp >= 0).any(axis=1)]


def placed(elements: Integers, vector: int, row: int, *, transposed: bool) -> tuple[Integers, Integers, Flags]:
    """Return row, place in the row and activity of the requests' elements in a tile."""
    first = requests(elements, vector)
    far, near = (first % row, first // row) if transposed else (first // row, first % row)
    return far, near, first >= 0


def sectors(far: Integers, near: Integers, width: int, active: Flags) -> float:
    """Return the mean sectors per request whose lanes access `width` bytes at byte `near` of row `far`."""
    return float(np.mean(global_sectors(far * _FAR + near, width, active)))


def conflicts(addresses: Integers, width: int, active: Flags, *, loads: bool) -> float:
    """Return the mean extra wavefronts per request to these byte addresses in shared memory."""
    passes = shared_wavefronts(addresses, width, active, loads=loads)
    return float(np.mean(passes - ideal_wavefronts(addresses, width, active, loads=loads)))
