"""Operands in the form that the emulator needs: names, addresses and literals, read by `lab.isa.ptx.operands`."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

from lab.base.errors import ReaderError
from lab.isa.ptx import operands as isa

CLOCKS = ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
"""Registers that change while a kernel runs; all of them read the steps taken so far, from a start on."""

MACHINE = ("%smid", "%nsmid", "%warpid", "%nwarpid", "%gridid", *CLOCKS)
"""Registers in which the hardware's choices show: PTX ISA promises neither their values nor that they stay the same."""


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
        """The number."""
        raw = self.bits.to_bytes(self.width // 8, "little")
        return float(struct.unpack("<f" if self.width == 32 else "<d", raw)[0])  # noqa: PLR2004  single or double


@lru_cache(maxsize=1 << 15)  # a batch and an engine ask again and again for the operands of one kernel
def _parse(text: str) -> isa.Operand | None:
    try:
        return isa.parse_operand(text)
    except ReaderError:
        return None


def address(text: str) -> PlainAddress | None:
    """Read an address; return None where the text is not a plain one."""
    found = _parse(text)
    if not isinstance(found, isa.Address) or found.indices:
        return None
    if found.base is None:
        return PlainAddress(None, found.offset)
    component = f".{found.base.component}" if found.base.component else ""
    return PlainAddress(found.base.name + component, found.offset)


def literal(text: str) -> int | FloatBits | None:
    """Read a literal; return None where the text is a name."""
    found = _parse(text)
    if not isinstance(found, isa.Immediate):
        return None
    return found.bits if found.kind == "int" else FloatBits(found.bits, int(found.kind[1:]))


def symbol(text: str) -> tuple[str, int, bool] | None:
    """Read ``name``, ``name+offset`` or ``generic(name)``.

    Returns:
        Name, offset in bytes, and whether the generic address is meant; None where the text is not a symbol.
    """
    found = _parse(text)
    if not isinstance(found, isa.Symbol) or found.component or found.mask is not None:
        return None
    return found.name, found.offset, found.generic


def register_and_offset(text: str) -> tuple[str, int] | None:
    """Read ``%r1+4``; return None where the text is no register, or nothing is added to it."""
    found = _parse(text)
    if not isinstance(found, isa.RegisterSum):
        return None
    component = f".{found.register.component}" if found.register.component else ""
    return found.register.name + component, found.offset


def elements(text: str) -> tuple[str, ...]:
    """Split ``{a, b}`` or ``(a, b)`` into its elements; any other text is one element."""
    inner = text.strip()
    if inner[:1] in ("{", "("):
        inner = inner[1:-1].strip()
        return tuple(part.strip() for part in inner.split(",")) if inner else ()
    return (inner,)
