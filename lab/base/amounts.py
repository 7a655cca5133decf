"""Figures in as many digits as their error allows, with the SI prefix that keeps them short."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

_PREFIXES: Final = ("", "k", "M", "G", "T", "P", "E")
_STEP: Final = 1000.0
_MOST_DIGITS: Final = 4
_LEAST_DIGITS: Final = 2


def digits_of(error: float) -> int:
    """Return the significant digits of a figure with a relative error: 2 for a quarter, 4 for a thousandth."""
    if error <= 0:
        return _MOST_DIGITS
    return min(_MOST_DIGITS, max(_LEAST_DIGITS, math.ceil(-math.log10(error)) + 1))


def significant(value: float, digits: int) -> str:
    """Return a figure in so many significant digits, without an exponent: ``3.2``, ``0.0121``, ``43000``."""
    if not value or not math.isfinite(value):
        return f"{value:.0f}"
    return f"{round(value, digits - 1 - math.floor(math.log10(abs(value)))):.{_decimals(value, digits)}f}"


def _decimals(value: float, digits: int) -> int:
    rounded = float(f"{value:.{digits - 1}e}")
    return max(0, digits - 1 - math.floor(math.log10(abs(rounded))))


def scale_of(unit: str, values: Iterable[float]) -> tuple[float, str]:
    """Return the factor and the unit in which the largest of some figures lies from 1 to 1000, as far as SI goes.

    Args:
        unit: A unit with or without a prefix: ``GB/s``, ``TFLOP/s``, ``ms``. Others, and counts, stay as they are.
        values: The figures in that unit.
    """
    prefixes, root, exponent = _family(unit)
    largest = max(map(abs, values), default=0.0)
    if not prefixes or not largest:
        return 1.0, unit
    wanted = exponent + math.floor(math.log10(largest) / math.log10(_STEP) + 1e-9)
    chosen = min(max(wanted, 0), len(prefixes) - 1)
    return _STEP ** (exponent - chosen), f"{prefixes[chosen]}{root}"


def _family(unit: str) -> tuple[tuple[str, ...], str, int]:
    """Return the prefixes of a unit's family, the unit without one, and the place of its own prefix."""
    if unit in _SECONDS:
        return ("n", "µ", "m", ""), "s", ("n", "µ", "m", "").index(unit[:-1])
    for root in ("B/s", "FLOP/s"):
        if unit.endswith(root) and unit.removesuffix(root) in _PREFIXES:
            return _PREFIXES, root, _PREFIXES.index(unit.removesuffix(root))
    return (), unit, 0


_SECONDS: Final = ("ns", "µs", "ms", "s")


def time_text(ms: float, digits: int) -> str:
    """Return a time with its unit: ``12 µs``."""
    factor, unit = scale_of("ms", (ms,))
    return f"{significant(ms * factor, digits)} {unit}"
