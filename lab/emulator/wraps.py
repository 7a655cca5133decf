"""32-bit products that wrap around: indices too large for their type.

Wrap-around is legal, and hash functions rely on it. So the positions only help to explain another fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lab.emulator import operands
from lab.emulator.binding import OperandBinder
from lab.emulator.lanes import Lanes

_OPCODES: Final = ("mul.lo.s32", "mul.lo.u32", "mad.lo.s32", "mad.lo.u32", "shl.b32")
"""The checked opcodes. nvcc emits `.s32` for unsigned products too: products from 2^31 on count."""

_LARGEST_FACTOR: Final = 1 << 20
"""The largest constant factor to check: larger ones belong to hash functions and random generators."""


def wrap_check(binder: OperandBinder, position: int, places: set[int]) -> Callable[[Lanes], None] | None:
    """Return a check that records the position of a wrapping product; None for other instructions.

    Args:
        binder: Reads the instruction's operands.
        position: Index of the instruction.
        places: Receives the position.
    """
    opcode, texts = binder.instruction.opcode, binder.instruction.operands
    if opcode not in _OPCODES or any(_is_large(text) for text in texts[1:3]):
        return None
    first, second = (binder.source(text, "s32") for text in texts[1:3])
    shifts = opcode.startswith("shl")

    def check(lanes: Lanes) -> None:
        if position in places:
            return
        a, b = first(lanes).astype(np.int64), second(lanes).astype(np.int64)
        exact = a << np.clip(b, 0, 31) if shifts else a * b
        if ((exact < -(1 << 31)) | (exact >= 1 << 31)).any():
            places.add(position)

    return check


def _is_large(text: str) -> bool:
    value = operands.literal(text)
    return isinstance(value, int) and abs(value) >= _LARGEST_FACTOR
