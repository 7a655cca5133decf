"""Infers from a kernel's body what a draft says about arrays, launch and sizes, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab.isa.cuda.body.limits import Limits
from lab.isa.cuda.body.polynomials import ONE, Polynomial, atom, number, product
from lab.isa.cuda.body.symbolic_values import BLOCK, BLOCK_SIDES, GRID_SIDES, THREAD, IndexBound, KernelBody
from lab.templates.plain.inference.arrays import ArrayUse, derived_strides, infer_array
from lab.templates.plain.inference.geometry import LaunchSide, infer_block, infer_grid, replaced, used_axes
from lab.templates.plain.inference.indices import infer_contents
from lab.templates.plain.inference.texts import Texts


@dataclass(frozen=True, slots=True)
class InferredArray:
    """An array of the draft.

    Attributes:
        shape: Its extents as expressions; empty where they are unknown.
        direction: `out`, `out partial`, `inout`, or empty for an input.
        accumulates: The kernel only adds to it, so that it begins with zeros.
        line: The source line that the shape follows from; 0 where there is none.
        guess: Why its shape is a guess; empty where it follows from the source.
        contents: What it must hold so that the kernel's indices are in range; empty where anything will do.
    """

    shape: tuple[str, ...]
    direction: str
    accumulates: bool
    line: int
    guess: str = ""
    contents: str = ""


@dataclass(frozen=True)
class Inference:
    """Facts inferred from a kernel's body.

    Attributes:
        arrays: By the parameter, or the path of a member.
        block: Sides of a block; empty where the body leaves them open.
        grid: Sides of the grid.
        block_line: The source line that the block follows from; 0 where there is none.
        grid_line: Likewise.
        grid_guess: Why the grid is a guess; empty where it follows from the source.
        threads: Parameters that are sides of the block, with values to try.
        sizes: Names of the problem's fields, of which the kernel's conditions and shapes depend on.
        free: Fields that the kernel does not take: the numbers of blocks that the caller chooses, with the elements
            that a block covers along its axis.
        derived: Numbers that follow from sizes, such as `lda`.
        degrees: Of each size, how many dimensions the largest array has that it is a side of.
        small: Sizes that bound what data may index, such as the number of bins.
        bounds: Sizes that are only compared with: neither an array nor the launch has that many elements.
        units: Sizes that no condition names, such as the increment of an index.
        sides: Parameters that are sides of the block.
        shared_bytes: Dynamic shared memory of a block; empty where the body does not say it.
        shared_line: The source line that it follows from.
    """

    arrays: Mapping[str, InferredArray]
    block: tuple[str, ...]
    grid: tuple[str, ...]
    block_line: int
    grid_line: int
    grid_guess: str
    threads: Mapping[str, str]
    sizes: tuple[str, ...]
    free: Mapping[str, str]
    derived: Mapping[str, str]
    degrees: Mapping[str, int]
    small: frozenset[str]
    bounds: frozenset[str]
    units: frozenset[str]
    sides: frozenset[str]
    shared_bytes: str = ""
    shared_line: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """Facts about a kernel from outside its body.

    Attributes:
        arrays: Its arrays, by parameter or path of a member.
        integers: Its numbers that may be sizes, likewise.
        parameters: Names of the experiment's parameters.
        names: What the experiment calls members of structures, by path.
        block: Sides of the host's block, or of one that parameters set; empty where there is none.
        grid: Sides of the host's grid, as far as it names sizes or numbers.
        taken: Words of the source, which no new parameter may be called.
        lengths: What the host allocates for arrays, in bytes.
        widths: Bytes of an element of each array; 0 where they are unknown.
        values: What the host passes for the kernel's template.
        numbers: What the host passes for the kernel's numbers.
        is_shared: The host passes one variable for several sizes.
        counts: The host's names of the sides of the grid; empty for a side that is an expression.
    """

    arrays: Sequence[str]
    integers: Sequence[str]
    parameters: Collection[str]
    names: Mapping[str, str]
    block: Sequence[str]
    grid: Sequence[str]
    taken: Collection[str]
    lengths: Mapping[str, str]
    widths: Mapping[str, int]
    values: Mapping[str, int]
    numbers: Mapping[str, int] = field(default_factory=dict)
    is_shared: bool = False
    counts: Sequence[str] = ()


def infer(body: KernelBody, known: Known, *, is_square: bool = False) -> Inference:
    """Infer a draft.

    Args:
        body: The kernel's body.
        known: Facts from outside of it.
        is_square: The caller chooses one number of blocks for all axes.
    """
    original, limits = body, Limits(body.opaque, known.parameters)
    texts = Texts(limits, known.names)
    block, threads = _block(body, limits, texts, known)
    sides = [side.value for side in block]
    values = {name: sides[axis] if axis < len(sides) else ONE for axis, name in enumerate(BLOCK_SIDES)}
    # an axis that the block does not have has one thread
    values |= {name: Polynomial() for axis, name in enumerate(THREAD) if axis >= len(sides) or sides[axis] == ONE}
    limits.add_parameters(threads)
    limits.sides.update(values)
    body = replaced(body, limits, values)
    bounding = _bounding(body, limits, known.integers)
    given = _given_grid(texts, known)
    strides = _strides(body, limits)
    lengths = tuple(name for name in known.integers if name in (*bounding, *strides))
    given_sides = {name for side in (*given, *block) for name in _atoms(side.value, limits)}
    offsets = {
        name: number(known.numbers.get(name, 1))
        for name in known.integers
        if name not in {*lengths, *given_sides} and any(name in access.index.atoms for access in body.accesses)
    }
    body = replaced(body, limits, offsets)
    spare = [name for name in known.integers if name not in lengths and name not in offsets]
    own = {*known.arrays, *known.integers, *known.parameters, *threads}
    called = [name if name not in own and known.counts.count(name) == 1 else "" for name in known.counts]
    grid, free, assumed = infer_grid(body, limits, sides, lengths, spare, counts=called)
    grid_guess = "the kernel checks none of its sizes" if spare and not lengths else ""
    if is_square:
        first = next(iter(free))
        grid = tuple(replace(side, value=atom(first)) if side.value.atoms & free.keys() else side for side in grid)
        free = {first: free[first]}
    names_size = any(set(known.integers) & _atoms(side.value, limits) for side in given)
    is_open = all(side.value == ONE and not side.line for side in grid) and used_axes(body, BLOCK) > 0
    if given and (names_size or free or not bounding or is_open):
        grid, free, assumed, grid_guess = given, {}, (), ""
    counts = {name: grid[axis].value if axis < len(grid) else ONE for axis, name in enumerate(GRID_SIDES)}
    limits.sides.update(counts)
    body = replaced(body, limits, counts)
    scalars = [
        name
        for name in known.integers
        if name not in bounding and not any(name in _atoms(side.value, limits) for side in grid)
    ]
    derived = derived_strides(known.arrays, body, limits, assumed, scalars)
    body = replaced(body, limits, derived)
    contents, followed = infer_contents(
        body, limits, assumed, {name: _allocated(name, texts, known) for name in known.arrays}
    )
    uses = {name: infer_array(name, body, limits, assumed) for name in known.arrays}
    uses |= {name: _with_length(use, name, texts, known) for name, use in uses.items() if name not in followed}
    if len(free) > 1 and any(_exceeds(side, free) for use in uses.values() for side in use.shape):
        return infer(original, known, is_square=True)
    arrays = {
        name: replace(_array(name, use, body, texts), contents=contents[name].text(texts) if name in contents else "")
        for name, use in uses.items()
    }
    named = [atom_ for use in uses.values() for side in use.shape for atom_ in _atoms(side, limits)]
    named += [atom_ for side in (*grid, *block) for atom_ in _atoms(side.value, limits)]
    in_grid = frozenset(atom_ for side in grid for atom_ in _atoms(side.value, limits))
    used = {*named, *bounding}
    sizes = tuple(name for name in known.integers if name in used and name not in derived)
    return Inference(
        arrays,
        tuple(texts.text(side.value) for side in block),
        tuple(texts.text(side.value) for side in grid),
        next((side.line for side in block if side.line), 0),
        next((side.line for side in grid if side.line), 0),
        grid_guess if any(side.value != ONE for side in grid) else "",
        threads,
        sizes,
        {name: texts.text(covered) for name, covered in free.items()},
        {name: texts.text(value) for name, value in derived.items()},
        {name: _degree(name, uses, len(grid)) for name in (*sizes, *free)},
        _small(body, limits, sizes),
        frozenset(sizes) - frozenset(named),
        frozenset(sizes) - frozenset(bounding or lengths) - in_grid,
        frozenset(name for side in block for name in side.value.atoms if name in known.parameters),
        *_dynamic(body, limits, texts, assumed),
    )


def _atoms(value: Polynomial, limits: Limits) -> set[str]:
    """Return the atoms of a polynomial, those in its quotients included."""
    names = set[str]()
    pending = list(value.atoms)
    while pending:
        name = pending.pop()
        meaning = limits.meaning(name)
        names.add(name)
        for operand in meaning.operands if meaning is not None else ():
            pending += operand.atoms
    return names


def _exceeds(extent: Polynomial, free: Collection[str]) -> bool:
    """Return whether one number of blocks counts rows of another's length, as where a square matrix is transposed."""
    return any(factor < 0 and not set(monomial).isdisjoint(free) for monomial, factor in extent.terms.items())


def _strides(body: KernelBody, limits: Limits) -> set[str]:
    """Return the names by which an index of threads, blocks or turns is multiplied or divided."""
    names = set[str]()
    for access in body.accesses:
        for monomial in access.index.terms:
            if not all(map(limits.is_terminal, monomial)):
                names |= {inner for name in monomial for inner in _atoms(atom(name), limits)}
    return names


def _bounding(body: KernelBody, limits: Limits, integers: Sequence[str]) -> tuple[str, ...]:
    """Return the integers that an index or a turn is compared with."""
    names = set[str]()
    for bound in body.guards:
        if bound.excess is None or not any(not limits.is_terminal(name) for name in bound.excess.atoms):
            continue
        for monomial, factor in bound.excess.terms.items():
            if factor < 0 or len(monomial) > 1:
                names |= {inner for name in monomial for inner in _atoms(atom(name), limits)}
    return tuple(name for name in integers if name in names)


def _block(
    body: KernelBody, limits: Limits, texts: Texts, known: Known
) -> tuple[tuple[LaunchSide, ...], Mapping[str, str]]:
    """Return the sides of a block, and parameters for those that are free."""
    given = [texts.polynomial(side) for side in known.block]
    inferred = infer_block(body, limits, known.parameters)
    if given and all(side is not None for side in given):
        host = tuple(LaunchSide(side) for side in given if side is not None)
        values = {name: number(value) for name, value in known.values.items()}
        own = [side.value.substitute(values) if side is not None else None for side in inferred]
        is_same = own == [side.value for side in host] and all(side is not None for side in inferred)
        return (tuple(side for side in inferred if side is not None) if is_same else host), {}
    many = len(inferred) > 1
    threads = {}
    sides = list[LaunchSide]()
    for axis, side in enumerate(inferred):
        if side is not None:
            sides.append(side)
            continue
        name = _unused(f"threads_{'xyz'[axis]}" if many else "threads", known.taken)
        threads[name] = (_TWO_SIDES if len(inferred) == 2 else _THREE_SIDES)[axis] if many else _ALONE  # noqa: PLR2004
        sides.append(LaunchSide(atom(name)))
    return tuple(sides), threads


_ALONE = "[64, 128, 256, 512, 1024]"
_TWO_SIDES, _THREE_SIDES = ("[16, 32]", "[4, 8, 16]"), ("[16, 32]", "[4]", "[2, 4]")


def _unused(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _given_grid(texts: Texts, known: Known) -> tuple[LaunchSide, ...]:
    given = [texts.polynomial(side) for side in known.grid]
    return (
        tuple(LaunchSide(side) for side in given if side is not None) if all(side is not None for side in given) else ()
    )


def _with_length(use: ArrayUse, name: str, texts: Texts, known: Known) -> ArrayUse:
    """Return the use of an array with the length that the host allocates, where the body does not say the same."""
    length = _allocated(name, texts, known)
    if length is None or (
        use.shape and not use.is_data_indexed and not use.is_past_end and not _differs(use.shape, length, known)
    ):
        return use
    return replace(use, shape=(length,), is_data_indexed=False, is_past_end=False, is_halo=False)


def _array(name: str, use: ArrayUse, body: KernelBody, texts: Texts) -> InferredArray:
    direction = ""
    if use.is_stored:
        direction = "inout" if use.is_loaded else "out partial" if use.is_partial else "out"
    shape, guess = use.shape, ""
    if name in body.escaped and not shape:
        guess = "the kernel passes it to a function that lab does not read"
    elif use.is_data_indexed or not shape:
        guess = "no condition bounds its index" if use.is_data_indexed else "the kernel does not access it"
    elif use.is_past_end:
        shape, guess = tuple(_within(side) for side in shape), "a condition lets its index be as large as its size"
    elif use.is_halo:
        guess = "the kernel accesses elements behind its size, and no condition says how many there are"
    is_unused = not use.is_stored and not use.is_loaded and not use.line and name not in body.escaped
    if is_unused and not use.is_data_indexed and not shape:
        guess, shape = "", (ONE,)
    return InferredArray(tuple(map(texts.text, shape)), direction, use.accumulates, use.line, guess)


def _allocated(name: str, texts: Texts, known: Known) -> Polynomial | None:
    """Return the elements that the host allocates for an array; None where they are unknown."""
    length, width = texts.polynomial(known.lengths.get(name, "")), known.widths.get(name, 0)
    return length.quotient(number(width)) if length is not None and width else None


def _differs(shape: Sequence[Polynomial], length: Polynomial, known: Known) -> bool:
    """Return whether the host allocates another length, in terms of the same sizes or of some of them."""
    elements = product(shape)
    is_known = length.atoms == elements.atoms or (length.atoms < elements.atoms and not known.is_shared)
    return bool(length.atoms) and is_known and _with_numbers(elements, known) != _with_numbers(length, known)


def _with_numbers(elements: Polynomial, known: Known) -> Polynomial:
    """Return a number of elements with the host's numbers for sizes, which it may call otherwise: `B * T` for `n`."""
    return elements.substitute({name: number(value) for name, value in known.numbers.items()})


def _within(side: Polynomial) -> Polynomial:
    return side - ONE if side.constant == 1 and side.atoms else side


def _degree(name: str, uses: Mapping[str, ArrayUse], axes: int) -> int:
    degrees = [
        sum(side.degree for side in use.shape) for use in uses.values() if any(name in side.atoms for side in use.shape)
    ]
    return max(degrees, default=axes)


def _small(body: KernelBody, limits: Limits, sizes: Sequence[str]) -> frozenset[str]:
    """Return the sizes that data are compared with, as the number of bins."""
    names = set[str]()
    for bound in body.guards:
        atoms = bound.excess.atoms if bound.excess is not None else frozenset()
        is_data = any((meaning := limits.meaning(name)) is not None and meaning.is_data for name in atoms)
        if is_data and not atoms & {*THREAD, *BLOCK}:
            names |= atoms
    return frozenset(name for name in sizes if name in names)


def _dynamic(body: KernelBody, limits: Limits, texts: Texts, assumed: Sequence[IndexBound]) -> tuple[str, int]:
    """Return the bytes of dynamic shared memory that a block uses, and the line that says so."""
    best: tuple[Polynomial, int] | None = None
    for access in body.shared:
        if len(access.extents) != 1 or access.extents[0] is not None:
            continue
        largest = limits.largest(access.indices[0], [*access.bounds, *assumed])
        if largest is None or not access.width:
            return "", 0
        size = (largest.value + ONE) * number(access.width)
        if best is None or limits.larger(best[0], size) == size:
            best = size, access.line
    return (texts.text(best[0]), best[1]) if best is not None else ("", 0)
