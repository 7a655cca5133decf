"""The parts of an expression, as `lab.base.parser` reads them and evaluators walk them.

Nothing here says what a part means: `lab.base.expressions` computes scalars from these parts, `lab.library.meaning`
writes C, and another evaluator may compute arrays.

Every part knows the column where it begins, from 1, for errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

Literal = None | bool | int | float | str
"""What can be written down as a constant."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text, `true`, `false` or `none`."""

    value: Literal
    column: int


@dataclass(frozen=True, slots=True)
class NameOf:
    """A name: `block_m`."""

    name: str
    column: int


@dataclass(frozen=True, slots=True)
class FactOf:
    """A named fact of a value: `mapping.size`."""

    value: Part
    name: str
    column: int


@dataclass(frozen=True, slots=True)
class Span:
    """A slice between brackets: `1:`, `:-1`, `::2`."""

    start: Part | None
    stop: Part | None
    step: Part | None
    column: int


@dataclass(frozen=True, slots=True)
class ItemOf:
    """An element: `layout[0]`. Several indices, `a[1:, :-1]`, are a `ListOf` of parts and spans."""

    value: Part
    index: Part
    column: int


@dataclass(frozen=True, slots=True)
class ListOf:
    """Values in brackets or parentheses: `[1, 2]`, `(m, n)`."""

    parts: tuple[Part, ...]
    column: int


@dataclass(frozen=True, slots=True)
class Pairs:
    """A table to look values up in: `{2: "uint2", 4: "uint4"}`."""

    parts: tuple[tuple[Part, Part], ...]
    column: int


@dataclass(frozen=True, slots=True)
class Unary:
    """One operand with `-`, `+` or `not` in front of it."""

    symbol: str
    operand: Part
    column: int


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands with one of ``+ - * / // % ** << >> & ^ ~`` between them; the column is the symbol's."""

    symbol: str
    left: Part
    right: Part
    column: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Comparisons: `a < b <= c` is `a` with the others ``(("<", b), ("<=", c))``."""

    first: Part
    others: tuple[tuple[str, Part], ...]
    column: int


@dataclass(frozen=True, slots=True)
class Junction:
    """At least two operands with `and`, or with `or`, between them."""

    symbol: str
    parts: tuple[Part, ...]
    column: int


@dataclass(frozen=True, slots=True)
class Conditional:
    """``then if test else otherwise``."""

    test: Part
    then: Part
    otherwise: Part
    column: int


@dataclass(frozen=True, slots=True)
class Application:
    """A call of a function, `max(a, b)`, or of a fact that takes arguments, `mapping.index("i")`.

    `depth | length` is the same as `length(depth)`.
    """

    function: NameOf | FactOf
    arguments: tuple[Part, ...]
    keywords: tuple[tuple[str, Part], ...]
    column: int


Part = (
    Constant
    | NameOf
    | FactOf
    | Span
    | ItemOf
    | ListOf
    | Pairs
    | Unary
    | Binary
    | Chain
    | Junction
    | Conditional
    | Application
)


def children(part: Part) -> tuple[Part, ...]:
    """Return the parts directly inside a part, in the order in which they are written; not the name of a function."""
    found: tuple[Part | None, ...] = ()
    match part:
        case FactOf():
            found = (part.value,)
        case Span():
            found = part.start, part.stop, part.step
        case ItemOf():
            found = part.value, part.index
        case ListOf() | Junction():
            found = part.parts
        case Pairs():
            found = tuple(one for pair in part.parts for one in pair)
        case Unary():
            found = (part.operand,)
        case Binary():
            found = part.left, part.right
        case Chain():
            found = part.first, *(operand for _, operand in part.others)
        case Conditional():
            found = part.then, part.test, part.otherwise
        case Application():
            of = part.function.value if isinstance(part.function, FactOf) else None
            found = of, *part.arguments, *(value for _, value in part.keywords)
    return tuple(one for one in found if one is not None)


def walk(part: Part) -> Iterator[Part]:
    """Yield a part and everything inside it."""
    waiting = [part]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(reversed(children(one)))


def names(part: Part) -> frozenset[str]:
    """Return the names that an expression reads; names of functions are not among them."""
    return frozenset(one.name for one in walk(part) if isinstance(one, NameOf))


def functions(part: Part) -> frozenset[str]:
    """Return the names of the functions that an expression calls."""
    calls = (one.function for one in walk(part) if isinstance(one, Application))
    return frozenset(function.name for function in calls if isinstance(function, NameOf))
