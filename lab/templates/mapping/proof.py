"""Race freedom of writes through a mapping, with its guard, without it, and beyond its scope.

Writes through an injective mapping cannot race; see `lab.templates.mapping.injectivity`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.templates.mapping.injectivity import InjectivityProof, enumerated
from lab.templates.mapping.mapping_model import LayoutMapping, ThreadMapping
from lab.templates.mapping.scopes import LaunchShape, tile_of, wholes_of


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
    proof = mapping.injectivity
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
