"""Mappings as values: their dimensions and derived properties.

With the tensor's axes a = 0, 1, ... low first, coordinate c(a) and extent E(a), thread t touches with its local index i
the element

    ``offset + Σ c(a) · E(0) · … · E(a - 1)``      where every c(a) is below E(a); else it touches nothing.

An axis is counted by one dimension or by several: c(a) is formed from the coordinates and extents of its dimensions d
as the element is from the axes. A local dimension's digit is that of i, a thread dimension's that of t, both in the
mixed radix of the dimensions' sizes, low dimension first. Its coordinate is its digit, or, reversed, E(d) - 1 - digit;
digits from E(d) on touch nothing.

`lab.templates.mapping.composed` applies one mapping to what another gives, and `lab.templates.mapping.proof` shows
which writes through a mapping cannot race.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import UserError
from lab.templates.mapping import cuda, traffic
from lab.templates.mapping.dimension import Dimension, TensorAxis
from lab.templates.mapping.injectivity import InjectivityProof, enumerated, holds_each_dimension_once
from lab.templates.mapping.scopes import Level, ThreadScope

Elements = NDArray[np.int64]


class ThreadMapping(ABC):
    """A mapping of threads and local indices to tensor elements.

    Threads are numbered from 0, local indices too. What a thread is, and of what the elements are shared out, says
    `scope`.
    """

    scope: ThreadScope | None
    """The meaning of the thread number; None if the user of the mapping decides."""

    offset: int
    """Elements before the tensor's first one."""

    @property
    @abstractmethod
    def levels(self) -> tuple[LayoutMapping, ...]:
        """The composed mappings, outermost first; a single mapping in most cases."""

    @property
    def scopes(self) -> tuple[Level, ...]:
        """Scope and threads of each level; empty without a scope."""
        return tuple((level.scope, level.threads) for level in self.levels if level.scope)

    @property
    @abstractmethod
    def items(self) -> int:
        """Number of local indices of a thread."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Number of threads."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of elements of the tensor, without the offset."""

    @property
    @abstractmethod
    def guarded(self) -> bool:
        """Return whether some accesses must be masked by `guard`."""

    @property
    @abstractmethod
    def elements(self) -> Elements:
        """The element of each thread and local index, threads x items; −1 for no access.

        Read-only, since it is kept.
        """

    @property
    @abstractmethod
    def unguarded(self) -> Elements | None:
        """The value of `index` for each thread and local index, threads x items, ignoring `guard`.

        It may be negative. None where a composition's outer mapping is asked for local indices that it does not have.
        """

    @property
    def by_warps(self) -> Elements:
        """`elements`, padded with idle threads so that every 32 rows are a warp, except for the last ones."""
        return self.elements

    @abstractmethod
    def vectors(self, width: int) -> bool:
        """Return whether local indices can be vectorised by `width`: contiguous in the tensor and aligned."""

    @abstractmethod
    def index(self, local: str | Sequence[str] = "i", thread: str = "t") -> str:
        """Return the CUDA expression of the element, an `int`; see `lab.templates.mapping.cuda` for the reason.

        Args:
            local: Name of the local index, an `int`, at least 0 and below `items`; or a name for each local dimension,
                whose own index it holds.
            thread: Name of the thread's number, an `int`, at least 0 and below `threads`.

        Raises:
            UserError: There are more names than local dimensions, or fewer.
        """

    @abstractmethod
    def guard(self, local: str | Sequence[str] = "i", thread: str = "t", *, also: str = "") -> str:
        """Return the CUDA condition of the access; `true` if it always takes place.

        Args:
            local: As in `index`.
            thread: As in `index`.
            also: A further condition, such as the end of the data.

        Raises:
            UserError: As `index`.
        """

    @cached_property
    def complete(self) -> bool:
        """Return whether every element of the tensor is accessed, starting from element 0."""
        return self.offset == 0 and bool((self.access_map() >= 0).all())

    def access_map(self, elements: int | None = None) -> Elements:
        """Return the lowest thread that accesses each element; −1 without one.

        Args:
            elements: Length of the array; by default up to the end of the tensor. Accesses beyond are left out.
        """
        length = self.offset + self.size if elements is None else elements
        owners = np.full(length, -1, np.int64)
        touched = self.elements
        thread = np.broadcast_to(np.arange(self.threads)[:, None], touched.shape)
        inside = (touched >= 0) & (touched < length)
        owners[touched[inside][::-1]] = thread[inside][::-1]
        return owners

    @property
    def injectivity(self) -> InjectivityProof:
        """Proof or refutation that no two accesses, under the guard, have the same element."""
        if all(holds_each_dimension_once(level.layout) for level in self.levels):
            return InjectivityProof(injective=True, race_free=True, by="form")
        return enumerated(self.elements, self.elements >= 0)

    @property
    def injective(self) -> bool:
        """Return whether no two accesses have the same element."""
        return self.injectivity.injective

    def widest(self, most: int) -> int:
        """Return the widest vector of local indices, a power of two up to `most`; at least 1."""
        return next((w for w in (16, 8, 4, 2) if w <= most and self.vectors(w)), 1)

    def requests(self, vector: int = 1) -> int:
        """Count the requests of all warps; one request covers one local index or `vector` of them."""
        return len(traffic.requests(self.by_warps, vector))

    def sectors(
        self, element_bytes: int, vector: int = 1, *, row: int | None = None, transposed: bool = False
    ) -> float:
        """Return the mean number of 32-byte sectors per warp request; the tensor's first element is aligned.

        Args:
            element_bytes: Bytes of an element.
            vector: Elements that one lane accesses at once.
            row: Elements of a row, where the tensor is a tile of a matrix whose rows lie far apart; None for one row.
            transposed: Columns of that tile lie far apart instead of rows.
        """
        far, near, active = traffic.placed(self.by_warps, vector, row or self.offset + self.size, transposed=transposed)
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
        """Return the mean bank conflicts (extra wavefronts) per warp request to a tile in shared memory.

        Args:
            element_bytes: Bytes of an element.
            vector: Elements that one lane accesses at once.
            row: Width of the tile.
            pitch: Elements from one row in shared memory to the next: the width with its padding.
            transposed: Shared memory holds columns of the tile as rows.
            loads: Whether these are loads, which share a phase where lanes read the same; stores never do.
        """
        far, near, active = traffic.placed(self.by_warps, vector, row, transposed=transposed)
        addresses = (far * pitch + near) * element_bytes
        return traffic.conflicts(addresses, vector * element_bytes, active, loads=loads)


@dataclass(frozen=True)
class LayoutMapping(ThreadMapping):
    """A mapping given by a layout of dimensions.

    Attributes:
        axes: Those of the tensor, the one that varies fastest first; every dimension is in one of them.
        offset: Elements in front of the tensor's first.
        scope: What the thread dimensions count; None where that is left to whoever uses the mapping.
    """

    axes: tuple[TensorAxis, ...]
    offset: int = 0
    scope: ThreadScope | None = None

    @property
    def levels(self) -> tuple[LayoutMapping, ...]:
        """This mapping alone."""
        return (self,)

    @cached_property
    def layout(self) -> tuple[Dimension, ...]:
        """All dimensions, the fastest in the tensor first."""
        return tuple(d for axis in self.axes for d in axis.dimensions)

    def of_kind(self, kind: Literal["i", "t"]) -> tuple[Dimension, ...]:
        """Return the local or the thread dimensions, ordered by number."""
        return tuple(sorted((d for d in self.layout if d.kind == kind), key=lambda d: d.number))

    @cached_property
    def items(self) -> int:
        """Number of local indices of a thread."""
        return math.prod(d.size for d in self.layout if d.kind == "i")

    @cached_property
    def threads(self) -> int:
        """Number of threads."""
        return math.prod(d.size for d in self.layout if d.kind == "t")

    @cached_property
    def size(self) -> int:
        """Number of elements of the tensor, without the offset."""
        return math.prod(axis.extent for axis in self.axes)

    @property
    def guarded(self) -> bool:
        """Return whether some accesses must be masked by `guard`."""
        return any(d.extent < d.size for d in self.layout) or any(axis.highest >= axis.extent for axis in self.axes)

    @cached_property
    def elements(self) -> Elements:
        """The element of each thread and local index, threads x items; −1 for no access.

        Read-only, since it is kept.
        """
        indices, skipped = self._computed
        touched = np.where(skipped, -1, indices)
        touched.setflags(write=False)
        return touched

    @property
    def unguarded(self) -> Elements:
        """The value of `index` for each thread and local index, threads x items, ignoring `guard`."""
        return self._computed[0]

    @property
    def _computed(self) -> tuple[Elements, NDArray[np.bool_]]:
        """The value of `index` for each thread and local index, and whether the guard masks the access."""
        digits = {"i": np.arange(self.items)[None, :], "t": np.arange(self.threads)[:, None]}
        below, place = {"i": 1, "t": 1}, {}
        for kind in ("i", "t"):
            for d in self.of_kind(kind):
                place[kind, d.number] = below[kind]
                below[kind] *= d.size
        indices = np.full((self.threads, self.items), self.offset, np.int64)
        skipped, stride = np.zeros_like(indices, dtype=bool), 1
        for axis in self.axes:
            coordinate, below_it = np.zeros_like(indices), 1
            for d in axis.dimensions:
                digit = digits[d.kind] // place[d.kind, d.number] % d.size
                coordinate += (d.extent - 1 - digit if d.reversed else digit) * below_it
                skipped |= digit >= d.extent
                below_it *= d.extent
            indices += coordinate * stride
            skipped |= coordinate >= axis.extent
            stride *= axis.extent
        return indices, skipped

    def vectors(self, width: int) -> bool:
        """Return whether local indices can be vectorised by `width`: contiguous in the tensor and aligned."""
        if width == 1:
            return True
        axis = next((axis for axis in self.axes if (axis.places, axis.extent) != (1, 1)), None)
        first = next((d for d in axis.dimensions if (d.size, d.extent) != (1, 1)), None) if axis else None
        if axis is None or first is None or first.kind != "i" or first.reversed or self.offset % width:
            return False
        lower = (d for d in self.of_kind("i") if d.number < first.number)
        extents = (first.size, first.extent, axis.extent)
        return all(size % width == 0 for size in extents) and all(d.size == 1 for d in lower)

    def index(self, local: str | Sequence[str] = "i", thread: str = "t") -> str:
        """Return the CUDA expression of the element."""
        return cuda.index(self.axes, self.offset, self._names(local, thread))

    def guard(self, local: str | Sequence[str] = "i", thread: str = "t", *, also: str = "") -> str:
        """Return the CUDA condition of the access; `true` if it always takes place."""
        conditions = [*cuda.guards(self.axes, self._names(local, thread)), *([also] if also else [])]
        return " && ".join(conditions) or "true"

    def _names(self, local: str | Sequence[str], thread: str) -> cuda.Names:
        if isinstance(local, str):
            return {"i": local, "t": thread}
        if len(local) != (expected := len(self.of_kind("i"))):
            raise UserError(
                "the names of the local indices do not fit the mapping",
                code="mismatch",
                found=f"{len(local)}: {', '.join(local)}",
                accepted=f"one name, or {expected}, one for each local dimension",
            )
        return {"i": tuple(local), "t": thread}

    def __str__(self) -> str:
        """Return the notation, which `parse` can read."""

        def sizes(kind: Literal["i", "t"]) -> Iterator[str]:
            for d in self.of_kind(kind):
                yield str(d.size) if d.size == d.extent else f"({d.size}, {d.extent})"

        text = f"[{', '.join(sizes('i'))}] | [{', '.join(sizes('t'))}] => [{', '.join(map(str, self.axes))}]"
        text = f"{text}, offset: {self.offset}" if self.offset else text
        return f"{self.scope}: {text}" if self.scope else text
