"""Elements of a library as its callers and C know them, for every element type that libraries have."""

from __future__ import annotations

import numpy as np

from lab.operators.base import STORED_AS

REALS = {"float64": "double", "complex128": "double"}
"""What C calls the numbers that factors are passed as, where they are not `float`."""

FACTORS_IN_C = {"complex64": "cuFloatComplex", "complex128": "cuDoubleComplex"}
"""What C calls a factor of complex elements, by cuComplex.h as in cuBLAS."""


def is_element(kind: object, dtype: str, *, bits: bool = True) -> bool:
    """Return whether an array holds elements of a type.

    Args:
        kind: Its element type: NumPy's or one of `ml_dtypes`, or a name.
        dtype: Element type of the library.
        bits: Whether the bits of a type that NumPy lacks may be there as integers, as in `lab`'s own arrays.
    """
    if getattr(kind, "name", kind) == dtype:
        return True
    try:
        found = np.dtype(kind)  # type: ignore[call-overload]
    except TypeError:  # a type that NumPy lacks
        return False
    return bool(found.name == dtype or (bits and found.name == STORED_AS.get(dtype)))
