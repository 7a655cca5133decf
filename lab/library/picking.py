"""Kernel selection for a call: by its size and by the kernels' requirements.

The logic knows sizes alone. A kernel that it picks may require more, as that columns begin at multiples of 16 bytes for
tensor maps; where that does not hold, the general logic picks another one, of kernels that take whatever comes.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.base.errors import Location
from lab.base.expressions import Scalar, evaluate
from lab.library.grid import check_size
from lab.library.package import Library, LibraryKernel


def pick(library: Library, point: Mapping[str, Scalar]) -> int:
    """Return the number of the kernel for a call.

    Args:
        library: The library.
        point: The library's `sizes`.

    Raises:
        UserError: It is not a size.
    """
    size = tuple(int(point[axis]) for axis in library.axes)
    number = library.logic.select(*size)
    if library.general is None or fits(library.kernels[number], point):
        return number
    return library.general.select(*size)


def picked(library: Library, m: int, n: int, k: int, batch: int = 1) -> int:
    """Return the number of the kernel for matrices without padding and contiguous batch members.

    A library of single products has the same one for every batch, whose members it computes in turn.

    Raises:
        UserError: It is not a size.
    """
    check_size(m, n, k, batch)
    point = (m, n, k, *least_leading(library.layout, m, n, k), batch, m * k, k * n, m * n)
    return pick(library, dict(zip(library.sizes, point, strict=False)))


def possible(library: Library, m: int, n: int, k: int, batch: int = 1) -> tuple[LibraryKernel, ...]:
    """Return the kernels that may be picked for a size, depending on leading dimensions.

    Raises:
        UserError: It is not a size.
    """
    logics = (library.logic, library.general)
    return tuple(library.kernels[i] for i in {logic.select(m, n, k, batch) for logic in logics if logic is not None})


def fits(kernel: LibraryKernel, point: Mapping[str, Scalar]) -> bool:
    """Return whether the sizes, leading dimensions and strides meet a kernel's requirements."""
    if not kernel.requires:
        return True
    return bool(evaluate(kernel.requires, point, at=Location(kernel.name), key="requires"))


def least_leading(layout: str, m: int, n: int, k: int) -> tuple[int, int, int]:
    """Return the leading dimensions of A, B and C without padding.

    Args:
        layout: BLAS letters of A and B.
        m: Rows of C.
        n: Columns of C.
        k: Length of the sums.
    """
    return m if layout[0] == "n" else k, k if layout[1] == "n" else n, m
