"""Type aliases for the arrays that pass between the emulator's modules.

Shapes are in the docstrings of the functions that take and return them. `count` there is the number of threads of a
`Lanes`, `threads` that of the whole batch.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)
"""The scalar type of an array a function passes through unchanged."""

Indices = NDArray[np.int64]
"""Indices of threads, of blocks, or of positions in another array."""

Addresses = NDArray[np.int64]
"""Byte addresses or byte offsets."""

Mask = NDArray[np.bool_]
"""Predicates and selections."""

Bytes = NDArray[np.uint8]
"""Contents of memory."""

Words = NDArray[np.uint32]
"""32-bit registers."""

Bits = NDArray[np.unsignedinteger[Any]]
"""Registers of any width, uint8 to uint64."""

Integers = NDArray[np.integer[Any]]
"""Integers of any width, signed or unsigned: the operand's PTX type decides."""

Numbers = NDArray[np.number[Any]]
"""Integers or floating-point numbers: the operand's PTX type decides."""

Halves = NDArray[np.uint16]
"""Bit patterns of half-precision numbers, float16 or bfloat16."""

Singles = NDArray[np.float32]
"""Single-precision numbers."""

Doubles = NDArray[np.float64]
"""Double-precision numbers."""

Floats = NDArray[np.floating[Any]]
"""float16, float32 or float64: the operand's PTX type decides."""

Values = NDArray[np.generic]
"""Operands of any PTX type, as the table `DTYPES` of `lab.emulator.opcodes` maps it to NumPy's."""


def distinct(values: Indices) -> Indices:
    """Return the distinct values of (count,) numbers, ascending.

    NumPy's `unique` uses a hash table since 2.3, which is several times slower on millions of values.
    """
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered
