"""Infers the shape and the direction of each array from the accesses of a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.isa.cuda.body.limits import Largest, Limits, Step
from lab.isa.cuda.body.polynomials import ONE, ZERO, Polynomial, atom, number
from lab.isa.cuda.body.symbolic_values import GlobalAccess, IndexBound, KernelBody, Touch

_MOST_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """The use that a kernel makes of an array.

    Attributes:
        shape: Its extents, the last one fastest; empty where no condition bounds the index.
        is_stored: The kernel writes it.
        is_loaded: The kernel reads what was there before the launch.
        is_partial: Some elements stay as they were.
        accumulates: Every access adds to an element.
        line: Of the access that the shape follows from; 0 where there is none.
        is_data_indexed: Some index comes from the content of an array, and nothing bounds it.
        is_past_end: A condition lets an index be as large as a size: `i <= n`.
        is_halo: The kernel accesses elements behind its sizes, and no condition says how many there are.
    """

    shape: tuple[Polynomial, ...]
    is_stored: bool
    is_loaded: bool
    is_partial: bool
    accumulates: bool
    line: int
    is_data_indexed: bool
    is_past_end: bool
    is_halo: bool = False


def infer_array(name: str, body: KernelBody, limits: Limits, assumed: Sequence[IndexBound]) -> ArrayUse:
    """Return the use of one array.

    Args:
        name: The array.
        body: The kernel's body, with the launch's sides in place of names.
        limits: What knows its atoms.
        assumed: Bounds that the grid sets on indices that the kernel does not check.
    """
    accesses = [access for access in body.accesses if access.array == name]
    best: tuple[GlobalAccess, Largest, Polynomial] | None = None
    is_data_indexed = False
    for access in accesses:
        largest = limits.largest(access.index + number(access.span - 1), [*access.bounds, *assumed])
        if largest is None:
            is_data_indexed = True
            continue
        extent = _reach(access, largest, limits)
        extent = rounded(extent, limits)
        winner = limits.larger(best[2], extent) if best is not None else extent
        if best is None or (winner == extent and (extent != best[2] or len(largest.steps) > len(best[1].steps))):
            best = access, largest, extent
    stores = [access for access in accesses if access.touch is not Touch.LOAD]
    is_loaded = bool(accesses) and accesses[0].touch is not Touch.STORE
    updates = [access for access in accesses if access.touch is Touch.ATOMIC]
    shape = _shape(best[1], best[2], limits) if best is not None else ()
    return ArrayUse(
        shape,
        bool(stores),
        is_loaded,
        bool(stores) and (best is None or _is_partial(stores, best[2], limits, assumed)),
        bool(updates) and len(updates) == len(accesses),
        best[0].line if best is not None else 0,
        is_data_indexed,
        best is not None and any(len(step.upper.terms) == 1 and step.upper.degree == 1 for step in best[1].steps),
        best is not None and best[1].is_assumed and any(side.atoms and side.constant > 0 for side in shape),
    )


def _reach(access: GlobalAccess, largest: Largest, limits: Limits) -> Polynomial:
    """Return the number of elements up to the last one that an access touches."""
    extent = _even(largest.value + ONE, limits)
    is_vector = access.span > 1 and extent.constant == access.span - 1 and extent.degree > 0
    return extent - number(access.span - 1) if is_vector else extent  # a size is a multiple of the vector's


def _even(extent: Polynomial, limits: Limits) -> Polynomial:
    """Return an extent in which `x / 16 * 16` is x: a size that a tile's width does not divide fails when executed."""
    for name in sorted(extent.atoms):
        meaning = limits.meaning(name)
        if meaning is None or meaning.operation not in ("/", "ceil"):
            continue
        left, right = meaning.operands
        factor = extent.coefficient((name,)).quotient(right)
        if factor is not None and factor.terms:
            extent = extent - extent.coefficient((name,)) * atom(name) + factor * left
    return extent


def rounded(extent: Polynomial, limits: Limits) -> Polynomial:
    """Return the size itself for what falls short of it, as `n - 1` where a stencil leaves out the last element."""
    top = extent.select(lambda monomial: len(monomial) == extent.degree)
    return top if extent.degree and top != extent and limits.is_positive(top - extent) else extent


def _shape(largest: Largest, extent: Polynomial, limits: Limits) -> tuple[Polynomial, ...]:
    """Return the dimensions of an index, or its one extent."""
    merged: dict[Polynomial, Polynomial] = {}
    for step in largest.steps:
        if step.upper != ZERO:
            merged[step.stride] = merged.get(step.stride, ZERO) + step.upper
    steps = [Step(stride, upper) for stride, upper in merged.items()]
    steps.sort(key=lambda step: limits.sample(step.stride, 0))
    shape: list[Polynomial] = []
    row = ONE
    for step in steps:
        if step.stride != row:
            return (extent,)
        length = rounded(_even(step.upper + ONE, limits), limits)
        shape.insert(0, length)
        row *= length
    is_whole = bool(shape) and row == extent and len(shape) <= _MOST_DIMENSIONS
    return tuple(shape) if is_whole else (extent,)


def _is_partial(
    stores: Sequence[GlobalAccess], extent: Polynomial, limits: Limits, assumed: Sequence[IndexBound]
) -> bool:
    """Return whether the stores may leave out elements: each has a condition beside the end of the array."""
    return all(_leaves_out(store, stores, extent, limits, assumed) for store in stores)


def _leaves_out(
    store: GlobalAccess,
    stores: Sequence[GlobalAccess],
    extent: Polynomial,
    limits: Limits,
    assumed: Sequence[IndexBound],
) -> bool:
    own = {name for name in store.index.atoms if not limits.is_terminal(name)}
    first = store.index.substitute(dict.fromkeys(own, ZERO))
    if first != ZERO and not _starts_elsewhere(store, stores, limits):
        return True
    largest = limits.largest(store.index + number(store.span - 1), [*store.bounds, *assumed])
    if largest is None or (_reach(store, largest, limits) != extent and not _starts_elsewhere(store, stores, limits)):
        return True
    return any(_restricts(bound, own, limits) and not _has_other_side(store, bound, stores) for bound in store.bounds)


def _starts_elsewhere(store: GlobalAccess, stores: Sequence[GlobalAccess], limits: Limits) -> bool:
    """Return whether another store writes the elements in front: `y[0] = …; for (i = 1; …) y[i] = …`."""
    for other in stores:
        names = {name for name in other.index.atoms if not limits.is_terminal(name)}
        if other is not store and other.index.substitute(dict.fromkeys(names, ZERO)) == ZERO:
            return not any(_restricts(bound, names, limits) for bound in other.bounds)
    return False


def _restricts(bound: IndexBound, own: set[str], limits: Limits) -> bool:
    """Return whether a condition of a store excludes elements other than those behind the end."""
    if bound.is_assumed:
        return False
    if bound.excess is None:
        return True
    names = {name for name in bound.excess.atoms if not limits.is_terminal(name)}
    if not names:  # a condition on sizes
        return False
    if any((meaning := limits.meaning(name)) is not None and meaning.is_data for name in names):
        return True
    if not names & own:
        return any(
            limits.meaning(name) is not None
            and limits.meaning(name).operation == "%"  # type: ignore[union-attr]
            and bool(limits.meaning(name).operands[0].atoms & own)  # type: ignore[union-attr]
            for name in names
        )
    lower = bound.excess.substitute(dict.fromkeys(names, ZERO))
    falls = any(
        factor < 0 and any(name in names for name in monomial) for monomial, factor in bound.excess.terms.items()
    )
    # at the lowest values of all indices, the condition holds by itself
    return falls and not (lower.number is not None and lower.number <= 0)


def _has_other_side(store: GlobalAccess, bound: IndexBound, stores: Sequence[GlobalAccess]) -> bool:
    """Return whether the other branch of a condition stores to the same elements."""
    return bound.branch >= 0 and any(
        other.index == store.index
        and any(one.branch == bound.branch and one.side != bound.side for one in other.bounds)
        for other in stores
    )


def derived_strides(
    names: Sequence[str], body: KernelBody, limits: Limits, assumed: Sequence[IndexBound], scalars: Sequence[str]
) -> Mapping[str, Polynomial]:
    """Return strides that the kernel takes as numbers of their own, such as `lda`, with the length of a row.

    Args:
        names: The arrays.
        body: The kernel's body.
        limits: What knows its atoms.
        assumed: As for `infer_array`.
        scalars: Integers that no condition names.
    """
    derived: dict[str, Polynomial] = {}
    for access in body.accesses:
        if access.array not in names:
            continue
        largest = limits.largest(access.index, [*access.bounds, *assumed])
        if largest is not None and largest.is_assumed:
            continue
        for step in largest.steps if largest is not None else ():
            stride = next((name for name in scalars if step.stride == atom(name)), None)
            inner = [own for own in largest.steps if own.stride == ONE] if largest is not None else []
            if stride is not None and inner and stride not in derived:
                length = sum((own.upper for own in inner), ONE)
                derived[stride] = length
    return derived
