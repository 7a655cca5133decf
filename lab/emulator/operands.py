"""Operands as the emulator needs them: names, addresses and literals (from `lab.isa.ptx.operands`)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

from lab.base.errors import ReaderError
from lab.isa.ptx import operands as isa

CLOCKS = ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
"""Clock registers. All of them read the number of steps so far, plus a start value."""

MACHINE = ("%smid", "%nsmid", "%warpid", "%nwarpid", "%gridid", *CLOCKS)
"""Registers that show the hardware's choices: PTX ISA guarantees neither their values nor constancy."""


@dataclass(frozen=True, slots=True)
class PlainAddress:
    """An address without indices, ``[base+offset]``.

    Attributes:
        base: A register or symbol; None for an absolute address.
        offset: Bytes.
    """

    base: str | None
    offset: int


@dataclass(frozen=True, slots=True)
class FloatBits:
    """A floating-point literal, ``0f3F800000``, ``0d…`` or a decimal number, by its exact bits.

    Attributes:
        bits: The bits as an integer.
        width: 32 or 64.
    """

    bits: int
    width: int

    @property
    def value(self) -> float:
        """The value."""
        raw = self.bits.to_bytes(self.width // 8, "little")
        return float(struct.unpack("<f" if self.width == 32 else "<d", raw)[0])  # noqa: PLR2004  single or double


@lru_cache(maxsize=1 << 15)  # a batch and an engine ask again and again for the operands of one kernel
def _parse(text: str) -> isa.Operand | None:
    try:
        return isa.parse_operand(text)
    except ReaderError:
        return None


def address(text: str) -> PlainAddress | None:
    """Parse an address; return None unless it is a plain one."""
    operand = _parse(text)
    if not isinstance(operand, isa.Address) or operand.indices:
        return None
    if operand.base is None:
        return PlainAddress(None, operand.offset)
    component = f".{operand.base.component}" if operand.base.component else ""
    return PlainAddress(operand.base.name + component, operand.offset)


def literal(text: str) -> int | FloatBits | None:
    """Parse a literal; return None for a name."""
    operand = _parse(text)
    if not isinstance(operand, isa.Immediate):
        return None
    return operand.bits if operand.kind == "int" else FloatBits(operand.bits, int(operand.kind[1:]))


def symbol(text: str) -> tuple[str, int, bool] | None:
    """Parse ``name``, ``name+offset`` or ``generic(name)``.

    Returns:
        Name, offset in bytes, and whether the address is generic; None where the text is not a symbol.
    """
    operand = _parse(text)
    if not isinstance(operand, isa.Symbol) or operand.component or operand.mask is not None:
        return None
    return operand.name, operand.offset, operand.generic


def register_and_offset(text: str) -> tuple[str, int] | None:
    """Parse ``%r1+4``; return None for a text that is not a register plus an offset."""
    operand = _parse(text)
    if not isinstance(operand, isa.RegisterSum):
        return None
    component = f".{operand.register.component}" if operand.register.component else ""
    return operand.register.name + component, operand.offset


def elements(text: str) -> tuple[str, ...]:
    """Split ``{a, b}`` or ``(a, b)`` into its elements; any other text is one element."""
    inner = text.strip()
    if inner[:1] in ("{", "("):
        inner = inner[1:-1].strip()
        return tuple(element.strip() for element in inner.split(",")) if inner else ()
    return (inner,)
