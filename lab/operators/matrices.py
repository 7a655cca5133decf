"""Helpers for matrix operators: column-major views, tolerances and a description of the worst element."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from lab.base.errors import UserError
from lab.operators.base import MOST_ELEMENTS, Array, Floats, Problem
from lab.operators.stored import LEAST, UNIT, is_empty, parts

PADDING = 16
"""Elements of padding that keep vectors of up to 16 elements aligned."""

Element = TypeVar("Element", bound=np.generic)


def matrix(array: NDArray[Element], rows: int, columns: int, leading: int) -> NDArray[Element]:
    """Return a column-major matrix as a rows x columns view of its 1-D buffer."""
    item = array.itemsize
    return as_strided(array, (rows, columns), (item, leading * item))


def laid_out(values: Floats, leading: int) -> Floats:
    """Lay out a rows x columns matrix in a column-major 1-D buffer, with NaN between its columns.

    A matrix that already has this layout is not copied.
    """
    rows, columns = values.shape
    if rows == leading and values.flags.f_contiguous:
        return values.reshape(-1, order="F")
    buffer = np.full((columns, leading), np.nan)
    buffer[:, :rows] = values.T
    return buffer.reshape(-1)


def stray_write(name: str, buffer: Array, shape: tuple[int, int, int], dtype: str = "bfloat16") -> str:
    """Describe the first write to the padding between a matrix's columns; empty if there is none.

    Args:
        name: The matrix.
        buffer: Its buffer, leading * columns elements.
        shape: Its rows and columns, and the elements from one column to the next.
        dtype: Element type, which matters where integers are the bits of a type that NumPy lacks.
    """
    rows, columns, leading = shape
    components = parts(buffer)
    per_element = components.size // buffer.size
    stray = np.argwhere(~is_empty(components.reshape(columns, leading * per_element)[:, rows * per_element :], dtype))
    if not len(stray):
        return ""
    column, beyond = (int(i) // divisor for i, divisor in zip(stray[0], (1, per_element), strict=True))
    return f"{name}[{rows + beyond}, {column}]: written, but {name} has {rows} rows"


def worst_element(place: str, got: object, expected: float, wrong: int, elements: int) -> str:
    """Describe the element with the largest error and how many are wrong.

    Args:
        place: Which element: ``C[3, 4]``.
        got: Its value.
        expected: The value it should have.
        wrong: How many elements are wrong.
        elements: How many elements there are.
    """
    return f"{place}: got {got}, expected {expected:.9g}; {wrong} of {elements} elements are wrong"


def tolerance_of_sums(dtype: str) -> float:
    """Return 16 u, u being the unit roundoff of the element type; `Gemm.verify` derives it."""
    return 16 * float(np.finfo(dtype).eps) / 2


def bound_of_half_sums(terms: int, out: str) -> tuple[float, float, float]:
    """Return x, y and z of the error bound x scale + y |expected| + z of a dot product of 16-bit elements.

    Args:
        terms: Number of products in the sum.
        out: Element type of the result. `lab.operators.gemm.Gemm.verify` derives the bound.
    """
    return (16 + math.sqrt(terms)) * UNIT["float32"], UNIT[out], LEAST[out]


def padded(problem: Problem, rows: Mapping[str, int]) -> dict[str, int]:
    """Return padded leading dimensions for those without padding.

    Args:
        problem: The problem.
        rows: The minimum legal value of each leading dimension, by field.
    """
    return {name: least + PADDING for name, least in rows.items() if problem[name] == least}


def check_leading(field: str, leading: int, least: int) -> None:
    """Reject a leading dimension shorter than a column.

    Raises:
        UserError: It names the field.
    """
    if leading < least:
        accepted = f"an integer from {least} to {MOST_ELEMENTS}"
        raise UserError("wrong value", code="wrong-value", key=f"problem.{field}", found=leading, accepted=accepted)


def check_elements(name: str, rows: int, columns: int, leading: int, *, key: str = "problem") -> None:
    """Reject a matrix with more elements than 32-bit integers can count.

    Raises:
        UserError: It names the matrix, and says how many elements are accepted.
    """
    if leading * columns > MOST_ELEMENTS:
        raise UserError(
            f"{name} has {leading * columns} elements ({rows} x {columns}, leading dimension {leading})",
            code="out-of-range",
            key=key,
            accepted=f"at most {MOST_ELEMENTS}: kernels index with 32-bit integers",
        )
