"""Accumulation in tensor cores.

A floating-point tensor core multiplies exactly and adds the products of a block of k and the accumulator in one step:
it aligns all of them to the largest exponent, truncates them to some bits below it, adds them exactly, and truncates
(or rounds) the sum to the result's format. PTX leaves this open; `RULES` holds the parameters measured on an H200 by
`benchmarks/tensor_cores.py`, and docs/explanation/tensor-cores.md states their accuracy.

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
"""The kind of matrix instruction: a warp's or a warpgroup's."""


@dataclass(frozen=True, slots=True)
class SumRule:
    """The accumulation rule of a kind of matrix instruction.

    Attributes:
        block: Products along k added in one step, with the accumulator.
        kept: Bits kept below the largest exponent among the addends.
        fraction: Fraction bits kept in an f32 sum; lower bits are zero.
        halves: The assembler splits it into two products: elements 0 and 1 of every four along k, then the others; it
            adds the accumulator afterwards, rounded to nearest.
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
    ("mma", "fp8"): SumRule(block=16, kept=25, halves=True),  # converted to f16 first
    ("wgmma", "f16"): _HALF,
    ("wgmma", "bf16"): _HALF,
    ("wgmma", "tf32"): _SINGLE,
    ("wgmma", "fp8"): SumRule(block=32, kept=13, fraction=13),
    ("tcgen05", "f16"): _HALF,
    ("tcgen05", "bf16"): _HALF,
    ("tcgen05", "tf32"): _SINGLE,
    ("tcgen05", "fp8"): SumRule(block=32, kept=25),
}
"""Accumulation rules by unit and element type, on an H200 (sm_90)."""

_NOTHING = -100_000  # an exponent below that of any number
_LEAST = -900  # far beyond the exponents of products, and such that its power of two is a normal number
_CHUNK = 1 << 14  # sums at a time, so that they stay in the cache
_DOUBLE_BIAS, _DOUBLE_FRACTION = 1023, 52


Exponents = NDArray[np.int32]

Part = tuple[Doubles, Exponents]
"""Values and their exponents."""


def rule_of(unit: Unit, t: str) -> SumRule:
    """Return the accumulation rule of an element type."""
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
        block = slice(k, k + rule.block)
        total = _add_block(
            (a[:, :, block], exponents[0][:, :, block]), (b[:, block], exponents[1][:, block]), total, tc, rule
        )
        total = _rounded(total, td, rule)
        tc = td
    return _nearest(total + c, td) if rule.halves else total


def _halves_first(values: Doubles, axis: int) -> Doubles:
    """Return the elements along k in the order in which halves of fp8 registers are multiplied."""
    k = np.arange(values.shape[axis])
    return np.take(values, np.concatenate([k[k % 4 < 2], k[k % 4 >= 2]]), axis)  # noqa: PLR2004  two of four


def _nearest(total: Doubles, td: str) -> Doubles:
    """Round exact sums to nearest even."""
    return total.astype(np.float16 if td == "f16" else np.float32).astype(np.float64)


def _chain(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    """Return f64 sums: fused multiply-adds in the order of k."""
    total = np.array(c, np.float64)
    for k in range(a.shape[2]):
        left, right = np.broadcast_arrays(a[:, :, k, None], b[:, None, k])
        sums = np.empty(total.size)
        floats.fma64(sums, left.ravel(), right.ravel(), total.ravel())
        total = sums.reshape(total.shape)
    return total


def _exponents(values: Doubles, t: str) -> Exponents:
    """Return the exponents of values, clamped to the smallest normal one; `_NOTHING` for zero."""
    field = (values.view(np.int64) >> _DOUBLE_FRACTION) & 0x7FF
    exponents = np.maximum(field - _DOUBLE_BIAS, SMALLEST[t])
    return np.where(values == 0, _NOTHING, exponents).astype(np.int32)


def _add_block(a: Part, b: Part, c: Doubles, tc: str, rule: SumRule) -> Doubles:
    """Return the exact sums of one block's aligned addends, (tiles, m, n), before rounding."""
    tiles, m, n = c.shape
    result, own = np.empty(c.shape), _exponents(c, tc)
    together = max(1, _CHUNK // (m * n))
    for first in range(0, tiles, together):
        at = slice(first, first + together)
        result[at] = _sums((a[0][at], a[1][at]), (b[0][at], b[1][at]), (c[at], own[at]), rule.kept)
    return result


def _sums(a: Part, b: Part, c: Part, kept_bits: int) -> Doubles:
    """Return the sums, (tiles, m, n), of addends aligned to the largest exponent and truncated.

    Loop over k, so that arrays of (tiles, m, n) stay in the cache.

    Args:
        a: (tiles, m, k).
        b: (tiles, k, n).
        c: (tiles, m, n).
        kept_bits: Bits kept below the largest exponent.
    """
    (left, left_exponents), (right, right_exponents), (addend, largest) = a, b, c
    largest, depth = np.maximum(largest, _LEAST), left.shape[2]
    exponents = np.empty_like(largest)
    for k in range(depth):
        np.add(left_exponents[:, :, k, None], right_exponents[:, None, k], out=exponents)
        np.maximum(largest, exponents, out=largest)
    np.minimum(largest, -_LEAST, out=largest)  # of infinities
    up, down = _power(kept_bits - largest), _power(largest - kept_bits)
    total, cut = np.trunc(addend * up), np.empty(addend.shape)
    for k in range(depth):
        np.multiply(left[:, :, k, None], right[:, None, k], out=cut)
        np.multiply(cut, up, out=cut)
        np.trunc(cut, out=cut)
        np.add(total, cut, out=total)
    np.multiply(total, down, out=total)
    np.add(total, 0.0, out=total)  # a sum of zeros is +0
    return total


def _power(exponents: Exponents) -> Doubles:
    """Return powers of two as doubles, for exponents of normal doubles."""
    return ((exponents.astype(np.int64) + _DOUBLE_BIAS) << _DOUBLE_FRACTION).view(np.float64)


def _rounded(total: Doubles, td: str, rule: SumRule) -> Doubles:
    """Round sums to the accumulator's format: f16 to nearest even, f32 truncated."""
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
