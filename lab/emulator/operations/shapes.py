"""Shapes of matrix instructions, and the range of their integers."""

from __future__ import annotations

import re

import numpy as np

from lab.emulator.arrays import Doubles
from lab.emulator.opcodes import Opcode, UnknownForm

_SHAPE = re.compile(r"^m(\d+)n(\d+)k(\d+)$")
_LEAST, _MOST = -(2.0**31), 2.0**31 - 1

Shape = tuple[int, int, int]
"""The rows of A, columns of B, and the depth of the product."""


def take_shape(op: Opcode) -> Shape:
    """Consume a shape such as ``m16n8k16``.

    Raises:
        UnknownForm: the opcode has no shape.
    """
    for modifier in op.parts:
        match = _SHAPE.match(modifier)
        if match:
            op.parts.remove(modifier)
            return int(match[1]), int(match[2]), int(match[3])
    raise UnknownForm("no shape")


def narrowed(total: Doubles, *, saturate: bool) -> Doubles:
    """Convert exact integers to s32: clamped or wrapped."""
    if saturate:
        return np.clip(total, _LEAST, _MOST)
    return total.astype(np.int64).astype(np.int32).astype(np.float64)
