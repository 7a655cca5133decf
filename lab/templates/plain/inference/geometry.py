"""Infers the block and the grid of a launch from a kernel's body."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.isa.cuda.body.limits import Limits
from lab.isa.cuda.body.polynomials import ONE, Polynomial, atom, number
from lab.isa.cuda.body.symbolic_values import (
    BLOCK,
    BLOCK_SIDES,
    THREAD,
    GlobalAccess,
    IndexBound,
    KernelBody,
    SharedAccess,
)

_MOST_THREADS = 1024


@dataclass(frozen=True, slots=True)
class LaunchSide:
    """A side of a block or of a grid.

    Attributes:
        value: How many threads or blocks.
        line: The source line that says so; 0 where none does.
    """

    value: Polynomial
    line: int = 0


def used_axes(body: KernelBody, names: Sequence[str]) -> int:
    """Return how many axes of an index a body uses."""
    used = atoms_of(body)
    return max((at + 1 for at, name in enumerate(names) if name in used), default=0)


def atoms_of(body: KernelBody) -> frozenset[str]:
    """Return all atoms in a body's indices and conditions."""
    values = [access.index for access in body.accesses]
    values += [index for access in body.shared for index in access.indices]
    values += [bound.excess for bound in body.guards if bound.excess is not None]
    values += [part for stride in body.strides for part in (stride.start, stride.step)]
    names = frozenset[str]().union(*(value.atoms for value in values))
    for _ in range(4):  # atoms in the operands of atoms
        inner = [
            part
            for name in names
            if (meaning := body.opaque.get(name))
            for part in (*meaning.operands, *meaning.uppers, *meaning.choices)
        ]
        names = names.union(*(part.atoms for part in inner))
    return names


def infer_block(body: KernelBody, limits: Limits, fixed: Collection[str]) -> tuple[LaunchSide | None, ...]:
    """Return the sides of a block; None for one that may have any number of threads.

    Args:
        body: The kernel's body.
        limits: What knows its atoms.
        fixed: Names of the experiment's parameters, which may be sides; sizes may not.
    """
    axes = max(used_axes(body, THREAD), used_axes(body, BLOCK_SIDES))
    if not axes:
        return (LaunchSide(ONE),)
    return tuple(_side(body, limits, fixed, axis) for axis in range(axes))


def _side(body: KernelBody, limits: Limits, fixed: Collection[str], axis: int) -> LaunchSide | None:
    shared = [side for access in body.shared for side in _of_shared(access, limits, fixed, axis)]
    most = min(shared, key=lambda side: limits.sample(side.value, 0)) if shared else None
    if BLOCK_SIDES[axis] not in atoms_of(body):
        for access in body.accesses:
            for side in _of_formula(access, fixed, axis):  # a tile with a halo has room for more threads
                if most is None or limits.sample(most.value - side.value, 0) > 0:
                    return side
    strided = [] if most is not None else _of_strides(body, fixed, axis)
    return strided[0] if strided else most


def _is_side(value: Polynomial, fixed: Collection[str]) -> bool:
    """Return whether a polynomial may be the number of a block's threads."""
    if not value.terms or not value.atoms <= set(fixed):
        return False
    return value.number is None or 1 < value.number <= _MOST_THREADS


def _of_shared(access: SharedAccess, limits: Limits, fixed: Collection[str], axis: int) -> list[LaunchSide]:
    sides = []
    for index, extent in zip(access.indices, access.extents, strict=True):
        own = index.coefficient((THREAD[axis],))
        if extent is None:
            continue
        if not own.terms:
            sides += _of_groups(index, extent, limits, access.line, axis)
            continue
        rows = [index.coefficient((name,)) for name in THREAD[axis + 1 :] if index.coefficient((name,)).terms]
        if rows and own == ONE:
            if _is_side(rows[0], fixed):
                sides.append(LaunchSide(rows[0], access.line))
            continue
        if own != ONE:
            sides += _of_rows(index, extent, own, access.line, fixed, axis)
        if own.number is None:
            continue
        largest = limits.largest(index, access.bounds)
        if largest is None:
            continue
        threads = largest.value.coefficient((BLOCK_SIDES[axis],))
        rest = largest.value - threads * atom(BLOCK_SIDES[axis])
        if not threads.number or BLOCK_SIDES[axis] in rest.atoms:
            continue
        room = extent - ONE - rest
        side = number(room.number // threads.number) if room.number is not None else room.quotient(threads)
        if side is not None and _is_side(side, fixed):
            sides.append(LaunchSide(side, access.line))
    return sides


def _of_groups(index: Polynomial, extent: Polynomial, limits: Limits, line: int, axis: int) -> list[LaunchSide]:
    """Return the side for which an array has one element for each warp: `s[threadIdx.x / 32]`."""
    for name in sorted(index.atoms):
        meaning = limits.meaning(name)
        if meaning is not None and meaning.operation == "/" and index == atom(name):
            threads, group = meaning.operands
            side = extent * group
            if threads == atom(THREAD[axis]) and _is_side(side, ()) and side != number(_MOST_THREADS):
                return [LaunchSide(side, line)]
    return []


def _of_rows(  # noqa: PLR0917 - an index and its array
    index: Polynomial, extent: Polynomial, own: Polynomial, line: int, fixed: Collection[str], axis: int
) -> list[LaunchSide]:
    """Return the side along rows of a shared array with one index: `s[threadIdx.y * T + threadIdx.x]`."""
    others = [name for name in index.atoms if name.startswith(("@", "#"))]
    side = extent.quotient(own) if axis and not others else None
    return [LaunchSide(side, line)] if side is not None and _is_side(side, fixed) else []


def _of_strides(body: KernelBody, fixed: Collection[str], axis: int) -> list[LaunchSide]:
    """Return sides that follow from loops: what a turn skips, the block's threads cover."""
    sides = []
    for stride in body.strides:
        own = stride.start.coefficient((THREAD[axis],))
        if own.terms and not any(name in stride.start.atoms for name in BLOCK):
            side = stride.step.quotient(own)
            if side is not None and _is_side(side, fixed):
                sides.append(LaunchSide(side, stride.line))
    indices = [(access.index, access.line) for access in body.accesses]
    indices += [(index, access.line) for access in body.shared for index in access.indices]
    for index, line in indices:
        own = index.coefficient((THREAD[axis],))
        for name in sorted(index.atoms) if own.terms else ():
            if name.startswith("@"):
                side = index.coefficient((name,)).quotient(own)
                if side is not None and side != ONE and _is_side(side, fixed):
                    sides.append(LaunchSide(side, line))
    return sides


def _of_formula(access: GlobalAccess, fixed: Collection[str], axis: int) -> list[LaunchSide]:
    """Return sides that follow from `blockIdx.x * TILE + threadIdx.x`."""
    sides = []
    values = [(access.index, access.line)]
    values += [(bound.excess, bound.line) for bound in access.bounds if bound.excess is not None]
    for value, line in values:
        own, blocks = value.coefficient((THREAD[axis],)), value.coefficient((BLOCK[axis],))
        side = blocks.quotient(own) if own.terms and blocks.terms else None
        if side is not None and _is_side(side, fixed):
            sides.append(LaunchSide(side, line))
    return sides


def infer_grid(
    body: KernelBody,
    limits: Limits,
    block: Sequence[Polynomial],
    sizes: Sequence[str],
    spare: Sequence[str] = (),
    *,
    counts: Sequence[str] = (),
) -> tuple[tuple[LaunchSide, ...], dict[str, Polynomial], tuple[IndexBound, ...]]:
    """Return the sides of a grid, the numbers of blocks that the caller chooses, and bounds that follow from the grid.

    A free number of blocks comes with the elements that a block covers along its axis.

    Args:
        body: The kernel's body, its block's sides replaced.
        limits: What knows its atoms.
        block: The sides of a block.
        sizes: Names of the kernel's integers that a condition or an index names.
        spare: Its other integers. If there is one, it is the length along the only axis without another one.
        counts: What the numbers of blocks are called, along each axis; empty for a name of their own.
    """
    axes = used_axes(body, BLOCK)
    left = list(spare) if len(spare) == 1 else []
    sides, free, assumed = list[LaunchSide](), dict[str, Polynomial](), list[IndexBound]()
    for axis in range(axes):
        side = _counted(body, limits, axis)
        if side is None:
            side, name, bound = _uncounted(body, limits, block, sizes, axis)
            if name and left:
                side, name, bound = _uncounted(body, limits, block, [left.pop()], axis)
            if name and any(counts[axis : axis + 1]):
                side, name = replace(side, value=atom(counts[axis])), counts[axis]
            free |= {name: _covered(body, limits, axis)} if name else {}
            assumed += [bound] if bound else []
        sides.append(side)
    return tuple(sides) or (LaunchSide(ONE),), free, tuple(assumed)


def _covered(body: KernelBody, limits: Limits, axis: int) -> Polynomial:
    """Return the elements along an axis that a block covers: the distance of blocks over that of threads."""
    covered: Polynomial | None = None
    for access in body.accesses:
        threads = access.index.coefficient((THREAD[axis],))
        step = access.index.coefficient((BLOCK[axis],)).quotient(threads) if threads.terms else None
        if step is not None and step.terms and (covered is None or limits.larger(step, covered) == covered):
            covered = step
    return covered or ONE


def _counted(body: KernelBody, limits: Limits, axis: int) -> LaunchSide | None:
    """Return the number of blocks that the conditions of accesses ask for; None where none limits it."""
    best: LaunchSide | None = None
    for access in body.accesses:
        own: LaunchSide | None = None
        for given in access.bounds:
            for bound in limits.widened(given):
                side = None if bound.is_assumed else _blocks(bound, limits, axis)
                if side is not None and (own is None or limits.larger(own.value, side.value) != side.value):
                    own = side
        if own is not None and (best is None or limits.larger(best.value, own.value) == own.value):
            best = own
    return best


def _blocks(bound: IndexBound, limits: Limits, axis: int) -> LaunchSide | None:
    if bound.excess is None:
        return None
    threads = bound.excess.coefficient((BLOCK[axis],))
    if not threads.terms or not limits.is_fixed(threads) or not limits.is_positive(threads):
        return None
    live = [name for monomial in bound.excess.terms for name in monomial if not limits.is_terminal(name)]
    fixed = bound.excess.select(lambda monomial: all(map(limits.is_terminal, monomial)))
    moving = bound.excess - fixed
    if any(factor < 0 for factor in moving.terms.values()) or any(name.startswith("#") for name in live):
        return None
    if not fixed.atoms and fixed.constant >= 0:  # `blockIdx.x == 0`
        return None
    return LaunchSide(limits.operation("ceil", ONE - fixed, threads), bound.line)


def _uncounted(
    body: KernelBody, limits: Limits, block: Sequence[Polynomial], sizes: Sequence[str], axis: int
) -> tuple[LaunchSide, str, IndexBound | None]:
    """Return the side of a grid that no condition limits."""
    side = block[axis] if axis < len(block) else ONE
    item = atom(BLOCK[axis]) * side + (atom(THREAD[axis]) if axis < len(block) and side != ONE else Polynomial())
    for access in body.accesses:
        blocks = access.index.coefficient((BLOCK[axis],))
        threads = access.index.coefficient((THREAD[axis],))
        if not blocks.terms or not limits.is_fixed(blocks) or (threads.terms and blocks != threads * side):
            continue
        if not threads.terms and blocks.quotient(side) is None:
            continue
        stride = threads if threads.terms else blocks
        size = _length(access, stride, sizes)
        if size is None and side == ONE:
            continue
        if size is not None:
            bound = IndexBound(item - size + ONE, access.line, is_assumed=True)
            return LaunchSide(limits.operation("ceil", size, side), access.line), "", bound
    if not any(BLOCK[axis] in access.index.atoms for access in body.accesses):
        return LaunchSide(ONE), "", None
    name = ("blocks", "blocks_y", "blocks_z")[axis]
    line = next((access.line for access in body.accesses if BLOCK[axis] in access.index.atoms), 0)
    return LaunchSide(atom(name), line), name, None


def _length(access: GlobalAccess, stride: Polynomial, sizes: Sequence[str]) -> Polynomial | None:
    """Return the size that an index with a stride covers, as far as the strides of the access tell."""
    names = [name for name in access.index.atoms if name in sizes]
    rows = [atom(name) for name in names if access.index.coefficient((name,)).terms]
    wider = [row for row in rows if row.quotient(stride) is not None and row != stride]
    if wider:
        return wider[0].quotient(stride)
    return atom(sizes[0]) if len(sizes) == 1 else None


def replaced(body: KernelBody, limits: Limits, values: Mapping[str, Polynomial]) -> KernelBody:
    """Return a body with atoms replaced."""

    def bound(own: IndexBound) -> IndexBound:
        excess = None if own.excess is None else limits.substitute(own.excess, values)
        return IndexBound(excess, own.line, own.branch, own.side, own.is_assumed)

    limits.replace_all(values)
    accesses = tuple(
        GlobalAccess(
            access.array,
            limits.substitute(access.index, values),
            access.span,
            access.touch,
            tuple(map(bound, access.bounds)),
            access.line,
        )
        for access in body.accesses
    )
    guards = tuple(map(bound, body.guards))
    shared = tuple(
        SharedAccess(
            one.array,
            tuple(limits.substitute(index, values) for index in one.indices),
            one.extents,
            tuple(map(bound, one.bounds)),
            one.line,
            one.width,
        )
        for one in body.shared
    )
    return KernelBody(accesses, shared, body.opaque, body.strides, body.escaped, guards)
