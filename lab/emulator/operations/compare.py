"""Comparisons and selections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lab.emulator import floats
from lab.emulator.arrays import Mask, Numbers
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm, chosen_by_sign
from lab.emulator.operations.base import Alu, assign, from_ufunc, operation

Comparison = Callable[[Numbers, Numbers], Mask]
"""The predicate of two operands, (count,) or (1,) each."""

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
    """Return the predicate of two operands of PTX type t: ordered tests are false for NaN, unordered ones true.

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
    found = special.get(test) or _COMPARE.get(test)
    if found is not None:
        return found
    opposite = _COMPARE[_UNORDERED[test]]
    return lambda a, b: ~opposite(a, b)


def _prepared(t: str, ftz: bool, compare: Comparison) -> Callable[[Any, Any], Mask]:
    """Return a comparison of operands in PTX type t: bf16 bits are widened, `.ftz` flushes singles."""
    if t == "bf16":
        return lambda a, b: compare(floats.bf16_to_32(a), floats.bf16_to_32(b))
    if ftz:
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
    if t in ("pred", "f16x2", "bf16x2"):
        raise UnknownForm(f".{t}")
    compare = _prepared(t, ftz, comparison(test, t))
    two = n == 4 + bool(boolean)  # the decoder counts p|q as two operands
    if not two and not boolean:
        if compare in _COMPARE.values():
            return Alu(from_ufunc(compare), ("pred",), (t, t))
        return Alu(assign(compare), ("pred",), (t, t))

    def compute(*arrays: Numbers) -> None:
        outs, ins = arrays[: 1 + two], arrays[1 + two :]
        hit = compare(ins[0], ins[1])
        results = (hit, ~hit)
        for out, result in zip(outs, results, strict=False):
            out[...] = _BOOLEAN[boolean](result, ins[2]) if boolean else result

    return Alu(compute, ("pred",) * (1 + two), (t, t) + (("pred",) if boolean else ()))


@operation("set")
def set_(op: Opcode, _n: int) -> Alu:
    """Build set: all ones, or 1.0, where the comparison holds."""
    test = op.one_of(_TESTS)
    boolean = op.one_of(tuple(_BOOLEAN), "")
    ftz = op.flag("ftz")
    result = op.one_of(("u32", "s32", "f32"))
    t = op.type() if op.parts else result
    op.finish()
    if t in ("f16x2", "bf16x2", "pred"):
        raise UnknownForm(f".{t}")
    compare = _prepared(t, ftz, comparison(test, t))
    true = DTYPES[result].type(1.0) if result == "f32" else np.int32(-1).astype(DTYPES[result])

    def compute(a: Numbers, b: Numbers, c: Numbers | None = None) -> Numbers:
        hit = compare(a, b)
        if c is not None:
            hit = _BOOLEAN[boolean](hit, c)
        written: Numbers = np.where(hit, true, DTYPES[result].type(0))
        return written

    return Alu(assign(compute), (result,), (t, t) + (("pred",) if boolean else ()))


@operation("selp")
def selp(op: Opcode, _n: int) -> Alu:
    """Build the choice of a or b by a predicate."""
    t = op.type()
    op.finish()
    return Alu(assign(lambda a, b, c: np.where(c, a, b)), (t,), (t, t, "pred"))


@operation("slct")
def slct(op: Opcode, _n: int) -> Alu:
    """Build the choice of a where c >= 0, else b."""
    t, control, ftz = chosen_by_sign(op)

    def compute(a: Numbers, b: Numbers, c: Any) -> Numbers:  # noqa: ANN401  int32 or float32, by the control's type
        return np.where((floats.flush32(c) if ftz else c) >= 0, a, b)

    return Alu(assign(compute), (t,), (t, t, control))
