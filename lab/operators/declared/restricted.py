"""Evaluate references at chosen elements of arrays that are too large to evaluate whole.

The expression is rewritten so that each array in it stands for the part that the chosen elements need: rows and columns
of a product, whole rows of what is summed along them, the elements that an index picks. The rewritten expression is
then evaluated like any other one, and so are its error bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lab.base import parser, syntax
from lab.operators.boxes import Box, Index, Shape, boxes
from lab.operators.declared.arrays import evaluate_arrays, evaluate_part
from lab.operators.declared.elements import ElementType
from lab.operators.declared.functions import ARRAY_FUNCTIONS, Given, array_of
from lab.operators.declared.tracked import Rules, Tracked
from lab.operators.indexed import IndexedArray, gather

_ELEMENTWISE: Final = ("arithmetic", "functions of single elements", "choices", "bits", "types and complex numbers")
"""Groups of functions whose results depend on the same element of each operand."""

_REDUCING: Final = ("sum", "mean", "var", "std", "norm", "prod", "max", "min", "any", "all", "argmax", "argmin")
_KEEPING: Final = ("cumsum", "cumprod", "sort", "argsort", "flip")
"""Functions along an axis whose result has that axis, too."""

_WHOLE: Final = 1 << 22
"""Elements of the arrays in a part that is evaluated whole."""

_MOST_ELEMENTS: Final = 1 << 25
"""Elements of arrays that are gathered at most."""

_MOST_PRODUCTS: Final = 1 << 32
"""Multiply-adds of the matrix products that are computed at most: a second or so."""


class UnrestrictedError(Exception):
    """The expression cannot be evaluated at chosen elements, or that takes too long."""


@dataclass(frozen=True, slots=True)
class NamedArray:
    """An array that a reference can name.

    Attributes:
        source: Its elements.
        shape: Its shape.
        element: Its element type.
    """

    source: IndexedArray
    shape: Shape
    element: ElementType


def evaluate_at(
    expression: str,
    arrays: Mapping[str, NamedArray],
    numbers: Mapping[str, Given],
    rules: Rules,
    *,
    shape: Shape,
    elements: Index,
) -> Tracked:
    """Return the value of a reference at some elements.

    Args:
        expression: The reference.
        arrays: The arrays that it can name.
        numbers: The numbers that it can name.
        rules: How kernels round.
        shape: The shape of the output.
        elements: (count,) flat indices in C order, ascending.

    Returns:
        Values and bounds, (count,).

    Raises:
        UnrestrictedError: It cannot be evaluated so.
        UserError: As of `lab.operators.declared.arrays.evaluate_arrays`.
    """
    part = parser.parse(expression)
    try:
        found = [
            (at, _Restriction(arrays, numbers, rules).value(part, shape, box), tuple(map(len, box)))
            for box, at in boxes(elements, shape)
        ]
    except UnrestrictedError:
        named = [arrays[name] for name in syntax.names(part) if name in arrays]
        if sum(one.source.size for one in named) > _WHOLE or multiplies(expression):
            raise
        whole = evaluate_arrays(expression, {**numbers, **{name: _whole(one) for name, one in arrays.items()}}, rules)
        at, sizes = np.arange(len(elements)), elements.shape
        bound = None if whole.bound is None else np.broadcast_to(whole.bound, shape).reshape(-1)[elements]
        found = [(at, Tracked(np.broadcast_to(whole.values, shape).reshape(-1)[elements], bound), sizes)]
    order = np.argsort(np.concatenate([at for at, _, _ in found]))
    values = np.concatenate([np.broadcast_to(one.values, sizes).reshape(-1) for _, one, sizes in found])[order]
    if all(one.bound is None for _, one, _ in found):
        return Tracked(values)
    return Tracked(
        values, np.concatenate([np.broadcast_to(one.spread, sizes).reshape(-1) for _, one, sizes in found])[order]
    )


def _whole(array: NamedArray) -> Tracked:
    return Tracked(array.element.widened(array.source.read(0, array.source.size)).reshape(array.shape))


def multiplies(expression: str) -> bool:
    """Return whether a reference has products of matrices, whose work their sizes do not tell."""
    products = ("matmul", "dot", "einsum", "outer", "convolve", "correlate", "correlate2d", "fft", "ifft")
    calls = (one.function for one in syntax.walk(parser.parse(expression)) if isinstance(one, syntax.Application))
    return any(isinstance(one, syntax.NameOf) and one.name in products for one in calls)


@dataclass
class _Restriction:
    """Rewrites expressions for chosen elements.

    Attributes:
        arrays: The arrays that they can name.
        numbers: The numbers that they can name.
        rules: How kernels round.
    """

    arrays: Mapping[str, NamedArray]
    numbers: Mapping[str, Given]
    rules: Rules
    _bound: dict[str, Given] = field(default_factory=dict)
    _gathered: int = 0

    def value(self, part: syntax.Part, shape: Shape, box: Box) -> Tracked:
        """Return the value of a part at chosen elements of a shape that it is broadcast to."""
        return self._evaluated(self._restricted(part, _aligned(self.shape(part), shape, box)))

    def _evaluated(self, part: syntax.Part) -> Tracked:
        try:
            return array_of(evaluate_part(part, {**self.numbers, **self._bound}, self.rules))
        except TypeError:
            raise UnrestrictedError from None

    def _scalar(self, part: syntax.Part) -> Tracked:
        """Return the value of a part that names no array."""
        if self._names(part):
            raise UnrestrictedError
        return self._evaluated(part)

    def whole_number(self, part: syntax.Part) -> int:
        found = self._scalar(part)
        if found.shape or found.is_float:
            raise UnrestrictedError
        return int(found.values)

    def _names(self, part: syntax.Part) -> set[str]:
        return {one for one in syntax.names(part) if one in self.arrays}

    def _held(self, value: Given, column: int) -> syntax.NameOf:
        """Return a name for a value."""
        name = f"restricted {len(self._bound)}"
        self._bound[name] = value
        return syntax.NameOf(name, column)

    # --- shapes -----------------------------------------------------------------------------------------------

    def shape(self, part: syntax.Part) -> Shape:
        """Return the shape of a part's value."""
        match part:
            case syntax.Constant():
                found: Shape = ()
            case syntax.NameOf(name=name):
                found = self.arrays[name].shape if name in self.arrays else ()
            case syntax.Unary(operand=operand):
                found = self.shape(operand)
            case syntax.ItemOf(value=value, index=index):
                found = _picked(self, self.shape(value), index).shape
            case syntax.Application(function=syntax.NameOf(name=name)):
                found = self._shape_of_call(name, part)
            case _:
                found = self._broadcast(*_operands_of(part))
        return found

    def _broadcast(self, *parts: syntax.Part) -> Shape:
        return np.broadcast_shapes(*(self.shape(one) for one in parts))

    def _shape_of_call(self, name: str, call: syntax.Application) -> Shape:
        first = call.arguments[0] if call.arguments else None
        if ARRAY_FUNCTIONS[name].group in _ELEMENTWISE:
            return self._broadcast(*(one for one in call.arguments if not _is_text(one)))
        if first is None:
            raise UnrestrictedError
        if name == "arange" and len(call.arguments) == 1 and not call.keywords:
            return (self.whole_number(first),)
        if name in _KEEPING:
            return self.shape(first)
        if name in _REDUCING:
            shape, axes = self.shape(first), self._axes(name, call)
            kept = self._keyword(call, name, "keepdims")
            keeps = kept is not None and bool(self._scalar(kept).values)
            return tuple(1 if i in axes else n for i, n in enumerate(shape) if keeps or i not in axes)
        if name == "matmul":
            a, b = (self.shape(one) for one in call.arguments)
            if min(len(a), len(b)) < 2:  # noqa: PLR2004 - matrices
                raise UnrestrictedError
            return (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
        if name == "transpose" and len(call.arguments) == 1 and not call.keywords:
            return self.shape(first)[::-1]
        raise UnrestrictedError

    def _keyword(self, call: syntax.Application, function: str, name: str) -> syntax.Part | None:
        """Return what is given for a parameter by its name or its place."""
        places = [one.name for one in ARRAY_FUNCTIONS[function].parameters]
        given = dict(call.keywords)
        if name in given:
            return given[name]
        place = places.index(name) if name in places else len(call.arguments)
        return call.arguments[place] if place < len(call.arguments) else None

    def _axes(self, name: str, call: syntax.Application) -> tuple[int, ...]:
        """Return the axes that a function goes along."""
        count = len(self.shape(call.arguments[0]))
        given = self._keyword(call, name, "axis")
        if given is None:
            default = next(one.default for one in ARRAY_FUNCTIONS[name].parameters if one.name == "axis")
            axes = tuple(range(count)) if default is None else (int(default),)
        elif isinstance(given, syntax.ListOf):
            axes = tuple(self.whole_number(one) for one in given.parts)
        elif isinstance(given, syntax.Constant) and given.value is None:
            axes = tuple(range(count))
        else:
            axes = (self.whole_number(given),)
        return tuple(axis % count for axis in axes) if count else ()

    # --- rewriting --------------------------------------------------------------------------------------------

    def _restricted(self, part: syntax.Part, box: Box) -> syntax.Part:
        """Return a part whose value has the chosen elements alone."""
        match part:
            case syntax.NameOf(name=name, column=column):
                found: syntax.Part = self._held(self._gather(name, box), column) if name in self.arrays else part
            case syntax.Constant():
                found = part
            case syntax.Unary(symbol=symbol, operand=operand, column=column):
                found = syntax.Unary(symbol, self._restricted(operand, box), column)
            case syntax.ItemOf(value=value, index=index, column=column):
                picked = _picked(self, self.shape(value), index)
                inner = self._evaluated(self._restricted(value, picked.source(self, box)))
                found = self._held(_reshaped(inner, tuple(map(len, box))), column)
            case syntax.Application(function=syntax.NameOf(name=name)):
                found = self._restricted_call(name, part, box)
            case _:
                shape = self.shape(part)
                operands = _operands_of(part)
                chosen = [self._restricted(one, _aligned(self.shape(one), shape, box)) for one in operands]
                found = _with_operands(part, chosen)
        return found

    def _restricted_call(self, name: str, call: syntax.Application, box: Box) -> syntax.Part:
        if ARRAY_FUNCTIONS[name].group in _ELEMENTWISE:
            shape = self.shape(call)
            parts = tuple(
                one if _is_text(one) else self._restricted(one, _aligned(self.shape(one), shape, box))
                for one in call.arguments
            )
            return syntax.Application(call.function, parts, call.keywords, call.column)
        if name == "arange":
            return self._held(Tracked(box[0]), call.column)
        if name == "matmul":
            return self._product(call, box)
        if name == "transpose":
            inner = self._restricted(call.arguments[0], box[::-1])
            return syntax.Application(call.function, (inner,), (), call.column)
        return self._along(name, call, box)

    def _product(self, call: syntax.Application, box: Box) -> syntax.Part:
        left, right = call.arguments
        a, b, shape = self.shape(left), self.shape(right), self.shape(call)
        if len(box[-2]) * len(box[-1]) * a[-1] * math.prod(map(len, box[:-2])) > _MOST_PRODUCTS:
            raise UnrestrictedError
        along = np.arange(a[-1])
        outer = shape[:-2]
        rows = (*_aligned(a[:-2], outer, box[:-2]), box[-2], along)
        columns = (*_aligned(b[:-2], outer, box[:-2]), along, box[-1])
        parts = (self._restricted(left, rows), self._restricted(right, columns))
        return syntax.Application(call.function, parts, (), call.column)

    def _along(self, name: str, call: syntax.Application, box: Box) -> syntax.Part:
        """Restrict a function along axes, which needs all of these."""
        first, *rest = call.arguments
        shape, axes = self.shape(first), self._axes(name, call)
        if name in _KEEPING:
            inner = tuple(np.arange(n) if i in axes else one for i, (n, one) in enumerate(zip(shape, box, strict=True)))
            made = self._evaluated(
                syntax.Application(call.function, (self._restricted(first, inner), *rest), call.keywords, call.column)
            )
            chosen = np.ix_(*(one if i in axes else np.arange(len(one)) for i, one in enumerate(box)))
            bound = None if made.bound is None else np.broadcast_to(made.bound, made.shape)[chosen]
            return self._held(Tracked(made.values[chosen], bound), call.column)
        keeps = len(box) == len(shape) and bool(axes)
        others = iter(box)
        inner_box: list[Index] = []
        for i, n in enumerate(shape):
            if i in axes:
                inner_box.append(np.arange(n))
                if keeps:
                    next(others)
            else:
                inner_box.append(next(others))
        inner_part = self._restricted(first, tuple(inner_box))
        return syntax.Application(call.function, (inner_part, *rest), call.keywords, call.column)

    def _gather(self, name: str, box: Box) -> Tracked:
        array = self.arrays[name]
        sizes = tuple(map(len, box))
        self._gathered += math.prod(sizes)
        if self._gathered > _MOST_ELEMENTS:
            raise UnrestrictedError
        flat = np.zeros(sizes, np.int64)
        for axis, one in zip(np.ix_(*box) if box else (), array.shape, strict=True):
            flat = flat * one + axis
        held = gather(array.source, flat.reshape(-1))
        return Tracked(array.element.widened(held).reshape(sizes))


def _operands_of(part: syntax.Part) -> tuple[syntax.Part, ...]:
    """Return the operands of an operation that works element by element.

    Raises:
        UnrestrictedError: The part is none.
    """
    match part:
        case syntax.Binary(left=left, right=right):
            return left, right
        case syntax.Chain(first=first, others=others):
            return (first, *(one for _, one in others))
        case syntax.Junction(parts=parts):
            return parts
    raise UnrestrictedError


def _with_operands(part: syntax.Part, operands: Sequence[syntax.Part]) -> syntax.Part:
    """Return the same operation on other operands."""
    match part:
        case syntax.Binary(symbol=symbol, column=column):
            return syntax.Binary(symbol, operands[0], operands[1], column)
        case syntax.Chain(others=others, column=column):
            symbols = (symbol for symbol, _ in others)
            return syntax.Chain(operands[0], tuple(zip(symbols, operands[1:], strict=True)), column)
        case syntax.Junction(symbol=symbol, column=column):
            return syntax.Junction(symbol, tuple(operands), column)
    raise UnrestrictedError


def _is_text(part: syntax.Part) -> bool:
    return isinstance(part, syntax.Constant) and (part.value is None or isinstance(part.value, str))


def _aligned(own: Shape, shape: Shape, box: Box) -> Box:
    """Return the elements of an operand that chosen ones of what it is broadcast to need."""
    behind = box[len(box) - len(own) :] if own else ()
    sizes = shape[len(shape) - len(own) :] if own else ()
    return tuple(
        np.zeros(1, np.int64) if n == 1 and size != 1 else one for n, size, one in zip(own, sizes, behind, strict=True)
    )


def _reshaped(value: Tracked, sizes: Shape) -> Tracked:
    bound = None if value.bound is None else np.broadcast_to(value.bound, value.shape).reshape(sizes)
    return Tracked(value.values.reshape(sizes), bound)


_Pick = Callable[[_Restriction, Index], Index]
"""From chosen positions of an axis of the result to positions of the axis of the array."""


@dataclass(frozen=True, slots=True)
class _Picked:
    """The elements that an index between brackets selects.

    Attributes:
        shape: The shape of the result.
        axes: Of each axis of the array, the axis of the result that decides its position, and how; -1 for a fixed one.
    """

    shape: Shape
    axes: tuple[tuple[int, _Pick], ...]

    def source(self, restriction: _Restriction, box: Box) -> Box:
        """Return the elements of the array that chosen ones of the result need."""
        nothing = np.zeros(1, np.int64)
        return tuple(pick(restriction, box[axis] if axis >= 0 else nothing) for axis, pick in self.axes)


def _picked(restriction: _Restriction, shape: Shape, index: syntax.Part) -> _Picked:
    """Read an index of integers, slices, new axes, and one-dimensional arrays, of which there may be one.

    Raises:
        UnrestrictedError: It has something else.
    """
    parts = list(index.parts if isinstance(index, syntax.ListOf) else (index,))
    taken = sum(not _is_new_axis(one) for one in parts)
    parts += [syntax.Span(None, None, None, index.column)] * (len(shape) - taken)
    sides: list[int] = []
    axes: list[tuple[int, _Pick]] = []
    extents = iter(shape)
    for one in parts:
        if _is_new_axis(one):
            sides.append(1)
            continue
        extent = next(extents, None)
        if extent is None:
            raise UnrestrictedError
        side, pick = _picked_along(restriction, one, extent)
        axes.append((-1 if side is None else len(sides), pick))
        sides += [] if side is None else [side]
    arrays = sum(not isinstance(one, syntax.Span) and bool(_shape_of_index(restriction, one)) for one in parts)
    if arrays > 1:
        raise UnrestrictedError
    return _Picked(tuple(sides), tuple(axes))


def _is_new_axis(part: syntax.Part) -> bool:
    match part:
        case syntax.NameOf(name="newaxis") | syntax.Constant(value=None):
            return True
        case _:
            return False


def _shape_of_index(restriction: _Restriction, part: syntax.Part) -> Shape:
    return () if _is_new_axis(part) else restriction.shape(part)


def _picked_along(restriction: _Restriction, part: syntax.Part, extent: int) -> tuple[int | None, _Pick]:
    """Return the extent of the result along an axis, None where that is gone, and what picks positions."""
    if isinstance(part, syntax.Span):
        ends = (None if end is None else restriction.whole_number(end) for end in (part.start, part.stop, part.step))
        span = range(*slice(*ends).indices(extent))
        return len(span), lambda _, at: span.start + span.step * at
    inner = restriction.shape(part)
    if not inner:
        place = restriction.whole_number(part) % extent
        return None, lambda _, at: np.full(len(at), place)
    if len(inner) != 1:
        raise UnrestrictedError
    return inner[0], _chooser(part, inner, extent)


def _chooser(part: syntax.Part, shape: Shape, extent: int) -> _Pick:
    def pick(restriction: _Restriction, at: Index) -> Index:
        found = restriction.value(part, shape, (at,))
        if found.values.dtype.kind not in "iu":
            raise UnrestrictedError
        places = found.values.astype(np.int64)
        if ((places < -extent) | (places >= extent)).any():
            raise UnrestrictedError
        chosen: Index = np.where(places < 0, places + extent, places)
        return chosen

    return pick
