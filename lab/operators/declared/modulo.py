"""References whose integer results modulo a power of two do not depend on where a kernel wraps around.

This holds for sums, differences, products and left shifts: the low bits of their results depend only on the low bits of
their operands. For comparisons, divisions and right shifts it only holds if no such operation made their operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final

from lab.base import parser, syntax
from lab.operators.declared.array_files import is_file
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.elements import ELEMENT_TYPES, ElementKind
from lab.operators.declared.functions import ARRAY_FUNCTIONS


class _Integers(IntEnum):
    """Knowledge of an integer expression's values, most precise first."""

    EXACT = 0  # as they were given, or chosen among such
    MODULO = 1  # known modulo a power of two
    UNKNOWN = 2


_RING: Final = frozenset({"+", "-", "*", "<<", "&", "|", "^"})
_ORDERED: Final = frozenset({"//", "%", ">>"})

_RING_FUNCTIONS: Final = frozenset(
    {"sum", "cumsum", "prod", "cumprod", "dot", "matmul", "outer", "convolve", "correlate", "trace", "diff", "einsum"}
    | {"bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift"}
)
_MOVING_GROUPS: Final = frozenset({"moving elements", "new arrays"})
_ORDERED_FUNCTIONS: Final = frozenset(
    {
        "maximum",
        "minimum",
        "max",
        "min",
        "sort",
        "clip",
        "abs",
        "right_shift",
        "logical_and",
        "logical_or",
        "logical_not",
    }
)


def keeps_modulo(declaration: Declaration) -> bool:
    """Return whether all outputs are integers that references determine modulo a power of two."""
    if not declaration.references or declaration.function:
        return False
    if any(output.element.kind is not ElementKind.INTEGER for output in declaration.outputs):
        return False
    integers = {
        argument.name: argument for argument in declaration.arguments if argument.element.kind is ElementKind.INTEGER
    }
    arrays = frozenset(name for name, argument in integers.items() if argument.is_array)
    names = _Names(arrays, frozenset(integers) | {"newaxis"})
    return not any(
        is_file(text) or _integers(parser.parse(text), names) is _Integers.UNKNOWN for _, text in declaration.references
    )


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a reference that stand for integers.

    Attributes:
        arrays: Names of arrays of integers.
        known: Names of integers, in arrays or alone.
    """

    arrays: frozenset[str]
    known: frozenset[str]


def _integers(node: syntax.Part, names: _Names) -> _Integers:  # noqa: PLR0911 - a kind of part each
    classify = partial(_integers, names=names)
    match node:
        case syntax.Constant(value=value):
            return _Integers.UNKNOWN if isinstance(value, float | str) else _Integers.EXACT
        case syntax.NameOf(name=name):
            return _Integers.EXACT if name in names.known else _Integers.UNKNOWN
        case syntax.ItemOf():
            # an index that depends on the contents selects another element once it wraps around
            return _Integers.UNKNOWN if syntax.names(node.index) & names.arrays else classify(node.value)
        case syntax.Unary():
            return max(classify(node.operand), _Integers.EXACT if node.symbol == "not" else _Integers.MODULO)
        case syntax.Binary():
            precision = max(classify(node.left), classify(node.right))
            if node.symbol in _RING:
                return max(precision, _Integers.MODULO)
            return _ordered(precision) if node.symbol in _ORDERED else _Integers.UNKNOWN
        case syntax.Chain() | syntax.Junction():
            return _ordered(max(map(classify, syntax.children(node))))
        case syntax.ListOf():
            return max(map(classify, node.parts), default=_Integers.EXACT)
        case syntax.Conditional():
            return max(_ordered(classify(node.test)), classify(node.then), classify(node.otherwise))
        case syntax.Application(function=syntax.NameOf(name=name)):
            return _called(name, [classify(child) for child in syntax.children(node)])
        case _:
            return _Integers.UNKNOWN


def _ordered(precision: _Integers) -> _Integers:
    return precision if precision is _Integers.EXACT else _Integers.UNKNOWN


def _called(name: str, operands: list[_Integers]) -> _Integers:
    precision = max(operands, default=_Integers.EXACT)
    if name == "where":
        return max(_ordered(operands[0]), precision)
    if name in _RING_FUNCTIONS:
        return max(precision, _Integers.MODULO)
    converted = ELEMENT_TYPES.get(name)
    if name in _ORDERED_FUNCTIONS or (converted is not None and converted.kind is ElementKind.INTEGER):
        return _ordered(precision)
    group = ARRAY_FUNCTIONS[name].group if name in ARRAY_FUNCTIONS else ""
    return (
        precision
        if group in _MOVING_GROUPS and name not in {"take", "take_along_axis", "linspace"}
        else _Integers.UNKNOWN
    )
