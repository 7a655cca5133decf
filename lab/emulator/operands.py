"""Operands as the machine needs them: names, addresses and literals, from `lab.isa.ptx.operands`."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from lab.base.errors import ReaderError
from lab.isa.ptx import operands as isa
from lab.isa.ptx.constants import integer

__all__ = ["FloatBits", "PlainAddress", "address", "elements", "integer", "literal", "symbol"]


@dataclass(frozen=True, slots=True)
class PlainAddress:
    """``[base+offset]``; base is a register or symbol, or None for an absolute address."""

    base: str | None
    offset: int


@dataclass(frozen=True, slots=True)
class FloatBits:
    """``0f3F800000``, ``0d…`` or a decimal number: exact bits."""

    bits: int
    width: int

    @property
    def value(self) -> float:
        """The number."""
        raw = self.bits.to_bytes(self.width // 8, "little")
        return float(struct.unpack("<f" if self.width == 32 else "<d", raw)[0])  # noqa: PLR2004  single or double


def _parse(text: str) -> isa.Operand | None:
    try:
        return isa.parse_operand(text)
    except ReaderError:
        return None


def address(text: str) -> PlainAddress | None:
    """Read an address, or return None where the text is not a plain one."""
    found = _parse(text)
    if not isinstance(found, isa.Address) or found.indices:
        return None
    if found.base is None:
        return PlainAddress(None, found.offset)
    component = f".{found.base.component}" if found.base.component else ""
    return PlainAddress(found.base.name + component, found.offset)


def literal(text: str) -> int | FloatBits | None:
    """Read a literal, or return None where the text is a name."""
    found = _parse(text)
    if not isinstance(found, isa.Immediate):
        return None
    return found.bits if found.kind == "int" else FloatBits(found.bits, int(found.kind[1:]))


def symbol(text: str) -> tuple[str, int, bool] | None:
    """Read ``name``, ``name+offset`` or ``generic(name)``: name, offset, and whether the generic address is meant."""
    found = _parse(text)
    if not isinstance(found, isa.Symbol) or found.component or found.mask is not None:
        return None
    return found.name, found.offset, found.generic


def elements(text: str) -> tuple[str, ...]:
    """Split ``{a, b}`` or ``(a, b)``; anything else is one element."""
    inner = text.strip()
    if inner[:1] in ("{", "("):
        inner = inner[1:-1].strip()
        return tuple(part.strip() for part in inner.split(",")) if inner else ()
    return (inner,)
