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

    With a reference, infinity is expected and only NaN is doubtful: NaN equals NaN in a comparison, whatever the kernel
    computes. Poison is not counted: an unwritten element is a separate error, or intended.

    Args:
        declaration: The operator's declaration.
        inputs: The inputs of the launch, unmodified.
        outputs: The kernel's outputs, in any shape.
        shapes: Shapes of the arrays.
        ignored: Outputs whose contents are not compared.
    """
    if not _are_finite(declaration, inputs):
        return ()
    has_reference = bool(declaration.references or declaration.function)
    sentences: list[str] = []
    for output in declaration.outputs:
        if output.element.is_exact or output.name in ignored:
            continue
        elements = outputs[output.name].reshape(-1)
        values = output.element.widened(elements)
        is_written = ~output.element.is_poison(elements) if output.direction is Direction.OUT else np.True_
        whose = ", and so is the reference there" if has_reference else ""
        sentences += _sentence(output, np.isnan(values) & is_written, f"NaN{whose}", shapes[output.name])
        if not has_reference:
            sentences += _sentence(output, np.isinf(values) & is_written, "infinite", shapes[output.name])
    return tuple(sentences)


def _are_finite(declaration: Declaration, inputs: Inputs) -> bool:
    """Return whether every scalar, and every element of the initialised arrays, is finite."""
    initialised = [
        argument for argument in declaration.arguments if argument.is_array and argument.direction is not Direction.OUT
    ]
    return all(_is_finite(value) for value in inputs.scalars.values()) and all(
        argument.element.is_exact or _all_finite(argument.element, inputs.arrays[argument.name])
        for argument in initialised
    )


def _is_finite(value: Scalar) -> bool:
    return isinstance(value, str) or bool(np.isfinite(value))


def _all_finite(element: ElementType, elements: Array) -> bool:
    return bool(np.isfinite(element.widened(elements)).all())


def _sentence(argument: Argument, places: NDArray[np.bool_], word: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Describe how many elements are doubtful and the first of them; empty if there are none."""
    count = int(np.count_nonzero(places))
    if not count:
        return ()
    first = ", ".join(str(int(i)) for i in np.unravel_index(int(np.argmax(places)), shape))
    verb = "is" if count == 1 else "are"
    name, inputs = argument.name, "although all inputs are finite"
    return (f"{count} of {places.size} elements of {name} {verb} {word}, {inputs}; the first is {name}[{first}]",)
