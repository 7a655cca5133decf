"""The lanes' addresses of a kernel's memory instructions: of each instruction the costliest request of the first ones.

Counts say that a request took 32 passes; addresses say why, and what another pitch or another order would change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from lab.base.warp import BANK_BYTES, SECTOR_BYTES, WARP_SIZE
from lab.emulator.arrays import Addresses, Indices
from lab.emulator.lanes import warp_of
from lab.emulator.results import AccessPattern
from lab.hardware.memory import Integers, Lanes, distinct_values, global_sectors, ideal_wavefronts, shared_wavefronts

MOST_NOTED: Final = 24
"""Executions of an instruction that are looked at; a tree of 1024 elements has ten levels."""

_SAMPLED: Final = ("shared.load", "shared.store", "shared.atomic", "global.load", "global.store", "const.load")


@dataclass(slots=True)
class _Sampled:
    """Samples of one instruction's accesses; attributes as those of `AccessPattern`."""

    width: int
    times: int = 0
    requests: int = 0
    cost: int = 0
    ideal: int = 0
    most: int = -1
    lanes: tuple[int, ...] = ()


class AccessSamples:
    """The requests that were looked at."""

    def __init__(self) -> None:
        self._sampled: dict[tuple[int, str], _Sampled] = {}

    def note(self, position: int, key: str, offsets: Addresses, width: int, threads: Indices) -> None:
        """Look at one execution of an instruction.

        Args:
            position: Index of the instruction.
            key: As of `ExecutedCounts.memory`, or `const.load`; other keys are left out.
            offsets: (count,) byte offsets in the buffer, or in the shared memory of the block.
            width: Bytes of each lane's access.
            threads: (count,) the threads of the batch, ascending.
        """
        if key not in _SAMPLED or not len(offsets):
            return
        one = self._sampled.setdefault((position, key), _Sampled(width))
        if one.times == MOST_NOTED:
            return
        one.times += 1
        addresses, active = _by_warp(offsets, threads)
        cost, ideal = costs(key, addresses, width, active)
        one.requests += len(cost)
        one.cost += int(cost.sum())
        one.ideal += int(ideal.sum())
        worst = int((cost - ideal).argmax())
        if cost[worst] - ideal[worst] > one.most:
            one.most = int(cost[worst] - ideal[worst])
            one.lanes = tuple(np.where(active[worst], addresses[worst], -1).tolist())

    def patterns(self, line_of: Callable[[int], int]) -> tuple[AccessPattern, ...]:
        """Return what was seen of each instruction, in the order of the listing.

        Args:
            line_of: Maps the index of an instruction to its PTX line.
        """
        return tuple(_patterns(self._sampled.items(), line_of))


def _patterns(
    sampled: Iterable[tuple[tuple[int, str], _Sampled]], line_of: Callable[[int], int]
) -> list[AccessPattern]:
    made = [
        AccessPattern(line_of(position), key, one.width, one.lanes, one.requests, one.cost, one.ideal)
        for (position, key), one in sampled
    ]
    return sorted(made, key=lambda pattern: (pattern.line, pattern.key))


def _by_warp(offsets: Addresses, threads: Indices) -> tuple[Integers, Lanes]:
    """Return addresses and active lanes of the warps that take part, (warps, 32)."""
    warps, rows = np.unique(warp_of(threads), return_inverse=True)
    addresses = np.zeros((len(warps), WARP_SIZE), np.int64)
    active = np.zeros((len(warps), WARP_SIZE), np.bool_)
    addresses[rows, threads % WARP_SIZE] = offsets
    active[rows, threads % WARP_SIZE] = True
    return addresses, active


def costs(key: str, addresses: Integers, width: int, active: Lanes) -> tuple[Integers, Integers]:
    """Return the cost of each warp's request and that of the best order of the same bytes, (warps,) each.

    Shared memory: wavefronts. Global memory: sectors. Constant memory: distinct words, each of which takes a pass.
    """
    if key.startswith("shared."):
        loads = key == "shared.load"
        return (
            shared_wavefronts(addresses, width, active, loads=loads),
            ideal_wavefronts(addresses, width, active, loads=loads),
        )
    if key == "const.load":
        words = distinct_values(addresses // BANK_BYTES, active)
        return words, np.minimum(words, 1)
    used = distinct_values(addresses // width, active) * width
    return global_sectors(addresses, width, active), -(-used // SECTOR_BYTES)
