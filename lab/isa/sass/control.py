"""Scheduling bits of SASS: what ptxas tells the scheduler about each instruction.

From Volta on an instruction has 128 bits, of which bits 105 to 125 are for the scheduler: the cycles to wait before
the next instruction of the warp, a barrier (of six) to raise until the result is there, one to raise until the
operands are read, the barriers that must have fallen first, and which operands to keep in the operand cache. The
places were found by Jia, Maggioni, Staiger and Scarpazza, Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking (2018), chapter 2, and still hold on sm_90.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

BYTES = 16
NO_BARRIER = 7
_SHIFT = 105 - 64
_WORDS = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Control:
    """Scheduling bits of one instruction.

    Attributes:
        stall: Cycles until the warp's next instruction may issue, 0 to 15.
        yields: The scheduler may prefer another warp.
        write_barrier: Barrier that falls when the result is written, or None.
        read_barrier: Barrier that falls when the operands are read, or None.
        waits: Barriers that must have fallen before this instruction issues.
        reuse: For each of four operand slots: kept in the operand cache for the next instruction.
    """

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    waits: tuple[int, ...]
    reuse: tuple[bool, bool, bool, bool]


def read_control(code: bytes, address: int) -> Control:
    """Read the bits of the instruction at a byte offset of a function's code.

    Raises:
        ValueError: there is no whole instruction.
    """
    if address < 0 or address % BYTES or address + BYTES > len(code):
        raise ValueError(f"no instruction at byte {address} of {len(code)}")
    bits = _WORDS.unpack_from(code, address)[1] >> _SHIFT
    waits, reuse = bits >> 11, bits >> 17
    return Control(
        stall=bits & 15,
        yields=not bits >> 4 & 1,  # the bit says: stay with this warp
        write_barrier=_barrier(bits >> 5),
        read_barrier=_barrier(bits >> 8),
        waits=tuple(i for i in range(6) if waits >> i & 1),
        reuse=(bool(reuse & 1), bool(reuse & 2), bool(reuse & 4), bool(reuse & 8)),
    )


def _barrier(bits: int) -> int | None:
    number = bits & 7
    return None if number == NO_BARRIER else number
