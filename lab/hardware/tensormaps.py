"""Tensor maps: descriptors of tensors in global memory for TMA copies.

A kernel receives a map encoded by the host, a `CUtensorMap`, by value or through a pointer to global memory. A copy
gives coordinates in it, and a box of fixed size arrives in shared memory, with zeros for elements outside the tensor.
Limits are those of `cuTensorMapEncodeTiled` (CUDA driver API, tensor map object management) for non-interleaved maps.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from lab.base.elements import ELEMENT_BYTES
from lab.base.warp import LINE_BYTES

BYTES = 128
"""Size of a `CUtensorMap` in bytes."""

ALIGNMENT = 64
"""Alignment of a `CUtensorMap` in bytes, and so of the kernel parameter."""

POINTER_BYTES = 8
"""Size of a parameter that points to a map, in bytes."""

ADDRESS_ALIGNMENT = 16
"""Alignment in bytes of the base address, the strides, and the box's contiguous extent."""

SWIZZLES = (0, 32, 64, 128)
"""Swizzle spans in bytes, indexed by the driver's mode."""

MOST_RANK = 5
"""Maximum rank of a tensor map."""

_MOST_EXTENT = 2**32
_MOST_STRIDE = 2**40 - 1
MOST_BOX = 256
"""Maximum box extent, in elements."""
MOST_PIXELS = 1024
"""Maximum number of pixels per column, in im2col mode."""
LEAST_IM2COL_RANK = 3
"""Minimum rank in im2col mode: channels, at least one spatial dimension, and the images."""
MOST_STEP = 8
"""Maximum element stride of pixels."""
CORNER_BITS = {3: 16, 4: 8, 5: 5}
"""Signed bit width of a pixel box's corners, by tensor rank."""


@dataclass(frozen=True, slots=True)
class PixelBox:
    """Bounds of a filter's base position in images, for im2col mode (PTX ISA, Tensors, im2col mode).

    A copy advances along the first dimension, wraps to the next row, and so on, and from the last row to the next
    image. Each attribute has one number per spatial dimension, the contiguous one first.

    Attributes:
        lower: The smallest position.
        upper: The largest position, relative to the image's last pixel: -2 for a filter of three without padding.
        steps: Distance between positions.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]

    def refused(self, space: tuple[int, ...]) -> tuple[str, object, str] | None:
        """Return the first field that the driver rejects, as `TensorMap.refused` does.

        Args:
            space: Extents of the spatial dimensions.
        """
        bound = 1 << (CORNER_BITS[len(space) + 2] - 1)
        corners, steps = (-bound, bound - 1), (1, MOST_STEP)
        for name, numbers, (least, largest) in (
            ("lower", self.lower, corners), ("upper", self.upper, corners), ("steps", self.steps, steps),
        ):  # fmt: skip
            if len(numbers) != len(space):
                return name, numbers, f"{len(space)} numbers, one per spatial dimension"
            for number in numbers:
                if not least <= number <= largest:
                    return name, number, f"{least} to {largest}"
        for extent, low, high in zip(space, self.lower, self.upper, strict=True):
            if low > extent - 1 + high:
                return "upper", high, f"at least {low - extent + 1}: the box from {low} to {extent - 1 + high} is empty"
        return None


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor and the box moved by one copy. Sizes are in elements, the contiguous dimension first.

    Attributes:
        name: Name of the kernel's argument.
        of: Name of the array or workspace buffer.
        dtype: NumPy's name of its element type.
        extents: Size of the tensor, one to five numbers.
        leading: Stride of columns in elements; meaningless for a vector.
        box: Size of the box moved by one copy, one number per dimension.
        swizzle: Span in bytes of shared memory within which 16-byte chunks are swizzled; 0 for none.
        outer: Strides in elements of the third and further dimensions.
        pixels: Pixel box of an im2col map, whose `box` has the channels and the number of pixels per copy; None for a
            tiled map.
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
        """Strides in elements of all dimensions but the contiguous one."""
        return (self.leading, *self.outer)[: len(self.extents) - 1]

    @property
    def alignment(self) -> int:
        """Alignment in bytes of box rows in global memory, at most a cache line."""
        return math.gcd(LINE_BYTES, *(stride * ELEMENT_BYTES[self.dtype] for stride in self.strides))

    def refused(self, element_bytes: int) -> tuple[str, object, str] | None:
        """Return the first field that the driver rejects, with its value and what is accepted; None if there is none.

        Args:
            element_bytes: Bytes of an element.
        """
        if not 1 <= len(self.extents) <= MOST_RANK:
            return "extents", self.extents, f"1 to {MOST_RANK} dimensions"
        for extent in self.extents:
            if not 1 <= extent <= _MOST_EXTENT:
                return "extents", extent, f"1 to {_MOST_EXTENT}"
        if len(self.strides) != len(self.extents) - 1:
            return "outer", self.outer, f"{len(self.extents) - 2} numbers, one per dimension after the second"
        for place, elements in enumerate(self.strides):
            stride = elements * element_bytes
            if stride % ADDRESS_ALIGNMENT or not 1 <= stride <= _MOST_STRIDE:
                step, slice_kind = ADDRESS_ALIGNMENT // element_bytes, "slices" if place else "columns"
                accepted = f"a multiple of {step}: {slice_kind} begin at multiples of {ADDRESS_ALIGNMENT} bytes"
                return "outer" if place else "leading", elements, accepted
        return self._refused_mode() or self._refused_box(element_bytes)

    def _refused_mode(self) -> tuple[str, object, str] | None:
        """Return the first field that is invalid for a tiled or an im2col map, as `refused` does."""
        rank = len(self.extents)
        if self.pixels is None:
            accepted = f"{rank} numbers, one per dimension of the tensor"
            return ("box", self.box, accepted) if len(self.box) != rank else None
        if rank < LEAST_IM2COL_RANK:
            return "extents", self.extents, f"{LEAST_IM2COL_RANK} to {MOST_RANK} dimensions: images, space and channels"
        if len(self.box) != 2:  # noqa: PLR2004 - channels, pixels
            return "box", self.box, "two numbers, the channels and the pixels of a copy"
        return self.pixels.refused(self.extents[1:-1])

    def _refused_box(self, element_bytes: int) -> tuple[str, object, str] | None:
        """Return the first invalid field of the box, as `refused` does."""
        for place, size in enumerate(self.box):
            limit = MOST_PIXELS if place and self.pixels is not None else MOST_BOX
            if not 1 <= size <= limit:
                return "box", size, f"1 to {limit}"
        if self.box[0] * element_bytes % ADDRESS_ALIGNMENT:
            step = ADDRESS_ALIGNMENT // element_bytes
            return "box", self.box[0], f"a multiple of {step} along the contiguous direction"
        if self.swizzle not in SWIZZLES:
            return "swizzle", self.swizzle, ", ".join(map(str, SWIZZLES))
        if self.swizzle and self.box[0] * element_bytes > self.swizzle:
            limit = self.swizzle // element_bytes
            return "box", self.box[0], f"at most {limit} along the contiguous direction, the swizzle span"
        return None


def find(maps: Collection[TensorMap], name: str) -> TensorMap | None:
    """Return the map with a name, or None."""
    return next((candidate for candidate in maps if candidate.name == name), None)
