"""Evaluates references: the expressions of `lab.base.parser` over arrays.

The interpreter does not use Python's: names are arguments and numbers, functions come from
`lab.operators.declared.functions`, and no attribute of a Python object is ever accessed. There are no loops, so the
number of steps is the number of nodes, and the size of every result is bounded.
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
"""Names from other libraries and their equivalents."""

_MODULES: Final = ("np", "numpy", "math", "torch", "cp", "cupy")
"""Modules whose functions are called without the module's name."""


@lru_cache(maxsize=1024)
def names_of(expression: str) -> frozenset[str]:
    """Return the names a reference reads, without functions and constants.

    Raises:
        UserError: The text is not an expression; the error has no key.
    """
    return syntax.names(_parsed(expression))


def check(expression: str, names: Mapping[str, object] | frozenset[str]) -> list[UserError]:
    """Return every mistake that can be found before arrays exist: syntax, unknown names and functions."""
    try:
        tree = _parsed(expression)
    except UserError as error:
        return [error]
    mistakes = []
    modules = {module for module in _MODULES if module not in names}
    for node in syntax.walk(tree):
        match node:
            case syntax.NameOf(name=name, column=column) if name not in {*names, *CONSTANTS, *modules}:
                mistakes.append(_unknown_name(expression, name, column, names))
            case syntax.Application(function=syntax.NameOf(name=name, column=column)) if name not in ARRAY_FUNCTIONS:
                mistakes.append(_unknown_function(expression, name, column))
            case (syntax.FactOf() as fact) | syntax.Application(function=syntax.FactOf() as fact):
                hint = _without_attribute(fact, names)
                mistakes.append(
                    _refused(expression, fact.column, "values have no attributes", "a function: sum(a)", hint)
                )
    return mistakes


def _without_attribute(node: syntax.FactOf, names: Mapping[str, object] | frozenset[str]) -> str | None:
    """Suggest the supported form of `np.sqrt(a)` or `a.sum()`."""
    if not isinstance(node.value, syntax.NameOf) or node.name not in {*ARRAY_FUNCTIONS, *CONSTANTS}:
        return None
    if node.value.name in names:
        return f"write {node.name}({node.value.name})"
    return f"write {node.name} without {node.value.name}."


def evaluate_arrays(expression: str, names: Mapping[str, Given], rules: Rules) -> Tracked:
    """Return the value of a reference.

    Args:
        expression: The reference.
        names: Arrays and scalars by name.
        rules: The kernel's rounding, and the maximum size of results.

    Raises:
        UserError: It is not an expression, or an operation is rejected. The message names the column; there is no key.
    """
    tree = _parsed(expression)
    mistakes = check(expression, frozenset(names))
    if mistakes:
        raise mistakes[0]
    try:
        with np.errstate(all="ignore"):
            return array_of(_of(tree, names, rules))
    except _PlacedArrayError as error:
        refusal = error.why
        raise _refused(expression, error.column, refusal.message, refusal.accepted) from error
    except TypeError as error:
        raise _refused(expression, 1, "the value is not an array", "an array or a number") from error


def evaluate_part(node: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Given:
    """Return the value of a node of a reference.

    Raises:
        UserError: An operation is refused.
    """
    try:
        with np.errstate(all="ignore"):
            return _of(node, names, rules)
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


def _unknown_name(expression: str, name: str, column: int, names: Mapping[str, object] | frozenset[str]) -> UserError:
    accepted = ", ".join(sorted(names))
    return _refused(expression, column, f"unknown name {name!r}", accepted, did_you_mean(name, names))


def _unknown_function(expression: str, name: str, column: int) -> UserError:
    suggestion = f"did you mean {_FOREIGN[name]!r}?" if name in _FOREIGN else did_you_mean(name, ARRAY_FUNCTIONS)
    if name in ("array", "asarray"):
        suggestion = "a list needs no function: [1, 2, 3]"
    return _refused(expression, column, f"unknown function {name!r}", ", ".join(ARRAY_FUNCTIONS), suggestion)


class _PlacedArrayError(Exception):
    """An operation was rejected at a column."""

    def __init__(self, error: ArrayOperationError, column: int) -> None:
        self.why, self.column = error, column
        super().__init__(error.message)


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


def _of(node: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Given:
    try:
        return _evaluated(node, names, rules)
    except ArrayOperationError as error:
        raise _PlacedArrayError(error, node.column) from error
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:  # NumPy's own words
        refusal = ArrayOperationError(str(error).split("\n")[0] or type(error).__name__)
        raise _PlacedArrayError(refusal, node.column) from error


def _evaluated(node: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Given:
    match node:
        case syntax.Constant(value=value):
            return value if value is None or isinstance(value, str) else rules.literal(value)
        case syntax.NameOf(name=name):
            return names[name] if name in names else _constant(name, rules)
        case syntax.Conditional():
            return _of(_chosen(node, names, rules), names, rules)
        case syntax.ListOf(parts=parts):
            return tuple(_of(element, names, rules) for element in parts)
        case syntax.Application(function=syntax.NameOf(name=name), arguments=arguments, keywords=keywords):
            values = tuple(_of(argument, names, rules) for argument in arguments)
            return ARRAY_FUNCTIONS[name](rules, values, {key: _of(operand, names, rules) for key, operand in keywords})
        case _:
            return _operated(node, names, rules)


def _operated(node: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Given:
    """Return the value of an operation with an operator symbol or keyword."""
    match node:
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
            result = _array(parts[0], names, rules)
            for term in parts[1:]:
                result = rules.both(result, _array(term, names, rules), combine)
            return result
        case _:
            raise ArrayOperationError("this is not supported in a reference", "arrays, functions and operators")


def _constant(name: str, rules: Rules) -> Given:
    constant = CONSTANTS[name]
    return None if constant is None else rules.literal(constant)


def _array(node: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Tracked:
    value = _of(node, names, rules)
    try:
        return array_of(value)
    except TypeError:
        refusal = ArrayOperationError("an operand is not an array", "an array or a number")
        raise _PlacedArrayError(refusal, node.column) from None


def _prefixed(symbol: str, x: Tracked, rules: Rules) -> Tracked:
    match symbol:
        case "-":
            return rules.negative(x)
        case "+":
            return x
        case _:
            return Tracked(~x.values.astype(np.bool_), x.bound)


def _compared(
    first: syntax.Part, comparisons: tuple[tuple[str, syntax.Part], ...], names: Mapping[str, Given], rules: Rules
) -> Tracked:
    left = _of(first, names, rules)
    result: Tracked | None = None
    for symbol, operand in comparisons:
        right = _of(operand, names, rules)
        if isinstance(left, str) and isinstance(right, str) and symbol in ("==", "!="):  # layout == 'nt'
            comparison = rules.literal((left == right) is (symbol == "=="))
        elif symbol not in _COMPARISONS:
            raise ArrayOperationError(f"{symbol!r} of arrays", ", ".join(_COMPARISONS))
        else:
            try:
                comparison = rules.compare(array_of(left), array_of(right), _COMPARISONS[symbol])
            except TypeError:
                raise ArrayOperationError("an operand is not an array", "an array or a number") from None
        result = comparison if result is None else rules.both(result, comparison, np.logical_and)
        left = right
    assert result is not None  # noqa: S101 - a chain has at least one comparison
    return result


def _chosen(node: syntax.Conditional, names: Mapping[str, Given], rules: Rules) -> syntax.Part:
    """Return the branch of a conditional whose test is a scalar; only that branch is evaluated."""
    condition = _array(node.test, names, rules)
    if condition.shape:
        raise ArrayOperationError("'if' with an array as its condition", "where(condition, a, b)")
    return node.then if condition.values else node.otherwise


def _item(value: syntax.Part, index: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Given:
    container = _of(value, names, rules)
    parts = index.parts if isinstance(index, syntax.ListOf) else (index,)
    if isinstance(container, tuple):
        place = integer_of(_of(index, names, rules))
        if not -len(container) <= place < len(container):
            raise ArrayOperationError(f"index {place} of a list of {len(container)}")
        return container[place]
    return movement.item(rules, array_of(container), tuple(_index(subscript, names, rules) for subscript in parts))


def _index(node: syntax.Part, names: Mapping[str, Given], rules: Rules) -> Any:  # noqa: ANN401 - see movement.Index
    if isinstance(node, syntax.Span):
        ends = (node.start, node.stop, node.step)
        return slice(*(None if end is None else _whole(end, names, rules) for end in ends))
    value = _of(node, names, rules)
    if value is None:
        return None
    chosen = array_of(value)
    if chosen.is_float or (chosen.bound is not None and np.any(chosen.bound > 0)):
        raise ArrayOperationError("an index must be an integer", "integers, truths, slices, None")
    return int(chosen.values) if not chosen.shape and chosen.values.dtype.kind != "b" else chosen.values


def _whole(node: syntax.Part, names: Mapping[str, Given], rules: Rules) -> int | None:
    value = _of(node, names, rules)
    try:
        return None if value is None else integer_of(value)
    except TypeError:
        raise ArrayOperationError("a slice bound must be an integer", "integers") from None
