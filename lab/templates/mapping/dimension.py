"""Dimensions of threads and local indices, and the tensor axes they index."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Dimension:
    """One dimension of the layout.

    Attributes:
        kind: `i`, a local dimension, or `t`, a thread dimension.
        number: Its place among the dimensions of its kind, from 0.
        size: How many indices or threads it has.
        extent: How many places it has in the tensor; `size` unless the mapping says otherwise.
        reversed: Whether it runs downwards, from the last place that it has in the tensor.
    """

    kind: Literal["i", "t"]
    number: int
    size: int
    extent: int
    reversed: bool = False

    @property
    def name(self) -> str:
        """Name in the notation: `i0`, `-t1`."""
        return f"{'-' if self.reversed else ''}{self.kind}{self.number}"


@dataclass(frozen=True)
class TensorAxis:
    """One axis of the tensor, indexed by one or several dimensions.

    Attributes:
        dimensions: The one that varies fastest first.
        extent: Places of the axis; fewer than `places` make it ragged, so that the last threads or indices have none.
    """

    dimensions: tuple[Dimension, ...]
    extent: int

    @property
    def places(self) -> int:
        """Number of places the dimensions can index."""
        return math.prod(d.extent for d in self.dimensions)

    @property
    def highest(self) -> int:
        """Highest place the dimensions index, which is lower if a dimension has fewer indices than places."""
        total, below = 0, 1
        for d in self.dimensions:
            total += (d.extent - 1 if d.reversed else min(d.size, d.extent) - 1) * below
            below *= d.extent
        return total

    def __str__(self) -> str:
        """Return the notation of the axis: `i0`, `(t0, i0: 5)`."""
        names = ", ".join(d.name for d in self.dimensions)
        return names if len(self.dimensions) == 1 and self.extent == self.places else f"({names}: {self.extent})"


def axis(dimension: Dimension) -> TensorAxis:
    """Return the axis of a single dimension."""
    return TensorAxis((dimension,), dimension.extent)
