"""Memory orders of accesses: plain, volatile or atomic with a scope; acquire and release.

PTX ISA, Memory Consistency Model. Two strong accesses whose scopes include each other's thread do not race, even where
they are unordered. An access orders others only if it acquires or releases, by itself or through an adjacent fence.
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
"""The proximity of two threads."""

_SCOPES = {"cta": CTA, "cluster": CLUSTER, "gpu": WIDE, "sys": WIDE}
_REACH = {CTA: SAME_BLOCK, CLUSTER: SAME_CLUSTER, WIDE: APART}


@dataclass(frozen=True, slots=True)
class Order:
    """The memory order of an access.

    Attributes:
        level: `PLAIN_LEVEL`, `VOLATILE`, `CTA`, `CLUSTER`, `WIDE`, `BY_WARP` or `VOLATILE_DATA`.
        acquire: Accesses before the matching release are ordered before later accesses.
        release: Earlier accesses are ordered before those after a matching acquire.
        locks: It counts as an acquire without naming an order, like lock atomics (`atomicCAS`, `atomicExch`).
        read_only: A load that assumes read-only memory throughout the launch (`ld.global.nc`, `__ldg`).
    """

    level: int = PLAIN_LEVEL
    acquire: bool = False
    release: bool = False
    read_only: bool = False
    locks: bool = False

    @property
    def strong(self) -> bool:
        """Return whether the access is stronger than plain."""
        return self.level not in (PLAIN_LEVEL, BY_WARP)


PLAIN = Order()
"""An ordinary access."""

WARPS = Order(BY_WARP)
"""An access of a whole warp, such as a matrix instruction's: it is complete for every lane."""

DATA = Order(VOLATILE_DATA)
"""A volatile read of data."""

RELAXED = Order(WIDE)
"""A relaxed atomic access of the widest scope."""


def order_of(words: Collection[str], *, update: bool = False, returns: bool = False) -> Order:
    """Return the memory order for an opcode's modifiers.

    Args:
        words: Modifiers of the opcode: `relaxed`, `acquire`, `gpu`, `volatile`, ...
        update: The instruction is an atomic update, which is always strong.
        returns: The instruction is an update that returns the old value. Without an explicit order, it counts as an
            acquire: `atomicAdd`, `atomicInc` and `atomicCAS` compile to this form, and the programming guide's own
            examples (the last block reads the results of all blocks) only fence the releasing side.
    """
    if "volatile" in words:
        return Order(VOLATILE)
    orders = [word for word in ("relaxed", "acquire", "release", "acq_rel", "mmio") if word in words]
    if not (orders or update):
        return Order(read_only=True) if "nc" in words else PLAIN
    level = next((_SCOPES[word] for word in _SCOPES if word in words), WIDE)
    lenient = returns and not orders
    acquire = "acquire" in orders or "acq_rel" in orders or lenient
    locks = lenient and ("cas" in words or "exch" in words)
    return Order(level, acquire, "release" in orders or "acq_rel" in orders, locks=locks)


def _morally_strong() -> Mask:
    """Return the table `TOGETHER`."""
    table = np.zeros((7, 7, 4, 2), np.bool_)
    for near in (SAME_WARP, SAME_BLOCK, SAME_CLUSTER, APART):
        table[VOLATILE, VOLATILE, near, 0] = True
        for scope, reach in _REACH.items():
            for level in (VOLATILE, VOLATILE_DATA):
                table[scope, level, near] = table[level, scope, near] = reach >= near
            for other_scope, other_reach in _REACH.items():
                table[scope, other_scope, near] = min(reach, other_reach) >= near
    return table


TOGETHER: Mask = _morally_strong()
"""(7, 7, 4, 2): whether accesses of two levels, at a proximity, may be concurrent; last index: both write.

Volatile accesses count as relaxed ones of the whole system, as PTX has them, with two exceptions that catch what
volatile is wrongly used for: threads that exchange data through volatile memory without a barrier or fences, and two
threads that both write, so that an update of theirs can be lost."""
