"""Tensor maps: matrices in global memory as bulk tensor copies (TMA) see them.

A kernel receives a map by value, as a `CUtensorMap` that the host encodes; a copy names coordinates in it, and a box of
fixed size arrives in shared memory, with zeros for what lies outside of the matrix. Limits are those of
`cuTensorMapEncodeTiled` (CUDA driver API, tensor map object management) for maps without interleaving and swizzling.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

BYTES = 128
"""Size of a `CUtensorMap`."""

ALIGNMENT = 64
"""Of a `CUtensorMap`, and so of the kernel parameter."""

ADDRESS_ALIGNMENT = 16
"""Of the matrix's first byte, and of the bytes from column to column and along a row of the box."""

_MOST_EXTENT = 2**32
_MOST_STRIDE = 2**40 - 1
_MOST_BOX = 256


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A matrix and the box of it that one copy fetches. Sizes in elements, the contiguous direction first.

    Attributes:
        name: As arguments refer to it.
        of: Name of the array or workspace buffer.
        dtype: Its element type by NumPy's name.
        extents: Of the matrix.
        leading: From one column to the next.
        box: Elements that one copy fetches.
    """

    name: str
    of: str
    dtype: str
    extents: tuple[int, int]
    leading: int
    box: tuple[int, int]

    def refused(self, element_bytes: int) -> tuple[str, object, str] | None:
        """What the driver would not take: the field, what was found, what would be accepted; None when it is fine."""
        for extent in self.extents:
            if not 1 <= extent <= _MOST_EXTENT:
                return "extents", extent, f"1 to {_MOST_EXTENT}"
        stride = self.leading * element_bytes
        if stride % ADDRESS_ALIGNMENT or not 1 <= stride <= _MOST_STRIDE:
            step = ADDRESS_ALIGNMENT // element_bytes
            return (
                "leading",
                self.leading,
                f"a multiple of {step}: columns begin at multiples of {ADDRESS_ALIGNMENT} bytes",
            )
        for size in self.box:
            if not 1 <= size <= _MOST_BOX:
                return "box", size, f"1 to {_MOST_BOX}"
        if self.box[0] * element_bytes % ADDRESS_ALIGNMENT:
            step = ADDRESS_ALIGNMENT // element_bytes
            return "box", self.box[0], f"a multiple of {step} along the contiguous direction"
        return None


def find(maps: Collection[TensorMap], name: str) -> TensorMap | None:
    """The map of that name, or None."""
    return next((one for one in maps if one.name == name), None)
