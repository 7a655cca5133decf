"""Error bounds of approximate instructions, and results displaced by these bounds.

The interpreter computes `ex2.approx` and similar instructions as exactly as the type allows; a GPU may be off by the
bound. A displaced result is the one farthest from the exact value within the bound, above or below it. The direction
is a function of seed, instruction and operands: the same operands give the same result, as on hardware.

Source of the bounds: PTX ISA 9.1, Floating Point Instructions (9.7.3: div, rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh)
and Half Precision Floating Point Instructions (9.7.4: tanh, ex2). It has no bound for `rcp.approx.ftz.f64`,
`rsqrt.approx.ftz.f64` and `rsqrt.approx.f64`, for `sin` and `cos` beyond 100 pi, and for `div.approx` where the divisor
is below 2^-126 or above 2^126 in magnitude. Those results stay as they are. So do zeros, infinities and NaNs, and the
results for operands that are one: the ISA lists them. Results of tanh, sin and cos stay within [-1, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Bits, Doubles, Integers, Mask, Values
from lab.isa.model import SourceLocation

Kind = Literal["steps", "ulp", "relative", "absolute"]


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """The largest error of a result in one range of the operand.

    Attributes:
        kind: The error's unit: steps between representable numbers, counted from the correctly rounded result; units in
            the last place of the exact result; the exact result itself; or 1.
        size: The error.
        least: The range's lower end: of the operand's magnitude, of a division's divisor.
        most: Its upper end.
    """

    kind: Kind
    size: float
    least: float = 0.0
    most: float = np.inf


_PERIODIC = (
    ErrorBound("absolute", 2**-20.5, most=2 * np.pi),
    ErrorBound("absolute", 2**-14.7, most=100 * np.pi),
)

BOUNDS: dict[tuple[str, str], tuple[ErrorBound, ...]] = {
    ("div.approx", "f32"): (ErrorBound("ulp", 2, 2.0**-126, 2.0**126),),
    ("div.full", "f32"): (ErrorBound("ulp", 2),),
    ("rcp.approx", "f32"): (ErrorBound("ulp", 1),),
    ("sqrt.approx", "f32"): (ErrorBound("relative", 2.0**-23),),
    ("rsqrt.approx", "f32"): (ErrorBound("relative", 2**-22.9),),
    ("sin.approx", "f32"): _PERIODIC,
    ("cos.approx", "f32"): _PERIODIC,
    ("lg2.approx", "f32"): (ErrorBound("absolute", 2.0**-22, 0.5, 2.0), ErrorBound("relative", 2.0**-22)),
    ("ex2.approx", "f32"): (ErrorBound("steps", 2),),
    ("tanh.approx", "f32"): (ErrorBound("relative", 2.0**-11),),
    ("tanh.approx", "f16"): (ErrorBound("absolute", 2**-10.987),),
    ("tanh.approx", "bf16"): (ErrorBound("absolute", 2.0**-8),),
    ("ex2.approx", "f16"): (ErrorBound("relative", 2**-9.9),),
    ("ex2.approx", "bf16"): (ErrorBound("relative", 2.0**-7),),
}
"""Error bounds by operation and type; where ranges overlap, the first one applies."""

_LARGEST = {"f16": 0x7BFF, "bf16": 0x7F7F, "f32": 0x7F7FFFFF}
"""The largest finite number of each type, as bits."""

_WITHIN_ONE = ("tanh", "sin", "cos")

_EXACT: dict[str, Callable[..., Doubles]] = {
    "div": np.divide,
    "rcp": lambda a: np.divide(1.0, a),
    "sqrt": np.sqrt,
    "rsqrt": lambda a: np.divide(1.0, np.sqrt(a)),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


@dataclass(frozen=True, slots=True)
class Approximation:
    """An instruction of a program whose error has a documented bound.

    Attributes:
        position: Its position in `Program.code`, for `Rounding.positions`.
        line: PTX line.
        opcode: With every modifier.
        source: Source line of the user's code, where the PTX carries one.
        calls: Lines of the user's code that called the function of `source`, the innermost one first.
    """

    position: int
    line: int
    opcode: str
    source: SourceLocation | None
    calls: tuple[SourceLocation, ...]


@dataclass(frozen=True, slots=True)
class Rounding:
    """The choice of results to displace.

    Attributes:
        seed: Determines, with instruction and operands, whether a result is displaced up or down.
        positions: The instructions, by their positions in `Program.code`; None for all that have a bound.
    """

    seed: int
    positions: frozenset[int] | None = None

    def applies(self, position: int) -> bool:
        """Return whether the results of an instruction are displaced."""
        return self.positions is None or position in self.positions


def _ulp(exact: Doubles) -> Doubles:
    """Return the spacing of float32 numbers at these values."""
    _, exponent = np.frexp(exact)
    distance: Doubles = np.ldexp(1.0, np.maximum(exponent - 24, -149))
    return distance


_UNITS: dict[str, Callable[[Doubles], Any]] = {"ulp": _ulp, "relative": np.abs, "absolute": lambda _: 1.0}


def bounds_of(opcode: str) -> tuple[ErrorBound, ...]:
    """Return the documented error bounds of an instruction; empty where none are documented."""
    family, *words = opcode.split(".")
    modes = [word for word in words if word in ("approx", "full")]
    if not modes:
        return ()
    t = words[-1].removesuffix("x2")
    return BOUNDS.get((f"{family}.{modes[0]}", t), ())


def displaced(
    opcode: str, compute: Callable[..., Any], rounding: Rounding, position: int
) -> Callable[..., None] | None:
    """Return an operation with results displaced by its error bound; None where it has none.

    Args:
        opcode: With every modifier.
        compute: Writes its first argument, (count,), from the others, (count,) or (1,), as `operations.base.Alu` does.
        rounding: Decides the direction.
        position: The instruction's position in `Program.code`.
    """
    bounds = bounds_of(opcode)
    if not bounds:
        return None
    family, *words = opcode.split(".")
    t, packed, ftz = words[-1].removesuffix("x2"), words[-1].endswith("x2"), "ftz" in words
    displace = partial(_displace, family, t, bounds, np.uint64(_mixed_seed(rounding.seed, position)), ftz=ftz)

    def apart(out: Values, *ins: Values) -> None:
        before = [np.array(operand) for operand in ins]  # an operand may be the destination
        compute(out, *before)
        if not packed:
            bits = out.view(f"u{out.dtype.itemsize}")
            bits[...] = displace(bits, *(operand.view(f"u{operand.dtype.itemsize}") for operand in before))
            return
        halves = out.view(np.uint16)
        for i in range(2):  # the lower half of each, then the upper one
            sources = (operand.view(np.uint16)[i::2] for operand in before)
            halves[i::2] = displace(
                np.ascontiguousarray(halves[i::2]), *(np.ascontiguousarray(source) for source in sources)
            )

    return apart


def _mixed_seed(seed: int, position: int) -> int:
    return int(np.random.default_rng((seed, position)).integers(2**64, dtype=np.uint64))


def _displace(
    family: str, t: str, bounds: tuple[ErrorBound, ...], seed: np.uint64, out: Bits, *ins: Bits, ftz: bool
) -> Bits:
    """Return displaced results, (count,) bits, from correctly rounded ones and the operands' bits."""
    operands = [_doubles(bits, t) for bits in ins]
    least = 2.0**-14 if t == "f16" else 2.0**-126
    if ftz:
        operands = [np.where(np.abs(operand) < least, np.copysign(0.0, operand), operand) for operand in operands]
    eligible = np.ones(out.shape, np.bool_)
    for numbers in (*operands, _doubles(out, t)):
        eligible &= np.isfinite(numbers) & (numbers != 0)
    up = _signs(seed, ins, out.shape)
    result, remaining = out.copy(), eligible
    size = np.abs(operands[-1])
    for bound in bounds:
        inside = remaining & (size >= bound.least) & (size <= bound.most)
        if bound.kind == "steps":
            candidate = _stepped(out, t, np.where(up, 1, -1) * int(bound.size))
            candidate = np.where(_doubles(candidate, t) * _doubles(out, t) > 0, candidate, out)
        else:
            exact = np.broadcast_to(_EXACT[family](*operands), out.shape)
            error = bound.size * _UNITS[bound.kind](exact)
            candidate = _rounded_towards(exact, exact + np.where(up, error, -error), out, t)
        result = np.where(inside, candidate, result)
        remaining = remaining & ~inside
    if family in _WITHIN_ONE:
        values = _doubles(result, t)
        result = np.where(np.abs(values) > 1, _nearest(np.copysign(1.0, values), t), result)
    if ftz:
        result = np.where(eligible & (np.abs(_doubles(result, t)) < least), out, result)
    return result


def _signs(seed: np.uint64, ins: tuple[Bits, ...], shape: tuple[int, ...]) -> Mask:
    """Return whether results are displaced upwards: a hash (splitmix64's finaliser) of the operands' bits."""
    state: Integers = np.full(shape, seed, np.uint64)
    for operand in ins:
        state = (state ^ operand.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    up: Mask = state >> np.uint64(63) != 0
    return up


def _doubles(bits: Bits, t: str) -> Doubles:
    """Convert bits of a floating-point type to float64."""
    if t == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return bits.view(np.float16 if t == "f16" else np.float32).astype(np.float64)


def _nearest(values: Doubles, t: str) -> Bits:
    """Return the bits of the nearest numbers of a type (for bf16, one of the two neighbours)."""
    if t == "f16":
        return values.astype(np.float16).view(np.uint16)
    singles = values.astype(np.float32).view(np.uint32)
    return (singles >> np.uint32(16)).astype(np.uint16) if t == "bf16" else singles


def _rounded_towards(exact: Doubles, target: Doubles, out: Bits, t: str) -> Bits:
    """Return the bits of the number nearest to `target` between it and `exact`; `out` if there is none."""
    near, best, gap = _nearest(target, t), out, np.full(out.shape, np.inf)
    for step in (-1, 0, 1):
        candidate = _stepped(near, t, np.full(out.shape, step))
        value = _doubles(candidate, t)
        between = (value - exact) * (value - target) <= 0
        distance = np.where(between, np.abs(value - target), np.inf)
        best, gap = np.where(distance < gap, candidate, best), np.minimum(gap, distance)
    return best


def _stepped(bits: Bits, t: str, steps: NDArray[np.int64]) -> Bits:
    """Return the bits of the numbers some steps above (below) the given ones, clamped to finite numbers."""
    width = 8 * bits.dtype.itemsize
    top = 1 << (width - 1)
    signed = bits.astype(np.int64)
    ordered = np.where(signed >= top, top - signed, signed) + steps
    ordered = np.clip(ordered, -_LARGEST[t], _LARGEST[t])
    return np.where(ordered < 0, top - ordered, ordered).astype(bits.dtype)
