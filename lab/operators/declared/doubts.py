"""Reasons to doubt outputs that passed the comparison: NaN and infinity out of finite inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from lab.base.expressions import Scalar
from lab.operators.base import Array, Inputs
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.elements import ElementType
from lab.operators.declared.specification import Argument, Direction


def doubts(
    declaration: Declaration,
    inputs: Inputs,
    outputs: Mapping[str, Array],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    ignored: Collection[str],
) -> tuple[str, ...]:
    """Return a sentence for each output that is NaN, or infinite, although every input is finite.

    Where there is a reference, infinity is its word and only NaN is doubtful: NaN equals NaN in a comparison, whatever
    the kernel computes. Poison is not counted: nobody wrote it, which is an error of its own or meant.

    Args:
        declaration: The operator's declaration.
        inputs: What the launch was given, as it was before.
        outputs: What the kernel left, in any shape.
        shapes: Shapes of the arrays.
        ignored: Outputs whose contents do not matter.
    """
    if not _are_finite(declaration, inputs):
        return ()
    has_reference = bool(declaration.references or declaration.function)
    found: list[str] = []
    for one in declaration.outputs:
        if one.element.is_exact or one.name in ignored:
            continue
        held = outputs[one.name].reshape(-1)
        values = one.element.widened(held)
        written = ~one.element.is_poison(held) if one.direction is Direction.OUT else np.True_
        whose = ", and so is the reference there" if has_reference else ""
        found += _sentence(one, np.isnan(values) & written, f"NaN{whose}", shapes[one.name])
        if not has_reference:
            found += _sentence(one, np.isinf(values) & written, "infinite", shapes[one.name])
    return tuple(found)


def _are_finite(declaration: Declaration, inputs: Inputs) -> bool:
    """Return whether every scalar, and every element of the arrays that hold something, is finite."""
    read = [one for one in declaration.arguments if one.is_array and one.direction is not Direction.OUT]
    return all(_is_finite(value) for value in inputs.scalars.values()) and all(
        one.element.is_exact or _all_finite(one.element, inputs.arrays[one.name]) for one in read
    )


def _is_finite(value: Scalar) -> bool:
    return isinstance(value, str) or bool(np.isfinite(value))


def _all_finite(element: ElementType, held: Array) -> bool:
    return bool(np.isfinite(element.widened(held)).all())


def _sentence(argument: Argument, places: NDArray[np.bool_], word: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Say how many elements are doubtful and which is the first; nothing where none is."""
    count = int(np.count_nonzero(places))
    if not count:
        return ()
    first = ", ".join(str(int(i)) for i in np.unravel_index(int(np.argmax(places)), shape))
    verb = "is" if count == 1 else "are"
    name, inputs = argument.name, "although all inputs are finite"
    return (f"{count} of {places.size} elements of {name} {verb} {word}, {inputs}; the first is {name}[{first}]",)
