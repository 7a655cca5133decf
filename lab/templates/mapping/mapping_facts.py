"""The facts of a mapping for `lab map`."""

from __future__ import annotations

from dataclasses import dataclass

from lab.base.errors import UserError
from lab.base.warp import SECTOR_BYTES, WARP_SIZE
from lab.templates.mapping.mapping_model import ThreadMapping
from lab.templates.mapping.proof import Obligation, obligations
from lab.templates.mapping.scopes import LaunchShape, ThreadScope, check_launch, number

VECTOR_BYTES = 16
"""The widest load or store of a thread (PTX ISA, ld: at most 128 bits, before the 256-bit ones of sm_100)."""


@dataclass(frozen=True, slots=True)
class Coalescing:
    """Coalescing of a warp's requests at one access width.

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
    """The facts derived from a mapping.

    Attributes:
        mapping: The notation, shorthands written out.
        threads: Threads.
        items: Local indices of a thread.
        elements: Length of the map.
        map: The thread that touches each element; −1 where no thread does.
        untouched: Elements that no thread touches.
        beyond: Accesses beyond the last element.
        injective: Whether no element is touched twice.
        obligations: Which writes through the mapping are free of races, and why.
        element_bytes: Bytes of an element.
        coalescing: For scalar access, and for each vector that the mapping allows; none where `t` numbers warps or
            blocks.
        index: CUDA expression of the element, of the local index `i` and the thread `t`.
        guard: CUDA condition under which it is touched.
        names: `i0`, `i1`, … for each local dimension's own index.
        index_of_names: The index of them.
        guard_of_names: The guard of them.
        scope: What the threads are, `thread in block`; empty where the mapping does not say it.
        t: CUDA expression of `t`; empty without a scope.
    """

    mapping: str
    threads: int
    items: int
    elements: int
    map: tuple[int, ...]
    untouched: int
    beyond: int
    injective: bool
    obligations: tuple[Obligation, ...]
    element_bytes: int
    coalescing: tuple[Coalescing, ...]
    index: str
    guard: str
    names: tuple[str, ...]
    index_of_names: str
    guard_of_names: str
    scope: str
    t: str


def facts(
    mapping: ThreadMapping, element_bytes: int = 4, elements: int | None = None, shape: LaunchShape | None = None
) -> Facts:
    """Collect the facts of a mapping for `lab map`.

    Args:
        mapping: The mapping.
        element_bytes: Bytes of an element.
        elements: Length of the data; by default up to the end of the tensor.
        shape: A launch that the mapping must fit.

    Raises:
        UserError: The launch does not fit the mapping, or the mapping does not say what its threads are.
    """
    if shape is not None:
        if not mapping.scopes:
            message = "a launch can be held against a mapping that has a scope"
            raise UserError(message, code="unsupported", found=str(mapping), accepted=f"thread in block: {mapping}")
        check_launch(mapping.scopes, shape)
    owners = mapping.access_map(elements)
    widths = [w for w in (1, 2, 4, 8, 16) if w == 1 or (w * element_bytes <= VECTOR_BYTES and mapping.vectors(w))]
    names = tuple(d.name.lstrip("-") for d in mapping.levels[-1].of_kind("i"))
    guarded_by_end = len(owners) < mapping.offset + mapping.size
    lanes = mapping.scope is None or (mapping.scope.unit == "thread" and _counts_lanes(mapping.scope, shape))
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
        obligations=obligations(mapping, shape),
        coalescing=tuple(_coalescing(mapping, element_bytes, width) for width in widths if lanes),
        index=mapping.index(),
        guard=mapping.guard(also=f"{mapping.index()} < {len(owners)}" if guarded_by_end else ""),
        names=names,
        index_of_names=mapping.index(names),
        guard_of_names=mapping.guard(names, also=f"{mapping.index(names)} < {len(owners)}" if guarded_by_end else ""),
        scope=str(mapping.scope or ""),
        t=number(mapping.scopes) if mapping.scopes else "",
    )


def _counts_lanes(scope: ThreadScope, shape: LaunchShape | None) -> bool:
    """Return whether the numbers of a warp's threads are known to follow each other."""
    return scope.axes == 1 or (shape is not None and shape.block[0] % WARP_SIZE == 0)


def _coalescing(mapping: ThreadMapping, element_bytes: int, vector: int) -> Coalescing:
    sectors = mapping.sectors(element_bytes, vector)
    used_bytes = int((mapping.elements >= 0).sum()) * element_bytes / mapping.requests(vector)
    return Coalescing(vector, sectors, used_bytes / (SECTOR_BYTES * sectors))
