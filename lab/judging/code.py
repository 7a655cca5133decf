"""Facts that a candidate's PTX shows: the numbers it compares with, narrow arithmetic, calls of printf."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from lab.isa.model import Instruction, Module

_SINGLE = re.compile(r"0[fF]([0-9a-fA-F]{8})\Z")
_DOUBLE = re.compile(r"0[dD]([0-9a-fA-F]{16})\Z")
_INTEGER = re.compile(r"-?\d+\Z")
_INTEGERS: Final = frozenset({"s32", "u32", "b32", "s64", "u64", "b64"})
_COMPARING: Final = ("setp", "set", "testp", "min", "max")
_MOST_CONSTANTS: Final = 32

_BITS: Final = {
    "float64": 53, "complex128": 53, "float32": 24, "complex64": 24, "float16": 11, "bfloat16": 8,
    "float8_e4m3fn": 4, "float8_e5m2": 3,
}  # fmt: skip
"""Bits of the significand of an element type."""

_NARROW: Final = {
    "f32": 24, "tf32": 11, "f16": 11, "f16x2": 11, "bf16": 8, "bf16x2": 8, "e4m3": 4, "e4m3x2": 4, "e5m2": 3,
    "e5m2x2": 3, "e2m1": 2, "e2m1x2": 2,
}  # fmt: skip
"""The same of PTX types of arithmetic."""

_COMPUTING: Final = frozenset(
    {"add", "sub", "mul", "fma", "mad", "cvt", "mma", "wmma", "wgmma", "tcgen05", "ex2", "lg2", "rcp", "sqrt", "rsqrt",
     "sin", "cos", "tanh", "div"}
)  # fmt: skip


def _instructions(module: Module) -> Iterator[Instruction]:
    for function in module.functions:
        yield from function.instructions


def float_constants(module: Module) -> tuple[float, ...]:
    """Return the finite floats, other than 0, that a module compares numbers with, in order of their first use."""
    values: dict[float, None] = {}
    for instruction in _instructions(module):
        if instruction.opcode.partition(".")[0] not in _COMPARING:
            continue
        for operand in instruction.operands:
            value = _number(operand)
            if value is not None and math.isfinite(value) and value:
                values.setdefault(value)
    return tuple(values)[:_MOST_CONSTANTS]


def size_constants(module: Module) -> tuple[int, ...]:
    """Return the integers that a module compares with, in ascending order."""
    values = {
        int(operand)
        for instruction in _instructions(module)
        if instruction.opcode.startswith(("setp.", "min.", "max."))
        and instruction.opcode.rpartition(".")[2] in _INTEGERS
        for operand in instruction.operands
        if _INTEGER.match(operand)
    }
    return tuple(sorted(values))


def _number(operand: str) -> float | None:
    """Return the value of a float literal; None for other operands."""
    if match := _SINGLE.match(operand):
        return float(struct.unpack(">f", bytes.fromhex(match[1]))[0])
    if match := _DOUBLE.match(operand):
        return float(struct.unpack(">d", bytes.fromhex(match[1]))[0])
    return None


def narrow_arithmetic(module: Module, dtypes: Iterable[str]) -> tuple[str, str] | None:
    """Return a type with fewer bits than any of the floats in `dtypes` in which a module computes; None without one.

    Returns:
        The type by PTX's name, and the first instruction.
    """
    least = min((_BITS[dtype] for dtype in dtypes if dtype in _BITS), default=0)
    for instruction in _instructions(module):
        root, *modifiers = instruction.opcode.split(".")
        narrow = [name for name in modifiers if _NARROW.get(name, least) < least]
        if root in _COMPUTING and narrow:
            return narrow[0], instruction.opcode
    return None


def prints(module: Module) -> str | None:
    """Return the place of a call of printf: a source line or, without one, a PTX line; None without a call."""
    for instruction in _instructions(module):
        if instruction.opcode.startswith("call") and any("vprintf" in operand for operand in instruction.operands):
            return instruction.source.short if instruction.source else f"PTX line {instruction.line}"
    return None
