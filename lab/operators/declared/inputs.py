"""Makes the arguments of a launch: shapes, scalars and contents from a declaration, a problem and a seed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, evaluate
from lab.operators.base import Array, Inputs
from lab.operators.declared.array_files import array_in, path_for
from lab.operators.declared.arrays import evaluate_arrays
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.elements import DOUBLE, ElementKind, ElementType
from lab.operators.declared.specification import Argument, Direction, Fill, FillKind
from lab.operators.declared.tracked import Rules, shown

MOST_BYTES: Final = 2**34
"""Maximum bytes of all arrays made together; the reference takes several times as much."""

MOST_DESCRIBED_BYTES: Final = 2**36
"""Maximum bytes of an array, materialised or not: the spacing of arrays in emulated memory."""


@dataclass(frozen=True, slots=True)
class ArgumentPlan:
    """The arguments of one problem, before there are arrays.

    Attributes:
        names: The problem's fields and the scalars, for expressions.
        scalars: The values of the kernel's scalars, rounded to their types.
        shapes: The shapes of its arrays.
    """

    names: Mapping[str, Scalar]
    scalars: Mapping[str, Scalar]
    shapes: Mapping[str, tuple[int, ...]]

    def rules(self, argument: Argument) -> Rules:
        """Return the evaluation rules of a reference for one output."""
        largest = max((math.prod(shape) for shape in self.shapes.values()), default=0)
        return Rules(argument.element.arithmetic, max(Rules(argument.element.arithmetic).most_elements, 4 * largest))


def plan(declaration: Declaration, problem: Mapping[str, Scalar]) -> ArgumentPlan:
    """Compute scalars and shapes.

    Raises:
        UserError: A value does not fit its type, a dimension is not a positive integer, or an array is too large to be
            described. The key is ``arguments.NAME``, or ``problem.NAME`` for a field that is missing.
    """
    fields = dict(problem)
    for name in sorted(declaration.needed - fields.keys()):
        raise UserError(
            "a key is missing",
            code="missing-key",
            key=f"problem.{name}",
            accepted=f"a value: {_use(declaration, name)}",
        )
    scalars = {argument.name: scalar(argument, fields) for argument in declaration.arguments if not argument.is_array}
    names = {**fields, **scalars}
    shapes = {argument.name: _shape(argument, names) for argument in declaration.arguments if argument.is_array}
    return ArgumentPlan(names, scalars, shapes)


def _use(declaration: Declaration, name: str) -> str:
    for argument in declaration.arguments:
        if argument.name == name:
            return f"the kernel's scalar {name} has it"
    return f"an expression of the file mentions {name}"


def scalar(argument: Argument, fields: Mapping[str, Scalar]) -> Scalar:
    """Return the value of a scalar argument in its type.

    Raises:
        UserError: The value does not fit the type.
    """
    key, element = _key(argument), argument.element
    value = fields[argument.name] if argument.value is None else _value(argument.value, fields, key)
    if isinstance(value, str):
        raise UserError(
            f"{argument.name} is a text",
            code="wrong-type",
            key=key,
            found=value,
            accepted=f"a value of {argument.dtype}",
            suggestion=_calculated(value),
        )
    match element.kind:
        case ElementKind.BOOL:
            if value not in (0, 1):
                raise UserError(
                    f"{argument.name} is not a bool",
                    code="wrong-type",
                    key=key,
                    found=value,
                    accepted="true, false, 0 or 1",
                )
            return bool(value)
        case ElementKind.INTEGER:
            if isinstance(value, float) and not value.is_integer():
                raise UserError(
                    f"{argument.name} is not an integer", code="wrong-type", key=key, found=value, accepted="an integer"
                )
            return _within(argument, int(value))
        case _:
            with np.errstate(over="ignore"):
                return float(element.dtype.type(value))


def _key(argument: Argument) -> str:
    """Return the key of an argument's value: the problem's for a scalar without a value of its own."""
    is_of_problem = not argument.is_array and argument.value is None
    return f"{'problem' if is_of_problem else 'arguments'}.{argument.name}"


def _calculated(text: str) -> str | None:
    """Suggest the result of a constant expression: values of problems and parameters are not evaluated."""
    try:
        return f"write {evaluate(text, {}, at=Location('problem'), key='problem')}"
    except UserError:
        return None


def _within(argument: Argument, value: int) -> int:
    bounds = np.iinfo(argument.element.dtype)
    if not bounds.min <= value <= bounds.max:
        wider = "int64" if bounds.bits < 64 else "uint64"  # noqa: PLR2004 - bits
        raise UserError(
            f"{argument.name} is {value}, which {argument.dtype} does not hold",
            code="out-of-range",
            key=_key(argument),
            found=value,
            accepted=f"{bounds.min} to {bounds.max}",
            suggestion=f"declare it {wider}, and let the kernel take that type",
        )
    return value


def inputs(declaration: Declaration, planned: ArgumentPlan, seed: int) -> Inputs:
    """Make the arrays; contents depend only on the array's name, its shape and the seed.

    Raises:
        UserError: A fill does not fit its type, a file does not match, or the arrays take more than `MOST_BYTES`.
    """
    total = sum(
        math.prod(planned.shapes[argument.name]) * argument.element.dtype.itemsize
        for argument in declaration.arguments
        if argument.is_array
    )
    if total > MOST_BYTES:
        accepted = f"at most {MOST_BYTES} bytes in all where every element is made; a smaller emulate"
        raise UserError(f"the arrays take {total} bytes", code="out-of-range", key="problem", accepted=accepted)
    arrays = {
        argument.name: contents(argument, planned, seed, Path(declaration.folder))
        for argument in declaration.arguments
        if argument.is_array
    }
    return Inputs(
        planned.scalars,
        arrays,
        tuple(output.name for output in declaration.outputs),
        declaration.required,
        scratch(declaration),
    )


def scratch(declaration: Declaration) -> Mapping[str, bool]:
    """Return the scratch arrays, written but not compared, and whether each is initialised."""
    return {
        argument.name: argument.fill is not None
        for argument in declaration.arguments
        if argument.direction is Direction.SCRATCH
    }


def contents(argument: Argument, planned: ArgumentPlan, seed: int, folder: Path) -> Array:
    """Return an array's contents before the launch, 1-D, in C order.

    Raises:
        UserError: The fill does not fit the type, or the file does not match.
    """
    shape = planned.shapes[argument.name]
    count, element = math.prod(shape), argument.element
    if argument.direction is Direction.OUT or argument.fill is None:
        return element.poison(count)
    fill = argument.fill
    rng = np.random.default_rng([seed, zlib.crc32(argument.name.encode())])
    if fill.kind is FillKind.FILE:
        return _from_file(argument, folder / path_for(fill.operands[0], planned.names), shape)
    if fill.kind in DRAWN:
        return DRAWN[fill.kind](argument, fill, planned)(rng, count)
    try:
        values = _evaluated(argument, fill, planned, count)
    except UserError as error:
        raise error.placed(error.at, f"arguments.{argument.name}") from error
    if element.is_exact and values.dtype.kind in "iu" and values.size:
        within_all(argument, int(values.max()), int(values.min()))
    return element.stored(np.broadcast_to(values, shape).reshape(-1))


def _evaluated(argument: Argument, fill: Fill, planned: ArgumentPlan, count: int) -> NDArray[Any]:
    """Evaluate a deterministic fill, in the array's shape or as one number."""
    shape = planned.shapes[argument.name]
    match fill.kind:
        case FillKind.ZEROS:
            return np.zeros(())
        case FillKind.ONES:
            return np.ones(())
        case FillKind.RANGE:
            return np.arange(count).reshape(shape)
        case _:
            names = {name: _tracked(value) for name, value in planned.names.items()}
            values = evaluate_arrays(fill.operands[0], names, planned.rules(argument)).values
            if values.shape not in ((), shape):
                message = f"{argument.name} has shape {shown(shape)}, its values have shape {shown(values.shape)}"
                raise UserError(
                    message,
                    code="mismatch",
                    found=fill.operands[0],
                    accepted=f"values of shape {shown(shape)}, or a number",
                )
            return values


def _tracked(value: Scalar) -> Any:  # noqa: ANN401 - what an expression can hand to a function
    return value if isinstance(value, str) else Rules(DOUBLE).literal(value)


Draw = Callable[[np.random.Generator, int], Array]
"""Draws a number of elements."""


def _normal(argument: Argument, fill: Fill, planned: ArgumentPlan) -> Draw:
    """Draw normal numbers, both parts of complex ones, as float32 except for 64-bit types."""
    element = argument.element
    drawn_as = np.float64 if element.arithmetic.unit < 2.0**-24 else np.float32
    scaling = [_number(text, planned, argument) for text in fill.operands]

    def draw(rng: np.random.Generator, count: int) -> Array:
        values: NDArray[Any] = rng.standard_normal(count * _parts(element), dtype=drawn_as)
        if scaling:
            mean, deviation = scaling
            values = mean + deviation * values.astype(np.float64)
        return element.stored(_joined(values, count))

    return draw


def _uniform(argument: Argument, fill: Fill, planned: ArgumentPlan) -> Draw:
    """Draw uniform numbers from LOW to HIGH; for integers, HIGH is excluded."""
    element = argument.element
    low, high = (_number(text, planned, argument) for text in fill.operands)
    key, fill_text = f"arguments.{argument.name}", f"{fill}"
    if not low < high:
        raise UserError(
            "an empty range",
            code="wrong-value",
            key=key,
            found=fill_text,
            accepted=f"LOW < HIGH, but they are {low} and {high}",
        )
    if element.is_exact:
        if not float(low).is_integer() or not float(high).is_integer():
            raise UserError(
                "bounds of integers must be integers",
                code="wrong-value",
                key=key,
                found=fill_text,
                accepted="two integers",
            )
        first, last = int(low), int(high) - 1
        within_all(argument, last, first)
        integers = np.uint64 if last >= 2**63 else np.int64
        return lambda rng, count: element.stored(rng.integers(first, last, count, endpoint=True, dtype=integers))
    drawn_as = np.float64 if element.arithmetic.unit < 2.0**-24 else np.float32

    def draw(rng: np.random.Generator, count: int) -> Array:
        values = low + (high - low) * rng.random(count * _parts(element), dtype=drawn_as)
        return element.stored(_joined(values, count))

    return draw


def _parts(element: ElementType) -> int:
    return 2 if element.kind is ElementKind.COMPLEX else 1


def _joined(values: NDArray[Any], count: int) -> NDArray[Any]:
    """Return values as they are, or `count` complex ones whose real parts come first."""
    return values if len(values) == count else values[:count] + 1j * values[count:]


DRAWN = {FillKind.NORMAL: _normal, FillKind.UNIFORM: _uniform}


def within_all(argument: Argument, largest: int, smallest: int) -> None:
    """Reject integers that would wrap around; a bool holds 0 and 1."""
    if argument.element.kind is ElementKind.BOOL:
        if not 0 <= smallest <= largest <= 1:
            message = f"values from {smallest} to {largest} in an array of bool"
            raise UserError(
                message, code="out-of-range", key=f"arguments.{argument.name}", found=f"{argument}", accepted="0 and 1"
            )
        return
    for value in (largest, smallest):
        _within(argument, value)


def _from_file(argument: Argument, file: Path, shape: tuple[int, ...]) -> Array:
    key, element = f"arguments.{argument.name}", argument.element
    array = array_in(file, key)
    if array.shape != shape:
        message = f"{argument.name} has shape {shown(shape)}, the file's array has shape {shown(array.shape)}"
        raise UserError(
            message, code="mismatch", key=key, found=str(file), accepted=f"an array of shape {shown(shape)}"
        )
    bits = element.is_bits and array.dtype == element.dtype
    fits = element.is_bits and array.dtype.kind == "f"
    fits |= element.kind is ElementKind.INTEGER and array.dtype.kind in "iu"  # the range is checked below
    if not bits and not fits and not np.can_cast(array.dtype, element.dtype, "same_kind"):
        accepted = f"{element.dtype} (bits) or floats" if element.is_bits else f"{element.name}, or a type like it"
        raise UserError(
            f"the file holds {array.dtype}", code="unsupported", key=key, found=str(file), accepted=accepted
        )
    flat = np.ascontiguousarray(array).reshape(-1)
    if element.kind is ElementKind.INTEGER and flat.size and flat.dtype != element.dtype:
        within_all(argument, int(flat.max()), int(flat.min()))
    return flat.copy() if bits else element.stored(flat)


def _shape(argument: Argument, names: Mapping[str, Scalar]) -> tuple[int, ...]:
    key = f"arguments.{argument.name}"
    shape = []
    for text in argument.shape or ():
        value = _value(text, names, key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool | str | float) or value < 1:
            raise UserError(
                f"a dimension of {argument.name} is {value}",
                code="out-of-range",
                key=key,
                found=text,
                accepted="an integer of at least 1",
            )
        shape.append(value)
    elements, size = math.prod(shape), argument.element.dtype.itemsize
    if elements * size > MOST_DESCRIBED_BYTES:
        message = f"{argument.name} has {elements} elements of {size} bytes"
        accepted = f"at most {MOST_DESCRIBED_BYTES} bytes"
        raise UserError(message, code="out-of-range", key=key, found=f"{argument}", accepted=accepted)
    return tuple(shape)


def _number(text: str, planned: ArgumentPlan, argument: Argument) -> float:
    value = _value(text, planned.names, f"arguments.{argument.name}")
    if isinstance(value, str | bool):
        raise UserError(
            "not a number", code="wrong-type", key=f"arguments.{argument.name}", found=text, accepted="a number"
        )
    return value


def _value(text: str, names: Mapping[str, Scalar], key: str) -> Scalar:
    try:
        return evaluate(text, names, at=Location("arguments"), key=key)
    except UserError as error:
        raise error.placed(None, key) from error
