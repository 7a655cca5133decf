"""Element types of a library: their names in C and in callers' arrays."""

from __future__ import annotations

import numpy as np

from lab.operators.base import STORED_AS

REALS = {"float64": "double", "complex128": "double"}
"""C types of the factors, if not `float`."""

FACTORS_IN_C = {"complex64": "cuFloatComplex", "complex128": "cuDoubleComplex"}
"""C types of complex factors, by cuComplex.h as in cuBLAS."""


def is_element(kind: object, dtype: str, *, bits: bool = True) -> bool:
    """Return whether an array's element type is that of the library.

    Args:
        kind: Its element type: NumPy's or one of `ml_dtypes`, or a name.
        dtype: Element type of the library.
        bits: Whether the bits of a type that NumPy lacks may be there as integers, as in `lab`'s own arrays.
    """
    if getattr(kind, "name", kind) == dtype:
        return True
    try:
        element_type = np.dtype(kind)  # type: ignore[call-overload]
    except TypeError:  # a type that NumPy lacks
        return False
    return bool(element_type.name == dtype or (bits and element_type.name == STORED_AS.get(dtype)))
