"""How tensor cores add products up.

A floating-point tensor core multiplies exactly and adds the products of a block of k, together with the accumulator,
in one go: it aligns all of them to the largest exponent among them, keeps some bits below it, cuts the others off, adds
the rest exactly, and cuts (or rounds) the sum to the result's format. PTX leaves all of that open; `RULES` holds what
was measured on an H200 by `benchmarks/tensor_cores.py`, and docs/explanation/tensor-cores.md says how far it is exact.

The method is that of Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores (2021); Khattak and
Mikaitis, Accurate models of NVIDIA tensor cores (2025), name the constants of the H100.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lab.emulator import floats
from lab.emulator.arrays import Doubles
from lab.emulator.operations.elements import SMALLEST

Unit = Literal["mma", "wgmma", "tcgen05"]
"""Which instructions are meant: those of a warp, of a warpgroup, or those into tensor memory."""


@dataclass(frozen=True, slots=True)
class SumRule:
    """How one kind of matrix instruction adds up.

    Attributes:
        block: Products along k that are added in one go, with the accumulator.
        kept: Bits kept below the largest exponent among the addends.
        fraction: Fraction bits of a sum in f32 to which it is cut; those below are zero.
        halves: The assembler makes two products of it: the first of elements 0 and 1 of every four along k, the second
            of the others; and it adds the accumulator afterwards, rounded to nearest.
    """

    block: int
    kept: int
    fraction: int = 23
    halves: bool = False


_HALF = SumRule(block=16, kept=25)
_SINGLE = SumRule(block=8, kept=25)
RULES: dict[tuple[Unit, str], SumRule] = {
    ("mma", "f16"): _HALF,
    ("mma", "bf16"): _HALF,
    ("mma", "tf32"): _SINGLE,
    ("mma", "fp8"): SumRule(block=16, kept=25, halves=True),  # turned into f16 first
    ("wgmma", "f16"): _HALF,
    ("wgmma", "bf16"): _HALF,
    ("wgmma", "tf32"): _SINGLE,
    ("wgmma", "fp8"): SumRule(block=32, kept=13, fraction=13),
    ("tcgen05", "f16"): _HALF,
    ("tcgen05", "bf16"): _HALF,
    ("tcgen05", "tf32"): _SINGLE,
    ("tcgen05", "fp8"): SumRule(block=32, kept=25),
}
"""Unit and element type to its rule, on an H200 (sm_90); those of tcgen05 were not compared with hardware."""

_NOTHING = -100_000  # an exponent below that of any number
_LEAST = -900  # far beyond the exponents of products, and such that its power of two is a normal number
_CHUNK = 1 << 14  # sums at a time, so that they stay in the cache
_DOUBLE_BIAS, _DOUBLE_FRACTION = 1023, 52


Exponents = NDArray[np.int32]

Part = tuple[Doubles, Exponents]
"""Values and their exponents."""


def rule_of(unit: Unit, t: str) -> SumRule:
    """Return the rule of an element type."""
    return RULES[unit, "fp8" if t in ("e4m3", "e5m2") else t]


def multiply_add(a: Doubles, b: Doubles, c: Doubles, types: tuple[str, str, str, str], unit: Unit) -> Doubles:
    """Return ``a @ b + c`` as a tensor core computes it.

    Args:
        a: (tiles, m, k).
        b: (tiles, k, n).
        c: (tiles, m, n).
        types: PTX types of D, A, B and C.
        unit: The kind of instruction.

    Returns:
        (tiles, m, n) values of D's type; integers are exact and may leave s32.
    """
    td, ta, tb, tc = types
    if td == "s32":
        return np.asarray(a @ b + c)
    if td == "f64":
        return _chain(a, b, c)
    rule = rule_of(unit, ta)
    total = np.array(c, np.float64)
    if rule.halves:
        a, b, total = _halves_first(a, 2), _halves_first(b, 1), np.zeros(c.shape)
    exponents = _exponents(a, ta), _exponents(b, tb)
    for k in range(0, a.shape[2], rule.block):
        part = slice(k, k + rule.block)
        total = _add_block(
            (a[:, :, part], exponents[0][:, :, part]), (b[:, part], exponents[1][:, part]), total, tc, rule
        )
        total = _rounded(total, td, rule)
        tc = td
    return _nearest(total + c, td) if rule.halves else total


def _halves_first(values: Doubles, axis: int) -> Doubles:
    """Return the elements along k in the order in which the halves of fp8 registers are multiplied."""
    k = np.arange(values.shape[axis])
    return np.take(values, np.concatenate([k[k % 4 < 2], k[k % 4 >= 2]]), axis)  # noqa: PLR2004  two of four


def _nearest(total: Doubles, td: str) -> Doubles:
    """Return exact sums rounded to nearest even."""
    return total.astype(np.float16 if td == "f16" else np.float32).astype(np.float64)


def _chain(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    """Return the sums of f64, which are fused multiply-adds in the order of k."""
    total = np.array(c, np.float64)
    for k in range(a.shape[2]):
        left, right = np.broadcast_arrays(a[:, :, k, None], b[:, None, k])
        sums = np.empty(total.size)
        floats.fma64(sums, left.ravel(), right.ravel(), total.ravel())
        total = sums.reshape(total.shape)
    return total


def _exponents(values: Doubles, t: str) -> Exponents:
    """Return the exponents of values: that of the least normal number for subnormal ones, `_NOTHING` for zero."""
    field = (values.view(np.int64) >> _DOUBLE_FRACTION) & 0x7FF
    found = np.maximum(field - _DOUBLE_BIAS, SMALLEST[t])
    return np.where(values == 0, _NOTHING, found).astype(np.int32)


def _add_block(a: Part, b: Part, c: Doubles, tc: str, rule: SumRule) -> Doubles:
    """Return the exact sums of one block's aligned addends, (tiles, m, n), before they are rounded."""
    tiles, m, n = c.shape
    result, own = np.empty(c.shape), _exponents(c, tc)
    together = max(1, _CHUNK // (m * n))
    for first in range(0, tiles, together):
        at = slice(first, first + together)
        result[at] = _sums((a[0][at], a[1][at]), (b[0][at], b[1][at]), (c[at], own[at]), rule.kept)
    return result


def _sums(a: Part, b: Part, c: Part, kept: int) -> Doubles:
    """Return the sums, (tiles, m, n), of addends that are aligned to the largest exponent and cut.

    One step of k at a time: arrays of (tiles, m, n) stay in the cache.

    Args:
        a: (tiles, m, k).
        b: (tiles, k, n).
        c: (tiles, m, n).
        kept: Bits kept below the largest exponent.
    """
    (left, left_exponents), (right, right_exponents), (addend, largest) = a, b, c
    largest, depth = np.maximum(largest, _LEAST), left.shape[2]
    exponents = np.empty_like(largest)
    for k in range(depth):
        np.add(left_exponents[:, :, k, None], right_exponents[:, None, k], out=exponents)
        np.maximum(largest, exponents, out=largest)
    np.minimum(largest, -_LEAST, out=largest)  # of infinities
    up, down = _power(kept - largest), _power(largest - kept)
    total, cut = np.trunc(addend * up), np.empty(addend.shape)
    for k in range(depth):
        np.multiply(left[:, :, k, None], right[:, None, k], out=cut)
        np.multiply(cut, up, out=cut)
        np.trunc(cut, out=cut)
        np.add(total, cut, out=total)
    np.multiply(total, down, out=total)
    np.add(total, 0.0, out=total)  # a sum of nothing but zeros has no sign
    return total


def _power(exponents: Exponents) -> Doubles:
    """Return powers of two as doubles, for exponents in their normal range."""
    return ((exponents.astype(np.int64) + _DOUBLE_BIAS) << _DOUBLE_FRACTION).view(np.float64)


def _rounded(total: Doubles, td: str, rule: SumRule) -> Doubles:
    """Return sums in the accumulator's format: f16 to nearest even, f32 cut off."""
    if td == "f16":
        half: NDArray[Any] = floats.f32_to_f16(floats.round32(total.ravel(), np.zeros(1), "odd"))
        return half.astype(np.float64).reshape(total.shape)
    single = floats.round32(total.ravel(), np.zeros(1), "rz")
    overflown = np.isfinite(total.ravel()) & (np.abs(total.ravel()) >= 2.0**128)
    single[overflown] = np.copysign(np.inf, total.ravel()[overflown])
    bits = single.view(np.uint32)
    finite = np.isfinite(single)
    bits[finite] &= np.uint32(0xFFFFFFFF << (23 - rule.fraction) & 0xFFFFFFFF)
    return single.astype(np.float64).reshape(total.shape)
