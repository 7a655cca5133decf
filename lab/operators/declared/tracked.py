"""Arrays with bounds on their rounding errors, and the arithmetic on them.

Every value is computed in float64, complex128 or 64-bit integers. With it goes a bound on the error of a kernel that
does the same in its own arithmetic, by forward error analysis: each operation adds its own rounding to the propagated
errors of its operands. A bound of None means that the kernel's value is exact.

An addition rounds by at most u |a + b|. It is charged u (|a| + |b|) here, so that the bound of a chain of additions
does not depend on their order, which kernels choose for themselves. A division is charged 4 u:
`--use_fast_math` divides to 2 units in the last place (CUDA C++ Programming Guide, mathematical functions), and a unit
is at most 2 u.

Integers and comparisons are exact. A comparison of rounded values may have either result where they are within each
other's error; its bound is 1 there, and `where` then allows both of its values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.operators.base import Floats
from lab.operators.declared.elements import Arithmetic

MOST_RESULT_BYTES: Final = 2**31
"""Maximum bytes of one intermediate array, unless an argument is larger."""

_FEW: Final = 16

_COMPLEX_PRODUCT, _COMPLEX_QUOTIENT, _QUOTIENT = 3.0, 12.0, 4.0
"""Units of roundoff; the bound of a complex number is that of its distance in the plane."""


class ArrayOperationError(Exception):
    """An operation on arrays is rejected."""

    def __init__(self, message: str, accepted: str | None = None) -> None:
        """Describe the mistake.

        Args:
            message: What is wrong.
            accepted: What is accepted.
        """
        self.message, self.accepted = message, accepted
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Tracked:
    """An array and the bound on its error.

    Attributes:
        values: float64, complex128, int64, uint64 or bool; a scalar has no dimensions.
        bound: At least 0 each, of a shape that broadcasts to that of the values; None where they are exact.
    """

    values: NDArray[Any]
    bound: Floats | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the values."""
        return self.values.shape

    @property
    def is_float(self) -> bool:
        """Return whether its values are rounded: floats or complex numbers."""
        return self.values.dtype.kind in "fc"

    @property
    def spread(self) -> Floats:
        """Return the bound, 0 where the values are exact."""
        return np.zeros(()) if self.bound is None else self.bound

    def full_bound(self) -> Floats | None:
        """Return the bound in the shape of the values."""
        return None if self.bound is None else np.broadcast_to(self.bound, self.shape)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rounding and size limits shared by all operations of a reference.

    Attributes:
        arithmetic: The kernel's rounding.
        most_elements: Maximum elements of an intermediate array.
    """

    arithmetic: Arithmetic
    most_elements: int = MOST_RESULT_BYTES // 8

    def check_size(self, shape: Sequence[int]) -> None:
        """Reject an array that would exhaust memory.

        Raises:
            ArrayOperationError: It has too many elements.
        """
        if math.prod(shape) > self.most_elements:
            shape_text = " x ".join(map(str, shape))
            raise ArrayOperationError(f"a result of {shape_text} elements", f"at most {self.most_elements} elements")

    def check_work(self, steps: int, limit: int) -> None:
        """Reject a computation that would take hours.

        Raises:
            ArrayOperationError: It takes too many multiplications.
        """
        if steps > limit:
            raise ArrayOperationError(f"a computation of {steps:.3g} multiplications", f"at most {limit:.3g}")

    def literal(self, value: complex) -> Tracked:
        """Return a constant; one that the kernel's type cannot represent is rounded there."""
        if isinstance(value, bool):
            return Tracked(np.asarray(value))
        if isinstance(value, int):
            if not -(2**63) <= value < 2**64:
                raise ArrayOperationError(f"the number {value} is too large", "from -2^63 to 2^64 - 1")
            return Tracked(np.asarray(value, np.int64 if value < 2**63 else np.uint64))
        number = np.asarray(value)
        single = self.arithmetic.unit > np.finfo(np.float64).eps
        if not single or not np.isfinite(number) or number.astype(np.complex64) == number:
            return Tracked(number)
        return Tracked(number, np.asarray(abs(number) * self.arithmetic.unit))

    def rounded(self, values: NDArray[Any], bound: Floats | None, units: float | Floats = 1.0) -> Tracked:
        """Return the result of an operation that rounds by `units` times u; integers are not rounded."""
        if values.dtype.kind not in "fc":
            return Tracked(values, bound)
        added = np.abs(values) * (units * self.arithmetic.unit)
        added += self.arithmetic.least
        if bound is not None:
            added = added + bound
        return Tracked(values, np.asarray(added))

    def real(self, x: Tracked) -> Tracked:
        """Convert integers to floats as the kernel would; large ones are rounded."""
        if x.is_float:
            return x
        values = x.values.astype(np.float64)
        bound = x.bound
        if values.size and float(np.max(np.abs(values))) * self.arithmetic.unit > 1:
            bound = x.spread + np.abs(values) * self.arithmetic.unit
        return Tracked(values, bound)

    # ---- arithmetic

    def pair(self, a: Tracked, b: Tracked) -> tuple[Tracked, Tracked]:
        """Convert two operands to one type: floats if one is a float, uint64 if one is uint64, else int64.

        Raises:
            ArrayOperationError: Their shapes do not fit, or the result is too large.
        """
        try:
            shape = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            message = f"arrays of shapes {shown(a.shape)} and {shown(b.shape)} do not go together"
            raise ArrayOperationError(message, "equal shapes, or dimensions of 1 in the shorter one") from None
        self.check_size(shape)
        if a.is_float or b.is_float:
            return self.real(a), self.real(b)
        kinds = {a.values.dtype.kind, b.values.dtype.kind}
        wide = np.uint64 if "u" in kinds else np.int64
        return (
            Tracked(a.values.astype(wide, copy=False), a.bound),
            Tracked(b.values.astype(wide, copy=False), b.bound),
        )

    def add(self, a: Tracked, b: Tracked) -> Tracked:
        """Return a + b."""
        return self._sum(a, b, np.add)

    def subtract(self, a: Tracked, b: Tracked) -> Tracked:
        """Return a - b."""
        return self._sum(a, b, np.subtract)

    def _sum(self, a: Tracked, b: Tracked, operation: np.ufunc) -> Tracked:
        a, b = self.pair(a, b)
        values = np.asarray(operation(a.values, b.values))
        bound = None if a.bound is None and b.bound is None else a.spread + b.spread
        if values.dtype.kind not in "fc" or self._is_whole(a.values, b.values, values):
            return Tracked(values, bound)
        magnitude = np.abs(a.values) + np.abs(b.values)
        magnitude *= self.arithmetic.unit
        magnitude += self.arithmetic.least
        return Tracked(values, np.asarray(magnitude if bound is None else magnitude + bound))

    def multiply(self, a: Tracked, b: Tracked) -> Tracked:
        """Return a * b."""
        a, b = self.pair(a, b)
        values = np.asarray(a.values * b.values)
        bound: Floats | None = None
        if a.bound is not None:
            bound = (np.abs(b.values) + b.spread) * a.bound
        if b.bound is not None:
            of_b = np.abs(a.values) * b.bound
            bound = of_b if bound is None else bound + of_b
        if self._is_whole(a.values, b.values, values):
            return Tracked(values, bound)
        return self.rounded(values, bound, _COMPLEX_PRODUCT if values.dtype.kind == "c" else 1.0)

    def _is_whole(self, *arrays: NDArray[Any]) -> bool:
        """Return whether all values are integers that the kernel's floats hold exactly, as are their sums.

        Sums and products of these are exact. A few elements suffice to exclude most arrays.
        """
        return all(
            x.dtype.kind == "f"
            and bool(np.all(x.flat[:_FEW] == np.trunc(x.flat[:_FEW])))
            and bool(np.all(x == np.trunc(x)))
            and bool(np.all(np.abs(x) * self.arithmetic.unit <= 1))
            for x in arrays
        )

    def divide(self, a: Tracked, b: Tracked) -> Tracked:
        """Return a / b, also for integers; unbounded where b may be 0."""
        a, b = self.pair(self.real(a), self.real(b))
        values = np.asarray(a.values / b.values)
        bound: Floats | None = None
        size = np.abs(b.values)
        if b.bound is not None:
            least = size - b.bound
            bound = np.where(least > 0, (a.spread + np.abs(values) * b.bound) / np.where(least > 0, least, 1), np.inf)
        elif a.bound is not None:
            bound = a.bound / size
        return self.rounded(values, bound, _COMPLEX_QUOTIENT if values.dtype.kind == "c" else _QUOTIENT)

    def floor_divide(self, a: Tracked, b: Tracked) -> Tracked:
        """Return the greatest integer that is at most a / b."""
        a, b = self.pair(a, b)
        if a.is_float:
            ends = self.divide(a, b)
            return between(np.floor, ends)
        self._no_zero(b, "//")
        exact("the denominator of //", b)
        values = a.values // b.values
        if a.bound is None:
            return Tracked(values)
        step = np.ceil(a.bound).astype(values.dtype)
        ends_of = np.abs((a.values + step) // b.values - values), np.abs(values - (a.values - step) // b.values)
        return Tracked(values, np.maximum(*ends_of).astype(np.float64))

    def modulo(self, a: Tracked, b: Tracked) -> Tracked:
        """Return a % b with the sign of b, as Python and NumPy do."""
        a, b = self.pair(a, b)
        if not a.is_float:
            self._no_zero(b, "%")
        values = np.asarray(np.mod(a.values, b.values))
        if a.bound is None and b.bound is None and not a.is_float:
            return Tracked(values)
        size = np.abs(b.values).astype(np.float64)
        rounding = self.arithmetic.unit * (np.abs(a.values) + size) if a.is_float else 0.0
        error = a.spread + rounding + b.spread * (np.abs(a.values) / np.where(size > 0, size, 1) + 1)
        remainder = np.abs(values)
        return Tracked(values, np.where((remainder < error) | (remainder + error >= size), size + error, error))

    def _no_zero(self, b: Tracked, symbol: str) -> None:
        if not np.all(b.values):
            raise ArrayOperationError(f"{symbol} by an integer that is 0", "integers other than 0")

    def power(self, a: Tracked, b: Tracked) -> Tracked:
        """Return a ** b.

        An integer to a whole power at least 0 is an integer. Else, a square is one product; for other powers, room is
        left for `--use_fast_math`, which computes exp2(b log2(a)): an error of 2^-22 in log2(a), and 4 u in its
        product with b, relative to it.
        """
        if not a.is_float and not b.is_float:
            return self._whole_power(a, b)
        if b.bound is None and b.values.ndim == 0 and b.values == 2:  # noqa: PLR2004 - a square
            return self.multiply(a, a)
        a, b = self.pair(a, b)
        if "c" in (a.values.dtype.kind, b.values.dtype.kind):
            raise ArrayOperationError("a power of complex numbers", "a product of them")
        values = np.asarray(np.power(a.values, b.values))
        logarithm = np.abs(np.log2(np.abs(a.values)))
        logarithm = np.where(np.isfinite(logarithm), logarithm, 0.0)
        bound: Floats | None = None
        if a.bound is not None or b.bound is not None:
            bound = np.zeros(())
            for sign in (-1, 1):  # the ends of a's interval, which stays on its side of 0 where the power needs it
                base = a.values + sign * a.spread
                base = np.where((a.values >= 0) & (base < 0), 0.0, base)
                for exponent in (b.values - b.spread, b.values + b.spread) if b.bound is not None else (b.values,):
                    bound = np.maximum(bound, np.abs(np.power(base, exponent) - values))
        return self.rounded(values, bound, 8 + np.abs(b.values) * (4 + 4 * logarithm))

    def _whole_power(self, a: Tracked, b: Tracked) -> Tracked:
        exact("an operand of **", a, b)
        a, b = self.pair(a, b)
        if b.values.size and int(b.values.min()) < 0:
            raise ArrayOperationError("a negative power of an integer", "a float: float64(x) ** -1, or 1 / x")
        if not a.shape and not b.shape and int(a.values) ** min(int(b.values), 64) >= 2**63:
            raise ArrayOperationError("the result of ** is too large", "integers within 64 bits")
        return Tracked(np.asarray(np.power(a.values, b.values)))

    def negative(self, a: Tracked) -> Tracked:
        """Return -a; of bool, as integers."""
        return Tracked(np.negative(_counted(a.values)), a.bound)

    # ---- comparisons and choices

    def compare(self, a: Tracked, b: Tracked, operation: np.ufunc) -> Tracked:
        """Compare element by element; either result is possible where rounded values are within their errors."""
        a, b = self._comparable(a, b)
        result = np.asarray(operation(a.values, b.values))
        if a.bound is None and b.bound is None:
            return Tracked(result)
        return Tracked(result, _unless_certain(np.abs(a.values - b.values) <= a.spread + b.spread))

    def _comparable(self, a: Tracked, b: Tracked) -> tuple[Tracked, Tracked]:
        """Return operands of a comparison; NumPy compares signed and unsigned integers without conversion."""
        if a.is_float or b.is_float or a.bound is not None or b.bound is not None:
            return self.pair(a, b)
        self.pair(a, b)  # checks the shapes
        return a, b

    def where(self, condition: Tracked, a: Tracked, b: Tracked) -> Tracked:
        """Return a where the condition holds, and b elsewhere."""
        if a.values.dtype.kind != b.values.dtype.kind:
            a, b = self.pair(a, b)
        shape = np.broadcast_shapes(condition.shape, a.shape, b.shape)
        self.check_size(shape)
        holds = condition.values.astype(np.bool_)
        values = np.where(holds, a.values, b.values)
        if a.bound is None and b.bound is None and condition.bound is None:
            return Tracked(values)
        bound = np.where(holds, a.spread, b.spread)
        if condition.bound is not None:
            either = np.maximum(a.spread, b.spread) + np.abs(_counted(a.values) - _counted(b.values))
            bound = np.where(condition.bound > 0, either, bound)
        return Tracked(values, np.asarray(bound))

    def extreme(self, a: Tracked, b: Tracked, operation: np.ufunc) -> Tracked:
        """Return the greater or the lesser of two, element by element."""
        if a.values.dtype.kind != b.values.dtype.kind:
            a, b = self.pair(a, b)
        self.check_size(np.broadcast_shapes(a.shape, b.shape))
        values = np.asarray(operation(a.values, b.values))
        if a.bound is None and b.bound is None:
            return Tracked(values)
        close = np.abs(a.values - b.values) <= a.spread + b.spread
        chosen = np.where(values == a.values, a.spread, b.spread)
        return Tracked(values, np.where(close, np.maximum(a.spread, b.spread), chosen))

    def both(self, a: Tracked, b: Tracked, operation: np.ufunc) -> Tracked:
        """Combine two boolean arrays."""
        self.check_size(np.broadcast_shapes(a.shape, b.shape))
        result = np.asarray(operation(a.values.astype(np.bool_), b.values.astype(np.bool_)))
        if a.bound is None and b.bound is None:
            return Tracked(result)
        return Tracked(result, np.maximum(a.spread, b.spread).astype(np.float64))

    # ---- bits

    def bits(self, a: Tracked, b: Tracked, operation: np.ufunc) -> Tracked:
        """Combine the bits of two integers, or two truths."""
        whole("a bit operation", a, b)
        if a.values.dtype.kind == b.values.dtype.kind == "b":
            return self.both(a, b, operation)
        exact("an operand of a bit operation", a, b)
        a, b = self.pair(a, b)
        return Tracked(np.asarray(operation(a.values, b.values)))

    def shift(self, a: Tracked, b: Tracked, operation: np.ufunc) -> Tracked:
        """Shift the bits of integers.

        Raises:
            ArrayOperationError: By less than 0 or more than 63 places.
        """
        whole("a shift", a, b)
        exact("an operand of a shift", a, b)
        if b.values.size and (int(b.values.min()) < 0 or int(b.values.max()) > 63):  # noqa: PLR2004 - bits
            raise ArrayOperationError("a shift by too many places", "0 to 63 places")
        a, b = self.pair(a, b)
        return Tracked(np.asarray(operation(a.values, b.values)))


def between(function: Any, x: Tracked, lowest: float = -np.inf, highest: float = np.inf) -> Tracked:  # noqa: ANN401 - a ufunc
    """Apply a monotone function; its error is its change over the operand's interval.

    Args:
        function: From an array to an array, rising or falling throughout.
        x: The operand.
        lowest: Lower end of the function's domain.
        highest: Upper end of its domain.
    """
    values = np.asarray(function(x.values))
    if x.bound is None:
        return Tracked(values)
    ends = (
        np.maximum(x.values - x.bound, np.minimum(x.values, lowest)),
        np.minimum(x.values + x.bound, np.maximum(x.values, highest)),
    )
    first, second = (np.abs(function(end) - values) for end in ends)
    return Tracked(values, np.asarray(np.maximum(first, second), np.float64))


def exact(label: str, *operands: Tracked) -> None:
    """Reject operands that depend on rounded values where the result could not be compared.

    Raises:
        ArrayOperationError: One is not exact.
    """
    if any(x.bound is not None and np.any(x.bound > 0) for x in operands):
        message = f"{label} depends on rounded values, so that a kernel may come to another one"
        raise ArrayOperationError(
            message, "values that follow from integers alone, or a reference in ./file.py:function"
        )


def whole(label: str, *operands: Tracked) -> None:
    """Reject operands that are not integers.

    Raises:
        ArrayOperationError: One is a float.
    """
    if any(x.is_float for x in operands):
        raise ArrayOperationError(f"{label} of floats", "integers, for example int32(x)")


def shown(shape: Sequence[int]) -> str:
    """Return a shape as an experiment file writes it: ``[4, 8]``."""
    return f"[{', '.join(map(str, shape))}]"


def _counted(values: NDArray[Any]) -> NDArray[Any]:
    """Return booleans as 0 and 1."""
    return values.astype(np.int64) if values.dtype.kind == "b" else values


def _unless_certain(doubtful: NDArray[np.bool_]) -> Floats | None:
    return doubtful.astype(np.float64) if np.any(doubtful) else None
