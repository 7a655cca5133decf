"""Elementwise functions with the error bounds of their GPU implementations.

The errors are those of the CUDA C++ Programming Guide (mathematical functions; one unit in the last place is at most
2 u), and of the intrinsics that take their place under `--use_fast_math`, where these are worse: ``__expf`` is off by
2 + 1.173 |x| units, ``__sinf`` and ``__cosf`` by 2^-21.4, and ``__logf`` by 2^-21.4 near 1, absolutely. The exception
needs a `tolerance`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.operators.base import Floats
from lab.operators.declared.tracked import ArrayOperationError, Rules, Tracked, between

Function = Callable[[Any], NDArray[Any]]


def _special(name: str, x: Floats) -> NDArray[Any]:
    """Apply a function of `scipy.special`, imported on first use to keep start-up short."""
    from scipy import special  # noqa: PLC0415 - as said above

    return np.asarray(getattr(special, name)(x))


def _nothing(x: Floats) -> Floats | float:
    del x
    return 0.0


@dataclass(frozen=True, slots=True)
class MonotoneFunction:
    """A monotone function of one variable.

    Attributes:
        function: The function, on float64.
        units: Error in units of roundoff, relative to the result.
        stretch: Further units for each unit of the operand's size, relative to the result.
        absolute: Further units, absolute, for an operand.
        lowest: Lower end of its domain.
        highest: Upper end of its domain.
    """

    function: Function
    units: float
    stretch: float = 0.0
    absolute: Callable[[Floats], Floats | float] = _nothing
    lowest: float = -np.inf
    highest: float = np.inf

    def __call__(self, rules: Rules, x: Tracked) -> Tracked:
        """Apply the function."""
        x = _of_reals(rules, x)
        result = between(self.function, x, self.lowest, self.highest)
        units = self.units if not self.stretch else self.units + self.stretch * np.minimum(np.abs(x.values), 1e4)
        rounded = rules.rounded(result.values, result.bound, units)
        added = self.absolute(x.values)
        return rounded if isinstance(added, float) and not added else _widened(rounded, rules.arithmetic.unit * added)


def _widened(x: Tracked, added: Floats | float) -> Tracked:
    return Tracked(x.values, np.asarray(x.spread + added))


def _of_reals(rules: Rules, x: Tracked) -> Tracked:
    real = rules.real(x)
    if real.values.dtype.kind == "c":
        raise ArrayOperationError("this function of complex numbers", "real(x), imag(x), abs(x), conj(x), exp(x)")
    return real


def _near_one(units: float) -> Callable[[Floats], Floats | float]:
    return lambda x: np.where((x >= 0.5) & (x <= 2), units, 0.0)  # noqa: PLR2004 - the guide's interval


def _rsqrt(x: Floats) -> Floats:
    return np.asarray(1 / np.sqrt(x))


MONOTONE: Mapping[str, MonotoneFunction] = {
    "sqrt": MonotoneFunction(np.sqrt, 4, lowest=0),
    "rsqrt": MonotoneFunction(_rsqrt, 4, lowest=0),
    "cbrt": MonotoneFunction(np.cbrt, 4),
    "exp": MonotoneFunction(np.exp, 6, 2.4),
    "exp2": MonotoneFunction(np.exp2, 6, 2.4),
    "expm1": MonotoneFunction(np.expm1, 4),
    "log": MonotoneFunction(np.log, 6, absolute=_near_one(6.1), lowest=0),
    "log2": MonotoneFunction(np.log2, 6, absolute=_near_one(4), lowest=0),
    "log10": MonotoneFunction(np.log10, 6, absolute=_near_one(1), lowest=0),
    "log1p": MonotoneFunction(np.log1p, 4, lowest=-1),
    "sinh": MonotoneFunction(np.sinh, 8, 2.4),
    "tanh": MonotoneFunction(np.tanh, 6),
    "arcsin": MonotoneFunction(np.arcsin, 8, lowest=-1, highest=1),
    "arccos": MonotoneFunction(np.arccos, 8, lowest=-1, highest=1),
    "arctan": MonotoneFunction(np.arctan, 6),
    "arcsinh": MonotoneFunction(np.arcsinh, 8),
    "arccosh": MonotoneFunction(np.arccosh, 10, lowest=1),
    "arctanh": MonotoneFunction(np.arctanh, 8, lowest=-1, highest=1),
    "erf": MonotoneFunction(partial(_special, "erf"), 6),
    "erfc": MonotoneFunction(partial(_special, "erfc"), 12, 2.4),
    "normcdf": MonotoneFunction(partial(_special, "ndtr"), 12, 2.4),
}
"""The monotone functions, by NumPy's names; `rsqrt` and `normcdf` are CUDA's."""


def sine(rules: Rules, x: Tracked) -> Tracked:
    """Return sin(x). The argument's reduction by 2 π is good to its own roundoff."""
    return _wave(rules, x, np.sin)


def cosine(rules: Rules, x: Tracked) -> Tracked:
    """Return cos(x)."""
    return _wave(rules, x, np.cos)


def _wave(rules: Rules, x: Tracked, function: Function) -> Tracked:
    x = _of_reals(rules, x)
    bound = None if x.bound is None else np.minimum(x.bound, 2.0)
    rounded = rules.rounded(np.asarray(function(x.values)), bound, 4)
    return _widened(rounded, rules.arithmetic.unit * (8 + np.minimum(np.abs(x.values), 1 / rules.arithmetic.unit)))


def tangent(rules: Rules, x: Tracked) -> Tracked:
    """Return tan(x)."""
    return rules.divide(sine(rules, x), cosine(rules, x))


def hyperbolic_cosine(rules: Rules, x: Tracked) -> Tracked:
    """Return cosh(x)."""
    size = _of_reals(rules, x)
    return MONOTONE_COSH(rules, Tracked(np.abs(size.values), size.bound))


MONOTONE_COSH = MonotoneFunction(np.cosh, 8, 2.4, lowest=0)
"""Hyperbolic cosine for operands of at least 0."""


def exponential(rules: Rules, x: Tracked) -> Tracked:
    """Return exp(x), of complex numbers as well."""
    if x.values.dtype.kind != "c":
        return MONOTONE["exp"](rules, x)
    values = np.exp(x.values)
    bound = None if x.bound is None else np.abs(values) * np.expm1(x.bound)
    return rules.rounded(values, bound, 20 + np.abs(x.values))


def magnitude(rules: Rules, x: Tracked) -> Tracked:
    """Return |x|."""
    values = np.abs(x.values)
    return rules.rounded(values, x.bound, 6) if x.values.dtype.kind == "c" else Tracked(values, x.bound)


def hypotenuse(rules: Rules, x: Tracked, y: Tracked) -> Tracked:
    """Return sqrt(x² + y²)."""
    x, y = rules.pair(rules.real(x), rules.real(y))
    bound = None if x.bound is None and y.bound is None else x.spread + y.spread
    return rules.rounded(np.hypot(x.values, y.values), bound, 6)


def arctangent2(rules: Rules, y: Tracked, x: Tracked) -> Tracked:
    """Return the angle of (x, y)."""
    y, x = rules.pair(rules.real(y), rules.real(x))
    bound: Floats | None = None
    if x.bound is not None or y.bound is not None:
        squared = x.values**2 + y.values**2
        bound = np.where(squared > 0, (np.abs(y.values) * x.spread + np.abs(x.values) * y.spread) / squared, np.pi)
    return rules.rounded(np.arctan2(y.values, x.values), bound, 8)


def rounding(function: Function) -> Callable[[Rules, Tracked], Tracked]:
    """Return floor, ceil, rint or trunc: exact, and off by a whole step where its operand is near one."""

    def apply(rules: Rules, x: Tracked) -> Tracked:
        return between(function, _of_reals(rules, x)) if x.is_float else x

    return apply


def sign(rules: Rules, x: Tracked) -> Tracked:
    """Return -1, 0 or 1."""
    return between(np.sign, x) if not x.is_float else between(np.sign, _of_reals(rules, x))


def remainder(rules: Rules, a: Tracked, b: Tracked) -> Tracked:
    """Return C's fmod and %: the sign is that of a."""
    result = rules.modulo(magnitude(rules, a), magnitude(rules, b))
    if a.values.dtype.kind == "u":
        return result
    return Tracked(np.where(a.values < 0, -result.values, result.values), result.bound)


def is_nan(rules: Rules, x: Tracked) -> Tracked:
    """Say which elements are NaN."""
    return Tracked(np.isnan(rules.real(x).values))


def is_infinite(rules: Rules, x: Tracked) -> Tracked:
    """Say which elements are infinite."""
    return Tracked(np.isinf(rules.real(x).values))


def is_finite(rules: Rules, x: Tracked) -> Tracked:
    """Say which elements are neither NaN nor infinite."""
    return Tracked(np.isfinite(rules.real(x).values))
