"""Tensor maps: descriptions of tensors in global memory for bulk tensor copies (TMA).

A kernel receives a map that the host encodes, a `CUtensorMap`, by value or by a pointer to global memory. A copy names
coordinates in it, and a box of fixed size arrives in shared memory, with zeros for elements outside the tensor. Limits
are those of `cuTensorMapEncodeTiled` (CUDA driver API, tensor map object management) for maps without interleaving.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from lab.base.elements import ELEMENT_BYTES
from lab.base.warp import LINE_BYTES

BYTES = 128
"""Bytes of a `CUtensorMap`."""

ALIGNMENT = 64
"""Alignment in bytes of a `CUtensorMap`, and so of the kernel parameter."""

POINTER_BYTES = 8
"""Bytes of a parameter that points to a map."""

ADDRESS_ALIGNMENT = 16
"""Bytes. The first byte, the strides, and the box along the contiguous direction are multiples."""

SWIZZLES = (0, 32, 64, 128)
"""Bytes of the spans that can be swizzled, by the number of the driver's mode."""

MOST_RANK = 5
"""Dimensions of a tensor map."""

_MOST_EXTENT = 2**32
_MOST_STRIDE = 2**40 - 1
MOST_BOX = 256
"""Elements of a box in one direction."""
MOST_PIXELS = 1024
"""Pixels of a column, of a map for im2col."""
LEAST_IM2COL_RANK = 3
"""Dimensions of a tensor of images: channels, at least one of space, and the images."""
MOST_STEP = 8
"""Pixels from one that is copied to the next."""
CORNER_BITS = {3: 16, 4: 8, 5: 5}
"""Bits, with their sign, of the corners of a box of pixels, by the dimensions of the tensor."""


@dataclass(frozen=True, slots=True)
class PixelBox:
    """Where the base of a filter may lie in images, of a map for im2col (PTX ISA, Tensors, im2col mode).

    A copy goes on along the first dimension, from its end to the next row, and so on, and from the last row to the next
    image. Of each dimension of space, the contiguous one first:

    Attributes:
        lower: The least position.
        upper: The largest one, from the image's last pixel on: -2 for a filter of three without padding.
        steps: From one position to the next.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]

    def refused(self, space: tuple[int, ...]) -> tuple[str, object, str] | None:
        """Return the first field that the driver refuses, as `TensorMap.refused` does.

        Args:
            space: Extents of the dimensions of space.
        """
        most = 1 << (CORNER_BITS[len(space) + 2] - 1)
        corners, steps = (-most, most - 1), (1, MOST_STEP)
        for name, numbers, (least, largest) in (
            ("lower", self.lower, corners), ("upper", self.upper, corners), ("steps", self.steps, steps),
        ):  # fmt: skip
            if len(numbers) != len(space):
                return name, numbers, f"{len(space)} numbers, one for each dimension of space"
            for number in numbers:
                if not least <= number <= largest:
                    return name, number, f"{least} to {largest}"
        for extent, low, high in zip(space, self.lower, self.upper, strict=True):
            if low > extent - 1 + high:
                return "upper", high, f"at least {low - extent + 1}: the box from {low} to {extent - 1 + high} is empty"
        return None


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor and the box that one copy moves. Sizes are in elements, the contiguous direction first.

    Attributes:
        name: Name of the kernel's argument.
        of: Name of the array or workspace buffer.
        dtype: NumPy's name of its element type.
        extents: Size of the tensor, one to five numbers.
        leading: Elements from one column to the next; of no meaning for a vector.
        box: Size of the box that one copy moves, as many numbers.
        swizzle: Bytes of the span in shared memory within which pieces of 16 bytes are swizzled; 0 for none.
        outer: Elements from one index to the next along the third dimension and those after it.
        pixels: Where the pixels of a map for im2col lie, whose `box` has the channels and the number of pixels of a
            copy; None of a map of tiles.
    """

    name: str
    of: str
    dtype: str
    extents: tuple[int, ...]
    leading: int
    box: tuple[int, ...]
    swizzle: int = 0
    outer: tuple[int, ...] = ()
    pixels: PixelBox | None = None

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the elements from one index to the next along every dimension but the contiguous one."""
        return (self.leading, *self.outer)[: len(self.extents) - 1]

    @property
    def alignment(self) -> int:
        """Return what the rows of boxes begin at multiples of in global memory: bytes, a line's at most."""
        return math.gcd(LINE_BYTES, *(stride * ELEMENT_BYTES[self.dtype] for stride in self.strides))

    def refused(self, element_bytes: int) -> tuple[str, object, str] | None:
        """Return the first field that the driver refuses, with its value and what is accepted; None if it accepts all.

        Args:
            element_bytes: Bytes of an element.
        """
        if not 1 <= len(self.extents) <= MOST_RANK:
            return "extents", self.extents, f"1 to {MOST_RANK} dimensions"
        for extent in self.extents:
            if not 1 <= extent <= _MOST_EXTENT:
                return "extents", extent, f"1 to {_MOST_EXTENT}"
        if len(self.strides) != len(self.extents) - 1:
            return "outer", self.outer, f"{len(self.extents) - 2} numbers, one for each dimension behind the second"
        for place, elements in enumerate(self.strides):
            stride = elements * element_bytes
            if stride % ADDRESS_ALIGNMENT or not 1 <= stride <= _MOST_STRIDE:
                step, what = ADDRESS_ALIGNMENT // element_bytes, "slices" if place else "columns"
                accepted = f"a multiple of {step}: {what} begin at multiples of {ADDRESS_ALIGNMENT} bytes"
                return "outer" if place else "leading", elements, accepted
        return self._refused_mode() or self._refused_box(element_bytes)

    def _refused_mode(self) -> tuple[str, object, str] | None:
        """Return what does not fit a map of tiles, or one for im2col, as `refused` does."""
        rank = len(self.extents)
        if self.pixels is None:
            wanted = f"{rank} numbers, as many as the tensor has dimensions"
            return ("box", self.box, wanted) if len(self.box) != rank else None
        if rank < LEAST_IM2COL_RANK:
            return "extents", self.extents, f"{LEAST_IM2COL_RANK} to {MOST_RANK} dimensions: images, space and channels"
        if len(self.box) != 2:  # noqa: PLR2004 - channels, pixels
            return "box", self.box, "two numbers, the channels and the pixels of a copy"
        return self.pixels.refused(self.extents[1:-1])

    def _refused_box(self, element_bytes: int) -> tuple[str, object, str] | None:
        """Return what is wrong with the box, as `refused` does."""
        for place, size in enumerate(self.box):
            most = MOST_PIXELS if place and self.pixels is not None else MOST_BOX
            if not 1 <= size <= most:
                return "box", size, f"1 to {most}"
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
