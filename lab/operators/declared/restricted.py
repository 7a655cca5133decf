"""Evaluates references at selected elements of arrays that are too large to evaluate whole.

The expression is rewritten so that each array is replaced by the elements needed: rows and columns of a matrix product,
whole rows of a sum along them, the elements an index picks. The rewritten expression is then evaluated like any other,
and so are its error bounds. A node that cannot be rewritten is evaluated whole if its arrays are small. The module
`calls` handles the functions.
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
"""Maximum number of boxes into which selected elements are split."""

_LONG: Final = 1 << 20
"""Elements computed from which a value counts as slow."""

_FEW: Final = 1 << 10
"""Maximum elements of a slow value that is cached across evaluations."""

_MOST_SHARED: Final = 1 << 16
"""Maximum elements of a value that is cached for other boxes."""


@dataclass(frozen=True, slots=True)
class NamedArray:
    """An array a reference can name.

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
    cache: dict[object, Any] | None = None,
) -> Tracked:
    """Return the value of a reference at selected elements.

    Args:
        expression: The reference.
        arrays: The arrays that it can name.
        numbers: The numbers that it can name.
        rules: How kernels round.
        shape: The shape of the output.
        elements: (count,) flat indices in C order, ascending.
        cache: Cache of long sums and of nodes evaluated whole, for the same arrays and numbers.

    Returns:
        Values and bounds, (count,).

    Raises:
        UnrestrictedError: It cannot be evaluated at selected elements, or takes too long.
        UserError: As of `lab.operators.declared.arrays.evaluate_arrays`.
    """
    try:
        return Restriction(arrays, numbers, rules, cache).chosen(parser.parse(expression), shape, elements)
    except (ArrayOperationError, ValueError, TypeError, IndexError, MemoryError) as error:  # operands that do not fit
        raise UnrestrictedError(str(error)) from error


def multiplies(expression: str) -> bool:
    """Return whether a reference has matrix products, whose work does not follow from their sizes."""
    products = ("matmul", "dot", "einsum", "convolve", "correlate", "correlate2d", "fft", "ifft")
    called = (node.function for node in syntax.walk(parser.parse(expression)) if isinstance(node, syntax.Application))
    return any(isinstance(function, syntax.NameOf) and function.name in products for function in called)


class Restriction:
    """Rewrites one expression for selected elements.

    Attributes:
        rules: The kernel's rounding.
        budget: The elements read and computed so far.
    """

    def __init__(
        self,
        arrays: Mapping[str, NamedArray],
        numbers: Mapping[str, Given],
        rules: Rules,
        cache: dict[object, Any] | None = None,
    ) -> None:
        """Start with an unused budget.

        Args:
            arrays: The arrays that the expression can name.
            numbers: The numbers that it can name.
            rules: How kernels round.
            cache: As of `evaluate_at`.
        """
        self._kept = {} if cache is None else cache
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

    def chosen(self, node: syntax.Part, shape: Shape, elements: Index) -> Tracked:
        """Return a node's value, broadcast to a shape, at ascending flat indices of that shape; 1-D."""
        places: list[Index] = []
        values: list[Tracked] = []
        for box, at in boxes(elements, shape):
            if len(places) == _MOST_BOXES:
                raise UnrestrictedError("the selected elements are scattered")
            sizes = tuple(map(len, box))
            block = self.value(node, aligned(self.shape(node), shape, box))
            values.append(moved(lambda x, sizes=sizes: np.broadcast_to(x, sizes).reshape(-1), block))  # type: ignore[misc]
            places.append(at)
        order = np.argsort(np.concatenate(places), kind="stable")
        ordered = np.concatenate([tracked.values for tracked in values])[order]
        if all(tracked.bound is None for tracked in values):
            return Tracked(ordered)
        return Tracked(
            ordered, np.concatenate([np.broadcast_to(tracked.spread, tracked.shape) for tracked in values])[order]
        )

    def value(self, node: syntax.Part, box: Box) -> Tracked:
        """Return the value of a node at a box of its shape; it broadcasts to the sizes of the box."""
        return self.shared(node, box, lambda: self.evaluated(lambda: self.rewritten(node, box)))

    def shared(self, node: syntax.Part, box: Box, make: Callable[[], Tracked]) -> Tracked:
        """Return the value of a node at a box, computed once if it is small."""
        if sum(map(len, box)) > _MOST_SHARED:
            return make()
        key = node, tuple(positions.tobytes() for positions in box)
        result = self._shared.get(key)
        if result is None:
            result = make()
            if result.values.size <= _MOST_SHARED:
                self._shared[key] = result
        return result

    def long(self, node: syntax.Part, box: Box, make: Callable[[], Tracked]) -> Tracked:
        """Return the value of a node at a box, computed once for all evaluations if it is slow."""
        key = node, tuple(positions.tobytes() for positions in box), self.rules
        result = self._kept.get(key) if sum(map(len, box)) <= _FEW else None
        if not isinstance(result, Tracked):
            before = self.budget.computed
            result = make()
            if self.budget.computed - before > _LONG and result.values.size <= _FEW:
                self._kept[key] = result
        return result

    def evaluated(self, rewrite: Callable[[], syntax.Part]) -> Tracked:
        """Return the value of a rewritten node."""
        before = self._count
        node = rewrite()
        result = array_of(evaluate_part(node, {**self._numbers, **self._bound}, self.rules))
        for i in range(before, self._count):  # nothing else refers to them
            self._bound.pop(_name(i), None)
        return result

    def held(self, value: Given, column: int) -> syntax.NameOf:
        """Return a name for a value, for use in a rewritten node."""
        name = _name(self._count)
        self._count += 1
        self._bound[name] = value
        return syntax.NameOf(name, column)

    def points(self, node: syntax.Part, flat: Index) -> Tracked:
        """Return the value of a node at its flat indices, in any order, in the shape of the indices."""
        if isinstance(node, syntax.NameOf) and node.name in self._arrays:
            return self._gathered(self._arrays[node.name], flat)
        elements, back = np.unique(flat, return_inverse=True)
        result = self.chosen(node, self.shape(node), elements)
        return moved(lambda x: x[back.reshape(flat.shape)], result)

    def moved(self, node: syntax.Part, origin: Origin, box: Box) -> Tracked:
        """Return selected elements of a function that moves the elements of a node."""
        if isinstance(origin, Flat):
            return self.points(node, origin.positions(flat_indices(box, origin.shape)))
        source = origin.source(box)
        sizes = tuple(map(len, source))
        return moved(lambda x: origin.placed(np.broadcast_to(x, sizes), box), self.value(node, source))

    def names_arrays(self, node: syntax.Part) -> bool:
        """Return whether a node reads arrays."""
        return not self._arrays.keys().isdisjoint(syntax.names(node))

    def number(self, node: syntax.Part) -> Given:
        """Return the value of a node that names no array.

        Raises:
            UnrestrictedError: It names an array.
        """
        if self.names_arrays(node):
            raise UnrestrictedError("an operand that must be a number depends on arrays")
        return evaluate_part(node, self._numbers, self.rules)

    def all_of(self, extent: int) -> Index:
        """Return all positions along an axis; cached per length."""
        positions = self._all.get(extent)
        if positions is None:
            self.budget.compute(extent)
            positions = self._all[extent] = np.arange(extent)
        return positions

    def _gathered(self, array: NamedArray, flat: Index) -> Tracked:
        self.budget.read(array.source, flat)
        return Tracked(array.element.widened(gather(array.source, flat.reshape(-1))).reshape(flat.shape))

    def _of_array(self, array: NamedArray, box: Box) -> Tracked:
        if any(positions is not self._all.get(extent) for positions, extent in zip(box, array.shape, strict=True)):
            return self._gathered(array, flat_indices(box, array.shape))
        self.budget.read_all(array.source)
        return Tracked(array.element.widened(array.source.read(0, array.source.size)).reshape(array.shape))

    def _whole(self, node: syntax.Part) -> Tracked:
        """Return the full value of a node whose arrays are small."""
        key = "whole", node, self.rules
        result = self._wholes.get(node) or self._kept.get(key)
        if not isinstance(result, Tracked):
            used_arrays = {name: array for name, array in self._arrays.items() if name in syntax.names(node)}
            self.budget.whole(node, sum(array.source.size for array in used_arrays.values()), self.shape)
            values = {
                name: Tracked(array.element.widened(array.source.read(0, array.source.size)).reshape(array.shape))
                for name, array in used_arrays.items()
            }
            rules = (
                self.rules if used_arrays else Rules(self.rules.arithmetic, min(self.rules.most_elements, MOST_WHOLE))
            )
            try:
                result = array_of(evaluate_part(node, {**self._numbers, **values}, rules))
            except UserError as error:
                raise UnrestrictedError(error.message) from error
            self._wholes[node] = result
            if result.values.size <= MOST_WHOLE:
                self._kept[key] = result
        return result

    # --- shapes -----------------------------------------------------------------------------------------------

    def shape(self, node: syntax.Part) -> Shape:
        """Return the shape of a node's value."""
        result = self._shapes.get(node)
        if result is None:
            try:
                result = self._shape_of(node)
            except WorkBudgetError:
                raise
            except UnrestrictedError:
                result = self._whole(node).shape
            self._shapes[node] = result
        return result

    def _shape_of(self, node: syntax.Part) -> Shape:
        match node:
            case syntax.Constant():
                result: Shape = ()
            case syntax.NameOf(name=name):
                result = self._arrays[name].shape if name in self._arrays else ()
            case syntax.Unary(operand=operand):
                result = self.shape(operand)
            case syntax.Conditional():
                result = self.shape(self._branch(node))
            case syntax.ItemOf(value=value, index=index):
                result = self._picked(value, index).shape
            case syntax.Application():
                result = calls.shape_of(self, node)
            case _:
                result = self.broadcast(*_operands_of(node))
        return result

    def broadcast(self, *parts: syntax.Part) -> Shape:
        """Return the broadcast shape of nodes."""
        return np.broadcast_shapes(*(self.shape(node) for node in parts))

    def _branch(self, node: syntax.Conditional) -> syntax.Part:
        return node.then if array_of(self.number(node.test)).values else node.otherwise

    # --- rewriting --------------------------------------------------------------------------------------------

    def rewritten(self, node: syntax.Part, box: Box) -> syntax.Part:
        """Return a node whose value has only the selected elements."""
        self.budget.compute(math.prod(map(len, box)))
        try:
            return self._rewritten(node, box)
        except WorkBudgetError:
            raise
        except UnrestrictedError:
            full_value, chosen = self._whole(node), np.ix_(*box)
            return self.held(moved(lambda x: x[chosen] if box else x, full_value), node.column)

    def operands(self, parts: Sequence[syntax.Part], shape: Shape, box: Box) -> list[syntax.Part]:
        """Rewrite nodes that are broadcast to a shape, for a box of that shape."""
        return [self.rewritten(node, aligned(self.shape(node), shape, box)) for node in parts]

    def _rewritten(self, node: syntax.Part, box: Box) -> syntax.Part:
        match node:
            case syntax.NameOf(name=name, column=column) if name in self._arrays:
                result: syntax.Part = self.held(self._of_array(self._arrays[name], box), column)
            case syntax.NameOf() | syntax.Constant():
                result = node
            case syntax.Unary(symbol=symbol, operand=operand, column=column):
                result = syntax.Unary(symbol, self.rewritten(operand, box), column)
            case syntax.Conditional():
                result = self.rewritten(self._branch(node), box)
            case syntax.ItemOf(value=value, index=index, column=column):
                result = self.held(self.item(value, self._picked(value, index), box), column)
            case syntax.Application():
                result = calls.rewritten(self, node, box)
            case _:
                result = _with_operands(node, self.operands(_operands_of(node), self.shape(node), box))
        return result

    # --- indices ----------------------------------------------------------------------------------------------

    def _picked(self, value: syntax.Part, index: syntax.Part) -> Separable | Gathered:
        parts = index.parts if isinstance(index, syntax.ListOf) else (index,)
        return picked(self.shape(value), [self._subscript(subscript) for subscript in parts])

    def _subscript(self, node: syntax.Part) -> Subscript:
        """Return an index; elements of an index array are evaluated where they are selected."""
        if isinstance(node, syntax.Span):
            ends = (node.start, node.stop, node.step)
            numbers = [None if end is None else self.number(end) for end in ends]
            return slice(*(None if number is None else int(array_of(number).values) for number in numbers))
        if self.names_arrays(node) or self.shape(node):
            return ArrayIndex(self.shape(node), node)
        value = self.number(node)
        if value is None:
            return None
        if array_of(value).values.dtype.kind not in "iu":
            raise UnrestrictedError("an index must be an integer")
        return int(array_of(value).values)

    def item(self, value: syntax.Part, origin: Separable | Gathered, box: Box) -> Tracked:
        """Return selected elements of an indexed value."""
        if isinstance(origin, Separable):
            return self.moved(value, origin, box)
        shape, count = self.shape(value), len(origin.shared)
        of_indices = box[origin.first : origin.first + count]
        places: dict[int, Index] = {}
        for axis, index in origin.indices:
            at = index if isinstance(index, int) else self._positions(index, origin.shared, of_indices, shape[axis])
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
        """Return selected elements of an index, broadcast to a shape, as positions along an axis."""
        positions = self.value(index.part, aligned(index.shape, shared, box))
        if positions.values.dtype.kind not in "iu" or np.any(positions.spread > 0):
            raise UnrestrictedError("an index must be an integer")
        return positions_within(positions.values.astype(np.int64), extent)


def _name(i: int) -> str:
    """Return a name that no expression uses."""
    return f"restricted {i}"


def _operands_of(node: syntax.Part) -> tuple[syntax.Part, ...]:
    """Return the operands of an elementwise operation.

    Raises:
        UnrestrictedError: The node is not an elementwise operation.
    """
    match node:
        case syntax.Binary(left=left, right=right):
            return left, right
        case syntax.Chain(first=first, others=others):
            return (first, *(operand for _, operand in others))
        case syntax.Junction(parts=parts):
            return parts
    raise UnrestrictedError("an expression that is not evaluated at selected elements")


def _with_operands(node: syntax.Part, operands: Sequence[syntax.Part]) -> syntax.Part:
    """Return the same operation with other operands."""
    match node:
        case syntax.Binary(symbol=symbol, column=column):
            return syntax.Binary(symbol, operands[0], operands[1], column)
        case syntax.Chain(others=others, column=column):
            symbols = (symbol for symbol, _ in others)
            return syntax.Chain(operands[0], tuple(zip(symbols, operands[1:], strict=True)), column)
        case syntax.Junction(symbol=symbol, column=column):
            return syntax.Junction(symbol, tuple(operands), column)
    raise UnrestrictedError("an expression that is not evaluated at selected elements")
