"""A mapping as a value: its dimensions, and what follows from them.

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
from lab.templates.mapping.proof import prove
from lab.templates.mapping.scopes import Level, ThreadScope

Elements = NDArray[np.int64]


class ThreadMapping(ABC):
    """Which thread touches which element.

    Threads are numbered from 0, local indices too. What a thread is, and of what the elements are shared out, says
    `scope`.
    """

    scope: ThreadScope | None
    """What the threads are; None where that is left to whoever uses the mapping."""

    offset: int
    """Elements in front of the tensor's first."""

    @property
    @abstractmethod
    def levels(self) -> tuple[LayoutMapping, ...]:
        """The mappings that are applied one after another, the outermost first; most often the mapping alone."""

    @property
    def scopes(self) -> tuple[Level, ...]:
        """Scope and threads of each of `levels`; nothing where the mapping has no scope."""
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
        """Whether some thread touches nothing with some local index, so that `guard` is needed."""

    @property
    @abstractmethod
    def elements(self) -> Elements:
        """The element that each thread touches with each local index, threads x items; −1 where it touches nothing.

        Read-only, since it is kept.
        """

    @property
    @abstractmethod
    def unguarded(self) -> Elements | None:
        """The value of `index` for each thread and local index, threads x items, also where `guard` forbids the access.

        It may be negative. None where a composition's outer mapping is asked for local indices that it does not have.
        """

    @property
    def by_warps(self) -> Elements:
        """`elements`, with idle threads such that every 32 rows are a warp, the last ones excepted."""
        return self.elements

    @abstractmethod
    def vectors(self, width: int) -> bool:
        """Say whether local indices can be accessed `width` at a time: neighbours in the tensor, aligned to `width`."""

    @abstractmethod
    def index(self, local: str | Sequence[str] = "i", thread: str = "t") -> str:
        """Return the CUDA expression of the element, an `int`; `lab.templates.mapping.cuda` says why not unsigned.

        Args:
            local: Name of the local index, an `int`, at least 0 and below `items`; or a name for each local dimension,
                whose own index it holds.
            thread: Name of the thread's number, an `int`, at least 0 and below `threads`.

        Raises:
            UserError: There are more names than local dimensions, or fewer.
        """

    @abstractmethod
    def guard(self, local: str | Sequence[str] = "i", thread: str = "t", *, also: str = "") -> str:
        """Return the CUDA condition under which the element is touched; `true` where it always is.

        Args:
            local: As in `index`.
            thread: As in `index`.
            also: A further condition, such as the end of the data.

        Raises:
            UserError: As `index`.
        """

    @cached_property
    def complete(self) -> bool:
        """Whether every element of the tensor is touched, the first one being element 0."""
        return self.offset == 0 and bool((self.access_map() >= 0).all())

    def access_map(self, elements: int | None = None) -> Elements:
        """Return the lowest thread that touches each element; −1 where no thread does.

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

    @property
    def injective(self) -> bool:
        """Whether no two accesses touch the same element; `lab.templates.mapping.proof` gives the proof."""
        return prove(self).injective

    def widest(self, most: int) -> int:
        """Return the widest vector, a power of two up to `most`, in which local indices can be accessed; at least 1."""
        return next((w for w in (16, 8, 4, 2) if w <= most and self.vectors(w)), 1)

    def requests(self, vector: int = 1) -> int:
        """Count the requests of all warps. In one request a warp accesses one local index, or `vector` of them."""
        return len(traffic.requests(self.by_warps, vector))

    def sectors(
        self, element_bytes: int, vector: int = 1, *, row: int | None = None, transposed: bool = False
    ) -> float:
        """Return the mean number of 32-byte sectors of a warp's request; the tensor's first element is aligned.

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
        """Return the mean bank conflicts of a warp's request to a tile in shared memory: its extra wavefronts.

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
    """A mapping that a layout of dimensions describes.

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
        """The mapping itself."""
        return (self,)

    @cached_property
    def layout(self) -> tuple[Dimension, ...]:
        """Every dimension once, the one that varies fastest in the tensor first."""
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
        """Whether some thread touches nothing with some local index, so that `guard` is needed."""
        return any(d.extent < d.size for d in self.layout) or any(axis.highest >= axis.extent for axis in self.axes)

    @cached_property
    def elements(self) -> Elements:
        """The element that each thread touches with each local index, threads x items; −1 where it touches nothing.

        Read-only, since it is kept.
        """
        found, skipped = self._computed
        touched = np.where(skipped, -1, found)
        touched.setflags(write=False)
        return touched

    @property
    def unguarded(self) -> Elements:
        """The value of `index` for each thread and local index, threads x items, also where `guard` forbids it."""
        return self._computed[0]

    @property
    def _computed(self) -> tuple[Elements, NDArray[np.bool_]]:
        """The value of `index` for each thread and local index, and whether the guard forbids the access."""
        digits = {"i": np.arange(self.items)[None, :], "t": np.arange(self.threads)[:, None]}
        below, place = {"i": 1, "t": 1}, {}
        for kind in ("i", "t"):
            for d in self.of_kind(kind):
                place[kind, d.number] = below[kind]
                below[kind] *= d.size
        found = np.full((self.threads, self.items), self.offset, np.int64)
        skipped, stride = np.zeros_like(found, dtype=bool), 1
        for axis in self.axes:
            coordinate, below_it = np.zeros_like(found), 1
            for d in axis.dimensions:
                digit = digits[d.kind] // place[d.kind, d.number] % d.size
                coordinate += (d.extent - 1 - digit if d.reversed else digit) * below_it
                skipped |= digit >= d.extent
                below_it *= d.extent
            found += coordinate * stride
            skipped |= coordinate >= axis.extent
            stride *= axis.extent
        return found, skipped

    def vectors(self, width: int) -> bool:
        """Say whether local indices can be accessed `width` at a time: neighbours in the tensor, aligned to `width`."""
        if width == 1:
            return True
        axis = next((axis for axis in self.axes if (axis.places, axis.extent) != (1, 1)), None)
        first = next((d for d in axis.dimensions if (d.size, d.extent) != (1, 1)), None) if axis else None
        if axis is None or first is None or first.kind != "i" or first.reversed or self.offset % width:
            return False
        lower = (d for d in self.of_kind("i") if d.number < first.number)
        whole = (first.size, first.extent, axis.extent)
        return all(size % width == 0 for size in whole) and all(d.size == 1 for d in lower)

    def index(self, local: str | Sequence[str] = "i", thread: str = "t") -> str:
        """Return the CUDA expression of the element."""
        return cuda.index(self.axes, self.offset, self._names(local, thread))

    def guard(self, local: str | Sequence[str] = "i", thread: str = "t", *, also: str = "") -> str:
        """Return the CUDA condition under which the element is touched; `true` where it always is."""
        conditions = [*cuda.guards(self.axes, self._names(local, thread)), *([also] if also else [])]
        return " && ".join(conditions) or "true"

    def _names(self, local: str | Sequence[str], thread: str) -> cuda.Names:
        if isinstance(local, str):
            return {"i": local, "t": thread}
        if len(local) != (wanted := len(self.of_kind("i"))):
            raise UserError(
                "the names of the local indices do not fit the mapping",
                code="mismatch",
                found=f"{len(local)}: {', '.join(local)}",
                accepted=f"one name, or {wanted}, one for each local dimension",
            )
        return {"i": tuple(local), "t": thread}

    def __str__(self) -> str:
        """The notation, which `parse` reads back."""

        def sizes(kind: Literal["i", "t"]) -> Iterator[str]:
            for d in self.of_kind(kind):
                yield str(d.size) if d.size == d.extent else f"({d.size}, {d.extent})"

        text = f"[{', '.join(sizes('i'))}] | [{', '.join(sizes('t'))}] => [{', '.join(map(str, self.axes))}]"
        text = f"{text}, offset: {self.offset}" if self.offset else text
        return f"{self.scope}: {text}" if self.scope else text
