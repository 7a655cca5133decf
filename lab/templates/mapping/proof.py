"""Race freedom of writes through a mapping: proved from its form, or by enumerating all accesses.

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
from typing import TYPE_CHECKING, Literal

import numpy as np

from lab.templates.mapping.scopes import LaunchShape, tile_of, wholes_of

if TYPE_CHECKING:
    from lab.templates.mapping.model import Elements, LayoutMapping, ThreadMapping


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
    """Return whether a mapping is injective, and how that was shown.

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


def prove(mapping: ThreadMapping) -> InjectivityProof:
    """Prove or refute that the mapping, under its guard, is injective."""
    if all(map(_each_dimension_once, mapping.levels)):
        return InjectivityProof(injective=True, race_free=True, by="form")
    return enumerated(mapping.elements, mapping.elements >= 0)


def _each_dimension_once(level: LayoutMapping) -> bool:
    numbers = {kind: sorted(d.number for d in level.layout if d.kind == kind) for kind in ("i", "t")}
    return all(own == list(range(len(own))) for own in numbers.values())


def enumerated(elements: Elements, accessed: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> InjectivityProof:
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


@dataclass(frozen=True, slots=True)
class Obligation:
    """A condition for some writes to be race-free, and whether it holds.

    Attributes:
        writes: Which writes through the mapping.
        race_free: Whether no two threads write one element, so that nothing need order them; None where that is not
            known.
        because: The proof in words, or two writes to one element.
    """

    writes: str
    race_free: bool | None
    because: str


def obligations(mapping: ThreadMapping, shape: LaunchShape | None = None) -> tuple[Obligation, ...]:
    """Return the race conditions of writes through the mapping: with its guard, without it, and beyond its scope.

    Args:
        mapping: The mapping.
        shape: The launch, which fits the mapping (`lab.templates.mapping.scopes.check_launch`); None where it is not
            known, so that there may be several wholes of the scope.
    """
    scope = mapping.scope
    unit = scope.unit if scope else "thread"
    among = f"different {unit}s of one {scope.whole}" if scope else "threads with different t"
    proof = prove(mapping)
    result = [Obligation(f"{among}, under the guard" if mapping.guarded else among, *_said(proof, unit, mapping))]
    if mapping.guarded:
        raw = mapping.unguarded
        name = f"{among}, without the guard"
        if raw is None:
            reason = "the outer mapping would be given local indices that it does not have"
            result.append(Obligation(name, race_free=None, because=reason))
        else:
            without = enumerated(raw, np.ones_like(raw, dtype=np.bool_))
            result.append(Obligation(name, *_said(without, unit, mapping)))
    if scope is None:
        return tuple(result)
    thread, item = (int(indices[0]) for indices in np.nonzero(mapping.elements >= 0))
    element = int(mapping.elements[thread, item])
    if scope.whole != "grid" and (shape is None or wholes_of(scope, shape, tile_of(mapping.scopes)) > 1):
        example = f"{unit} {thread} of any two {scope.whole}s writes element {element} at i = {item}"
        result.append(Obligation(f"different {scope.whole}s to one array", race_free=False, because=example))
    if unit != "thread":
        example = f"every thread of {unit} {thread} writes element {element} at i = {item}"
        result.append(Obligation(f"several threads of one {unit} with the same i", race_free=False, because=example))
    return tuple(result)


def _said(proof: InjectivityProof, unit: str, mapping: ThreadMapping) -> tuple[bool, str]:
    if proof.by == "form":
        return True, "injective for all sizes: " + _reason(mapping.levels)
    sizes = f"all {mapping.threads * mapping.items:,} accesses of the given sizes"
    if proof.collision is None:
        return True, f"injective, by going through {sizes}"
    (a, i), (b, j) = proof.collision.first, proof.collision.second
    example = f"({unit} {a}, i = {i}) and ({unit} {b}, i = {j}) both write element {proof.collision.element}"
    if proof.race_free:
        return True, f"not injective, but only within a {unit}, by going through {sizes}: {example}"
    return False, example


def _reason(levels: Sequence[LayoutMapping]) -> str:
    reason = "each digit of t and i stands once in the layout, below its extent"
    return reason if len(levels) == 1 else f"in each of {len(levels)} mappings, {reason}"
