"""What operators on matrices have in common: checks of problem fields, and views of column-major buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lab.base.errors import UserError, did_you_mean
from lab.base.expressions import Scalar
from lab.operators.base import Array

MOST_ELEMENTS = 2**31 - 1
"""Kernels index with 32-bit integers, as BLAS does with `int`."""


def matrix(array: Array, rows: int, columns: int, leading: int) -> Array:
    """A column-major matrix as a rows x columns view of its buffer."""
    item = array.itemsize
    return as_strided(array, (rows, columns), (item, leading * item))


def laid_out(values: Array, leading: int) -> Array:
    """A rows x columns matrix as float64 in the column-major buffer that holds it, NaN between its columns."""
    rows, columns = values.shape
    whole = np.full((columns, leading), np.nan)
    whole[:, :rows] = values.T
    result: Array = whole.reshape(-1)
    return result


def stray_write(name: str, whole: Array, rows: int, columns: int, leading: int) -> str:
    """Where a kernel wrote between the columns of a matrix that held NaN there; empty where it did not."""
    padding = whole.reshape(columns, leading)[:, rows:]
    written = np.argwhere(~np.isnan(padding))
    if not len(written):
        return ""
    column, beyond = (int(i) for i in written[0])
    return f"{name}[{rows + beyond}, {column}]: written, but {name} has {rows} rows"


def worst_element(place: str, got: object, expected: float, wrong: int, elements: int) -> str:
    """The element that is furthest off, and how many are wrong, in words.

    Args:
        place: `C[3, 4]`.
        got: What is there.
        expected: What should be.
        wrong: How many elements are wrong.
        elements: Of so many.
    """
    return f"{place}: got {got}, expected {expected:.9g}; {wrong} of {elements} elements are wrong"


def check_known(operator: str, values: Mapping[str, Scalar], known: Sequence[str]) -> None:
    """Refuse fields that an operator's problems do not have.

    Raises:
        UserError: it names the first one, and those there are.
    """
    for key in values:
        if key not in known:
            raise UserError(
                f"{operator} has no such problem field",
                key=f"problem.{key}",
                accepted=known,
                suggestion=did_you_mean(key, known),
            )


def check_given(operator: str, values: Mapping[str, Scalar], key: str) -> None:
    """Refuse a problem without a field that has no default.

    Raises:
        UserError: it names the field.
    """
    if key not in values:
        raise UserError(f"{operator} needs this problem field", key=f"problem.{key}", accepted="an integer ≥ 1")


def check_integer(key: str, value: Scalar, *, least: int) -> None:
    """Refuse what is no integer from `least` to `MOST_ELEMENTS`.

    Raises:
        UserError: it names the problem's field.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_ELEMENTS:
        raise UserError(
            "wrong value",
            key=f"problem.{key}",
            found=value,
            accepted=f"an integer from {least} to {MOST_ELEMENTS}",
        )


def check_number(key: str, value: Scalar) -> float:
    """A number of either type, as a float.

    Raises:
        UserError: it is none; it names the problem's field.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError("wrong type", key=f"problem.{key}", found=value, accepted="a number")
    return float(value)


def tolerance_of_sums(dtype: str) -> float:
    """16 u; `lab.operators.gemm.Gemm.verify` says why."""
    return 16 * float(np.finfo(dtype).eps) / 2


def check_choice(key: str, value: Scalar, accepted: tuple[str, ...]) -> None:
    """Refuse what is not one of these words.

    Raises:
        UserError: it names the problem's field.
    """
    if value not in accepted:
        raise UserError(
            "wrong value",
            key=f"problem.{key}",
            found=value,
            accepted=accepted,
            suggestion=did_you_mean(str(value), accepted),
        )
