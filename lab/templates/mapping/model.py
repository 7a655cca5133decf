"""A mapping as a value: its dimensions, and what follows from them.

With the layout's dimensions d = 0, 1, ... low first, coordinate c(d) and tensor extent E(d), thread t touches with its
local index i the element

    ``offset + Σ c(d) · E(0) · … · E(d - 1)``      where every c(d) < E(d); else it touches nothing.

A local dimension's coordinate is its digit of i, a thread dimension's its digit of t, both in the mixed radix of the
dimensions' sizes, low dimension first. A reversed dimension of size D counts D - 1 - c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lab.templates.mapping import cuda, traffic
from lab.templates.mapping.dimension import Dimension

Elements = NDArray[np.int64]


@dataclass(frozen=True)
class ThreadMapping:
    """Which thread touches which element.

    Attributes:
        layout: Every dimension once, the one that varies fastest in the tensor first.
        offset: Elements in front of the tensor's first.
    """

    layout: tuple[Dimension, ...]
    offset: int = 0

    def of_kind(self, kind: Literal["i", "t"]) -> tuple[Dimension, ...]:
        """Local or thread dimensions by number."""
        return tuple(sorted((d for d in self.layout if d.kind == kind), key=lambda d: d.number))

    @cached_property
    def items(self) -> int:
        """Local indices of a thread."""
        return math.prod(d.size for d in self.layout if d.kind == "i")

    @cached_property
    def threads(self) -> int:
        """Threads."""
        return math.prod(d.size for d in self.layout if d.kind == "t")

    @cached_property
    def size(self) -> int:
        """Elements of the tensor, offset not counted."""
        return math.prod(d.extent for d in self.layout)

    @property
    def guarded(self) -> bool:
        """Some thread touches nothing with some local index: `guard` is needed."""
        return any(d.extent < d.size for d in self.layout)

    @cached_property
    def complete(self) -> bool:
        """Every element of the tensor is touched, and the first one is element 0."""
        return self.offset == 0 and all(d.extent <= d.size for d in self.layout)

    @cached_property
    def elements(self) -> Elements:
        """The element that each thread touches with each local index: threads x items, −1 where it touches none."""
        digits = {"i": np.arange(self.items)[None, :], "t": np.arange(self.threads)[:, None]}
        below, place = {"i": 1, "t": 1}, {}
        for kind in ("i", "t"):
            for d in self.of_kind(kind):
                place[kind, d.number] = below[kind]
                below[kind] *= d.size
        found = np.full((self.threads, self.items), self.offset, np.int64)
        skipped, stride = np.zeros_like(found, dtype=bool), 1
        for d in self.layout:
            digit = digits[d.kind] // place[d.kind, d.number] % d.size
            coordinate = d.size - 1 - digit if d.reversed else digit
            found += coordinate * stride
            skipped |= coordinate >= d.extent
            stride *= d.extent
        return np.where(skipped, -1, found)

    def access_map(self, elements: int | None = None) -> Elements:
        """The thread that touches each element, −1 where none does; of several threads, the lowest.

        Args:
            elements: Length of the array; by default up to the end of the tensor. Accesses beyond are left out.
        """
        length = self.offset + self.size if elements is None else elements
        owners = np.full(length, -1, np.int64)
        touched = self.elements
        thread = np.broadcast_to(np.arange(self.threads)[:, None], touched.shape)
        kept = (touched >= 0) & (touched < length)
        owners[touched[kept][::-1]] = thread[kept][::-1]
        return owners

    @cached_property
    def injective(self) -> bool:
        """No two accesses touch one element: threads that store through this mapping do not race."""
        touched = self.elements[self.elements >= 0]
        return len(np.unique(touched)) == touched.size

    def vectors(self, width: int) -> bool:
        """Local indices from each multiple of `width` on are `width` neighbours in the tensor, aligned to `width`."""
        if width == 1:
            return True
        first = next((d for d in self.layout if (d.size, d.extent) != (1, 1)), None)
        if first is None or first.kind != "i" or first.reversed or self.offset % width:
            return False
        lower = (d for d in self.of_kind("i") if d.number < first.number)
        return first.size % width == 0 and first.extent % width == 0 and all(d.size == 1 for d in lower)

    def widest(self, most: int) -> int:
        """The widest vector, a power of two up to `most`, that local indices can be accessed in; 1 for none."""
        return next((w for w in (16, 8, 4, 2) if w <= most and self.vectors(w)), 1)

    def requests(self, vector: int = 1) -> int:
        """Requests of all warps: a warp's 32 threads access one local index, or `vector` of them, together."""
        return len(traffic.requests(self.elements, vector))

    def sectors(
        self, element_bytes: int, vector: int = 1, *, row: int | None = None, transposed: bool = False
    ) -> float:
        """Mean 32-byte sectors of a warp's request to global memory, the tensor's first element being aligned.

        Args:
            element_bytes: Bytes of an element.
            vector: Elements that one lane accesses at once.
            row: The tensor is a tile of a matrix, so many elements wide, and its rows lie far apart; None for one row.
            transposed: Columns of that tile lie far apart instead of rows.
        """
        far, near, active = traffic.placed(self.elements, vector, row or self.offset + self.size, transposed=transposed)
        return traffic.sectors(far, near * element_bytes, vector * element_bytes, active)

    def conflicts(
        self,
        element_bytes: int,
        vector: int = 1,
        *,
        row: int,
        pitch: int,
        transposed: bool = False,
        loads: bool = True,
    ) -> float:
        """Mean wavefronts beyond the conflict-free number of a warp's request to a tile in shared memory.

        Args:
            element_bytes: Bytes of an element.
            vector: Elements that one lane accesses at once.
            row: Width of the tile.
            pitch: Elements from one row in shared memory to the next: the width with its padding.
            transposed: Shared memory holds columns of the tile as rows.
            loads: Loads, which share a phase where lanes read alike; stores never do.
        """
        far, near, active = traffic.placed(self.elements, vector, row, transposed=transposed)
        addresses = (far * pitch + near) * element_bytes
        return traffic.conflicts(addresses, vector * element_bytes, active, loads=loads)

    def index(self, local: str = "i", thread: str = "t") -> str:
        """CUDA expression of the element, an `int`; `lab.templates.mapping.cuda` says why not unsigned.

        Args:
            local: Name of the local index, an `int`, at least 0 and below `items`.
            thread: Name of the thread's number, an `int`, at least 0 and below `threads`.
        """
        return cuda.index(self.layout, self.offset, {"i": local, "t": thread})

    def guard(self, local: str = "i", thread: str = "t", *, also: str = "") -> str:
        """CUDA condition that must hold where the element is touched; `true` where it always holds.

        Args:
            local: As in `index`.
            thread: As in `index`.
            also: A further condition, such as the end of the data.
        """
        conditions = [*cuda.guards(self.layout, {"i": local, "t": thread}), *([also] if also else [])]
        return " && ".join(conditions) or "true"

    def __str__(self) -> str:
        """The notation, which `parse` reads back."""

        def sizes(kind: Literal["i", "t"]) -> Iterator[str]:
            for d in self.of_kind(kind):
                yield str(d.size) if d.size == d.extent else f"({d.size}, {d.extent})"

        text = f"[{', '.join(sizes('i'))}] | [{', '.join(sizes('t'))}] => [{', '.join(d.name for d in self.layout)}]"
        return f"{text}, offset: {self.offset}" if self.offset else text
