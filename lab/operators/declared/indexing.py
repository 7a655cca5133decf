"""Contents of declared arrays as functions of the index."""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import Final

import numpy as np

from lab.operators.base import Array
from lab.operators.declared.budget import UnrestrictedError
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.inputs import DRAWN, ArgumentPlan, contents, scratch, within_all
from lab.operators.declared.restricted import evaluate_at
from lab.operators.declared.specification import Argument, Direction, Fill, FillKind
from lab.operators.declared.tracked import Rules
from lab.operators.indexed import PAGE, IndexedArray, IndexedInputs, PagedArray, WholeArray

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
        poison = element.poison(PAGE)
        return PagedArray(element.dtype, size, lambda _: poison)
    if fill.kind is FillKind.FILE:
        small = size * element.dtype.itemsize <= _MOST_FILE_BYTES
        return WholeArray(contents(argument, planned, seed, folder)) if small else None

    cache = dict[object, object]()

    def page(number: int) -> Array:
        start = number * PAGE
        return _page(argument, fill, planned, np.arange(start, min(start + PAGE, size)), seed=seed, cache=cache)

    try:
        page(0)  # an expression that cannot be restricted, or a value that does not fit
        page((size - 1) // PAGE)
    except UnrestrictedError:
        return None
    return PagedArray(element.dtype, size, page)


def _page(
    argument: Argument,
    fill: Fill,
    planned: ArgumentPlan,
    at: np.ndarray[tuple[int], np.dtype[np.int64]],
    *,
    seed: int,
    cache: dict[object, object],
) -> Array:
    """Return the elements of a page, at the indices `at`."""
    element = argument.element
    match fill.kind:
        case FillKind.ZEROS:
            return element.stored(np.zeros(len(at)))
        case FillKind.ONES:
            return element.stored(np.ones(len(at)))
        case FillKind.RANGE:
            if element.is_exact:
                within_all(argument, int(at[-1]), int(at[0]))
            return element.stored(at)
        case FillKind.VALUES:
            rules = Rules(element.arithmetic)
            numbers = {
                name: value if isinstance(value, str) else rules.literal(value) for name, value in planned.names.items()
            }
            shape = planned.shapes[argument.name]
            values = evaluate_at(fill.operands[0], {}, numbers, rules, shape=shape, elements=at, cache=cache).values
            if element.is_exact and values.dtype.kind in "iu":
                within_all(argument, int(values.max()), int(values.min()))
            return element.stored(values)
        case _:
            rng = np.random.default_rng([seed, zlib.crc32(argument.name.encode()), int(at[0]) // PAGE])
            return DRAWN[fill.kind](argument, fill, planned, rng, PAGE)[: len(at)]
