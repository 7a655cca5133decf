"""Memory layout of a contraction's tensors: sizes, strides and the values kernels derive from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.operators import einsum
from lab.operators.base import MOST_ELEMENTS, Floats
from lab.operators.einsum import Einsum
from lab.operators.matrices import Element

_WIDEST = 16
"""Upper limit of `alignment` in elements; no kernel benefits from more."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A tensor's memory layout: sizes and strides in elements, in the order of its indices.

    Attributes:
        sizes: At least 1 each.
        strides: At least 0 each.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements spanned, from the first to the last one."""
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))

    @property
    def is_compact(self) -> bool:
        """Return whether each stride is the product of the sizes before it."""
        return self.strides == einsum.compact(self.sizes)

    def used(self) -> NDArray[np.bool_]:
        """Mark the elements that any index reaches: 1-D, from the first to the last one."""
        reached = np.zeros(self.elements, np.bool_)
        as_strided(reached, self.sizes, self.strides)[...] = True  # a bool is one byte
        return reached

    def view(self, buffer: NDArray[Element]) -> NDArray[Element]:
        """Return the tensor as a view of its 1-D buffer."""
        return as_strided(buffer, self.sizes, [stride * buffer.itemsize for stride in self.strides])


@dataclass(frozen=True)
class TensorShapes:
    """The tensors of one contraction.

    Attributes:
        einsum: Its indices.
        size: Size of every index.
        given: Strides of the operands that have their own.
    """

    einsum: Einsum
    size: Mapping[str, int]
    given: Mapping[str, tuple[int, ...]]

    def folded(self) -> TensorShapes:
        """Merge neighbouring indices, except those of operands with strides of their own."""
        merged = self.einsum.folded(apart=self.given.keys())
        return TensorShapes(merged, einsum.sizes(merged, self.size), self.given)

    def layout(self, tensor: str) -> Layout:
        """Return the memory layout of `A`, `B` or `C`."""
        sizes = tuple(self.size[i] for i in self.einsum.of(tensor))
        return Layout(sizes, self.given[tensor] if tensor in self.given else einsum.compact(sizes))

    def count(self, indices: tuple[str, ...]) -> int:
        """Return the product of several indices' sizes."""
        return math.prod(self.size[i] for i in indices)

    def grouped(self, operand: str, buffer: Floats, groups: tuple[tuple[str, ...], ...]) -> Floats:
        """Return an operand with one dimension for each group of its indices."""
        indices = self.einsum.of(operand)
        ordered = self.layout(operand).view(buffer).transpose([indices.index(i) for group in groups for i in group])
        return ordered.reshape([self.count(group) for group in groups])

    def check(self) -> None:
        """Reject tensors with more elements than 32-bit integers count, and strides that do not fit their operand.

        Raises:
            UserError: It names the tensor.
        """
        for tensor, strides in self.given.items():
            rank = len(self.einsum.of(tensor))
            if len(strides) != rank:
                strides_text, accepted = ",".join(map(str, strides)), f"{rank} strides"
                raise UserError(
                    f"{tensor} has {rank} indices",
                    code="mismatch",
                    key=f"problem.strides_{tensor}",
                    found=strides_text,
                    accepted=accepted,
                )
        numbers = {f"{tensor} has": self.layout(tensor).elements for tensor in "ABC"}
        numbers["the summation takes"] = self.count(self.einsum.depth)
        for label, count in numbers.items():
            if count > MOST_ELEMENTS:
                accepted = f"at most {MOST_ELEMENTS}: kernels index with 32-bit integers"
                raise UserError(f"{label} {count} elements", code="out-of-range", key="problem", accepted=accepted)

    @property
    def alignment(self) -> int:
        """Widest vector, in elements, a power of two up to 16, that moves all tensors along the tile.

        Of a folded contraction. It divides, for each tensor whose first index is d0, d1 or dU, that index's size and
        the strides of the other indices. Other tensors are moved element by element and do not matter.
        """
        common = _WIDEST
        for tensor in "ABC":
            if self.einsum.vectors(tensor):
                layout = self.layout(tensor)
                matter = [s for n, s in zip(layout.sizes[1:], layout.strides[1:], strict=True) if n > 1]
                common = math.gcd(common, layout.sizes[0], *matter) if layout.strides[0] == 1 else 1
        return common

    @property
    def arguments(self) -> dict[str, Scalar]:
        """Sizes and strides of the indices, by kernel argument name."""
        values: dict[str, Scalar] = {f"size_{index}": size for index, size in self.size.items()}
        for tensor in "ABC":
            for index, stride in zip(self.einsum.of(tensor), self.layout(tensor).strides, strict=True):
                values[self.einsum.stride(tensor, index)] = stride
        return values


@lru_cache(maxsize=256)
def distinct(layout: Layout) -> int:
    """Count the distinct elements of a tensor; cached for the variants of a sweep."""
    return layout.elements if layout.is_compact else int(np.count_nonzero(layout.used()))
