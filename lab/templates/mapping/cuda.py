"""A mapping's element and guard as CUDA expressions, as short as possible.

Dimensions of one kind that follow one another in the layout as they do in the number of the thread or the local index
are merged into one; dimensions of size 1 are left out. Division, remainder and product by powers of two are shifts and
masks; the highest digit of a number needs no remainder. Numbers are of type `int` and at least 0. If they were
unsigned, NVRTC 13.5 would turn ``array[(3 - i) + t]`` in an unrolled loop into the address of ``t - 1``, widened to 64
bits, plus a constant, which is wrong for t = 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.templates.mapping.dimension import Dimension


@dataclass(frozen=True)
class _Digit:
    """A digit of the thread's number or of the local index, with its place in the tensor.

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
        """The digit, in parentheses where it is an expression."""
        text = self.name
        if self.divisor > 1:
            text = _infix(text, ">>", _log2(self.divisor)) if _power(self.divisor) else _infix(text, "/", self.divisor)
        if not self.highest:
            text = _infix(text, "&", self.size - 1) if _power(self.size) else _infix(text, "%", self.size)
        return text

    @property
    def value(self) -> str:
        """The coordinate in the tensor, in parentheses where it is an expression."""
        return _infix(str(self.extent - 1), "-", self.digit) if self.reversed else self.digit

    @property
    def term(self) -> str:
        """The digit's share of the element."""
        if self.stride == 1:
            return self.value
        return _infix(self.value, "<<", _log2(self.stride)) if _power(self.stride) else f"{self.value} * {self.stride}"


def index(layout: Sequence[Dimension], offset: int, names: Mapping[str, str]) -> str:
    """Return the expression of the element that is touched."""
    terms = [digit.term for digit in _digits(layout, names)]
    offset += _ahead(layout)
    terms += [str(offset)] if offset or not terms else []
    return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"


def guards(layout: Sequence[Dimension], names: Mapping[str, str]) -> Iterator[str]:
    """Yield one condition for each digit that may be too large for the tensor."""
    for digit in _digits(layout, names):
        if digit.extent < digit.size:
            yield f"{digit.digit} < {digit.extent}"


def _ahead(layout: Sequence[Dimension]) -> int:
    """Return the elements in front of what reversed dimensions of size 1 touch, which are the last of their places."""
    ahead, stride = 0, 1
    for d in layout:
        ahead += (d.extent - 1) * stride if d.reversed and d.size == 1 else 0
        stride *= d.extent
    return ahead


def _digits(layout: Sequence[Dimension], names: Mapping[str, str]) -> list[_Digit]:
    """Return the layout's dimensions that matter, with neighbours merged."""
    totals, divisors = {"i": 1, "t": 1}, {}
    for d in sorted(layout, key=lambda d: d.number):
        divisors[d.kind, d.number] = totals[d.kind]
        totals[d.kind] *= d.size
    made: list[_Digit] = []
    stride = 1
    for d in layout:
        divisor = divisors[d.kind, d.number]
        highest = divisor * d.size == totals[d.kind]
        digit = _Digit(names[d.kind], divisor, d.size, highest, d.extent, stride, d.reversed)
        stride *= d.extent
        if d.size == 1:
            continue
        joined = _joined(made[-1], digit) if made else None
        made[-1:] = [*made[-1:], digit] if joined is None else [joined]
    return made


def _joined(low: _Digit, high: _Digit) -> _Digit | None:
    """Merge two digits that are neighbours in the number and in the tensor; None where they are not."""
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
