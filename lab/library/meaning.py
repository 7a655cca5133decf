"""One walk over an expression of sizes, for every meaning that a library gives it.

A library's expressions are specialised to one kernel (`specialise`), written in C (`emit`) and computed for many sizes
at once (`arrays`). Each of these is a `Meaning`: what it makes of a constant, a name, an operation. All of them compute
with 64-bit integers, with `//` and `%` rounding towards minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from lab.base import syntax
from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, parts_of

Value = TypeVar("Value")

FUNCTIONS = {"ceil_div": 2, "min": 2, "max": 2, "abs": 1}
"""What an expression of sizes may call, with how many arguments."""

_ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")


class Meaning(Generic[Value]):
    """What the parts of an expression mean. A method returns None for what the meaning cannot express."""

    def constant(self, value: Scalar) -> Value | None:
        """A number, a boolean or a word."""
        del value
        return None

    def name(self, name: str) -> Value | None:
        """A size, a factor, or what else the expression may refer to."""
        del name
        return None

    def negative(self, value: Value) -> Value | None:
        """``-value``."""
        del value
        return None

    def inverse(self, value: Value) -> Value | None:
        """``not value``."""
        del value
        return None

    def binary(self, symbol: str, left: Value, right: Value) -> Value | None:
        """``left symbol right``; the symbol is an arithmetic one, `and` or `or`."""
        del symbol, left, right
        return None

    def comparison(self, first: Value, others: Sequence[tuple[str, Value]]) -> Value | None:
        """A chain, ``first < second <= third``: every other operand with the symbol in front of it."""
        del first, others
        return None

    def choice(self, test: Value, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value | None:
        """``then if test else otherwise``; either side is made only if it is asked for."""
        del test, then, otherwise
        return None

    def call(self, function: str, arguments: Sequence[Value]) -> Value | None:
        """One of `FUNCTIONS` with its arguments."""
        del function, arguments
        return None

    def listing(self, values: Sequence[Value]) -> Value | None:
        """``[first, second]``, to look something up in."""
        del values
        return None

    def pairs(self, values: Sequence[tuple[Value, Value]]) -> Value | None:
        """``{key: value}``, likewise."""
        del values
        return None

    def item(self, value: Value, index: Value) -> Value | None:
        """``value[index]``."""
        del value, index
        return None


def interpreted(expression: str, meaning: Meaning[Value], *, at: Location, key: str) -> Value:
    """Return what an expression means.

    Args:
        expression: An expression that `lab.base.expressions` accepts.
        meaning: The meaning of its parts.
        at: Where it stands, for errors.
        key: Its key, for errors.

    Raises:
        UserError: The text is not an expression, or the meaning cannot express one of the operations.
    """
    return _read(parts_of(expression, at=at, key=key), meaning, at, key)


def _read(part: syntax.Part, meaning: Meaning[Value], at: Location, key: str) -> Value:
    def read(inner: syntax.Part) -> Value:
        return _read(inner, meaning, at, key)

    found: Value | None = None
    match part:
        case syntax.Constant(value=bool() | int() | float() | str() as constant):
            found = meaning.constant(constant)
        case syntax.NameOf(name=name):
            found = meaning.name(name)
        case syntax.Unary(symbol="-" | "not"):
            found = (meaning.negative if part.symbol == "-" else meaning.inverse)(read(part.operand))
        case syntax.Binary(symbol=symbol) if symbol in _ARITHMETIC:
            found = meaning.binary(symbol, read(part.left), read(part.right))
        case syntax.Junction(symbol=symbol):
            found = _joined(symbol, [read(inner) for inner in part.parts], meaning)
        case syntax.Chain():
            others = [(symbol, read(operand)) for symbol, operand in part.others]
            found = meaning.comparison(read(part.first), others)
        case syntax.Conditional():
            found = meaning.choice(read(part.test), lambda: read(part.then), lambda: read(part.otherwise))
        case syntax.Application():
            found = _called(part, meaning, read)
        case syntax.ListOf() | syntax.Pairs() | syntax.ItemOf():
            found = _table(part, meaning, read)
    if found is None:
        accepted = f"+ - * // %, comparisons, and, or, not, if else, {', '.join(FUNCTIONS)}"
        message = "a library's launch cannot compute this"
        raise UserError(message, code="syntax", at=at, key=key, found=_shown(part), accepted=accepted)
    return found


def _table(
    part: syntax.ListOf | syntax.Pairs | syntax.ItemOf, meaning: Meaning[Value], read: Callable[[syntax.Part], Value]
) -> Value | None:
    match part:
        case syntax.ListOf(parts=parts):
            return meaning.listing([read(inner) for inner in parts])
        case syntax.Pairs(parts=pairs):
            return meaning.pairs([(read(name), read(value)) for name, value in pairs])
        case syntax.ItemOf(value=value, index=index):
            return meaning.item(read(value), read(index))


def _called(part: syntax.Application, meaning: Meaning[Value], read: Callable[[syntax.Part], Value]) -> Value | None:
    function, count = part.function, len(part.arguments)
    if not isinstance(function, syntax.NameOf) or part.keywords or FUNCTIONS.get(function.name) != count:
        return None
    return meaning.call(function.name, [read(argument) for argument in part.arguments])


def _joined(symbol: str, operands: Sequence[Value], meaning: Meaning[Value]) -> Value | None:
    """Two operands at a time, the first ones first."""
    found: Value | None = operands[0]
    for operand in operands[1:]:
        found = None if found is None else meaning.binary(symbol, found, operand)
    return found


def _shown(part: syntax.Part) -> str:
    match part:
        case syntax.Binary(symbol=symbol) | syntax.Unary(symbol=symbol):
            return symbol
        case syntax.NameOf(name=name):
            return name
        case syntax.Application(function=function):
            return f"{function.name}(...)"
        case _:
            return f"what stands at column {part.column}"
