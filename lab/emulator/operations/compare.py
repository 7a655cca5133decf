"""Comparisons and selections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lab.emulator import floats
from lab.emulator.arrays import Mask, Numbers, Words
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm, chosen_by_sign
from lab.emulator.operations.base import Alu, assign, from_ufunc, operation

Comparison = Callable[[Numbers, Numbers], Mask]
"""A comparison of two operands, (count,) or (1,) each."""

_COMPARE: dict[str, Callable[..., Mask]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_UNORDERED = {"equ": "ne", "neu": "eq", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}  # the complement
_TESTS = (*_COMPARE, *_UNSIGNED, *_UNORDERED, "num", "nan")
_BOOLEAN = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def comparison(test: str, t: str) -> Comparison:
    """Return the comparison for PTX type t: ordered tests are false for NaN, unordered ones true.

    Raises:
        UnknownForm: the type has no such test.
    """
    if t in ("f16", "bf16", "f32", "f64"):
        return _float_comparison(test)
    if test in _UNORDERED or test in ("num", "nan"):
        raise UnknownForm(f".{test} on integers")
    return _COMPARE[_UNSIGNED.get(test, test)]


def _float_comparison(test: str) -> Comparison:
    if test in _UNSIGNED:
        raise UnknownForm(f".{test} on floats")
    special: dict[str, Comparison] = {
        "ne": lambda a, b: (a < b) | (a > b),
        "equ": lambda a, b: ~((a < b) | (a > b)),
        "neu": np.not_equal,
        "nan": lambda a, b: np.isnan(a) | np.isnan(b),
        "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    }
    predicate = special.get(test) or _COMPARE.get(test)
    if predicate is not None:
        return predicate
    opposite = _COMPARE[_UNORDERED[test]]
    return lambda a, b: ~opposite(a, b)


def _prepared(t: str, ftz: bool, compare: Comparison) -> Callable[[Any, Any], Mask]:
    """Return a comparison with bf16 operands widened and, for `.ftz`, subnormals flushed."""
    if t == "bf16":
        return lambda a, b: compare(floats.bf16_to_32(a), floats.bf16_to_32(b))
    if ftz:
        if t == "f16":
            return lambda a, b: compare(floats.flush16(a), floats.flush16(b))
        if t != "f32":
            raise UnknownForm(f".ftz on .{t}")
        return lambda a, b: compare(floats.flush32(a), floats.flush32(b))
    return compare


@operation("setp")
def setp(op: Opcode, n: int) -> Alu:
    """Build setp with one or two destinations (`p|q`) and an optional predicate to combine with."""
    test = op.one_of(_TESTS)
    boolean = op.one_of(tuple(_BOOLEAN), "")
    ftz = op.flag("ftz")
    t = op.type()
    op.finish()
    if t in _PAIRS:
        return _setp_pair(test, boolean, t, n, ftz=ftz)
    if t == "pred":
        raise UnknownForm(f".{t}")
    compare = _prepared(t, ftz, comparison(test, t))
    two = n == 4 + bool(boolean)  # the decoder counts p|q as two operands
    if not two and not boolean:
        if compare in _COMPARE.values():
            return Alu(from_ufunc(compare), ("pred",), (t, t), tolerant=t[0] == "f")
        return Alu(assign(compare), ("pred",), (t, t), tolerant=t[0] == "f")

    def compute(*arrays: Numbers) -> None:
        outs, ins = arrays[: 1 + two], arrays[1 + two :]
        hit = compare(ins[0], ins[1])
        results = (hit, ~hit)
        for out, result in zip(outs, results, strict=False):
            out[...] = _BOOLEAN[boolean](result, ins[2]) if boolean else result

    return Alu(compute, ("pred",) * (1 + two), (t, t) + (("pred",) if boolean else ()), tolerant=t[0] == "f")


_PAIRS = ("f16x2", "bf16x2")
_ONE = {"f16": 0x3C00, "bf16": 0x3F80}


def _each_half(test: str, t: str, *, ftz: bool) -> Callable[[Words, Words], tuple[Mask, Mask]]:
    """Return a comparison of the lower and the upper halves of two pairs."""
    half = t.removesuffix("x2")
    compare = _prepared(half, ftz, comparison(test, half))

    def compare_halves(a: Words, b: Words) -> tuple[Mask, Mask]:
        low, high = (
            compare(*((x >> np.uint32(shift)).astype(np.uint16).view(DTYPES[half]) for x in (a, b)))
            for shift in (0, 16)
        )
        return low, high

    return compare_halves


def _setp_pair(test: str, boolean: str, t: str, n: int, *, ftz: bool) -> Alu:
    """Build setp of pairs: p for the lower halves and q for the upper ones."""
    compare = _each_half(test, t, ftz=ftz)
    if n != 4 + bool(boolean):
        raise UnknownForm("one destination")

    def compute(p: Mask, q: Mask, a: Words, b: Words, c: Mask | None = None) -> None:
        for out, hit in zip((p, q), compare(a, b), strict=True):
            out[...] = hit if c is None else _BOOLEAN[boolean](hit, c)

    return Alu(compute, ("pred", "pred"), ("b32", "b32") + (("pred",) if boolean else ()))


def _set_pair(test: str, boolean: str, result: str, t: str, *, ftz: bool) -> Alu:
    """Build set on pairs: all ones, or 1.0, in the halves where the comparison holds."""
    if result not in ("u32", "s32", t):
        raise UnknownForm(f".{result}.{t}")
    compare = _each_half(test, t, ftz=ftz)
    true = np.uint32(_ONE[t.removesuffix("x2")] if result == t else 0xFFFF)

    def compute(a: Words, b: Words, c: Mask | None = None) -> Words:
        low, high = (hit if c is None else _BOOLEAN[boolean](hit, c) for hit in compare(a, b))
        return low * true | high * (true << np.uint32(16))

    return Alu(assign(compute), ("b32",), ("b32", "b32") + (("pred",) if boolean else ()))


@operation("set")
def set_(op: Opcode, _n: int) -> Alu:
    """Build set: all ones, or 1.0, where the comparison holds."""
    test = op.one_of(_TESTS)
    boolean = op.one_of(tuple(_BOOLEAN), "")
    ftz = op.flag("ftz")
    if len(op.parts) != 2:  # noqa: PLR2004  the types of result and operands
        raise UnknownForm("two types are needed")
    result, t = op.parts
    if t in _PAIRS:
        return _set_pair(test, boolean, result, t, ftz=ftz)
    halves = ("u16", "s16", t) if t in ("f16", "bf16") else ()
    if result not in ("u32", "s32", "f32", *halves) or t == "pred" or t not in DTYPES:
        raise UnknownForm(f".{result}.{t}")
    compare = _prepared(t, ftz, comparison(test, t))
    unit: dict[str, Any] = {"f32": np.float32(1), "f16": np.float16(1), "bf16": np.uint16(_ONE["bf16"])}
    true = unit[result] if result in unit else np.array(-1).astype(DTYPES[result])

    def compute(a: Numbers, b: Numbers, c: Numbers | None = None) -> Numbers:
        hit = compare(a, b)
        if c is not None:
            hit = _BOOLEAN[boolean](hit, c)
        values: Numbers = np.where(hit, true, DTYPES[result].type(0))
        return values

    return Alu(assign(compute), (result,), (t, t) + (("pred",) if boolean else ()), tolerant=t[0] == "f")


@operation("selp")
def selp(op: Opcode, _n: int) -> Alu:
    """Build the selection of a or b by a predicate."""
    t = op.type()
    op.finish()
    return Alu(assign(lambda a, b, c: np.where(c, a, b)), (t,), (t, t, "pred"))


@operation("slct")
def slct(op: Opcode, _n: int) -> Alu:
    """Build the selection of a if c >= 0, else b."""
    t, control, ftz = chosen_by_sign(op)

    def compute(a: Numbers, b: Numbers, c: Any) -> Numbers:  # noqa: ANN401  int32 or float32, by the control's type
        return np.where((floats.flush32(c) if ftz else c) >= 0, a, b)

    return Alu(assign(compute), (t,), (t, t, control))
