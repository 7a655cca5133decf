"""alpha and beta of a call: host numbers or single elements in GPU memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from lab.base.elements import PARTS
from lab.base.errors import UserError
from lab.library.calls import CallForm, Matrix, array_of, share
from lab.library.combine import combine_ptx
from lab.library.operands import Operand, operand
from lab.library.package import FACTORS, POINTERS
from lab.library.queues import Factor, Factors


@dataclass(frozen=True, slots=True)
class GpuFactors:
    """alpha and beta, at least one of them in GPU memory.

    Attributes:
        places: alpha and beta: an address, 0 for none; and the value where there is none.
        operands: Those on the GPU, by their names.
    """

    places: tuple[Factor, Factor]
    operands: Mapping[str, Operand]


def is_number(value: object) -> TypeGuard[int | float | np.integer | np.floating]:
    """Return whether a value is a real number on the host."""
    return isinstance(value, int | float | np.integer | np.floating)


def host_numbers(alpha: object, beta: object, dtype: str) -> Factors | None:
    """Return alpha and beta as kernel arguments; None unless both are host numbers that the type can hold.

    Args:
        alpha: α.
        beta: β.
        dtype: Element type of the library. Complex elements have complex factors.
    """
    if dtype not in PARTS:
        return (float(alpha), float(beta)) if is_number(alpha) and is_number(beta) else None
    first, second = _complex(alpha), _complex(beta)
    return None if first is None or second is None else (first.real, second.real, first.imag, second.imag)


def _complex(value: object) -> complex | None:
    if isinstance(value, complex | np.complexfloating):
        return complex(value)
    return complex(float(value)) if is_number(value) else None


def host_factors(alpha: object, beta: object, dtype: str) -> Factors:
    """Return alpha and beta as kernel arguments; see `host_numbers`.

    Raises:
        UserError: One is no number of the host.
    """
    numbers = host_numbers(alpha, beta, dtype)
    if numbers is not None:
        return numbers
    name, value = ("alpha", alpha) if host_numbers(alpha, 0, dtype) is None else ("beta", beta)
    of_type = ", real or complex" if dtype in PARTS else ""
    raise UserError(
        f"{name} is not a number of the host",
        code="wrong-type",
        key=name,
        found=type(value).__name__,
        accepted=f"a number of Python's or NumPy's{of_type}; on_gpu=True stands for alpha and beta on the GPU",
    )


def gpu_factors(
    factors: tuple[object, object],
    dtype: str,
    form: CallForm,
    pointers: tuple[int, int, int],
    room: tuple[int, int] | None,
) -> GpuFactors:
    """Read alpha and beta, at least one of which is in GPU memory.

    Args:
        factors: alpha and beta, of which at least one is no number.
        dtype: Element type of the library.
        form: The matrices of the call.
        pointers: Addresses of A, B and C.
        room: Address and bytes of the caller's workspace; None where there is none.

    Raises:
        UserError: One is neither a number nor a single, aligned element of the library's type on the GPU, or lies in C
            or in the workspace, which the launches write; or the library's type has no such scalars.
    """
    combine_ptx(dtype)  # refuses types that have none
    places, operands = [], {}
    for name, value in zip(FACTORS, factors, strict=True):
        if is_number(value):
            places.append((0, float(value)))
            continue
        operands[name] = element = _element(name, value, dtype)
        _check_apart(name, element[0], form, pointers[2], room)
        places.append((element[0], 0.0))
    alpha, beta = places
    return GpuFactors((alpha, beta), operands)


def _element(name: str, value: object, dtype: str) -> Operand:
    try:
        element = operand(name, value)
    except UserError as error:
        if error.accepted is None or "GPU" not in error.message:
            raise
        accepted = "a number of Python's or NumPy's, or an array of one element on the GPU"
        raise UserError(error.message, code=error.code, key=name, found=error.found, accepted=accepted) from error
    shape, _ = array_of(name, element[1], dtype)
    if math.prod(shape) != 1:
        raise UserError(
            f"{name} is not one number", code="wrong-type", key=name, found=shape, accepted="an array of one element"
        )
    if element[0] % np.dtype(dtype).itemsize:
        accepted = f"a multiple of {np.dtype(dtype).itemsize} bytes"
        raise UserError(f"{name} is not aligned", code="mismatch", key=name, found=hex(element[0]), accepted=accepted)
    return element


def _check_apart(name: str, at: int, form: CallForm, c: int, room: tuple[int, int] | None) -> None:
    """Check that a scalar does not lie in memory that the launches overwrite."""
    matrix = form.matrices[2]
    scalar = Matrix(1, 1, 1, matrix.item)
    inside = any(share(at, scalar, c + member * form.steps[2], matrix) for member in range(form.count))
    scratch = room is not None and room[0] - matrix.item < at < room[0] + room[1]
    if inside or scratch:
        raise UserError(
            f"{name} lies in {POINTERS[2] if inside else 'the workspace'}",
            code="duplicate",
            key=name,
            accepted="memory of its own",
        )
