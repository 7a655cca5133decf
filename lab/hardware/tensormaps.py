"""Tensor maps: descriptions of matrices in global memory for bulk tensor copies (TMA).

A kernel receives a map by value, as a `CUtensorMap` that the host encodes. A copy names coordinates in it, and a box of
fixed size arrives in shared memory, with zeros for elements outside the matrix. Limits are those of
`cuTensorMapEncodeTiled` (CUDA driver API, tensor map object management) for maps without interleaving.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

BYTES = 128
"""Bytes of a `CUtensorMap`."""

ALIGNMENT = 64
"""Alignment in bytes of a `CUtensorMap`, and so of the kernel parameter."""

ADDRESS_ALIGNMENT = 16
"""Bytes. The matrix's first byte, the distance of columns, and the box along the contiguous direction are multiples."""

SWIZZLES = (0, 32, 64, 128)
"""Bytes of the spans that can be swizzled, by the number of the driver's mode."""

_MOST_EXTENT = 2**32
_MOST_STRIDE = 2**40 - 1
MOST_BOX = 256
"""Elements of a box in one direction."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A matrix and the box that one copy fetches from it. Sizes are in elements, the contiguous direction first.

    Attributes:
        name: Name of the kernel's argument.
        of: Name of the array or workspace buffer.
        dtype: NumPy's name of its element type.
        extents: Size of the matrix.
        leading: Elements from one column to the next.
        box: Size of the box that one copy fetches.
        swizzle: Bytes of the span in shared memory within which pieces of 16 bytes are swizzled; 0 for none.
    """

    name: str
    of: str
    dtype: str
    extents: tuple[int, int]
    leading: int
    box: tuple[int, int]
    swizzle: int = 0

    def refused(self, element_bytes: int) -> tuple[str, object, str] | None:
        """Return the first field that the driver refuses, with its value and what is accepted; None if it accepts all.

        Args:
            element_bytes: Bytes of an element.
        """
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
        return self._refused_box(element_bytes)

    def _refused_box(self, element_bytes: int) -> tuple[str, object, str] | None:
        """Return what is wrong with the box, as `refused` does."""
        for size in self.box:
            if not 1 <= size <= MOST_BOX:
                return "box", size, f"1 to {MOST_BOX}"
        if self.box[0] * element_bytes % ADDRESS_ALIGNMENT:
            step = ADDRESS_ALIGNMENT // element_bytes
            return "box", self.box[0], f"a multiple of {step} along the contiguous direction"
        if self.swizzle not in SWIZZLES:
            return "swizzle", self.swizzle, ", ".join(map(str, SWIZZLES))
        if self.swizzle and self.box[0] * element_bytes > self.swizzle:
            most = self.swizzle // element_bytes
            return "box", self.box[0], f"at most {most} along the contiguous direction, the span that is swizzled"
        return None


def find(maps: Collection[TensorMap], name: str) -> TensorMap | None:
    """Return the map with a name, or None."""
    return next((one for one in maps if one.name == name), None)
