"""Restriction of reference functions to selected elements: the operand elements each call needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.base import syntax
from lab.operators.boxes import Box, Index, Shape, aligned
from lab.operators.declared import movement
from lab.operators.declared.budget import UnrestrictedError
from lab.operators.declared.functions import ARRAY_FUNCTIONS
from lab.operators.declared.origins import ORIGINS, Origin, Separable, padded
from lab.operators.declared.subscripts import ArrayIndex, Gathered, Subscript, picked
from lab.operators.declared.tracked import Tracked

if TYPE_CHECKING:
    from lab.operators.declared.restricted import Restriction

_OF_ELEMENTS: Final = frozenset(
    name
    for name, function in ARRAY_FUNCTIONS.items()
    if function.group in ("arithmetic", "functions of single elements", "choices", "bits", "types and complex numbers")
) | {"zeros_like", "ones_like"}
"""Elementwise functions: each result depends on the same element of each operand."""

_REDUCING: Final = ("sum", "mean", "var", "std", "norm", "prod", "max", "min", "any", "all", "argmax", "argmin")
_KEEPING: Final = ("cumsum", "cumprod", "sort", "argsort", "fft", "ifft")
"""Functions along an axis whose result keeps that axis."""

_MATRICES: Final = 2


class _Called:
    """A call with its arguments by parameter name."""

    def __init__(self, at: Restriction, call: syntax.Application) -> None:
        assert isinstance(call.function, syntax.NameOf)  # noqa: S101 - values have no attributes
        self.at, self.call, self.name = at, call, call.function.name
        self.function = ARRAY_FUNCTIONS[self.name]
        self.given = dict(self.function.placed(call.arguments, dict(call.keywords)))

    def shape(self, parameter: str = "a") -> Shape:
        """Return the shape of an operand."""
        return self.at.shape(self.given[parameter])

    def plain(self) -> dict[str, Any]:
        """Return the arguments that are not arrays, converted for the function."""
        arguments = ((key, node) for key, node in self.given.items() if key not in self.function.arrays)
        return {key: self.function.plain(key, self.at.number(node)) for key, node in arguments}

    def on(self, **parts: syntax.Part) -> syntax.Application:
        """Return the same call with other operands."""
        return syntax.Application(self.call.function, (), tuple({**self.given, **parts}.items()), self.call.column)

    def held(self, value: Tracked) -> syntax.NameOf:
        """Return a name for a value."""
        return self.at.held(value, self.call.column)

    def axes(self) -> tuple[int, ...]:
        """Return the axes the function operates along.

        Raises:
            UnrestrictedError: The array lacks one.
        """
        count = len(self.shape())
        default = next(parameter.default for parameter in self.function.parameters if parameter.name == "axis")
        axis = self.function.plain("axis", self.at.number(self.given["axis"])) if "axis" in self.given else default
        axes = tuple(range(count)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        if not all(-count <= number < count for number in axes):
            raise UnrestrictedError("the array does not have this axis")
        return tuple(number % count for number in axes)

    def raveled(self) -> _Called:
        """Return the call on a flattened array if it runs over all dimensions."""
        if self.name not in ("cumsum", "cumprod") or len(self.axes()) == len(self.shape()) == 1:
            return self
        if len(self.axes()) == 1 and "axis" in self.given:
            return self
        ravel = syntax.Application(syntax.NameOf("ravel", self.call.column), (self.given["a"],), (), self.call.column)
        return _Called(self.at, self.on(a=ravel))


def shape_of(at: Restriction, call: syntax.Application) -> Shape:
    """Return the shape of a call's result.

    Raises:
        UnrestrictedError: The shape is not known before the call.
    """
    called = _Called(at, call)
    if called.name in _OF_ELEMENTS:
        return at.broadcast(*(node for key, node in called.given.items() if key in called.function.arrays))
    if called.name in _REDUCING:
        return _reduced_shape(called)
    if called.name in ORIGINS:
        return _origin(called).shape
    if called.name in _SHAPES:
        return _SHAPES[called.name](called)
    raise UnrestrictedError(f"{called.name} is not evaluated at selected elements")


def rewritten(at: Restriction, call: syntax.Application, box: Box) -> syntax.Part:
    """Return an expression for selected elements of a call's result.

    Raises:
        UnrestrictedError: All of its operands are needed.
    """
    called = _Called(at, call)
    if called.name in _OF_ELEMENTS:
        arrays = [key for key in called.given if key in called.function.arrays]
        parts = at.operands([called.given[key] for key in arrays], at.shape(call), box)
        return called.on(**dict(zip(arrays, parts, strict=True)))
    if called.name in _REDUCING:
        return called.held(at.shared(call, box, lambda: at.long(call, box, lambda: _reduced(called, box))))
    if called.name in ORIGINS:
        return called.held(at.moved(called.given["a"], _origin(called), box))
    if called.name in _VALUES:
        return called.held(_VALUES[called.name](called, box))
    raise UnrestrictedError(f"{called.name} is not evaluated at selected elements")


def _origin(called: _Called) -> Origin:
    return ORIGINS[called.name](called.shape(), **_renamed(called.plain()))


def _renamed(plain: dict[str, Any]) -> dict[str, Any]:
    """Rename the argument `shape` to `new`, since an array has a shape of its own."""
    return {"new" if key == "shape" else key: value for key, value in plain.items()}


# --- along axes -----------------------------------------------------------------------------------------------


def _reduced_shape(called: _Called) -> Shape:
    shape = called.shape()
    if not shape:  # max(m, 1): the second operand is no axis
        return ()
    axes = called.axes()
    keeps = "keepdims" in called.given and called.function.plain("keepdims", called.at.number(called.given["keepdims"]))
    return tuple(1 if i in axes else n for i, n in enumerate(shape) if keeps or i not in axes)


def _reduced(called: _Called, box: Box) -> Tracked:
    """Return selected results of a reduction, which needs its axes in full."""
    at, shape = called.at, called.shape()
    if not shape:
        return at.evaluated(
            lambda: called.on(**{key: at.rewritten(operand, ()) for key, operand in called.given.items()})
        )
    called.plain()  # refuses numbers that depend on arrays
    axes, box_axes = called.axes(), iter(box)
    inner: list[Index] = []
    for i, n in enumerate(shape):
        chosen = next(box_axes) if i not in axes or len(box) == len(shape) else None
        inner.append(at.all_of(n) if i in axes or chosen is None else chosen)
    return at.evaluated(lambda: called.on(a=at.rewritten(called.given["a"], tuple(inner))))


def _kept(called: _Called, box: Box) -> Tracked:
    """Return selected results of a function along an axis, which needs the whole axis."""
    called = called.raveled()
    at, axes = called.at, called.axes()
    sides = zip(called.shape(), box, strict=True)
    inner = tuple(at.all_of(n) if i in axes else positions for i, (n, positions) in enumerate(sides))
    result = at.evaluated(lambda: called.on(a=at.rewritten(called.given["a"], inner)))
    chosen = np.ix_(*(positions if i in axes else np.arange(len(positions)) for i, positions in enumerate(box)))
    return movement.moved(lambda x: x[chosen], result)


def _difference_shape(called: _Called) -> Shape:
    axis = called.axes()[0]
    return tuple(n - (i == axis) for i, n in enumerate(called.shape()))


def _differences(called: _Called, box: Box) -> Tracked:
    axis = called.axes()[0]
    later = tuple(positions + 1 if i == axis else positions for i, positions in enumerate(box))
    operand = called.given["a"]
    return called.at.rules.subtract(called.at.value(operand, later), called.at.value(operand, box))


# --- products -------------------------------------------------------------------------------------------------


def _product_shape(called: _Called) -> Shape:
    a, b = called.shape("a"), called.shape("b")
    if not a or not b or (called.name == "dot" and max(len(a), len(b)) > _MATRICES):
        raise UnrestrictedError("a product of numbers")
    return (*np.broadcast_shapes(a[:-2], b[:-2]), *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _product(called: _Called, box: Box) -> Tracked:
    at, a, b = called.at, called.shape("a"), called.shape("b")
    outer = np.broadcast_shapes(a[:-2], b[:-2])
    sides = iter(box[len(outer) :])
    rows = (next(sides),) if len(a) > 1 else ()
    columns = (next(sides),) if len(b) > 1 else ()
    at.budget.multiply(math.prod(map(len, box)) * a[-1])
    along, batches = at.all_of(a[-1]), box[: len(outer)]

    def restricted_call() -> syntax.Part:
        left = (*aligned(a[:-2], outer, batches), *rows, along)
        right = (*aligned(b[:-2], outer, batches), along, *columns)
        return called.on(a=at.rewritten(called.given["a"], left), b=at.rewritten(called.given["b"], right))

    return at.evaluated(restricted_call)


def _letters(called: _Called) -> tuple[list[str], str, dict[str, int]]:
    """Return an einsum's index letters per operand, those of its result, and each letter's size."""
    spec = called.function.plain("subscripts", called.at.number(called.given["subscripts"])).replace(" ", "")
    operands, _, result = spec.partition("->")
    groups = operands.split(",")
    sizes: dict[str, int] = {}
    for group, operand in zip(groups, called.given["operands"], strict=True):
        sizes |= dict(zip(group, called.at.shape(operand), strict=True))
    return groups, result, sizes


def _summation_shape(called: _Called) -> Shape:
    _, result, sizes = _letters(called)
    return tuple(sizes[letter] for letter in result)


def _summation(called: _Called, box: Box) -> Tracked:
    at = called.at
    groups, result, sizes = _letters(called)
    chosen = dict(zip(result, box, strict=True))
    summed = {letter: n for letter, n in sizes.items() if letter not in chosen}
    at.budget.multiply(math.prod(map(len, box)) * math.prod(summed.values()))
    chosen |= {letter: at.all_of(n) for letter, n in summed.items()}

    def restricted_call() -> syntax.Part:
        pairs = zip(groups, called.given["operands"], strict=True)
        parts = [at.rewritten(operand, tuple(chosen[letter] for letter in group)) for group, operand in pairs]
        arguments = (called.given["subscripts"], *parts)
        return syntax.Application(called.call.function, arguments, (), called.call.column)

    return at.evaluated(restricted_call)


def _outer_shape(called: _Called) -> Shape:
    return math.prod(called.shape("a")), math.prod(called.shape("b"))


def _outer(called: _Called, box: Box) -> Tracked:
    rows, columns = (called.at.points(called.given[key], positions) for key, positions in zip("ab", box, strict=True))
    return called.at.evaluated(lambda: called.on(a=called.held(rows), b=called.held(columns)))


# --- moved elements -------------------------------------------------------------------------------------------


def _taken_from(called: _Called) -> tuple[syntax.Part, Separable | Gathered]:
    """Return the array that `take` reads, and the equivalent index."""
    axis, array, column = called.plain().get("axis"), called.given["a"], called.call.column
    if axis is None:
        array = syntax.Application(syntax.NameOf("ravel", column), (array,), (), column)
    shape = called.at.shape(array)
    subscripts: list[Subscript] = [slice(None)] * len(shape)
    subscripts[axis or 0] = ArrayIndex(called.shape("indices"), called.given["indices"])
    return array, picked(shape, subscripts)


def _taken(called: _Called, box: Box) -> Tracked:
    return called.at.item(*_taken_from(called), box)


def _triangle(called: _Called, box: Box) -> Tracked:
    below = np.subtract.outer(box[-2], box[-1]) + called.plain().get("k", 0)
    mask = below >= 0 if called.name == "tril" else below <= 0
    elements = called.at.value(called.given["a"], box)
    return movement.moved(lambda x: np.where(mask, x, np.zeros((), x.dtype)), elements)


def _widths(called: _Called) -> list[tuple[int, int]]:
    widths = np.broadcast_to(np.asarray(called.plain()["pad_width"]), (len(called.shape()), 2))
    return [(int(before), int(after)) for before, after in widths]


def _padded_shape(called: _Called) -> Shape:
    return tuple(n + sum(sides) for n, sides in zip(called.shape(), _widths(called), strict=True))


def _padded(called: _Called, box: Box) -> Tracked:
    plain, sides = called.plain(), zip(called.shape(), _widths(called), box, strict=True)
    mode = plain.get("mode", "constant")
    along = [padded(n, before, mode, at) for n, (before, _), at in sides]
    elements = called.at.value(called.given["a"], tuple(at for at, _ in along))
    if mode != "constant":
        return elements
    inside = np.ones(tuple(map(len, box)), np.bool_)
    for i, (_, mask) in enumerate(along):
        inside &= mask.reshape([-1 if i == j else 1 for j in range(len(box))])
    values = np.where(inside, elements.values, np.asarray(plain.get("constant_values", 0), elements.values.dtype))
    return Tracked(values, None if elements.bound is None else np.where(inside, elements.bound, 0.0))


def _joined_parts(called: _Called) -> tuple[tuple[syntax.Part, ...], int, list[Shape]]:
    """Return the joined arrays, the axis they are joined along, and their shapes with that axis."""
    if not isinstance(called.given["arrays"], syntax.ListOf):
        raise UnrestrictedError("what is joined is not a list")
    parts, axis = called.given["arrays"].parts, called.plain().get("axis", 0)
    shapes = [called.at.shape(node) for node in parts]
    axis %= len(shapes[0]) + (called.name == "stack")
    if called.name == "stack":
        shapes = [(*shape[:axis], 1, *shape[axis:]) for shape in shapes]
    return parts, axis, shapes


def _joined_shape(called: _Called) -> Shape:
    _, axis, shapes = _joined_parts(called)
    return tuple(sum(shape[i] for shape in shapes) if i == axis else n for i, n in enumerate(shapes[0]))


def _joined(called: _Called, box: Box) -> Tracked:
    parts, axis, shapes = _joined_parts(called)
    ends = np.cumsum([shape[axis] for shape in shapes])
    owner = np.searchsorted(ends, box[axis], side="right")
    blocks: list[Tracked] = []
    for i in np.unique(owner).tolist():
        along = box[axis][owner == i] - (int(ends[i]) - shapes[i][axis])
        chosen = (*box[:axis], along, *box[axis + 1 :])
        inner = (*box[:axis], *box[axis + 1 :]) if called.name == "stack" else chosen
        elements = called.at.value(parts[i], inner)
        blocks.append(movement.moved(_filling(tuple(map(len, inner)), tuple(map(len, chosen)), axis), elements))
    order = np.argsort(owner, kind="stable")
    together = movement.concatenate(called.at.rules, tuple(blocks), axis)
    return movement.moved(lambda x: np.take(x, np.argsort(order), axis), together)


def _filling(inner: Shape, sizes: Shape, axis: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return a function that reshapes an array's elements for joining."""

    def placed(x: NDArray[Any]) -> NDArray[Any]:
        broadcast = np.broadcast_to(x, inner)
        return broadcast if len(inner) == len(sizes) else np.broadcast_to(np.expand_dims(broadcast, axis), sizes)

    return placed


# --- arrays from nothing --------------------------------------------------------------------------------------


def _filled_shape(called: _Called) -> Shape:
    if called.name == "full_like":
        return called.shape()
    shape = called.plain()["shape"]
    return shape if isinstance(shape, tuple) else (shape,)


def _filled(called: _Called, box: Box) -> Tracked:
    sizes, at = tuple(map(len, box)), called.at
    if "fill_value" not in called.given:
        return (movement.zeros if called.name == "zeros" else movement.ones)(at.rules, sizes)
    (fill,) = (called.given["fill_value"],)
    value = at.evaluated(lambda: at.operands([fill], _filled_shape(called), box)[0])
    return movement.full(at.rules, sizes, value)


def _range(called: _Called) -> tuple[float, float, float]:
    plain = called.plain()
    first, last, step = plain["start"], plain.get("stop"), plain.get("step", 1)
    first, last = (0, first) if last is None else (first, last)
    if not step or not math.isfinite(last - first) or not math.isfinite(step):
        raise UnrestrictedError("an infinite range")
    return first, last, step


def _range_shape(called: _Called) -> Shape:
    first, last, step = _range(called)
    return (max(0, math.ceil((last - first) / step)),)


def _range_at(called: _Called, box: Box) -> Tracked:
    first, last, step = _range(called)
    if all(isinstance(number, int) for number in (first, last, step)):
        return Tracked(int(first) + int(step) * box[0])
    return called.at.rules.rounded(first + step * box[0].astype(np.float64), None)


def _identity_shape(called: _Called) -> Shape:
    plain = called.plain()
    return plain["n"], plain.get("m") or plain["n"]


def _identity(called: _Called, box: Box) -> Tracked:
    del called
    return Tracked(np.equal.outer(box[0], box[1]).astype(np.float64))


_SHAPES: Final[Mapping[str, Callable[[_Called], Shape]]] = {
    **dict.fromkeys(_KEEPING, lambda called: called.raveled().shape()),
    "diff": _difference_shape,
    **dict.fromkeys(("matmul", "dot"), _product_shape),
    "einsum": _summation_shape,
    "outer": _outer_shape,
    "take": lambda called: _taken_from(called)[1].shape,
    **dict.fromkeys(("tril", "triu"), lambda called: called.shape()),
    "pad": _padded_shape,
    **dict.fromkeys(("concatenate", "stack"), _joined_shape),
    **dict.fromkeys(("zeros", "ones", "full", "full_like"), _filled_shape),
    "arange": _range_shape,
    "eye": _identity_shape,
}
"""Functions that return a result's shape, by reference function."""

_VALUES: Final[Mapping[str, Callable[[_Called, Box], Tracked]]] = {
    **dict.fromkeys(_KEEPING, _kept),
    "diff": _differences,
    **dict.fromkeys(("matmul", "dot"), _product),
    "einsum": _summation,
    "outer": _outer,
    "take": _taken,
    **dict.fromkeys(("tril", "triu"), _triangle),
    "pad": _padded,
    **dict.fromkeys(("concatenate", "stack"), _joined),
    **dict.fromkeys(("zeros", "ones", "full", "full_like"), _filled),
    "arange": _range_at,
    "eye": _identity,
}
"""Functions that return selected elements of a result, by reference function."""
