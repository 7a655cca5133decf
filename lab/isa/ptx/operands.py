"""Parses PTX operands.

An operand is parsed without the function's declarations. A name that begins with ``%`` is a `Register` or a
`SpecialRegister`. Any other name is a `Symbol`, even if the function declares a register of that name
(``.reg .pred p``); code that has the declarations can tell them apart.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from lab.base.errors import Location, ReaderError
from lab.base.warp import WARP_SIZE
from lab.isa.ptx.constants import integer
from lab.isa.ptx.ptx_text import IDENTIFIER, OperandReader


@dataclass(frozen=True, slots=True)
class Register:
    """A register: ``%f1``, or one element of a vector register, ``%v.x``.

    Attributes:
        name: With its ``%``.
        component: ``x``, ``y``, ``z``, ``w`` (or ``r``, ``g``, ``b``, ``a``), or None.
    """

    name: str
    component: str | None = None


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """A predefined read-only register: ``%tid.x``, ``%laneid``.

    Attributes:
        name: With its ``%``, without the component.
        component: ``x``, ``y``, ``z``, or None.
    """

    name: str
    component: str | None = None


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant.

    Attributes:
        kind: ``int``, ``f32`` (written ``0f3F800000``) or ``f64`` (``0d...``, or decimal such as ``1.5``).
        bits: The integer's value, or the float's bit pattern.
    """

    kind: Literal["int", "f32", "f64"]
    bits: int

    @property
    def value(self) -> int | float:
        """The constant as a Python number. A signalling NaN may lose its payload here, but not in `bits`."""
        if self.kind == "int":
            return self.bits
        code, size = ("<f", 4) if self.kind == "f32" else ("<d", 8)
        value: float = struct.unpack(code, self.bits.to_bytes(size, "little"))[0]
        return value


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, label or function, or a register without ``%`` in its name.

    Attributes:
        name: The name.
        offset: Bytes added to its address.
        component: Element of a vector, such as ``x``, or None.
        generic: Written ``generic(name)``: the address in the generic space (initialisers).
        mask: Written ``0xff00(name)``: only these bits of the address, shifted down (initialisers), or None.
    """

    name: str
    offset: int = 0
    component: str | None = None
    generic: bool = False
    mask: int | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """The operand ``_``, which discards a result."""


@dataclass(frozen=True, slots=True)
class Negated:
    """A negated predicate: ``!%p1``."""

    operand: Register | Symbol


@dataclass(frozen=True, slots=True)
class Dual:
    """Two results of one instruction: ``%p1|%p2``."""

    first: Register | Symbol | Sink
    second: Register | Symbol | Sink


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand: ``[%rd1+16]``, ``[sym]``, ``[0x10]``, ``[%rd1, {%r1, %r2}]``.

    Attributes:
        base: The register or symbol that holds the address, or None for an absolute address.
        offset: Bytes added to it.
        indices: Operands after the first comma: coordinates of a tensor or texture, samplers.
    """

    base: Register | Symbol | None
    offset: int = 0
    indices: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisterSum:
    """A register plus a constant, as a value: ``%r1+4``.

    Attributes:
        register: The register.
        offset: The constant.
    """

    register: Register
    offset: int


@dataclass(frozen=True, slots=True)
class Element:
    """An array element: ``a[3]``."""

    base: Symbol
    index: Operand


@dataclass(frozen=True, slots=True)
class VectorOperand:
    """A vector of registers: ``{%f1, %f2, _, %f4}``."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class ParameterList:
    """Arguments or results of a call: ``(param0, param1)``."""

    elements: tuple[Operand, ...]


Operand = (
    Register
    | SpecialRegister
    | Immediate
    | Symbol
    | Sink
    | Negated
    | Dual
    | Address
    | RegisterSum
    | Element
    | VectorOperand
    | ParameterList
)

SPECIAL_REGISTERS: Final = frozenset(
    {
        "%tid",
        "%ntid",
        "%laneid",
        "%warpid",
        "%nwarpid",
        "%ctaid",
        "%nctaid",
        "%smid",
        "%nsmid",
        "%gridid",
        "%is_explicit_cluster",
        "%clusterid",
        "%nclusterid",
        "%cluster_ctaid",
        "%cluster_nctaid",
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%lanemask_eq",
        "%lanemask_le",
        "%lanemask_lt",
        "%lanemask_ge",
        "%lanemask_gt",
        "%clock",
        "%clock_hi",
        "%clock64",
        "%globaltimer",
        "%globaltimer_lo",
        "%globaltimer_hi",
        "%reserved_smem_offset_begin",
        "%reserved_smem_offset_end",
        "%reserved_smem_offset_cap",
        "%total_smem_size",
        "%aggr_smem_size",
        "%dynamic_smem_size",
        "%current_graph_exec",
    }
)
_NUMBERED_SPECIAL = re.compile(r"%(?:pm[0-7](?:_64)?|envreg\d{1,2}|reserved_smem_offset_\d)\Z", re.ASCII)

_NAME = re.compile(rf"({IDENTIFIER})(?:\.([xyzwrgba]))?\Z", re.ASCII)
_FLOAT_BITS = re.compile(r"(-?)0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))\Z", re.ASCII)
_DECIMAL = re.compile(r"-?(?:\d{1,400}\.\d{0,400}(?:[eE][+-]?\d{1,5})?|\d{1,400}[eE][+-]?\d{1,5})\Z", re.ASCII)
_WITH_OFFSET = re.compile(
    rf"(?P<base>{IDENTIFIER}(?>(?:\.[xyzwrgba])?)|generic\s*+\(\s*+{IDENTIFIER}\s*+\)|0[xX][0-9a-fA-F]++\s*+\(\s*+{IDENTIFIER}\s*+\))"
    r"\s*+(?>(?:(?P<sign>[+-])\s*+(?P<offset>.++))?)\Z",
    re.ASCII,
)
_CALLED = re.compile(rf"(generic|0[xX][0-9a-fA-F]{{1,16}})\s*+\(\s*+({IDENTIFIER})\s*+\)\Z", re.ASCII)
_ELEMENT = re.compile(rf"({IDENTIFIER})\s*+\[([^\[\]]++)\]\Z", re.ASCII)


@lru_cache(maxsize=1 << 17)
def parse_operand(text: str) -> Operand:
    """Parse one element of `Instruction.operands`.

    Raises:
        ReaderError: The text is not an operand. The error names the text, since only the caller knows the line.
    """
    text = text.strip()
    if parse := _BRACKETED.get(text[:1] + text[-1:]):
        return parse(text)
    if text == "_":
        return Sink()
    if text.startswith("!"):
        return Negated(_register(text[1:].strip()))
    first, bar, second = text.partition("|")
    if bar and (first.strip() == "_" or _NAME.match(first.strip())):
        return Dual(_destination(first), _destination(second))
    return _plain(text)


def _error(text: str) -> ReaderError:
    return ReaderError("this operand cannot be read", Location(text[:80]))


def _items(text: str) -> tuple[Operand, ...] | None:
    items = OperandReader().split(text[1:-1])
    return None if items is None else tuple(parse_operand(item) for item in items)


def _vector(text: str) -> VectorOperand:
    items = _items(text)
    if items is None:
        raise _error(text)
    return VectorOperand(items)


def _parameters(text: str) -> Operand:
    items = _items(text)
    return _plain(text) if items is None else ParameterList(items)


def _destination(text: str) -> Register | Symbol | Sink:
    return Sink() if text.strip() == "_" else _register(text.strip())


def _register(text: str) -> Register | Symbol:
    base = _name(text)
    if isinstance(base, Register | Symbol):
        return base
    raise _error(text)


def _address(text: str) -> Address:
    items = OperandReader().split(text[1:-1])
    if not items:
        raise _error(text)
    base, offset = _base_and_offset(items[0])
    return Address(base, offset, tuple(parse_operand(item) for item in items[1:]))


_BRACKETED: Final[dict[str, Callable[[str], Operand]]] = {"[]": _address, "{}": _vector, "()": _parameters}


def _base_and_offset(text: str) -> tuple[Register | Symbol | None, int]:
    match = _WITH_OFFSET.match(text)
    if match is None:
        return None, _integer(text)
    base = _register(match["base"])
    offset = _integer(match["offset"]) if match["offset"] else 0
    return base, -offset if match["sign"] == "-" else offset


def _plain(text: str) -> Operand:
    """Parse a name, a name with an offset or an index, or a constant."""
    if match := _ELEMENT.match(text):
        return Element(Symbol(match[1]), parse_operand(match[2]))
    if match := _WITH_OFFSET.match(text):
        base = _name(match["base"])
        if match["offset"] is None:
            return base
        if isinstance(base, Symbol):
            offset = _integer(match["offset"])
            return Symbol(
                base.name, -offset if match["sign"] == "-" else offset, base.component, base.generic, base.mask
            )
        if isinstance(base, Register):
            offset = _integer(match["offset"])
            return RegisterSum(base, -offset if match["sign"] == "-" else offset)
    return _number(text)


def _name(text: str) -> Register | SpecialRegister | Immediate | Symbol:
    if called := _CALLED.match(text):
        if called[1] == "generic":
            return Symbol(called[2], generic=True)
        return Symbol(called[2], mask=int(called[1], 16))
    if text == "WARP_SZ":
        return Immediate("int", WARP_SIZE)
    match = _NAME.match(text)
    if match is None:
        raise _error(text)
    name, component = match[1], match[2]
    if not name.startswith("%"):
        return Symbol(name, component=component)
    if name in SPECIAL_REGISTERS or _NUMBERED_SPECIAL.match(name):
        return SpecialRegister(name, component)
    return Register(name, component)


def _number(text: str) -> Immediate:
    if match := _FLOAT_BITS.match(text):
        kind: Literal["f32", "f64"] = "f32" if match[2] else "f64"
        sign = 1 << (31 if match[2] else 63) if match[1] else 0
        return Immediate(kind, int(match[2] or match[3], 16) ^ sign)
    if _DECIMAL.match(text):
        return Immediate("f64", int.from_bytes(struct.pack("<d", float(text)), "little"))
    return Immediate("int", _integer(text))


def _integer(text: str) -> int:
    try:
        return integer(text)
    except ValueError as error:
        raise _error(text) from error
