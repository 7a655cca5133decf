"""A mapping's facts as `lab map` shows them."""

from __future__ import annotations

from dataclasses import dataclass

from lab.base.warp import SECTOR_BYTES
from lab.templates.mapping.model import ThreadMapping

VECTOR_BYTES = 16
"""The widest load or store of a thread (PTX ISA, ld: at most 128 bits, before the 256-bit ones of sm_100)."""


@dataclass(frozen=True, slots=True)
class Coalescing:
    """Requests of a warp with one width of access.

    Attributes:
        vector: Elements that a lane accesses at once.
        sectors_per_request: Mean 32-byte sectors.
        efficiency: Bytes that the lanes ask for over the bytes of those sectors, 0 to 1.
    """

    vector: int
    sectors_per_request: float
    efficiency: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What follows from a mapping.

    Attributes:
        mapping: The notation, shorthands written out.
        threads: Threads.
        items: Local indices of a thread.
        elements: Length of the map.
        map: The thread of each element, −1 for none.
        untouched: Elements that no thread touches.
        beyond: Accesses behind the last element.
        injective: No element is touched twice: stores do not race.
        element_bytes: Bytes of an element.
        coalescing: For scalar access, and for each vector that the mapping allows.
        index: CUDA expression of the element, of the local index `i` and the thread `t`.
        guard: CUDA condition under which it is touched.
    """

    mapping: str
    threads: int
    items: int
    elements: int
    map: tuple[int, ...]
    untouched: int
    beyond: int
    injective: bool
    element_bytes: int
    coalescing: tuple[Coalescing, ...]
    index: str
    guard: str


def facts(mapping: ThreadMapping, element_bytes: int = 4, elements: int | None = None) -> Facts:
    """Everything that is known of a mapping.

    Args:
        mapping: The mapping.
        element_bytes: Bytes of an element.
        elements: Length of the data; by default up to the end of the tensor.
    """
    owners = mapping.access_map(elements)
    widths = [w for w in (1, 2, 4, 8, 16) if w == 1 or (w * element_bytes <= VECTOR_BYTES and mapping.vectors(w))]
    guarded_by_end = len(owners) < mapping.offset + mapping.size
    return Facts(
        mapping=str(mapping),
        threads=mapping.threads,
        items=mapping.items,
        elements=len(owners),
        map=tuple(int(owner) for owner in owners),
        untouched=int((owners < 0).sum()),
        beyond=int((mapping.elements >= len(owners)).sum()),
        injective=mapping.injective,
        element_bytes=element_bytes,
        coalescing=tuple(_coalescing(mapping, element_bytes, width) for width in widths),
        index=mapping.index(),
        guard=mapping.guard(also=f"{mapping.index()} < {len(owners)}" if guarded_by_end else ""),
    )


def _coalescing(mapping: ThreadMapping, element_bytes: int, vector: int) -> Coalescing:
    sectors = mapping.sectors(element_bytes, vector)
    asked = int((mapping.elements >= 0).sum()) * element_bytes / mapping.requests(vector)
    return Coalescing(vector, sectors, asked / (SECTOR_BYTES * sectors))
