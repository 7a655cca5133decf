"""Decodes the scheduling bits of SASS, by which ptxas controls the warp scheduler.

From Volta on, an instruction has 128 bits; bits 105 to 125 are scheduling control: the cycles to wait before
the next instruction of the warp, a barrier (of six) to hold until the result is written, one to hold until the operands
are read, the barriers that must be released before it issues, and the operands to keep in the operand cache. The
positions were found by Jia, Maggioni, Staiger and Scarpazza, Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking (2018), chapter 2, and still hold on sm_90.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from lab.base.passing import Passed

BYTES = 16
NO_BARRIER = 7
_SHIFT = 105 - 64
_WORDS = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Control(Passed):
    """The scheduling bits of one instruction.

    Attributes:
        stall: Cycles until the warp's next instruction may issue, 0 to 15.
        yields: The scheduler may prefer another warp.
        write_barrier: Barrier that is released when the result is written, or None.
        read_barrier: Barrier that is released when the operands are read, or None.
        waits: Barriers that must be released before this instruction issues.
        reuse: For each of four operand slots, whether its register is kept in the operand cache for the next
            instruction.
    """

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    waits: tuple[int, ...]
    reuse: tuple[bool, bool, bool, bool]


def read_control(code: bytes, address: int) -> Control:
    """Decode the scheduling bits of the instruction at a byte offset of a function's code.

    Raises:
        ValueError: There is no complete instruction at that offset.
    """
    if address < 0 or address % BYTES or address + BYTES > len(code):
        raise ValueError(f"no instruction at byte {address} of {len(code)}")
    bits = _WORDS.unpack_from(code, address)[1] >> _SHIFT
    waits, reuse = bits >> 11, bits >> 17
    return Control(
        stall=bits & 15,
        yields=not bits >> 4 & 1,  # if the bit is set, the scheduler stays with this warp
        write_barrier=_barrier(bits >> 5),
        read_barrier=_barrier(bits >> 8),
        waits=tuple(i for i in range(6) if waits >> i & 1),
        reuse=(bool(reuse & 1), bool(reuse & 2), bool(reuse & 4), bool(reuse & 8)),
    )


def _barrier(bits: int) -> int | None:
    number = bits & 7
    return None if number == NO_BARRIER else number
