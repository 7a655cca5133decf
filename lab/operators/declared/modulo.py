"""References whose integers are the same modulo a power of two wherever a kernel wraps around.

Sums, differences, products and shifts to the left are: the low bits of their results depend on the low bits of their
operands alone. What compares, divides or shifts to the right is only where it looks at values that no such operation
made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final

from lab.base import parser, syntax
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.elements import ELEMENT_TYPES, ElementKind
from lab.operators.declared.files import is_file
from lab.operators.declared.functions import ARRAY_FUNCTIONS


class _Integers(IntEnum):
    """The integers that a part of an expression holds, from the best known to the least."""

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
    """Return whether all outputs are integers that references leave known modulo a power of two."""
    if not declaration.references or declaration.function:
        return False
    if any(one.element.kind is not ElementKind.INTEGER for one in declaration.outputs):
        return False
    integers = {one.name: one for one in declaration.arguments if one.element.kind is ElementKind.INTEGER}
    arrays = frozenset(name for name, one in integers.items() if one.is_array)
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


def _integers(part: syntax.Part, names: _Names) -> _Integers:  # noqa: PLR0911 - a kind of part each
    of = partial(_integers, names=names)
    match part:
        case syntax.Constant(value=value):
            return _Integers.UNKNOWN if isinstance(value, float | str) else _Integers.EXACT
        case syntax.NameOf(name=name):
            return _Integers.EXACT if name in names.known else _Integers.UNKNOWN
        case syntax.ItemOf():
            # an index that depends on the contents is another element once it wraps around
            return _Integers.UNKNOWN if syntax.names(part.index) & names.arrays else of(part.value)
        case syntax.Unary():
            return max(of(part.operand), _Integers.EXACT if part.symbol == "not" else _Integers.MODULO)
        case syntax.Binary():
            known = max(of(part.left), of(part.right))
            if part.symbol in _RING:
                return max(known, _Integers.MODULO)
            return _ordered(known) if part.symbol in _ORDERED else _Integers.UNKNOWN
        case syntax.Chain() | syntax.Junction():
            return _ordered(max(map(of, syntax.children(part))))
        case syntax.ListOf():
            return max(map(of, part.parts), default=_Integers.EXACT)
        case syntax.Conditional():
            return max(_ordered(of(part.test)), of(part.then), of(part.otherwise))
        case syntax.Application(function=syntax.NameOf(name=name)):
            return _called(name, [of(one) for one in syntax.children(part)])
        case _:
            return _Integers.UNKNOWN


def _ordered(known: _Integers) -> _Integers:
    return known if known is _Integers.EXACT else _Integers.UNKNOWN


def _called(name: str, given: list[_Integers]) -> _Integers:
    known = max(given, default=_Integers.EXACT)
    if name == "where":
        return max(_ordered(given[0]), known)
    if name in _RING_FUNCTIONS:
        return max(known, _Integers.MODULO)
    converted = ELEMENT_TYPES.get(name)
    if name in _ORDERED_FUNCTIONS or (converted is not None and converted.kind is ElementKind.INTEGER):
        return _ordered(known)
    group = ARRAY_FUNCTIONS[name].group if name in ARRAY_FUNCTIONS else ""
    return (
        known if group in _MOVING_GROUPS and name not in {"take", "take_along_axis", "linspace"} else _Integers.UNKNOWN
    )
