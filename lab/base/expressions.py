"""Expressions of constraints, geometry and derived names: read once, evaluated to scalars.

The grammar is that of `lab.base.parser`, and this module is the whole interpreter: neither Python's `eval` nor Jinja is
involved. Operands are immutable values (`lab.base.facts`), functions are those of `lab.base.functions`. There are no
loops, so that an expression takes as many steps as it has parts; numbers, texts and lists are bounded.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from lab.base import parser, syntax
from lab.base.errors import Location, UserError, did_you_mean
from lab.base.facts import LARGEST, MOST_PARTS, MOST_TEXT, FactValue, Number, OperandError, Value, called, described
from lab.base.functions import FUNCTIONS, RaisedError, text_of

Scalar = bool | int | float | str

_Names = Mapping[str, Value]

_VALUES = (bool, int, float, str, tuple, range, FactValue, type(None))
_SEQUENCES = (tuple, range, str)
_MOST_SHIFT = 64
_FOREIGN: Final = object()
"""Stands for a name's value that is none of `_VALUES`."""


def parts_of(expression: str, *, at: Location, key: str) -> syntax.Part:
    """Return the parts of an expression, for an evaluator.

    Raises:
        UserError: The text is not an expression; the message names the column.
    """
    return _parsed(expression, at, key)[0]


def names_in(expression: str, *, at: Location, key: str) -> frozenset[str]:
    """Return the names that an expression reads, without functions.

    Raises:
        UserError: The text is not an expression, or a function is unknown; the message names the column.
    """
    _, used, functions = _parsed(expression, at, key)
    if not functions <= FUNCTIONS.keys():
        name = min(functions - FUNCTIONS.keys())
        raise UserError(
            f"unknown function {name!r} in an expression",
            code="unknown-name",
            at=at,
            key=key,
            found=expression,
            accepted=list(FUNCTIONS),
            suggestion=did_you_mean(name, FUNCTIONS),
        )
    return used


def evaluate(expression: str | float, names: Mapping[str, object], *, at: Location, key: str) -> Scalar:
    """Return the value of an expression.

    Args:
        expression: The expression; a number is its own value.
        names: Names that it may use, with their values (`lab.base.facts.Value`).
        at: Its location, for errors.
        key: Its key, for errors.

    Returns:
        A number, a boolean or a string.

    Raises:
        UserError: The expression has a syntax error or an unknown name, or an operation is refused.
    """
    if not isinstance(expression, str):
        return expression
    used = names_in(expression, at=at, key=key)
    if missing := [name for name in used if name not in names]:
        name = min(missing)
        raise UserError(
            f"unknown name {name!r} in an expression",
            code="unknown-name",
            at=at,
            key=key,
            found=expression,
            accepted=sorted(names),
            suggestion=did_you_mean(name, names),
        )
    given = tuple(
        (name, type(value), value) if isinstance(value := names[name], _VALUES) else (name, object, _FOREIGN)
        for name in used
    )
    try:
        value = _value(expression, given)
    except _PlacedError as error:
        why = error.why
        raised = isinstance(why, RaisedError)
        raise UserError(
            why.message if raised else f"the expression cannot be evaluated: {why.message} (column {error.column})",
            code="unsupported",
            at=at,
            key=key,
            found=expression,
            accepted=why.accepted,
            suggestion=why.suggestion,
        ) from error
    if not isinstance(value, bool | int | float | str):
        raise UserError(
            f"the value of the expression is {described(value)}",
            code="wrong-value",
            at=at,
            key=key,
            found=expression,
            accepted="a number, a boolean or a string",
        )
    return value


def _parsed(expression: str, at: Location, key: str) -> tuple[syntax.Part, frozenset[str], frozenset[str]]:
    try:
        return _read(expression)
    except parser.NotationError as error:
        raise UserError(
            f"not an expression: {error.message} at column {error.column}",
            code="syntax",
            at=at,
            key=key,
            found=expression if len(expression) <= parser.MOST_CHARACTERS else f"{expression[:60]}...",
            accepted=error.accepted,
        ) from error


@lru_cache(maxsize=4096)
def _read(expression: str) -> tuple[syntax.Part, frozenset[str], frozenset[str]]:
    """Return an expression with its names and functions; cached, since a sweep evaluates few of them many times."""
    part = parser.parse(expression)
    return part, syntax.names(part), syntax.functions(part)


@lru_cache(maxsize=65536)
def _value(expression: str, given: tuple[tuple[str, type, object], ...]) -> Value:
    """Return the value for given values of the names; their types are in the key because 1, 1.0 and true are equal.

    A sweep evaluates the same few expressions at every point: `block_m % thread_m == 0` has a dozen cases in all.
    """
    return _of(_read(expression)[0], {name: value for name, _, value in given})


class _PlacedError(Exception):
    """An operation was refused at a column."""

    def __init__(self, why: OperandError, column: int) -> None:
        self.why, self.column = why, column
        super().__init__(str(why))


# ---- one rule for each kind of part


def _of(part: syntax.Part, names: _Names) -> Value:
    try:
        return _bounded(_RULES[type(part)](part, names))
    except OperandError as error:
        raise _PlacedError(error, part.column) from error


def _bounded(value: Value) -> Value:
    """Return a value that is within the bounds of its type.

    Raises:
        OperandError: It is not.
    """
    if isinstance(value, int):
        if not -LARGEST <= value <= LARGEST:
            raise OperandError("the number is too large", accepted="whole numbers from -2^63 to 2^63")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise OperandError("the number is too large, or the result is none")
    elif isinstance(value, str):
        if len(value) > MOST_TEXT:
            raise OperandError(f"the text has {len(value)} characters", accepted=f"at most {MOST_TEXT}")
    elif isinstance(value, tuple) and len(value) > MOST_PARTS:
        raise OperandError(f"the list has {len(value)} values", accepted=f"at most {MOST_PARTS}")
    return value


def _constant(part: syntax.Constant, names: _Names) -> Value:
    del names
    return part.value


def _name(part: syntax.NameOf, names: _Names) -> Value:
    value = names[part.name]
    if value is _FOREIGN:
        raise OperandError(f"{part.name} has no value here")
    return value


def _fact(part: syntax.FactOf, names: _Names) -> Value:
    return _owner(part, names).fact(part.name)


def _owner(part: syntax.FactOf, names: _Names) -> FactValue:
    value = _of(part.value, names)
    if not isinstance(value, FactValue):
        raise OperandError(f"{described(value)} has no facts, so there is no {part.name!r}")
    return value


def _item(part: syntax.ItemOf, names: _Names) -> Value:
    if isinstance(part.index, syntax.ListOf):
        raise OperandError("a list has one index", accepted="one index or slice between the brackets")
    value = _of(part.value, names)
    index = _slice(part.index, names) if isinstance(part.index, syntax.Span) else _of(part.index, names)
    if isinstance(value, dict):
        if not isinstance(index, bool | int | float | str) or index not in value:
            raise OperandError(f"there is no key for {described(index)}", accepted=", ".join(map(repr, value)))
        return value[index]
    if not isinstance(value, _SEQUENCES):
        raise OperandError(f"{described(value)} has no elements")
    if isinstance(index, slice):
        return value[index]
    if isinstance(index, bool) or not isinstance(index, int):
        raise OperandError(f"an index is {described(index)}", accepted="a whole number")
    if not -len(value) <= index < len(value):
        accepted = f"from {-len(value)} to {len(value) - 1}" if value else None
        raise OperandError(f"there is no element {index}", accepted=accepted)
    return value[index]


def _slice(part: syntax.Span, names: _Names) -> slice:
    ends = [None if end is None else _of(end, names) for end in (part.start, part.stop, part.step)]
    for end in ends:
        if isinstance(end, bool) or not isinstance(end, int | None):
            raise OperandError(f"the end of a slice is {described(end)}", accepted="a whole number, or nothing")
    if ends[2] == 0:
        raise OperandError("the step of a slice is 0")
    return slice(*ends)


def _span(part: syntax.Span, names: _Names) -> Value:
    del part, names
    raise OperandError("a slice stands between the brackets behind a list, and nowhere else")


def _listing(part: syntax.ListOf, names: _Names) -> Value:
    return tuple(_of(one, names) for one in part.parts)


def _pairs(part: syntax.Pairs, names: _Names) -> Value:
    found: dict[Value, Value] = {}
    for key, value in part.parts:
        named = _of(key, names)
        if not isinstance(named, bool | int | float | str):
            raise OperandError(f"a key is {described(named)}", accepted="a number, a boolean or a text")
        found[named] = _of(value, names)
    return found


def _prefix(part: syntax.Unary, names: _Names) -> Value:
    value = _of(part.operand, names)
    if part.symbol == "not":
        return not value
    if not isinstance(value, int | float):
        raise OperandError(f"the operand of '{part.symbol}' is {described(value)}", accepted="a number")
    return -value if part.symbol == "-" else +value


def _infix(part: syntax.Binary, names: _Names) -> Value:
    left, right = _of(part.left, names), _of(part.right, names)
    if part.symbol == "~":
        return text_of(left) + text_of(right)
    if part.symbol == "+":
        if isinstance(left, str) and isinstance(right, str):
            return left + right
        if isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
    whole = part.symbol in _WHOLE
    for value in (left, right):
        if not isinstance(value, int if whole else int | float):
            wanted = "whole numbers" if whole else "numbers"
            raise OperandError(
                f"an operand of '{part.symbol}' is {described(value)}", accepted=f"{wanted} on both sides"
            )
    try:
        return _ARITHMETIC[part.symbol](left, right)
    except ZeroDivisionError:
        raise OperandError(f"{part.symbol} by zero") from None
    except OverflowError:
        raise OperandError("the number is too large") from None


def _power(base: Number, exponent: Number) -> Value:
    """Refuse a power of whole numbers that is too large before it is computed."""
    if isinstance(base, int) and isinstance(exponent, int):
        if exponent > 0 and abs(base) > 1 and exponent * (abs(base).bit_length() - 1) > _MOST_SHIFT:
            raise OperandError("the result of ** is too large")
    elif base < 0 and not float(exponent).is_integer():
        raise OperandError("a root of a negative number")
    return base**exponent


def _shifted_left(value: int, places: int) -> int:
    _check_shift(places)
    return value << places


def _shifted_right(value: int, places: int) -> int:
    _check_shift(places)
    return value >> places


def _check_shift(places: int) -> None:
    if not 0 <= places <= _MOST_SHIFT:
        raise OperandError(f"a shift by {places} places", accepted=f"from 0 to {_MOST_SHIFT}")


_ARITHMETIC: Mapping[str, Callable[[Any, Any], Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": _power,
    "<<": _shifted_left,
    ">>": _shifted_right,
    "&": operator.and_,
    "^": operator.xor,
}
_WHOLE = frozenset({"<<", ">>", "&", "^"})
"""Operators of whole numbers alone."""


def _chain(part: syntax.Chain, names: _Names) -> Value:
    left = _of(part.first, names)
    for symbol, operand in part.others:
        right = _of(operand, names)
        if not _COMPARISONS[symbol](left, right):
            return False
        left = right
    return True


def _ordered(symbol: str, compare: Callable[[Any, Any], Any]) -> Callable[[Value, Value], bool]:
    def holds(left: Value, right: Value) -> bool:
        both_numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not both_numbers and not (isinstance(left, str) and isinstance(right, str)):
            message = f"{described(left)} and {described(right)} have no order, so '{symbol}' says nothing"
            raise OperandError(message, accepted="two numbers, or two texts")
        return bool(compare(left, right))

    return holds


def _within(left: Value, right: Value) -> bool:
    if isinstance(right, str):
        if not isinstance(left, str):
            raise OperandError(f"{described(left)} in a text", accepted="a text in a text, or a value in a list")
        return left in right
    if not isinstance(right, tuple | range | dict):
        raise OperandError(f"{described(right)} holds no values", accepted="a list or a text behind 'in'")
    return not (isinstance(left, tuple | dict) and isinstance(right, dict)) and left in right


def _not_within(left: Value, right: Value) -> bool:
    return not _within(left, right)


_COMPARISONS: Mapping[str, Callable[[Value, Value], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": _ordered("<", operator.lt),
    "<=": _ordered("<=", operator.le),
    ">": _ordered(">", operator.gt),
    ">=": _ordered(">=", operator.ge),
    "in": _within,
    "not in": _not_within,
}


def _junction(part: syntax.Junction, names: _Names) -> Value:
    """Return the operand that decides, as Python does: `blocks or 4` is `blocks` unless that is 0."""
    value: Value = None
    for one in part.parts:
        value = _of(one, names)
        if bool(value) is (part.symbol == "or"):
            break
    return value


def _conditional(part: syntax.Conditional, names: _Names) -> Value:
    return _of(part.then if _of(part.test, names) else part.otherwise, names)


def _application(part: syntax.Application, names: _Names) -> Value:
    function = part.function
    owner = _owner(function, names) if isinstance(function, syntax.FactOf) else None
    arguments = [_of(one, names) for one in part.arguments]
    keywords = {name: _of(value, names) for name, value in part.keywords}
    if owner is not None:
        return owner.call(function.name, arguments, keywords)
    return called(function.name, FUNCTIONS[function.name], arguments, keywords)


_RULES: Mapping[type, Callable[[Any, _Names], Value]] = MappingProxyType(
    {
        syntax.Constant: _constant,
        syntax.NameOf: _name,
        syntax.FactOf: _fact,
        syntax.Span: _span,
        syntax.ItemOf: _item,
        syntax.ListOf: _listing,
        syntax.Pairs: _pairs,
        syntax.Unary: _prefix,
        syntax.Binary: _infix,
        syntax.Chain: _chain,
        syntax.Junction: _junction,
        syntax.Conditional: _conditional,
        syntax.Application: _application,
    }
)
