"""How strong an access is: plain, volatile, or atomic with a scope, and whether it acquires or releases.

PTX ISA, Memory Consistency Model. Two strong accesses whose scopes include each other's thread do not race, even where
nothing orders them. An access orders others only where it acquires or releases, by itself or through a fence beside it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from lab.emulator.arrays import Mask

PLAIN_LEVEL, VOLATILE, CTA, CLUSTER, WIDE, BY_WARP, VOLATILE_DATA = range(7)
"""Levels of strength: plain, volatile, and strong within a block, a cluster, or the device and the system; a plain
access that all lanes of a warp make together; and a volatile read whose value is data (`lab.emulator.flags`)."""

SAME_WARP, SAME_BLOCK, SAME_CLUSTER, APART = range(4)
"""How close two threads are."""

_SCOPES = {"cta": CTA, "cluster": CLUSTER, "gpu": WIDE, "sys": WIDE}
_REACH = {CTA: SAME_BLOCK, CLUSTER: SAME_CLUSTER, WIDE: APART}


@dataclass(frozen=True, slots=True)
class Order:
    """How strong an access is.

    Attributes:
        level: `PLAIN_LEVEL`, `VOLATILE`, `CTA`, `CLUSTER`, `WIDE`, `BY_WARP` or `VOLATILE_DATA`.
        acquire: What a release before it wrote is ordered before what comes after it.
        release: What came before it is ordered before whoever acquires what it writes.
        locks: It acquires although it names no order, as the atomics that take a lock (`atomicCAS`, `atomicExch`).
        read_only: A load that takes its memory for read-only throughout the launch (`ld.global.nc`, `__ldg`).
    """

    level: int = PLAIN_LEVEL
    acquire: bool = False
    release: bool = False
    read_only: bool = False
    locks: bool = False

    @property
    def strong(self) -> bool:
        """Whether the access is more than plain."""
        return self.level not in (PLAIN_LEVEL, BY_WARP)


PLAIN = Order()
"""An ordinary access."""

WARPS = Order(BY_WARP)
"""An access of a whole warp, such as that of a matrix instruction: whichever lane goes on, it has been made."""

DATA = Order(VOLATILE_DATA)
"""A volatile read of data."""

RELAXED = Order(WIDE)
"""An atomic access of the widest scope that orders nothing."""


def order_of(words: Collection[str], *, update: bool = False, returns: bool = False) -> Order:
    """Read the order of an access from the words of its opcode.

    Args:
        words: Modifiers of the opcode: `relaxed`, `acquire`, `gpu`, `volatile`, ...
        update: The instruction is an atomic update, which is strong by itself.
        returns: The instruction is an update that returns the old value. Where no order is written, it then counts as
            an acquire: `atomicAdd`, `atomicInc` and `atomicCAS` are written so, and the programming guide's own
            examples (the last block to arrive reads what all blocks wrote) put a fence on the releasing side alone.
    """
    if "volatile" in words:
        return Order(VOLATILE)
    named = [word for word in ("relaxed", "acquire", "release", "acq_rel", "mmio") if word in words]
    if not (named or update):
        return Order(read_only=True) if "nc" in words else PLAIN
    level = next((_SCOPES[word] for word in _SCOPES if word in words), WIDE)
    lenient = returns and not named
    acquire = "acquire" in named or "acq_rel" in named or lenient
    locks = lenient and ("cas" in words or "exch" in words)
    return Order(level, acquire, "release" in named or "acq_rel" in named, locks=locks)


def _morally_strong() -> Mask:
    """Return the table that `TOGETHER` documents."""
    table = np.zeros((7, 7, 4, 2), np.bool_)
    for near in (SAME_WARP, SAME_BLOCK, SAME_CLUSTER, APART):
        table[VOLATILE, VOLATILE, near, 0] = True
        for one, reach in _REACH.items():
            for level in (VOLATILE, VOLATILE_DATA):
                table[one, level, near] = table[level, one, near] = reach >= near
            for two, other_reach in _REACH.items():
                table[one, two, near] = min(reach, other_reach) >= near
    return table


TOGETHER: Mask = _morally_strong()
"""(7, 7, 4, 2): whether accesses of two levels, by threads so close, may happen together without a race; the last index
says whether both write.

Volatile accesses count as relaxed ones of the whole system, as PTX has them, with two exceptions that catch what
volatile is wrongly used for: threads that exchange data through volatile memory without a barrier or fences, and two
threads that both write, so that an update of theirs can be lost."""
