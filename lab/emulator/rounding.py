"""Comparison of values that differ only by rounding, such as sums in different orders.

Tile compilers make several threads reduce the same row and store the same element. Sums in a different order differ in
the last bits, so the threads store different values, and any of them is valid.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.emulator import operands
from lab.emulator.arrays import Bits, Mask
from lab.emulator.uses import FlowGraph

_FLOATS: Final = {"f16": 16, "bf16": 16, "f16x2": 16, "bf16x2": 16, "f32": 32, "f64": 64}
_CLOSE: Final = {16: 1, 32: 4, 64: 4}
"""The tolerance, in steps between floats of each width, of two results of the same sum."""


def stored_floats(program: FlowGraph, position: int) -> int:
    """Return the bit width of the floats (or packed elements) a store writes; 0 for other values.

    Every instruction that may have written the stored register must be a float operation.
    """
    number, instruction = program.code[position]
    family, *words = instruction.opcode.split(".")
    if family != "st":
        return 0
    widths = {
        32 if text.startswith("0f") else _of_register(program, number, text, set())
        for text in operands.elements(instruction.operands[-1])
    }
    width = widths.pop() if len(widths) == 1 else 0
    return width if not words[-1].endswith(("8", "16")) or width == 16 else 0  # noqa: PLR2004  bits


def _of_register(program: FlowGraph, number: int, name: str, visited: set[str]) -> int:
    """Return the bit width of the floats in a register; 0 where it may hold other values."""
    if name in visited:
        return -1
    visited.add(name)
    widths: set[int] = set()
    for at, (function, instruction) in enumerate(program.code):
        if function != number or name not in program.definedness.roles(at).writes:
            continue
        family, *words = instruction.opcode.split(".")
        if family in ("mov", "selp"):
            sources = instruction.operands[1:] if family == "mov" else instruction.operands[1:3]
            names = [element for text in sources for element in operands.elements(text)]
            widths |= {
                _of_register(program, number, register, visited) for register in names if register.startswith("%")
            }
        else:
            widths.add(next((_FLOATS[word] for word in words if _FLOATS.get(word)), 0) if family != "ld" else 0)
    widths.discard(-1)
    return widths.pop() if len(widths) == 1 else 0


def differ_by_rounding(first: Bits | NDArray[Any], second: Bits | NDArray[Any], width: int) -> Mask:
    """Return whether (count,) values hold floats of `width` bits that differ only in their last bits."""
    size = first.dtype.itemsize
    pieces = max(1, 8 * size // width)
    near = np.ones(len(first), np.bool_)
    for a, b in zip(*(_steps(values, width, pieces) for values in (first, second)), strict=True):
        near &= np.abs(a - b) <= _CLOSE[width]
    return near


def _steps(values: NDArray[Any], width: int, pieces: int) -> list[NDArray[np.int64]]:
    """Return each float's rank among all floats of its width, in ascending order."""
    bits = np.ascontiguousarray(values).view(f"u{width // 8}").reshape(-1, pieces)
    signed = bits.view(f"i{width // 8}").astype(np.int64)
    least = -(1 << (width - 1))
    return [np.where(signed[:, i] < 0, least - signed[:, i], signed[:, i]) for i in range(pieces)]
