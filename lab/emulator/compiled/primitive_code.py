"""Primitive functions in LLVM IR (see `lab.emulator.primitives`): the same bits, fewer instructions.

Each function takes the operands and options of the interpreter's function of its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from lab.emulator import floats
from lab.emulator.compiled.ir import LANES, words
from lab.emulator.compiled.tracing import PRIMITIVES, WHOLE, Traced, vector_of, where
from lab.emulator.operations.floating import SPECIAL_FUNCTIONS

SPECIAL = tuple(name for name in SPECIAL_FUNCTIONS if name != "rsqrt")
"""Functions without an LLVM instruction, in the order of their numbers."""


def _primitive(write: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function in `PRIMITIVES`."""
    PRIMITIVES[write.__name__] = write
    return write


# --- integers ---------------------------------------------------------------------------------------------------


@_primitive
def quotient(a: Traced, b: Traced) -> Traced:
    """Emit a quotient, handling division by zero and the overflow that LLVM leaves undefined."""
    zero, unit = b == 0, a.dtype.type(1)
    safe = where(zero, unit, b)
    if a.dtype.kind == "u":
        result = a.derived(f"udiv {vector_of(a.dtype)} {a.name}, {safe.name}")
    else:
        minus = b == -1
        safe = where(minus, unit, safe)
        result = where(minus, -a, a.derived(f"sdiv {vector_of(a.dtype)} {a.name}, {safe.name}"))
    return where(zero, ~a.dtype.type(0), result)


@_primitive
def highest_bit(a: Traced) -> Traced:
    """Emit the position of the highest set bit, -1 for zero."""
    size = 8 * a.dtype.itemsize
    zeros = a.derived(f"call {words(size)} @llvm.ctlz.v{LANES}i{size}({words(size)} {a.name}, i1 false)")
    return cast("Traced", np.int32(size - 1) - zeros.astype(np.int32))


@_primitive
def reversed_bits(a: Traced) -> Traced:
    """Emit the bits in reverse order."""
    return a.call("bitreverse")


# --- floats -----------------------------------------------------------------------------------------------------


def canonical(x: Traced) -> Traced:
    """Replace every NaN of singles or doubles by the canonical NaN."""
    nan = floats.NAN32 if x.dtype == np.float32 else floats.NAN64
    return where(np.isnan(x), nan.view(x.dtype), x)


@_primitive
def flush32(x: Traced) -> Traced:
    """Flush subnormal singles to zeros of the same sign."""
    bits = x.view(np.uint32)
    return where(bits & np.uint32(0x7F800000), bits, bits & np.uint32(0x80000000)).view(np.float32)


@_primitive
def fused32(a: Traced, b: Traced, c: Traced) -> Traced:
    """Emit the multiply-add with a single rounding."""
    return a.call("fma", b, c)


def _fma(out: Traced, a: Traced, b: Traced, c: Traced) -> None:
    """Emit the multiply-add with a single rounding."""
    out[...] = a.call("fma", b, c)


WHOLE.update({floats.fma32: _fma, floats.fma64: _fma})


@_primitive
def float_extremum(a: Traced, b: Traced, *, largest: bool, nan: bool = False) -> Traced:
    """Emit min or max; the bits of zeros decide which one is less."""
    result = where(a > b if largest else a < b, a, b)
    x, y = (value.view(f"u{a.dtype.itemsize}") for value in (a, b))
    result = where(a == b, (x & y if largest else x | y).view(a.dtype), result)
    result = where(np.isnan(b), a, result)
    return where(np.isnan(a) | np.isnan(b), a + b, result) if nan else result


@_primitive
def special32(a: Traced, *, name: str) -> Traced:
    """Emit a special function, calling the interpreter where libraries may differ after rounding."""
    ty = vector_of(a.dtype)
    return a.derived(f"call {ty} @special({ty} {a.name}, i32 {SPECIAL.index(name)}, ptr %callback)")
