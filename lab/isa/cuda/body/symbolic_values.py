"""Values of a symbolic execution, and the accesses and bounds that it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from lab.isa.cuda.body.polynomials import ONE, Polynomial, product

THREAD = tuple(f"threadIdx.{axis}" for axis in "xyz")
BLOCK = tuple(f"blockIdx.{axis}" for axis in "xyz")
BLOCK_SIDES = tuple(f"blockDim.{axis}" for axis in "xyz")
GRID_SIDES = tuple(f"gridDim.{axis}" for axis in "xyz")


class Touch(Enum):
    """The kind of an access."""

    LOAD = "load"
    STORE = "store"
    UPDATE = "update"  # assignments such as +=
    ATOMIC = "atomic"


@dataclass(frozen=True, slots=True)
class IndexBound:
    """A condition under which a statement runs.

    Attributes:
        excess: A polynomial that is at most 0; None for a condition of another form.
        line: Its line.
        branch: Number of the `if` or `?:`; -1 for other conditions, as those of loops.
        side: The branch is taken where the condition holds.
        is_assumed: The source does not say so, as that a tile's width divides a size.
    """

    excess: Polynomial | None
    line: int
    branch: int = -1
    side: bool = True
    is_assumed: bool = False


@dataclass(frozen=True, slots=True)
class GlobalAccess:
    """An access to an array in global memory.

    Attributes:
        array: The parameter, or the member of one: `A.elements`.
        index: Of the first element, in elements of the parameter's type.
        span: Elements that it touches.
        touch: Its kind.
        bounds: Conditions under which it takes place.
        line: Its line.
    """

    array: str
    index: Polynomial
    span: int
    touch: Touch
    bounds: tuple[IndexBound, ...]
    line: int


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """An access to a declared shared array.

    Attributes:
        array: Its name.
        indices: One for each dimension.
        extents: Of the array; None for `extern __shared__ x[]`.
        bounds: Conditions under which it takes place.
        line: Its line.
        width: Bytes of an element; 0 where they are unknown.
    """

    array: str
    indices: tuple[Polynomial, ...]
    extents: tuple[Polynomial | None, ...]
    bounds: tuple[IndexBound, ...]
    line: int
    width: int = 0


@dataclass(frozen=True, slots=True)
class Opaque:
    """The meaning of an atom that a polynomial cannot express.

    Attributes:
        uppers: Polynomials that it never exceeds.
        choices: It is one of these; empty where that is unknown.
        lower: It is never below; None where that is unknown.
        is_data: It depends on the content of an array.
        step: Of the counter of a loop's turns: what the loop's variable takes for a step.
        operation: `/` or `%` with its two operands, else empty.
        operands: Of the operation.
        array: The array in global memory that holds it, an integer; empty for anything else.
    """

    uppers: tuple[Polynomial, ...] = ()
    choices: tuple[Polynomial, ...] = ()
    lower: Polynomial | None = None
    is_data: bool = False
    step: Polynomial | None = None
    operation: str = ""
    operands: tuple[Polynomial, ...] = ()
    array: str = ""


@dataclass(frozen=True, slots=True)
class Stride:
    """A step of a loop whose variable starts at a thread's index.

    Attributes:
        start: The variable's first value.
        step: What a turn adds.
        line: The loop's line.
    """

    start: Polynomial
    step: Polynomial
    line: int


@dataclass(frozen=True)
class KernelBody:
    """A kernel's accesses, in the order of the program.

    Attributes:
        accesses: To global memory.
        shared: To shared memory.
        opaque: Atoms that are not sizes or indices, by name.
        strides: Loops over indices.
        escaped: Arrays that are passed to functions that nobody knows.
        guards: Every condition that a statement of the kernel has.
    """

    accesses: tuple[GlobalAccess, ...]
    shared: tuple[SharedAccess, ...]
    opaque: Mapping[str, Opaque]
    strides: tuple[Stride, ...]
    escaped: frozenset[str]
    guards: tuple[IndexBound, ...] = ()


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer into an array, or an array with some of its indices.

    Attributes:
        array: The array.
        offset: In bytes of the array's element, counted in `unit`.
        unit: Bytes of an element of the pointer's type.
        inner: Extents of the dimensions that are not indexed yet, but for the first.
        space: `global`, `shared` or `local`.
        indices: Of the dimensions that are indexed.
        extents: Of a shared array.
        rank: Dimensions that are not indexed yet; 0 for an element.
    """

    array: str
    offset: Polynomial
    unit: int
    inner: tuple[Polynomial, ...] = ()
    space: str = "global"
    indices: tuple[Polynomial, ...] = ()
    extents: tuple[Polynomial | None, ...] = ()
    rank: int = 1

    @property
    def row(self) -> Polynomial:
        """Elements that a step of the next index skips."""
        return product(self.inner) if self.inner else ONE


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure that is a parameter.

    Attributes:
        path: How the source calls it.
    """

    path: str


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """A group of cooperative groups.

    Attributes:
        kind: `block`, `grid` or `tile`.
    """

    kind: str


Value = Polynomial | Pointer | Structure | ThreadGroup


@dataclass
class Found:
    """The state of a symbolic execution."""

    accesses: list[GlobalAccess] = field(default_factory=list)
    shared: list[SharedAccess] = field(default_factory=list)
    opaque: dict[str, Opaque] = field(default_factory=dict)
    strides: list[Stride] = field(default_factory=list)
    escaped: set[str] = field(default_factory=set)
    guards: list[IndexBound] = field(default_factory=list)
