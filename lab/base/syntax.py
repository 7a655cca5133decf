"""The syntax tree of an expression, as parsed by `lab.base.parser` and walked by evaluators.

The tree has no semantics of its own: `lab.base.expressions` computes scalars from it, `lab.library.meaning` generates
C, and another evaluator may compute arrays.

Every node has the column where it begins, from 1, for errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

Literal = None | bool | int | float | str
"""The value of a constant."""


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
    """An attribute of a value: `mapping.size`."""

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
    """An element: `layout[0]`. Several indices, as in `a[1:, :-1]`, are a `ListOf` of parts and spans."""

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
    """A lookup table: `{2: "uint2", 4: "uint4"}`."""

    parts: tuple[tuple[Part, Part], ...]
    column: int


@dataclass(frozen=True, slots=True)
class Unary:
    """An operand with the prefix `-`, `+` or `not`."""

    symbol: str
    operand: Part
    column: int


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands joined by one of ``+ - * / // % ** << >> & ^ ~``; the column is that of the operator."""

    symbol: str
    left: Part
    right: Part
    column: int


@dataclass(frozen=True, slots=True)
class Chain:
    """A chained comparison: `a < b <= c` is `a` with the others ``(("<", b), ("<=", c))``."""

    first: Part
    others: tuple[tuple[str, Part], ...]
    column: int


@dataclass(frozen=True, slots=True)
class Junction:
    """At least two operands joined by `and`, or by `or`."""

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


def children(node: Part) -> tuple[Part, ...]:
    """Return the direct children of a node in source order, without the name of a called function."""
    candidates: tuple[Part | None, ...] = ()
    match node:
        case FactOf():
            candidates = (node.value,)
        case Span():
            candidates = node.start, node.stop, node.step
        case ItemOf():
            candidates = node.value, node.index
        case ListOf() | Junction():
            candidates = node.parts
        case Pairs():
            candidates = tuple(member for pair in node.parts for member in pair)
        case Unary():
            candidates = (node.operand,)
        case Binary():
            candidates = node.left, node.right
        case Chain():
            candidates = node.first, *(operand for _, operand in node.others)
        case Conditional():
            candidates = node.then, node.test, node.otherwise
        case Application():
            receiver = node.function.value if isinstance(node.function, FactOf) else None
            candidates = receiver, *node.arguments, *(value for _, value in node.keywords)
    return tuple(child for child in candidates if child is not None)


def walk(root: Part) -> Iterator[Part]:
    """Yield a node and all its descendants."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


def names(root: Part) -> frozenset[str]:
    """Return the names that an expression reads, except names of functions."""
    return frozenset(node.name for node in walk(root) if isinstance(node, NameOf))


def functions(root: Part) -> frozenset[str]:
    """Return the names of the functions that an expression calls."""
    calls = (node.function for node in walk(root) if isinstance(node, Application))
    return frozenset(function.name for function in calls if isinstance(function, NameOf))
