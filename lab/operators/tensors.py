"""How the tensors of a contraction lie in memory: sizes, strides, and what follows from them for kernels."""

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
"""Elements; a larger `alignment` would be of use to no kernel."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in its buffer: sizes and strides in elements, in the order of its indices.

    Attributes:
        sizes: At least 1 each.
        strides: At least 0 each.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Elements from the first to the last one."""
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))

    @property
    def is_compact(self) -> bool:
        """Whether each stride is the product of the sizes before it."""
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
        """Return how `A`, `B` or `C` lies in its buffer."""
        sizes = tuple(self.size[i] for i in self.einsum.of(tensor))
        return Layout(sizes, self.given[tensor] if tensor in self.given else einsum.compact(sizes))

    def count(self, indices: tuple[str, ...]) -> int:
        """Count the values that several indices take together."""
        return math.prod(self.size[i] for i in indices)

    def grouped(self, operand: str, buffer: Floats, groups: tuple[tuple[str, ...], ...]) -> Floats:
        """Return an operand with one dimension for each group of its indices."""
        held = self.einsum.of(operand)
        ordered = self.layout(operand).view(buffer).transpose([held.index(i) for group in groups for i in group])
        return ordered.reshape([self.count(group) for group in groups])

    def check(self) -> None:
        """Refuse tensors with more elements than 32-bit integers count, and strides that do not fit their operand.

        Raises:
            UserError: It names the tensor.
        """
        for tensor, strides in self.given.items():
            wanted = len(self.einsum.of(tensor))
            if len(strides) != wanted:
                found, accepted = ",".join(map(str, strides)), f"{wanted} strides"
                raise UserError(
                    f"{tensor} has {wanted} indices",
                    code="mismatch",
                    key=f"problem.strides_{tensor}",
                    found=found,
                    accepted=accepted,
                )
        numbers = {f"{tensor} has": self.layout(tensor).elements for tensor in "ABC"}
        numbers["the summation takes"] = self.count(self.einsum.depth)
        for what, count in numbers.items():
            if count > MOST_ELEMENTS:
                accepted = f"at most {MOST_ELEMENTS}: kernels index with 32-bit integers"
                raise UserError(f"{what} {count} elements", code="out-of-range", key="problem", accepted=accepted)

    @property
    def alignment(self) -> int:
        """The most elements, a power of two up to 16, in which all tensors can be moved along the tile.

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
        """Sizes and strides of the indices by the names that kernels know them by."""
        found: dict[str, Scalar] = {f"size_{index}": size for index, size in self.size.items()}
        for tensor in "ABC":
            for index, stride in zip(self.einsum.of(tensor), self.layout(tensor).strides, strict=True):
                found[self.einsum.stride(tensor, index)] = stride
        return found


@lru_cache(maxsize=256)
def distinct(layout: Layout) -> int:
    """Count the elements of a tensor that are used. Cached, since a sweep asks for each variant."""
    return layout.elements if layout.is_compact else int(np.count_nonzero(layout.used()))
