"""Evaluate references at chosen elements of arrays that are too large to evaluate whole.

The expression is rewritten so that each array in it stands for the part that the chosen elements need: rows and columns
of a product, whole rows of what is summed along them, the elements that an index picks. The rewritten expression is
then evaluated like any other one, and so are its error bounds. A part that cannot be rewritten so is evaluated whole,
where the arrays in it are small. The module `calls` has the functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.base import parser, syntax
from lab.base.errors import UserError
from lab.operators.boxes import Box, Index, Shape, aligned, boxes
from lab.operators.declared import calls
from lab.operators.declared.arrays import evaluate_part
from lab.operators.declared.budget import MOST_HELD, MOST_WHOLE, EvaluationBudget, UnrestrictedError, WorkBudgetError
from lab.operators.declared.elements import ElementType
from lab.operators.declared.functions import Given, array_of
from lab.operators.declared.movement import moved
from lab.operators.declared.origins import Flat, Origin, Separable, flat_indices
from lab.operators.declared.subscripts import ArrayIndex, Gathered, Subscript, picked, positions_within
from lab.operators.declared.tracked import ArrayOperationError, Rules, Tracked
from lab.operators.indexed import IndexedArray, gather

_MOST_BOXES: Final = 256
"""Boxes into which chosen elements are split at most."""

_LONG: Final = 1 << 20
"""Elements of which a value takes long to compute."""

_FEW: Final = 1 << 10
"""Elements of such a value that is kept."""

_MOST_SHARED: Final = 1 << 16
"""Elements of a value that is kept for other boxes."""


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
    kept: dict[object, Any] | None = None,
) -> Tracked:
    """Return the value of a reference at some elements.

    Args:
        expression: The reference.
        arrays: The arrays that it can name.
        numbers: The numbers that it can name.
        rules: How kernels round.
        shape: The shape of the output.
        elements: (count,) flat indices in C order, ascending.
        kept: Results of long sums and of parts that are evaluated whole, for the same arrays and numbers.

    Returns:
        Values and bounds, (count,).

    Raises:
        UnrestrictedError: It cannot be evaluated so, or takes too long.
        UserError: As of `lab.operators.declared.arrays.evaluate_arrays`.
    """
    try:
        return Restriction(arrays, numbers, rules, kept).chosen(parser.parse(expression), shape, elements)
    except (ArrayOperationError, ValueError, TypeError, IndexError, MemoryError) as error:  # operands that do not fit
        raise UnrestrictedError(str(error)) from error


def multiplies(expression: str) -> bool:
    """Return whether a reference has products of matrices, whose work their sizes do not tell."""
    products = ("matmul", "dot", "einsum", "convolve", "correlate", "correlate2d", "fft", "ifft")
    called = (one.function for one in syntax.walk(parser.parse(expression)) if isinstance(one, syntax.Application))
    return any(isinstance(one, syntax.NameOf) and one.name in products for one in called)


class Restriction:
    """Rewrites one expression for chosen elements.

    Attributes:
        rules: How kernels round.
        budget: What was read and computed.
    """

    def __init__(
        self,
        arrays: Mapping[str, NamedArray],
        numbers: Mapping[str, Given],
        rules: Rules,
        kept: dict[object, Any] | None = None,
    ) -> None:
        """Begin with a whole budget.

        Args:
            arrays: The arrays that the expression can name.
            numbers: The numbers that it can name.
            rules: How kernels round.
            kept: As of `evaluate_at`.
        """
        self._kept = {} if kept is None else kept
        self.rules = Rules(rules.arithmetic, min(rules.most_elements, MOST_HELD))
        self.budget = EvaluationBudget()
        self._arrays, self._numbers = arrays, numbers
        self._bound: dict[str, Given] = {}
        self._count = 0
        self._all: dict[int, Index] = {}
        self._wholes: dict[syntax.Part, Tracked] = {}
        self._shapes: dict[syntax.Part, Shape] = {}
        self._shared: dict[tuple[syntax.Part, tuple[bytes, ...]], Tracked] = {}

    # --- values -----------------------------------------------------------------------------------------------

    def chosen(self, part: syntax.Part, shape: Shape, elements: Index) -> Tracked:
        """Return the value of a part, which is broadcast to a shape, at flat indices of that, ascending; 1-D."""
        places: list[Index] = []
        values: list[Tracked] = []
        for box, at in boxes(elements, shape):
            if len(places) == _MOST_BOXES:
                raise UnrestrictedError("the chosen elements are scattered")
            sizes = tuple(map(len, box))
            held = self.value(part, aligned(self.shape(part), shape, box))
            values.append(moved(lambda x, sizes=sizes: np.broadcast_to(x, sizes).reshape(-1), held))  # type: ignore[misc]
            places.append(at)
        order = np.argsort(np.concatenate(places), kind="stable")
        found = np.concatenate([one.values for one in values])[order]
        if all(one.bound is None for one in values):
            return Tracked(found)
        return Tracked(found, np.concatenate([np.broadcast_to(one.spread, one.shape) for one in values])[order])

    def value(self, part: syntax.Part, box: Box) -> Tracked:
        """Return the value of a part at a box of its shape; it broadcasts to the sizes of the box."""
        return self.shared(part, box, lambda: self.evaluated(lambda: self.rewritten(part, box)))

    def shared(self, part: syntax.Part, box: Box, make: Callable[[], Tracked]) -> Tracked:
        """Return the value of a part at a box, which is made once where it is small."""
        if sum(map(len, box)) > _MOST_SHARED:
            return make()
        key = part, tuple(one.tobytes() for one in box)
        found = self._shared.get(key)
        if found is None:
            found = make()
            if found.values.size <= _MOST_SHARED:
                self._shared[key] = found
        return found

    def long(self, part: syntax.Part, box: Box, make: Callable[[], Tracked]) -> Tracked:
        """Return the value of a part at a box, which is made once for all evaluations where it takes long."""
        key = part, tuple(one.tobytes() for one in box), self.rules
        found = self._kept.get(key) if sum(map(len, box)) <= _FEW else None
        if not isinstance(found, Tracked):
            before = self.budget.computed
            found = make()
            if self.budget.computed - before > _LONG and found.values.size <= _FEW:
                self._kept[key] = found
        return found

    def evaluated(self, rewrite: Callable[[], syntax.Part]) -> Tracked:
        """Return the value of a rewritten part."""
        before = self._count
        part = rewrite()
        found = array_of(evaluate_part(part, {**self._numbers, **self._bound}, self.rules))
        for i in range(before, self._count):  # nothing else names them
            self._bound.pop(_name(i), None)
        return found

    def held(self, value: Given, column: int) -> syntax.NameOf:
        """Return a name for a value, to stand in a rewritten part."""
        name = _name(self._count)
        self._count += 1
        self._bound[name] = value
        return syntax.NameOf(name, column)

    def points(self, part: syntax.Part, flat: Index) -> Tracked:
        """Return the value of a part at flat indices of it, in any order, in their shape."""
        if isinstance(part, syntax.NameOf) and part.name in self._arrays:
            return self._gathered(self._arrays[part.name], flat)
        elements, back = np.unique(flat, return_inverse=True)
        found = self.chosen(part, self.shape(part), elements)
        return moved(lambda x: x[back.reshape(flat.shape)], found)

    def moved(self, part: syntax.Part, origin: Origin, box: Box) -> Tracked:
        """Return chosen elements of what moves the elements of a part."""
        if isinstance(origin, Flat):
            return self.points(part, origin.positions(flat_indices(box, origin.shape)))
        source = origin.source(box)
        sizes = tuple(map(len, source))
        return moved(lambda x: origin.placed(np.broadcast_to(x, sizes), box), self.value(part, source))

    def names_arrays(self, part: syntax.Part) -> bool:
        """Return whether a part reads arrays."""
        return not self._arrays.keys().isdisjoint(syntax.names(part))

    def number(self, part: syntax.Part) -> Given:
        """Return the value of a part that names no array.

        Raises:
            UnrestrictedError: It does.
        """
        if self.names_arrays(part):
            raise UnrestrictedError("an operand that is a number depends on arrays")
        return evaluate_part(part, self._numbers, self.rules)

    def all_of(self, extent: int) -> Index:
        """Return all positions along an axis; of axes as long, the same array."""
        found = self._all.get(extent)
        if found is None:
            self.budget.compute(extent)
            found = self._all[extent] = np.arange(extent)
        return found

    def _gathered(self, array: NamedArray, flat: Index) -> Tracked:
        self.budget.read(array.source, flat)
        return Tracked(array.element.widened(gather(array.source, flat.reshape(-1))).reshape(flat.shape))

    def _of_array(self, array: NamedArray, box: Box) -> Tracked:
        if any(one is not self._all.get(extent) for one, extent in zip(box, array.shape, strict=True)):
            return self._gathered(array, flat_indices(box, array.shape))
        self.budget.read_all(array.source)
        return Tracked(array.element.widened(array.source.read(0, array.source.size)).reshape(array.shape))

    def _whole(self, part: syntax.Part) -> Tracked:
        """Return the value of a part, all of it, where its arrays are small."""
        key = "whole", part, self.rules
        found = self._wholes.get(part) or self._kept.get(key)
        if not isinstance(found, Tracked):
            named = {name: one for name, one in self._arrays.items() if name in syntax.names(part)}
            self.budget.whole(part, sum(one.source.size for one in named.values()), self.shape)
            held = {
                name: Tracked(one.element.widened(one.source.read(0, one.source.size)).reshape(one.shape))
                for name, one in named.items()
            }
            rules = self.rules if named else Rules(self.rules.arithmetic, min(self.rules.most_elements, MOST_WHOLE))
            try:
                found = array_of(evaluate_part(part, {**self._numbers, **held}, rules))
            except UserError as error:
                raise UnrestrictedError(error.message) from error
            self._wholes[part] = found
            if found.values.size <= MOST_WHOLE:
                self._kept[key] = found
        return found

    # --- shapes -----------------------------------------------------------------------------------------------

    def shape(self, part: syntax.Part) -> Shape:
        """Return the shape of a part's value."""
        found = self._shapes.get(part)
        if found is None:
            try:
                found = self._shape_of(part)
            except WorkBudgetError:
                raise
            except UnrestrictedError:
                found = self._whole(part).shape
            self._shapes[part] = found
        return found

    def _shape_of(self, part: syntax.Part) -> Shape:
        match part:
            case syntax.Constant():
                found: Shape = ()
            case syntax.NameOf(name=name):
                found = self._arrays[name].shape if name in self._arrays else ()
            case syntax.Unary(operand=operand):
                found = self.shape(operand)
            case syntax.Conditional():
                found = self.shape(self._branch(part))
            case syntax.ItemOf(value=value, index=index):
                found = self._picked(value, index).shape
            case syntax.Application():
                found = calls.shape_of(self, part)
            case _:
                found = self.broadcast(*_operands_of(part))
        return found

    def broadcast(self, *parts: syntax.Part) -> Shape:
        """Return the shape that parts are broadcast to."""
        return np.broadcast_shapes(*(self.shape(one) for one in parts))

    def _branch(self, part: syntax.Conditional) -> syntax.Part:
        return part.then if array_of(self.number(part.test)).values else part.otherwise

    # --- rewriting --------------------------------------------------------------------------------------------

    def rewritten(self, part: syntax.Part, box: Box) -> syntax.Part:
        """Return a part whose value has the chosen elements alone."""
        self.budget.compute(math.prod(map(len, box)))
        try:
            return self._rewritten(part, box)
        except WorkBudgetError:
            raise
        except UnrestrictedError:
            whole, chosen = self._whole(part), np.ix_(*box)
            return self.held(moved(lambda x: x[chosen] if box else x, whole), part.column)

    def operands(self, parts: Sequence[syntax.Part], shape: Shape, box: Box) -> list[syntax.Part]:
        """Rewrite parts that are broadcast to a shape for a box of that."""
        return [self.rewritten(one, aligned(self.shape(one), shape, box)) for one in parts]

    def _rewritten(self, part: syntax.Part, box: Box) -> syntax.Part:
        match part:
            case syntax.NameOf(name=name, column=column) if name in self._arrays:
                found: syntax.Part = self.held(self._of_array(self._arrays[name], box), column)
            case syntax.NameOf() | syntax.Constant():
                found = part
            case syntax.Unary(symbol=symbol, operand=operand, column=column):
                found = syntax.Unary(symbol, self.rewritten(operand, box), column)
            case syntax.Conditional():
                found = self.rewritten(self._branch(part), box)
            case syntax.ItemOf(value=value, index=index, column=column):
                found = self.held(self.item(value, self._picked(value, index), box), column)
            case syntax.Application():
                found = calls.rewritten(self, part, box)
            case _:
                found = _with_operands(part, self.operands(_operands_of(part), self.shape(part), box))
        return found

    # --- indices ----------------------------------------------------------------------------------------------

    def _picked(self, value: syntax.Part, index: syntax.Part) -> Separable | Gathered:
        parts = index.parts if isinstance(index, syntax.ListOf) else (index,)
        return picked(self.shape(value), [self._subscript(one) for one in parts])

    def _subscript(self, part: syntax.Part) -> Subscript:
        """Return an index between brackets; the elements of an array are evaluated where they are chosen."""
        if isinstance(part, syntax.Span):
            ends = (part.start, part.stop, part.step)
            numbers = [None if one is None else self.number(one) for one in ends]
            return slice(*(None if one is None else int(array_of(one).values) for one in numbers))
        if self.names_arrays(part) or self.shape(part):
            return ArrayIndex(self.shape(part), part)
        value = self.number(part)
        if value is None:
            return None
        if array_of(value).values.dtype.kind not in "iu":
            raise UnrestrictedError("an index that is not a whole number")
        return int(array_of(value).values)

    def item(self, value: syntax.Part, origin: Separable | Gathered, box: Box) -> Tracked:
        """Return chosen elements of what an index picks."""
        if isinstance(origin, Separable):
            return self.moved(value, origin, box)
        shape, count = self.shape(value), len(origin.shared)
        of_indices = box[origin.first : origin.first + count]
        places: dict[int, Index] = {}
        for axis, one in origin.indices:
            at = one if isinstance(one, int) else self._positions(one, origin.shared, of_indices, shape[axis])
            behind = (1,) * (len(box) - origin.first - count)
            places[axis] = np.broadcast_to(at, tuple(map(len, of_indices))).reshape(
                (1,) * origin.first + tuple(map(len, of_indices)) + behind
            )
        for i, follows in enumerate(origin.axes):
            if follows is not None:
                sides = [-1 if j == follows.axis else 1 for j in range(len(box))]
                places[i] = follows.positions(box[follows.axis]).reshape(sides)
        self.budget.compute(math.prod(map(len, box)))
        flat: NDArray[np.int64] = np.zeros((), np.int64)
        for i, extent in enumerate(shape):
            flat = flat * extent + places[i]
        return self.points(value, np.broadcast_to(flat, tuple(map(len, box))))

    def _positions(self, index: ArrayIndex, shared: Shape, box: Box, extent: int) -> Index:
        """Return chosen elements of an index, which is broadcast to a shape, as positions along an axis."""
        held = self.value(index.part, aligned(index.shape, shared, box))
        if held.values.dtype.kind not in "iu" or np.any(held.spread > 0):
            raise UnrestrictedError("an index that is not a whole number")
        return positions_within(held.values.astype(np.int64), extent)


def _name(i: int) -> str:
    """Return a name that no expression has."""
    return f"restricted {i}"


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
    raise UnrestrictedError("a part that is not evaluated at chosen elements")


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
    raise UnrestrictedError("a part that is not evaluated at chosen elements")
