"""One visitor over size expressions, shared by all interpretations of a library.

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
"""Functions allowed in size expressions, with their number of arguments."""

_ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")


class Meaning(Generic[Value]):
    """An interpretation of expressions. A method returns None for an unsupported operation."""

    def constant(self, value: Scalar) -> Value | None:
        """Interpret a number, a boolean or a word."""
        del value
        return None

    def name(self, name: str) -> Value | None:
        """Interpret a size, a factor or another name."""
        del name
        return None

    def negative(self, value: Value) -> Value | None:
        """Interpret ``-value``."""
        del value
        return None

    def inverse(self, value: Value) -> Value | None:
        """Interpret ``not value``."""
        del value
        return None

    def binary(self, symbol: str, left: Value, right: Value) -> Value | None:
        """Interpret ``left symbol right``; the symbol is arithmetic, `and` or `or`."""
        del symbol, left, right
        return None

    def comparison(self, first: Value, following: Sequence[tuple[str, Value]]) -> Value | None:
        """Interpret a chain, ``first < second <= third``: later operands with the symbol in front of each."""
        del first, following
        return None

    def choice(self, test: Value, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value | None:
        """Interpret ``then if test else otherwise``; each side is evaluated on demand."""
        del test, then, otherwise
        return None

    def call(self, function: str, arguments: Sequence[Value]) -> Value | None:
        """Interpret a call of one of `FUNCTIONS`."""
        del function, arguments
        return None

    def listing(self, values: Sequence[Value]) -> Value | None:
        """Interpret ``[first, second]``, a table to index."""
        del values
        return None

    def pairs(self, values: Sequence[tuple[Value, Value]]) -> Value | None:
        """Interpret ``{key: value}``, a table to index."""
        del values
        return None

    def item(self, value: Value, index: Value) -> Value | None:
        """Interpret ``value[index]``."""
        del value, index
        return None


def interpreted(expression: str, meaning: Meaning[Value], *, at: Location, key: str) -> Value:
    """Interpret an expression.

    Args:
        expression: An expression that `lab.base.expressions` accepts.
        meaning: The meaning of its parts.
        at: Where it stands, for errors.
        key: Its key, for errors.

    Raises:
        UserError: The text is not an expression, or the meaning cannot express one of the operations.
    """
    return _read(parts_of(expression, at=at, key=key), meaning, at, key)


def _read(node: syntax.Part, meaning: Meaning[Value], at: Location, key: str) -> Value:
    def interpret(inner: syntax.Part) -> Value:
        return _read(inner, meaning, at, key)

    result: Value | None = None
    match node:
        case syntax.Constant(value=bool() | int() | float() | str() as constant):
            result = meaning.constant(constant)
        case syntax.NameOf(name=name):
            result = meaning.name(name)
        case syntax.Unary(symbol="-" | "not"):
            result = (meaning.negative if node.symbol == "-" else meaning.inverse)(interpret(node.operand))
        case syntax.Binary(symbol=symbol) if symbol in _ARITHMETIC:
            result = meaning.binary(symbol, interpret(node.left), interpret(node.right))
        case syntax.Junction(symbol=symbol):
            result = _joined(symbol, [interpret(inner) for inner in node.parts], meaning)
        case syntax.Chain():
            following = [(symbol, interpret(operand)) for symbol, operand in node.others]
            result = meaning.comparison(interpret(node.first), following)
        case syntax.Conditional():
            result = meaning.choice(
                interpret(node.test), lambda: interpret(node.then), lambda: interpret(node.otherwise)
            )
        case syntax.Application():
            result = _called(node, meaning, interpret)
        case syntax.ListOf() | syntax.Pairs() | syntax.ItemOf():
            result = _table(node, meaning, interpret)
    if result is None:
        accepted = f"+ - * // %, comparisons, and, or, not, if else, {', '.join(FUNCTIONS)}"
        message = "a library's launch cannot compute this"
        raise UserError(message, code="syntax", at=at, key=key, found=_shown(node), accepted=accepted)
    return result


def _table(
    node: syntax.ListOf | syntax.Pairs | syntax.ItemOf,
    meaning: Meaning[Value],
    interpret: Callable[[syntax.Part], Value],
) -> Value | None:
    match node:
        case syntax.ListOf(parts=parts):
            return meaning.listing([interpret(inner) for inner in parts])
        case syntax.Pairs(parts=pairs):
            return meaning.pairs([(interpret(name), interpret(value)) for name, value in pairs])
        case syntax.ItemOf(value=value, index=index):
            return meaning.item(interpret(value), interpret(index))


def _called(
    node: syntax.Application, meaning: Meaning[Value], interpret: Callable[[syntax.Part], Value]
) -> Value | None:
    function, count = node.function, len(node.arguments)
    if not isinstance(function, syntax.NameOf) or node.keywords or FUNCTIONS.get(function.name) != count:
        return None
    return meaning.call(function.name, [interpret(argument) for argument in node.arguments])


def _joined(symbol: str, operands: Sequence[Value], meaning: Meaning[Value]) -> Value | None:
    """Combine operands pairwise, left to right."""
    result: Value | None = operands[0]
    for operand in operands[1:]:
        result = None if result is None else meaning.binary(symbol, result, operand)
    return result


def _shown(node: syntax.Part) -> str:
    match node:
        case syntax.Binary(symbol=symbol) | syntax.Unary(symbol=symbol):
            return symbol
        case syntax.NameOf(name=name):
            return name
        case syntax.Application(function=function):
            return f"{function.name}(...)"
        case _:
            return f"what stands at column {node.column}"
