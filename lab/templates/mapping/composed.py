"""Composed mappings: one mapping distributes data to blocks, another distributes a block's data to its threads.

With an outer mapping that gives unit u with its local index j the element outer(u, j), and an inner one, the
composition gives thread t of unit u with its local index i the element

    ``outer(u, inner(t, i))``      where inner touches something, and what it touches is a local index of outer.

The inner mapping's tensor is what the outer one gives to a unit. The inner threads are the lower digits of a thread's
number in the composition, so that number is ``t + u · (inner threads)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lab.base.warp import WARP_SIZE
from lab.templates.mapping import cuda
from lab.templates.mapping.mapping_model import Elements, LayoutMapping, ThreadMapping
from lab.templates.mapping.scopes import SCOPES, ThreadScope


@dataclass(frozen=True)
class ComposedMapping(ThreadMapping):
    """A mapping applied to another one's local indices.

    Attributes:
        outer: Its units are those that the inner one's threads belong to.
        inner: It shares out the local indices of each unit.
    """

    outer: LayoutMapping
    inner: ThreadMapping

    @property
    def levels(self) -> tuple[LayoutMapping, ...]:
        """The mappings, outermost first."""
        return (self.outer, *self.inner.levels)

    @property
    def scope(self) -> ThreadScope | None:  # type: ignore[override]
        """The inner mapping's unit within the outer mapping's whole."""
        if self.outer.scope is None or self.inner.scope is None:
            return None
        return ThreadScope(self.inner.scope.unit, self.outer.scope.whole)

    @property
    def offset(self) -> int:  # type: ignore[override]
        """Elements before the tensor's first one."""
        return self.outer.offset

    @property
    def items(self) -> int:
        """Number of local indices of a thread."""
        return self.inner.items

    @property
    def threads(self) -> int:
        """Number of threads."""
        return math.prod(level.threads for level in self.levels)

    @property
    def size(self) -> int:
        """Number of elements of the tensor, without the offset."""
        return self.outer.size

    @cached_property
    def guarded(self) -> bool:
        """Return whether some accesses must be masked by `guard`."""
        return bool((self.elements < 0).any())

    @property
    def _beyond(self) -> bool:
        """Return whether the inner mapping exceeds a unit's local indices of the outer one."""
        return bool(self.inner.elements.max() >= self.outer.items)

    @cached_property
    def elements(self) -> Elements:
        """The element of each thread and local index, threads x items; −1 for no access.

        Read-only, since it is kept.
        """
        local = self.inner.elements
        valid = (local >= 0) & (local < self.outer.items)
        touched = np.where(valid, self.outer.elements[:, np.where(valid, local, 0)], -1).reshape(-1, self.items)
        touched.setflags(write=False)
        return touched

    @property
    def unguarded(self) -> Elements | None:
        """The value of `index` for each thread and local index, threads x items, ignoring `guard`."""
        local = self.inner.unguarded
        if local is None or local.min() < 0 or local.max() >= self.outer.items:
            return None
        return self.outer.unguarded[:, local].reshape(-1, self.items)

    @property
    def by_warps(self) -> Elements:
        """`elements`, padded with idle threads so that every 32 rows are a warp of one block."""
        if self.outer.scope != SCOPES["block in grid"]:
            return self.elements
        blocks = self.elements.reshape(self.outer.threads, -1, self.items)
        idle = -blocks.shape[1] % WARP_SIZE
        return np.pad(blocks, ((0, 0), (0, idle), (0, 0)), constant_values=-1).reshape(-1, self.items)

    def vectors(self, width: int) -> bool:
        """Return whether local indices can be vectorised by `width`: contiguous in the tensor and aligned."""
        return self.outer.vectors(width) and self.inner.vectors(width)

    def index(self, local: str | Sequence[str] = "i", thread: str = "t") -> str:
        """Return the CUDA expression of the element."""
        unit, below = self._numbers(thread)
        return self.outer.index(self.inner.index(local, below), unit)

    def guard(self, local: str | Sequence[str] = "i", thread: str = "t", *, also: str = "") -> str:
        """Return the CUDA condition of the access; `true` if it always takes place."""
        conditions = [also] if also else []
        if self.guarded:
            unit, below = self._numbers(thread)
            local_index = self.inner.index(local, below)
            beyond = f"{local_index} < {self.outer.items}" if self._beyond else "true"
            own = (self.inner.guard(local, below), beyond, self.outer.guard(local_index, unit))
            conditions = [*(condition for condition in own if condition != "true"), *conditions]
        return " && ".join(conditions) or "true"

    def _numbers(self, thread: str) -> tuple[str, str]:
        """Return the expressions of the outer unit number and of the inner thread number."""
        inner = self.inner.threads
        outermost = self.outer.threads == 1
        return cuda.digit(thread, inner, self.outer.threads, highest=True), cuda.digit(
            thread, 1, inner, highest=outermost
        )

    def __str__(self) -> str:
        """Return the notation, which `parse` can read."""
        return f"{self.outer} then {self.inner}"
