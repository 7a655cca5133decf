"""CUDA expressions of a mapping's index and guard, simplified.

Dimensions of one kind that follow one another in the layout as they do in the number of the thread or the local index
are merged into one; dimensions of size 1 are left out. Division, remainder and product by powers of two are shifts and
masks; the highest digit of a number needs no remainder. Numbers are of type `int` and at least 0. If they were
unsigned, NVRTC 13.5 would turn ``array[(3 - i) + t]`` in an unrolled loop into the address of ``t - 1``, widened to 64
bits, plus a constant, which is wrong for t = 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.templates.mapping.dimension import Dimension, TensorAxis


@dataclass(frozen=True)
class _Digit:
    """A digit of the thread number or of the local index, with its place in the tensor.

    Attributes:
        name: The number that it is a digit of.
        divisor: Product of the sizes of the lower digits.
        size: How many values it takes.
        highest: Whether it is the highest digit of the number.
        extent: Tensor extent; the digit must be below it, reversed or not.
        stride: Elements from one value to the next.
        reversed: Whether its coordinate is `extent` - 1 - digit.
    """

    name: str
    divisor: int
    size: int
    highest: bool
    extent: int
    stride: int
    reversed: bool

    @property
    def digit(self) -> str:
        """The digit, in parentheses if it is an expression."""
        return digit(self.name, self.divisor, self.size, highest=self.highest)

    @property
    def value(self) -> str:
        """The coordinate in the tensor, in parentheses if it is an expression."""
        return _infix(str(self.extent - 1), "-", self.digit) if self.reversed else self.digit

    @property
    def term(self) -> str:
        """The digit's contribution to the element index."""
        if self.stride == 1:
            return self.value
        return _infix(self.value, "<<", _log2(self.stride)) if _power(self.stride) else f"{self.value} * {self.stride}"


Names = Mapping[str, str | tuple[str, ...]]
"""Kind to the variable of the thread number or local index, or to one variable per dimension."""


def digit(name: str, divisor: int, size: int, *, highest: bool) -> str:
    """Return a digit of a number, in parentheses if it is an expression.

    Args:
        name: The number.
        divisor: Product of the sizes of the lower digits.
        size: How many values the digit takes.
        highest: Whether it is the number's highest digit, which needs no remainder.
    """
    text = name
    if divisor > 1:
        text = _infix(text, ">>", _log2(divisor)) if _power(divisor) else _infix(text, "/", divisor)
    if not highest:
        text = _infix(text, "&", size - 1) if _power(size) else _infix(text, "%", size)
    return text


def index(axes: Sequence[TensorAxis], offset: int, names: Names) -> str:
    """Return the expression of the element index."""
    return _sum(_digits(axes, _divisors(axes), names), offset + _ahead(axes))


def guards(axes: Sequence[TensorAxis], names: Names) -> Iterator[str]:
    """Yield the bounds checks of digits and ragged axes that may exceed the tensor."""
    divisors = _divisors(axes)
    for digit in _digits(axes, divisors, names):
        if digit.extent < digit.size:
            yield f"{digit.digit} < {digit.extent}"
    for axis in axes:
        if axis.highest >= axis.extent:
            alone = (replace(axis, extent=axis.places),)
            yield f"{_sum(_digits(alone, divisors, names), _ahead(alone))} < {axis.extent}"


def _sum(digits: Sequence[_Digit], constant: int) -> str:
    terms = [digit.term for digit in digits]
    terms += [str(constant)] if constant or not terms else []
    return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"


@dataclass(frozen=True)
class _Divisors:
    """The position of each dimension's digit in its number.

    Attributes:
        below: Kind and number of a dimension to the product of the sizes of the lower ones.
        total: Kind to the product of all sizes.
    """

    below: Mapping[tuple[str, int], int]
    total: Mapping[str, int]


def _divisors(axes: Sequence[TensorAxis]) -> _Divisors:
    below: dict[tuple[str, int], int] = {}
    total = {"i": 1, "t": 1}
    for d in sorted((d for axis in axes for d in axis.dimensions), key=lambda d: d.number):
        below[d.kind, d.number] = total[d.kind]
        total[d.kind] *= d.size
    return _Divisors(below, total)


def _strides(axes: Sequence[TensorAxis]) -> Iterator[tuple[Dimension, int]]:
    """Yield every dimension with its stride in elements, fastest first."""
    start = 1
    for axis in axes:
        stride = start
        for d in axis.dimensions:
            yield d, stride
            stride *= d.extent
        start *= axis.extent


def _ahead(axes: Sequence[TensorAxis]) -> int:
    """Return the offset due to reversed dimensions of size 1, which access their last place."""
    return sum((d.extent - 1) * stride for d, stride in _strides(axes) if d.reversed and d.size == 1)


def _digits(axes: Sequence[TensorAxis], divisors: _Divisors, names: Names) -> list[_Digit]:
    """Return the digits of dimensions larger than 1, with neighbours merged."""
    digits: list[_Digit] = []
    for d, stride in _strides(axes):
        if d.size == 1:
            continue
        name, divisor = names[d.kind], divisors.below[d.kind, d.number]
        highest = divisor * d.size == divisors.total[d.kind]
        if isinstance(name, tuple):  # a variable of its own holds the digit
            name, divisor, highest = name[d.number], 1, True
        current = _Digit(name, divisor, d.size, highest, d.extent, stride, d.reversed)
        joined = _joined(digits[-1], current) if digits else None
        digits[-1:] = [*digits[-1:], current] if joined is None else [joined]
    return digits


def _joined(low: _Digit, high: _Digit) -> _Digit | None:
    """Merge two digits adjacent in the number and in the tensor; None if they are not."""
    if (low.name, low.reversed) != (high.name, high.reversed):
        return None
    if high.divisor != low.divisor * low.size or high.stride != low.stride * low.size or low.extent != low.size:
        return None
    size, extent = low.size * high.size, low.size * high.extent
    return _Digit(low.name, low.divisor, size, high.highest, extent, low.stride, low.reversed)


def _infix(left: str, operator: str, right: object) -> str:
    return f"({left} {operator} {right})"


def _power(number: int) -> bool:
    return number & (number - 1) == 0


def _log2(number: int) -> int:
    return number.bit_length() - 1
