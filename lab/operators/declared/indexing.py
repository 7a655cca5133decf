"""Contents of declared arrays as functions of the index."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.operators.base import Array
from lab.operators.declared.budget import UnrestrictedError
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.inputs import DRAWN, ArgumentPlan, contents, scratch, within_all
from lab.operators.declared.restricted import evaluate_at
from lab.operators.declared.specification import Argument, Direction, Fill, FillKind
from lab.operators.declared.tracked import Rules
from lab.operators.indexed import PAGE, ConstantArray, IndexedArray, IndexedInputs, PagedArray, WholeArray

_MOST_FILE_BYTES: Final = 1 << 30


def indexed_inputs(declaration: Declaration, planned: ArgumentPlan, seed: int) -> IndexedInputs | None:
    """Return a problem's arrays as functions of the index; None if one cannot be expressed that way.

    Random elements are drawn page by page, so they differ from those of `lab.operators.declared.inputs.inputs`.

    Raises:
        UserError: A fill does not fit its type, or a file does not match.
    """
    arrays: dict[str, IndexedArray] = {}
    for argument in declaration.arguments:
        if argument.is_array:
            array = _indexed(argument, planned, seed, Path(declaration.folder))
            if array is None:
                return None
            arrays[argument.name] = array
    outputs = tuple(output.name for output in declaration.outputs)
    return IndexedInputs(planned.scalars, arrays, outputs, declaration.required, scratch(declaration))


def _indexed(argument: Argument, planned: ArgumentPlan, seed: int, folder: Path) -> IndexedArray | None:
    element, fill = argument.element, argument.fill
    size = math.prod(planned.shapes[argument.name])
    if argument.direction is Direction.OUT or fill is None:
        return ConstantArray(element.poison(1), size)
    if fill.kind in (FillKind.ZEROS, FillKind.ONES):
        return ConstantArray(element.stored(np.full(1, fill.kind is FillKind.ONES)), size)
    if fill.kind is FillKind.FILE:
        small = size * element.dtype.itemsize <= _MOST_FILE_BYTES
        return WholeArray(contents(argument, planned, seed, folder)) if small else None

    page = _drawn(argument, fill, planned, seed) if fill.kind in DRAWN else _computed(argument, fill, planned)
    try:
        page(0)  # an expression that cannot be restricted, or a value that does not fit
        page((size - 1) // PAGE)
    except UnrestrictedError:
        return None
    return PagedArray(element.dtype, size, page)


def _drawn(argument: Argument, fill: Fill, planned: ArgumentPlan, seed: int) -> Callable[[int], Array]:
    """Return a function that draws a page of random elements; of the last page it draws all, too."""
    draw, name = DRAWN[fill.kind](argument, fill, planned), zlib.crc32(argument.name.encode())
    size = math.prod(planned.shapes[argument.name])

    def page(number: int) -> Array:
        return draw(np.random.default_rng([seed, name, number]), PAGE)[: size - number * PAGE]

    return page


def _computed(argument: Argument, fill: Fill, planned: ArgumentPlan) -> Callable[[int], Array]:
    """Return a function that makes a page of a range or of an expression's values."""
    element, shape = argument.element, planned.shapes[argument.name]
    rules = Rules(element.arithmetic)
    numbers = {name: value if isinstance(value, str) else rules.literal(value) for name, value in planned.names.items()}
    cache = dict[object, object]()

    def page(number: int) -> Array:
        at = np.arange(number * PAGE, min((number + 1) * PAGE, math.prod(shape)))
        values: NDArray[Any] = at
        if fill.kind is FillKind.VALUES:
            values = evaluate_at(fill.operands[0], {}, numbers, rules, shape=shape, elements=at, cache=cache).values
        if element.is_exact and values.dtype.kind in "iu":
            within_all(argument, int(values.max()), int(values.min()))
        return element.stored(values)

    return page
