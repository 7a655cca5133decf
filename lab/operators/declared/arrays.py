"""Evaluates references: the expressions of `lab.base.parser` over arrays.

The interpreter is our own: names are arguments and numbers, functions those of `lab.operators.declared.functions`, and
no attribute of a Python object is ever reached. There are no loops, so that an expression takes as many steps as it has
parts, and the size of every result is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np

from lab.base import parser, syntax
from lab.base.errors import UserError, did_you_mean
from lab.operators.declared import movement
from lab.operators.declared.functions import ARRAY_FUNCTIONS, CONSTANTS, Given, array_of, integer_of
from lab.operators.declared.tracked import ArrayOperationError, Rules, Tracked

_FOREIGN: Final[Mapping[str, str]] = {
    "transposed": "transpose",
    "absolute": "abs",
    "fabs": "abs",
    "round": "rint",
    "around": "rint",
    "roundf": "rint",
    "amax": "max",
    "amin": "min",
    "remainder": "mod",
    "histogram": "bincount",
    "not_": "logical_not",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "pow": "power",
    "flatten": "ravel",
    "len": "a.shape's field of the problem, by its name",
}
"""Names that users know from elsewhere."""

_MODULES: Final = ("np", "numpy", "math", "torch", "cp", "cupy")
"""Modules whose functions stand without them."""


@lru_cache(maxsize=1024)
def names_of(expression: str) -> frozenset[str]:
    """Return the names that a reference reads, without functions and constants.

    Raises:
        UserError: The text is no expression; it has no key.
    """
    return syntax.names(_parsed(expression))


def check(expression: str, known: Mapping[str, object] | frozenset[str]) -> list[UserError]:
    """Return every mistake that can be found before there are arrays: notation, unknown names and functions."""
    try:
        part = _parsed(expression)
    except UserError as error:
        return [error]
    mistakes = []
    modules = {module for module in _MODULES if module not in known}
    for one in syntax.walk(part):
        match one:
            case syntax.NameOf(name=name, column=column) if name not in {*known, *CONSTANTS, *modules}:
                mistakes.append(_unknown_name(expression, name, column, known))
            case syntax.Application(function=syntax.NameOf(name=name, column=column)) if name not in ARRAY_FUNCTIONS:
                mistakes.append(_unknown_function(expression, name, column))
            case (syntax.FactOf() as fact) | syntax.Application(function=syntax.FactOf() as fact):
                hint = _without_attribute(fact, known)
                mistakes.append(
                    _refused(expression, fact.column, "values have no attributes", "a function: sum(a)", hint)
                )
    return mistakes


def _without_attribute(part: syntax.FactOf, known: Mapping[str, object] | frozenset[str]) -> str | None:
    """Say how `np.sqrt(a)` and `a.sum()` are written here."""
    if not isinstance(part.value, syntax.NameOf) or part.name not in {*ARRAY_FUNCTIONS, *CONSTANTS}:
        return None
    if part.value.name in known:
        return f"write {part.name}({part.value.name})"
    return f"write {part.name} without {part.value.name}."


def evaluate_arrays(expression: str, names: Mapping[str, Given], rules: Rules) -> Tracked:
    """Return the value of a reference.

    Args:
        expression: The reference.
        names: Arrays and scalars by name.
        rules: How kernels round, and how large results may be.

    Raises:
        UserError: It is no expression, or an operation is refused. The message names the column; there is no key.
    """
    part = _parsed(expression)
    mistakes = check(expression, frozenset(names))
    if mistakes:
        raise mistakes[0]
    try:
        with np.errstate(all="ignore"):
            return array_of(_of(part, names, rules))
    except _PlacedArrayError as error:
        why = error.why
        raise _refused(expression, error.column, why.message, why.accepted) from error
    except TypeError as error:
        raise _refused(expression, 1, "the value is no array", "an array or a number") from error


def evaluate_part(part: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Given:
    """Return the value of a part of a reference.

    Raises:
        UserError: An operation is refused.
    """
    try:
        with np.errstate(all="ignore"):
            return _of(part, names, rules)
    except _PlacedArrayError as error:
        raise _refused("", error.column, error.why.message, error.why.accepted) from error


def _parsed(expression: str) -> syntax.Part:
    try:
        return parser.parse(expression)
    except parser.NotationError as error:
        raise _refused(expression, error.column, f"not an expression: {error.message}", error.accepted) from error


def _refused(
    expression: str, column: int, message: str, accepted: str | None, suggestion: str | None = None
) -> UserError:
    return UserError(
        f"{message} (column {column})", code="syntax", found=expression[:300], accepted=accepted, suggestion=suggestion
    )


def _unknown_name(expression: str, name: str, column: int, known: Mapping[str, object] | frozenset[str]) -> UserError:
    accepted = ", ".join(sorted(known))
    return _refused(expression, column, f"unknown name {name!r}", accepted, did_you_mean(name, known))


def _unknown_function(expression: str, name: str, column: int) -> UserError:
    suggestion = f"did you mean {_FOREIGN[name]!r}?" if name in _FOREIGN else did_you_mean(name, ARRAY_FUNCTIONS)
    if name in ("array", "asarray"):
        suggestion = "a list needs no function: [1, 2, 3]"
    return _refused(expression, column, f"unknown function {name!r}", ", ".join(ARRAY_FUNCTIONS), suggestion)


class _PlacedArrayError(Exception):
    """An operation was refused at a column."""

    def __init__(self, why: ArrayOperationError, column: int) -> None:
        self.why, self.column = why, column
        super().__init__(why.message)


_INFIX: Final[Mapping[str, Callable[[Rules, Tracked, Tracked], Tracked]]] = {
    "+": Rules.add,
    "-": Rules.subtract,
    "*": Rules.multiply,
    "/": Rules.divide,
    "//": Rules.floor_divide,
    "%": Rules.modulo,
    "**": Rules.power,
    "&": lambda rules, a, b: rules.bits(a, b, np.bitwise_and),
    "^": lambda rules, a, b: rules.bits(a, b, np.bitwise_xor),
    "<<": lambda rules, a, b: rules.shift(a, b, np.left_shift),
    ">>": lambda rules, a, b: rules.shift(a, b, np.right_shift),
}

_COMPARISONS: Final[Mapping[str, np.ufunc]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _of(part: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Given:
    try:
        return _evaluated(part, names, rules)
    except ArrayOperationError as error:
        raise _PlacedArrayError(error, part.column) from error
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:  # NumPy's own words
        why = ArrayOperationError(str(error).split("\n")[0] or type(error).__name__)
        raise _PlacedArrayError(why, part.column) from error


def _evaluated(part: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Given:
    match part:
        case syntax.Constant(value=value):
            return value if value is None or isinstance(value, str) else rules.literal(value)
        case syntax.NameOf(name=name):
            return names[name] if name in names else _constant(name, rules)
        case syntax.Conditional():
            return _of(_chosen(part, names, rules), names, rules)
        case syntax.ListOf(parts=parts):
            return tuple(_of(one, names, rules) for one in parts)
        case syntax.Application(function=syntax.NameOf(name=name), arguments=arguments, keywords=keywords):
            given = tuple(_of(one, names, rules) for one in arguments)
            return ARRAY_FUNCTIONS[name](rules, given, {key: _of(one, names, rules) for key, one in keywords})
        case _:
            return _operated(part, names, rules)


def _operated(part: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Given:
    """The value of an operation that has a sign, or a word, of its own."""
    match part:
        case syntax.ItemOf(value=value, index=index):
            return _item(value, index, names, rules)
        case syntax.Unary(symbol=symbol, operand=operand):
            return _prefixed(symbol, _array(operand, names, rules), rules)
        case syntax.Binary(symbol=symbol, left=left, right=right):
            if symbol not in _INFIX:
                raise ArrayOperationError(f"{symbol!r} of arrays", ", ".join(_INFIX))
            return _INFIX[symbol](rules, _array(left, names, rules), _array(right, names, rules))
        case syntax.Chain(first=first, others=others):
            return _compared(first, others, names, rules)
        case syntax.Junction(symbol=symbol, parts=parts):
            combine = np.logical_and if symbol == "and" else np.logical_or
            found = _array(parts[0], names, rules)
            for one in parts[1:]:
                found = rules.both(found, _array(one, names, rules), combine)
            return found
        case _:
            raise ArrayOperationError("this has no meaning in a reference", "arrays, functions and operators")


def _constant(name: str, rules: Rules) -> Given:
    constant = CONSTANTS[name]
    return None if constant is None else rules.literal(constant)


def _array(part: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Tracked:
    value = _of(part, names, rules)
    try:
        return array_of(value)
    except TypeError:
        why = ArrayOperationError("an operand is no array", "an array or a number")
        raise _PlacedArrayError(why, part.column) from None


def _prefixed(symbol: str, x: Tracked, rules: Rules) -> Tracked:
    match symbol:
        case "-":
            return rules.negative(x)
        case "+":
            return x
        case _:
            return Tracked(~x.values.astype(np.bool_), x.bound)


def _compared(
    first: syntax.Part, others: tuple[tuple[str, syntax.Part], ...], names: Mapping[str, Given], rules: Rules
) -> Tracked:
    left = _of(first, names, rules)
    result: Tracked | None = None
    for symbol, part in others:
        right = _of(part, names, rules)
        if isinstance(left, str) and isinstance(right, str) and symbol in ("==", "!="):  # layout == 'nt'
            one = rules.literal((left == right) is (symbol == "=="))
        elif symbol not in _COMPARISONS:
            raise ArrayOperationError(f"{symbol!r} of arrays", ", ".join(_COMPARISONS))
        else:
            try:
                one = rules.compare(array_of(left), array_of(right), _COMPARISONS[symbol])
            except TypeError:
                raise ArrayOperationError("an operand is no array", "an array or a number") from None
        result = one if result is None else rules.both(result, one, np.logical_and)
        left = right
    assert result is not None  # noqa: S101 - a chain has at least one comparison
    return result


def _chosen(part: syntax.Conditional, names: Mapping[str, Given], rules: Rules) -> syntax.Part:
    """Of a single truth, only the part that is chosen is evaluated; of an array, see `where`."""
    condition = _array(part.test, names, rules)
    if condition.shape:
        raise ArrayOperationError("'if' with an array as its condition", "where(condition, a, b)")
    return part.then if condition.values else part.otherwise


def _item(value: syntax.Part, index: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Given:
    found = _of(value, names, rules)
    parts = index.parts if isinstance(index, syntax.ListOf) else (index,)
    if isinstance(found, tuple):
        place = integer_of(_of(index, names, rules))
        if not -len(found) <= place < len(found):
            raise ArrayOperationError(f"index {place} of a list of {len(found)}")
        return found[place]
    return movement.item(rules, array_of(found), tuple(_index(one, names, rules) for one in parts))


def _index(part: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Any:  # noqa: ANN401 - see movement.Index
    if isinstance(part, syntax.Span):
        ends = (part.start, part.stop, part.step)
        return slice(*(None if one is None else _whole(one, names, rules) for one in ends))
    value = _of(part, names, rules)
    if value is None:
        return None
    chosen = array_of(value)
    if chosen.is_float or (chosen.bound is not None and np.any(chosen.bound > 0)):
        raise ArrayOperationError("an index that is not a whole number", "integers, truths, slices, None")
    return int(chosen.values) if not chosen.shape and chosen.values.dtype.kind != "b" else chosen.values


def _whole(part: syntax.Part, names: Mapping[str, Given], rules: Rules) -> int | None:
    value = _of(part, names, rules)
    try:
        return None if value is None else integer_of(value)
    except TypeError:
        raise ArrayOperationError("an end of a slice is not a whole number", "integers") from None
