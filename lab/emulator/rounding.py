"""Values that differ by rounding alone, as those of threads that compute one element in different orders.

Compilers of tiles let several threads reduce the same row and store the same element. Sums in another order differ in
the last bits, so that the threads store different values, and any of them will do.
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
"""Bits of a float to the steps between neighbouring floats by which two results of one sum may differ."""


def stored_floats(program: FlowGraph, position: int) -> int:
    """Return the bits of the floats that a store writes, of packed ones those of each; 0 for other values.

    Every instruction that can have left its value in a register must be one on floats.
    """
    number, instruction = program.code[position]
    family, *words = instruction.opcode.split(".")
    if family != "st":
        return 0
    found = {
        32 if text.startswith("0f") else _of_register(program, number, text, set())
        for text in operands.elements(instruction.operands[-1])
    }
    width = found.pop() if len(found) == 1 else 0
    return width if not words[-1].endswith(("8", "16")) or width == 16 else 0  # noqa: PLR2004  bits


def _of_register(program: FlowGraph, number: int, name: str, seen: set[str]) -> int:
    """Return the bits of the floats in a register; 0 where it may hold something else."""
    if name in seen:
        return -1
    seen.add(name)
    found: set[int] = set()
    for at, (function, instruction) in enumerate(program.code):
        if function != number or name not in program.definedness.roles(at).writes:
            continue
        family, *words = instruction.opcode.split(".")
        if family in ("mov", "selp"):
            sources = instruction.operands[1:] if family == "mov" else instruction.operands[1:3]
            names = [part for text in sources for part in operands.elements(text)]
            found |= {_of_register(program, number, one, seen) for one in names if one.startswith("%")}
        else:
            found.add(next((_FLOATS[word] for word in words if _FLOATS.get(word)), 0) if family != "ld" else 0)
    found.discard(-1)
    return found.pop() if len(found) == 1 else 0


def differ_by_rounding(one: Bits | NDArray[Any], other: Bits | NDArray[Any], width: int) -> Mask:
    """Return whether (count,) values hold floats of `width` bits that are equal but for their last bits."""
    size = one.dtype.itemsize
    pieces = max(1, 8 * size // width)
    near = np.ones(len(one), np.bool_)
    for a, b in zip(*(_steps(values, width, pieces) for values in (one, other)), strict=True):
        near &= np.abs(a - b) <= _CLOSE[width]
    return near


def _steps(values: NDArray[Any], width: int, pieces: int) -> list[NDArray[np.int64]]:
    """Return the number of each float among all floats of its width, in ascending order of their values."""
    bits = np.ascontiguousarray(values).view(f"u{width // 8}").reshape(-1, pieces)
    signed = bits.view(f"i{width // 8}").astype(np.int64)
    least = -(1 << (width - 1))
    return [np.where(signed[:, i] < 0, least - signed[:, i], signed[:, i]) for i in range(pieces)]
