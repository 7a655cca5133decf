"""Shapes of matrix instructions, and the range of their integers."""

from __future__ import annotations

import re

import numpy as np

from lab.emulator.arrays import Doubles
from lab.emulator.opcodes import Opcode, UnknownForm

_SHAPE = re.compile(r"^m(\d+)n(\d+)k(\d+)$")
_LEAST, _MOST = -(2.0**31), 2.0**31 - 1

Shape = tuple[int, int, int]
"""Rows of A, columns of B, and the depth of the product."""


def take_shape(op: Opcode) -> Shape:
    """Take ``m16n8k16``.

    Raises:
        UnknownForm: the opcode has no shape.
    """
    for part in op.parts:
        found = _SHAPE.match(part)
        if found:
            op.parts.remove(part)
            return int(found[1]), int(found[2]), int(found[3])
    raise UnknownForm("no shape")


def narrowed(total: Doubles, *, saturate: bool) -> Doubles:
    """Return exact integers as s32 holds them: clamped, or without their upper bits."""
    if saturate:
        return np.clip(total, _LEAST, _MOST)
    return total.astype(np.int64).astype(np.int32).astype(np.float64)
