"""Video instructions: arithmetic on one, two or four selected bytes or halves of words.

Semantics as in the PTX ISA, "Scalar Video Instructions" and "SIMD Video Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lab.emulator.arrays import Addresses, Words
from lab.emulator.lanes import Lanes
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.system import Run, Site, system

Wide = Addresses
"""Integers wide enough for all operations here: (count,) int64."""

_ARITHMETIC: dict[str, Callable[[Wide, Wide], Wide]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "absdiff": lambda a, b: np.abs(a - b),
    "min": np.minimum,
    "max": np.maximum,
    "avrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
}
_COMPARE: dict[str, Callable[[Wide, Wide], Wide]] = {
    "eq": lambda a, b: (a == b).astype(np.int64),
    "ne": lambda a, b: (a != b).astype(np.int64),
    "lt": lambda a, b: (a < b).astype(np.int64),
    "le": lambda a, b: (a <= b).astype(np.int64),
    "gt": lambda a, b: (a > b).astype(np.int64),
    "ge": lambda a, b: (a >= b).astype(np.int64),
}
_TYPES = ("u32", "s32")
_SELECTED = re.compile(r"(-?\s*)(.*?)(?:\.([bh])([0-7]{1,4}))?\Z", re.ASCII)
_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class Selected:
    """An operand with an element selector: ``%r1.h1``, ``-%r2.b3``, ``%r3.b7531``.

    Attributes:
        text: The register or the constant.
        bits: Bits of an element: 8, 16, or 32 without a selector.
        places: The selected elements, lowest first; the second operand's elements follow the first's.
        negated: The operand has a minus.
    """

    text: str
    bits: int
    places: tuple[int, ...]
    negated: bool = False


def selected(text: str) -> Selected:
    """Parse an operand with its selector."""
    match = _SELECTED.match(text)
    if match is None or (match[3] is None and match[1] and not match[2].startswith("%")):
        return Selected(text, _WORD_BITS, (0,))
    negated = bool(match[1])
    if match[3] is None:
        return Selected(match[2], _WORD_BITS, (0,), negated)
    bits = 8 if match[3] == "b" else 16
    return Selected(match[2], bits, tuple(int(digit) for digit in reversed(match[4])), negated)


def part(word: Words, bits: int, place: int, *, signed: bool) -> Wide:
    """Return an element of words, sign- or zero-extended."""
    lowest = word.astype(np.int64) >> (bits * place)
    value = lowest & ((1 << bits) - 1)
    return np.where(value >> (bits - 1) & 1, value - (1 << bits), value) if signed else value


def clamped(value: Wide, bits: int, *, signed: bool) -> Wide:
    """Clamp to an integer type's range."""
    least, highest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return np.clip(value, least, highest)


def _bits(value: Wide) -> Words:
    return (value & 0xFFFFFFFF).astype(np.uint32)


def _secondary(name: str, value: Wide, c: Words, *, signed: bool) -> Wide:
    """Apply the secondary operation to a result and c, both 32 bits wide."""
    a, b = part(_bits(value), 32, 0, signed=signed), part(c, 32, 0, signed=signed)
    return _ARITHMETIC[name](a, b)


def _merged(to: Selected, value: Wide, c: Words) -> Words:
    """Insert a result into one part of c."""
    shift = to.bits * to.places[0]
    mask = np.uint32(((1 << to.bits) - 1) << shift)
    return (_bits(value << shift) & mask) | (c & ~mask)


def _operands(site: Site, fewest: int) -> tuple[Selected, list[Selected]]:
    texts = [selected(text) for text in site.texts]
    if len(texts) not in (fewest, fewest + 1):
        raise UnknownForm(f"{len(texts)} operands")
    if any(
        operand.bits != _WORD_BITS and (len(operand.places) > 1 or operand.places[0] * operand.bits >= _WORD_BITS)
        for operand in texts
    ):
        raise UnknownForm("a part beyond the word")
    return texts[0], texts[1:]


@system("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset")
def scalar(site: Site, op: Opcode) -> Run:
    """Build an operation on one part of each operand, with a secondary operation or a merge."""
    name = op.family[1:]
    compare = op.one_of(tuple(_COMPARE)) if name == "set" else ""
    sat = op.flag("sat")
    mode = op.one_of(("clamp", "wrap")) if name in ("shl", "shr") else ""
    second = op.one_of(("add", "min", "max"), "")
    to = "u32" if name == "set" else op.one_of(_TYPES)
    of, by = op.one_of(_TYPES), op.one_of(_TYPES)
    op.finish()
    target, (a, b, *third) = _operands(site, 3)
    if (bool(second) or target.bits != _WORD_BITS) != bool(third):
        raise UnknownForm("a third source requires a second operation or a partial destination")
    reads = [site.operands.source(operand.text, "u32") for operand in (a, b, *third)]
    write = site.operands.target(target.text, "u32")

    def apply(x: Wide, y: Wide) -> Wide:
        if name == "set":
            return _COMPARE[compare](x, y)
        if mode:
            amount = y & 31 if mode == "wrap" else np.minimum(y, 32)
            return x << amount if name == "shl" else x >> amount
        return _ARITHMETIC[name](x, y)

    def run(lanes: Lanes) -> None:
        words = [lanes.fill(read(lanes)) for read in reads]
        x = part(words[0], a.bits, a.places[0], signed=of == "s32")
        value = apply(x, part(words[1], b.bits, b.places[0], signed=by == "s32"))
        if sat:
            value = clamped(value, target.bits, signed=to == "s32")
        if second:
            value = _secondary(second, value, words[2], signed=to == "s32")
        write(lanes, _merged(target, value, words[2]) if target.bits != _WORD_BITS else _bits(value))

    return run


@system("vmad")
def multiply_add(site: Site, op: Opcode) -> Run:
    """Build vmad: a product plus c, with signs, plus one (.po), shift and saturation."""
    sat, one_more = op.flag("sat"), op.flag("po")
    scale = int(op.one_of(("shr7", "shr15"), "shr0")[3:])
    op.one_of(_TYPES)
    of, by = op.one_of(_TYPES), op.one_of(_TYPES)
    op.finish()
    target, (a, b, *third) = _operands(site, 4)
    if target.bits != _WORD_BITS or len(third) != 1 or third[0].bits != _WORD_BITS:
        raise UnknownForm("operands")
    c = third[0]
    if one_more and (a.negated or b.negated or c.negated):
        raise UnknownForm(".po with a minus")
    signed = "s32" in (of, by) or a.negated != b.negated or c.negated
    reads = [site.operands.source(operand.text, "u32") for operand in (a, b, c)]
    write = site.operands.target(target.text, "u32")

    def run(lanes: Lanes) -> None:
        x, y, z = (lanes.fill(read(lanes)) for read in reads)
        left = part(x, a.bits, a.places[0], signed=of == "s32")
        right = part(y, b.bits, b.places[0], signed=by == "s32")
        product = left.astype(object) * right.astype(object)  # 64 bits without a sign, and more
        added = part(z, 32, 0, signed=signed).astype(object)
        if a.negated != b.negated:
            product = -product
        if c.negated:
            added = -added
        total = (product + added + int(one_more)) >> scale
        if sat:
            least, highest = (-(2**31), 2**31 - 1) if signed else (0, 2**32 - 1)
            total = np.clip(total, least, highest)
        write(lanes, (total & 0xFFFFFFFF).astype(np.uint32))

    return run


def _pieces(operand: Selected, default: Sequence[int], bits: int) -> tuple[int, ...]:
    """Return the elements selected by a packed operand, out of both sources together."""
    if operand.bits == _WORD_BITS:
        return tuple(default)
    if operand.bits != bits or len(operand.places) != len(default) or max(operand.places) >= 2 * len(default):
        raise UnknownForm("a choice of elements")
    return operand.places


def _mask(operand: Selected, bits: int, count: int) -> tuple[int, ...]:
    """Return the elements written by a packed operation."""
    if operand.bits == _WORD_BITS:
        return tuple(range(count))
    if operand.bits != bits or max(operand.places) >= count or sorted(set(operand.places)) != list(operand.places):
        raise UnknownForm("a mask")
    return operand.places


@system(*(f"v{name}{count}" for name in (*_ARITHMETIC, "set") for count in (2, 4)))
def packed(site: Site, op: Opcode) -> Run:
    """Build an operation on two halves or four bytes, merged into c or accumulated."""
    name, count = op.family[1:-1], int(op.family[-1])
    bits = _WORD_BITS // count
    compare = op.one_of(tuple(_COMPARE)) if name == "set" else ""
    sat, accumulates = op.flag("sat"), op.flag("add")
    to = "u32" if name == "set" else op.one_of(_TYPES)
    of, by = op.one_of(_TYPES), op.one_of(_TYPES)
    op.finish()
    if sat and accumulates:
        raise UnknownForm(".sat with .add")
    texts = [selected(text) for text in site.texts]
    if len(texts) != 4:  # noqa: PLR2004  destination and three sources
        raise UnknownForm(f"{len(texts)} operands")
    mask = _mask(texts[0], bits, count)
    chosen_a = _pieces(texts[1], range(count), bits)
    chosen_b = _pieces(texts[2], range(count, 2 * count), bits)
    reads = [site.operands.source(operand.text, "u32") for operand in texts[1:]]
    write = site.operands.target(texts[0].text, "u32")
    apply = _COMPARE[compare] if compare else _ARITHMETIC[name]

    def run(lanes: Lanes) -> None:
        words = [lanes.fill(read(lanes)) for read in reads]

        def element(place: int, t: str) -> Wide:
            return part(words[place // count], bits, place % count, signed=t == "s32")

        total = words[2].astype(np.int64)
        result = words[2].copy()
        for i in mask:
            value = apply(element(chosen_a[i], of), element(chosen_b[i], by))
            if sat:
                value = clamped(value, bits, signed=to == "s32")
            total = total + value
            result = _merged(Selected("", bits, (i,)), value, result)
        write(lanes, _bits(total) if accumulates else result)

    return run
