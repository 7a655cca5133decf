"""Operands as written, taken apart once."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

_ADDRESS = re.compile(r"^\[\s*([^\s+\-\]]+)?\s*((?:\+\s*)?-?\s*(?:0[xX][0-9a-fA-F]+|\d+)U?)?\s*\]$")
_SYMBOL = re.compile(r"^([A-Za-z_$%][\w$%.]*)\s*(?:\+\s*(-?(?:0[xX][0-9a-fA-F]+|\d+)))?$")
_INTEGER = re.compile(r"^[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_BITS = re.compile(r"^0([fFdD])([0-9a-fA-F]{8}|[0-9a-fA-F]{16})$")
_DECIMAL = re.compile(r"^[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?$")


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``; base is a register or symbol, or None for an absolute address."""

    base: str | None
    offset: int


@dataclass(frozen=True, slots=True)
class FloatBits:
    """``0f3F800000`` or ``0d…``: exact bits."""

    bits: int
    width: int

    @property
    def value(self) -> float:
        """The number."""
        raw = self.bits.to_bytes(self.width // 8, "little")
        return float(struct.unpack("<f" if self.width == 32 else "<d", raw)[0])  # noqa: PLR2004


def integer(text: str) -> int:
    """Read an integer literal: decimal, hexadecimal, octal or binary, with an optional ``U``."""
    digits = text.rstrip("U").replace(" ", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if re.match(r"^0[0-7]+$", digits):
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def address(text: str) -> Address | None:
    """Read an address, or return None where the text is not one."""
    match = _ADDRESS.match(text)
    if not match:
        return None
    base, offset = match.groups()
    if base and _INTEGER.match(base):
        return Address(None, integer(base) + (integer(offset.lstrip("+ ")) if offset else 0))
    if base is None and offset:
        return Address(None, integer(offset.lstrip("+ ")))
    return Address(base, integer(offset.lstrip("+ ")) if offset else 0)


def literal(text: str) -> int | float | FloatBits | None:
    """Read a literal, or return None where the text is a name."""
    if _INTEGER.match(text):
        return integer(text)
    bits = _BITS.match(text)
    if bits:
        return FloatBits(int(bits[2], 16), 4 * len(bits[2]))
    if _DECIMAL.match(text):
        return float(text)
    return {"WARP_SZ": 32}.get(text)


def symbol(text: str) -> tuple[str, int] | None:
    """Read ``name`` or ``name+offset``."""
    match = _SYMBOL.match(text)
    return (match[1], int(match[2], 0) if match[2] else 0) if match else None


def elements(text: str) -> tuple[str, ...]:
    """Split ``{a, b}`` or ``(a, b)``; anything else is one element. A trailing ``|`` pair stays as it is."""
    inner = text.strip()
    if inner[:1] in "{(":
        inner = inner[1:-1].strip()
        return tuple(part.strip() for part in inner.split(",")) if inner else ()
    return (inner,)
