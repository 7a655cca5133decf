"""Expressions of constraints, geometry and derived names: parsed once, evaluated to scalars.

`lab.base.parser` defines the grammar, and this module is the whole interpreter: neither Python's `eval` nor Jinja is
involved. Operands are immutable values (`lab.base.facts`), functions are those of `lab.base.functions`. There are no
loops, so the number of steps is at most the number of nodes; numbers, strings and lists are bounded.
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
"""Placeholder for the value of a name that has none of the types in `_VALUES`."""


def parts_of(expression: str, *, at: Location, key: str) -> syntax.Part:
    """Return the syntax tree of an expression, for an evaluator.

    Raises:
        UserError: The text is not an expression; the message names the column.
    """
    return _parsed(expression, at, key)[0]


def names_in(expression: str, *, at: Location, key: str) -> frozenset[str]:
    """Return the names that an expression reads, except functions.

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
        names: Values (`lab.base.facts.Value`) of the names it may use.
        at: Its location, for errors.
        key: Its key, for errors.

    Returns:
        A number, a boolean or a string.

    Raises:
        UserError: The expression has a syntax error or an unknown name, or an operation rejects its operands.
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
    bindings = tuple(
        (name, type(value), value) if isinstance(value := names[name], _VALUES) else (name, object, _FOREIGN)
        for name in used
    )
    try:
        value = _value(expression, bindings)
    except _PlacedError as error:
        refusal = error.why
        raised = isinstance(refusal, RaisedError)
        raise UserError(
            refusal.message
            if raised
            else f"the expression cannot be evaluated: {refusal.message} (column {error.column})",
            code="unsupported",
            at=at,
            key=key,
            found=expression,
            accepted=refusal.accepted,
            suggestion=refusal.suggestion,
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
    """Return the syntax tree of an expression, its names and functions; cached, since sweeps repeat expressions."""
    root = parser.parse(expression)
    return root, syntax.names(root), syntax.functions(root)


@lru_cache(maxsize=65536)
def _value(expression: str, bindings: tuple[tuple[str, type, object], ...]) -> Value:
    """Evaluate an expression; the key includes the types of the bound values, since 1, 1.0 and True are equal.

    A sweep evaluates the same few expressions at every point: `block_m % thread_m == 0` has a dozen cases in all.
    """
    return _of(_read(expression)[0], {name: value for name, _, value in bindings})


class _PlacedError(Exception):
    """An operation rejected its operands at a column."""

    def __init__(self, refusal: OperandError, column: int) -> None:
        self.why, self.column = refusal, column
        super().__init__(str(refusal))


# ---- one rule for each kind of node


def _of(node: syntax.Part, names: _Names) -> Value:
    try:
        return _bounded(_RULES[type(node)](node, names))
    except OperandError as error:
        raise _PlacedError(error, node.column) from error


def _bounded(value: Value) -> Value:
    """Return a value if it is within the bounds of its type.

    Raises:
        OperandError: It is not.
    """
    if isinstance(value, int):
        if not -LARGEST <= value <= LARGEST:
            raise OperandError("the number is too large", accepted="whole numbers from -2^63 to 2^63")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise OperandError("the result is infinite or not a number")
    elif isinstance(value, str):
        if len(value) > MOST_TEXT:
            raise OperandError(f"the text has {len(value)} characters", accepted=f"at most {MOST_TEXT}")
    elif isinstance(value, tuple) and len(value) > MOST_PARTS:
        raise OperandError(f"the list has {len(value)} values", accepted=f"at most {MOST_PARTS}")
    return value


def _constant(node: syntax.Constant, names: _Names) -> Value:
    del names
    return node.value


def _name(node: syntax.NameOf, names: _Names) -> Value:
    value = names[node.name]
    if value is _FOREIGN:
        raise OperandError(f"{node.name} has no value here")
    return value


def _fact(node: syntax.FactOf, names: _Names) -> Value:
    return _owner(node, names).fact(node.name)


def _owner(node: syntax.FactOf, names: _Names) -> FactValue:
    value = _of(node.value, names)
    if not isinstance(value, FactValue):
        raise OperandError(f"{described(value)} has no attribute {node.name!r}")
    return value


def _item(node: syntax.ItemOf, names: _Names) -> Value:
    if isinstance(node.index, syntax.ListOf):
        raise OperandError("a list takes one index", accepted="one index or slice between the brackets")
    value = _of(node.value, names)
    index = _slice(node.index, names) if isinstance(node.index, syntax.Span) else _of(node.index, names)
    if isinstance(value, dict):
        if not isinstance(index, bool | int | float | str) or index not in value:
            raise OperandError(f"the table has no key for {described(index)}", accepted=", ".join(map(repr, value)))
        return value[index]
    if not isinstance(value, _SEQUENCES):
        raise OperandError(f"{described(value)} has no elements")
    if isinstance(index, slice):
        return value[index]
    if isinstance(index, bool) or not isinstance(index, int):
        raise OperandError(f"an index is {described(index)}", accepted="a whole number")
    if not -len(value) <= index < len(value):
        accepted = f"from {-len(value)} to {len(value) - 1}" if value else None
        raise OperandError(f"index out of range: {index}", accepted=accepted)
    return value[index]


def _slice(node: syntax.Span, names: _Names) -> slice:
    ends = [None if end is None else _of(end, names) for end in (node.start, node.stop, node.step)]
    for end in ends:
        if isinstance(end, bool) or not isinstance(end, int | None):
            raise OperandError(f"the end of a slice is {described(end)}", accepted="a whole number, or nothing")
    if ends[2] == 0:
        raise OperandError("the step of a slice is 0")
    return slice(*ends)


def _span(node: syntax.Span, names: _Names) -> Value:
    del node, names
    raise OperandError("a slice is only allowed in the brackets after a list")


def _listing(node: syntax.ListOf, names: _Names) -> Value:
    return tuple(_of(element, names) for element in node.parts)


def _pairs(node: syntax.Pairs, names: _Names) -> Value:
    table: dict[Value, Value] = {}
    for key, value in node.parts:
        table_key = _of(key, names)
        if not isinstance(table_key, bool | int | float | str):
            raise OperandError(f"a key is {described(table_key)}", accepted="a number, a boolean or a text")
        table[table_key] = _of(value, names)
    return table


def _prefix(node: syntax.Unary, names: _Names) -> Value:
    value = _of(node.operand, names)
    if node.symbol == "not":
        return not value
    if not isinstance(value, int | float):
        raise OperandError(f"the operand of '{node.symbol}' is {described(value)}", accepted="a number")
    return -value if node.symbol == "-" else +value


def _infix(node: syntax.Binary, names: _Names) -> Value:
    left, right = _of(node.left, names), _of(node.right, names)
    if node.symbol == "~":
        return text_of(left) + text_of(right)
    if node.symbol == "+":
        if isinstance(left, str) and isinstance(right, str):
            return left + right
        if isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
    is_integral = node.symbol in _WHOLE
    for value in (left, right):
        if not isinstance(value, int if is_integral else int | float):
            expected = "whole numbers" if is_integral else "numbers"
            raise OperandError(
                f"an operand of '{node.symbol}' is {described(value)}", accepted=f"{expected} on both sides"
            )
    try:
        return _ARITHMETIC[node.symbol](left, right)
    except ZeroDivisionError:
        raise OperandError(f"{node.symbol} by zero") from None
    except OverflowError:
        raise OperandError("the number is too large") from None


def _power(base: Number, exponent: Number) -> Value:
    """Raise to a power, rejecting integer powers that are too large before computing them."""
    if isinstance(base, int) and isinstance(exponent, int):
        if exponent > 0 and abs(base) > 1 and exponent * (abs(base).bit_length() - 1) > _MOST_SHIFT:
            raise OperandError("the result of ** is too large")
    elif base < 0 and not float(exponent).is_integer():
        raise OperandError("fractional power of a negative number")
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
"""Operators that take integers only."""


def _chain(node: syntax.Chain, names: _Names) -> Value:
    left = _of(node.first, names)
    for symbol, operand in node.others:
        right = _of(operand, names)
        if not _COMPARISONS[symbol](left, right):
            return False
        left = right
    return True


def _ordered(symbol: str, compare: Callable[[Any, Any], Any]) -> Callable[[Value, Value], bool]:
    def holds(left: Value, right: Value) -> bool:
        both_numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not both_numbers and not (isinstance(left, str) and isinstance(right, str)):
            message = f"{described(left)} and {described(right)} cannot be compared with '{symbol}'"
            raise OperandError(message, accepted="two numbers or two texts")
        return bool(compare(left, right))

    return holds


def _within(left: Value, right: Value) -> bool:
    if isinstance(right, str):
        if not isinstance(left, str):
            raise OperandError(f"{described(left)} in a text", accepted="a text in a text, or a value in a list")
        return left in right
    if not isinstance(right, tuple | range | dict):
        raise OperandError(f"{described(right)} is not a container", accepted="a list or a text after 'in'")
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


def _junction(node: syntax.Junction, names: _Names) -> Value:
    """Return the deciding operand, as Python does: `blocks or 4` is `blocks` unless that is 0."""
    value: Value = None
    for operand in node.parts:
        value = _of(operand, names)
        if bool(value) is (node.symbol == "or"):
            break
    return value


def _conditional(node: syntax.Conditional, names: _Names) -> Value:
    return _of(node.then if _of(node.test, names) else node.otherwise, names)


def _application(node: syntax.Application, names: _Names) -> Value:
    function = node.function
    owner = _owner(function, names) if isinstance(function, syntax.FactOf) else None
    arguments = [_of(argument, names) for argument in node.arguments]
    keywords = {name: _of(value, names) for name, value in node.keywords}
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
