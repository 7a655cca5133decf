"""Injectivity of mappings: shown from their form, or by enumerating all accesses.

A mapping is injective if no two pairs of a thread and a local index touch one element. Then different threads never
write one element through it, in whatever order and without a barrier.

The proof from the form holds for all sizes, extents and offsets:

1. A thread's number and its local index are mixed-radix numbers, so that each pair has digits of its own, one for each
   dimension.
2. The layout holds each dimension once, and the guard keeps each digit below the dimension's extent. A reversed
   coordinate, extent - 1 - digit, then lies in the same range, and different digits have different coordinates.
3. So an axis' coordinate is a mixed-radix number of its dimensions' coordinates, and the element one of the axes'
   coordinates, which the guard keeps below the extents. Different digits make different elements.
4. A composition, outer(u, inner(t, i)), is injective if both mappings are, as long as the guard leaves out what is no
   local index of the outer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lab.templates.mapping.dimension import Dimension


@dataclass(frozen=True, slots=True)
class Collision:
    """Two accesses to one element.

    Attributes:
        element: The element.
        first: Thread and local index.
        second: Thread and local index.
    """

    element: int
    first: tuple[int, int]
    second: tuple[int, int]


@dataclass(frozen=True, slots=True)
class InjectivityProof:
    """The proof or refutation that a mapping is injective.

    Attributes:
        injective: Whether that is so.
        race_free: Whether no element goes to two threads; one thread may have it twice.
        by: `form`, for all sizes, or `enumeration`, for the given ones.
        collision: Two accesses to one element, of different threads if there are such; None where it is injective.
    """

    injective: bool
    race_free: bool
    by: Literal["form", "enumeration"]
    collision: Collision | None = None


def holds_each_dimension_once(layout: Sequence[Dimension]) -> bool:
    """Return whether each local and each thread dimension is in the layout once, so that its mapping is injective."""
    numbers = {kind: sorted(d.number for d in layout if d.kind == kind) for kind in ("i", "t")}
    return all(own == list(range(len(own))) for own in numbers.values())


def enumerated(elements: NDArray[np.int64], accessed: NDArray[np.bool_]) -> InjectivityProof:
    """Check injectivity by enumerating all accesses.

    Args:
        elements: Element of each thread and local index, threads x items.
        accessed: Whether there is an access.
    """
    threads, items = np.nonzero(accessed)
    touched = elements[threads, items]
    order = np.lexsort((items, threads, touched))
    threads, items, touched = threads[order], items[order], touched[order]
    duplicates = np.flatnonzero(touched[1:] == touched[:-1])
    racing = duplicates[threads[duplicates] != threads[duplicates + 1]]
    if not len(duplicates):
        return InjectivityProof(injective=True, race_free=True, by="enumeration")
    at = int((racing if len(racing) else duplicates)[0])
    first, second = ((int(threads[k]), int(items[k])) for k in (at, at + 1))
    collision = Collision(int(touched[at]), first, second)
    return InjectivityProof(injective=False, race_free=not len(racing), by="enumeration", collision=collision)
