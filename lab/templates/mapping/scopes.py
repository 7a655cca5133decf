"""Scopes: the unit that a thread number counts and the whole it belongs to, and the matching launches.

``warp in block`` says that the thread dimensions of a mapping number the warps of a block, and that the mapping shares
out data of that block. Numbers are linear: x counts first, then y, then z. In ``thread in grid xy`` and ``thread in
grid xyz`` they run along the rows of the whole grid, across the edges of blocks. A warp has 32 threads; where a mapping
in the scope ``thread in warp`` has fewer, a power of two, the tiles of that size that cooperative groups form take the
place of warps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from lab.base.errors import UserError
from lab.base.warp import WARP_SIZE

Unit = Literal["thread", "warp", "block", "grid"]

BLOCK_THREADS: Final = 1024
"""The most threads of a block (CUDA C++ Programming Guide, "Compute Capabilities", technical specifications)."""

_WITHIN: Final[Mapping[Unit, tuple[Unit, ...]]] = {
    "thread": ("warp", "block", "grid"),
    "warp": ("block", "grid"),
    "block": ("grid",),
}


@dataclass(frozen=True)
class ThreadScope:
    """The meaning of a mapping's thread dimensions.

    Attributes:
        unit: What they count: threads, warps or blocks.
        whole: What the data belongs to that is shared out.
        axes: Axes along which the threads of a grid are counted in rows of the whole grid.
    """

    unit: Unit
    whole: Unit
    axes: int = 1

    def __str__(self) -> str:
        """Return the scope's name, such as `thread in block`."""
        return f"{self.unit} in {self.whole} {'xyz'[: self.axes] if self.axes > 1 else ''}".rstrip()


@dataclass(frozen=True)
class LaunchShape:
    """Blocks of a grid and threads of a block, along x, y, z.

    Attributes:
        grid: Blocks.
        block: Threads.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block)


Level = tuple[ThreadScope, int]
"""A scope and the number of its units in the mapping. Levels are ordered from the outermost."""

SCOPES: Final = {
    str(scope): scope
    for scope in (
        *(ThreadScope(unit, whole) for unit in _WITHIN for whole in _WITHIN[unit]),
        *(ThreadScope("thread", "grid", axes) for axes in (2, 3)),
    )
}
"""All scopes by name."""


def check_level(scope: ThreadScope, units: int) -> None:
    """Check that a mapping does not exceed the units of any launch in this scope.

    Raises:
        UserError: It says how many there may be.
    """
    if scope.whole == "warp":
        wrong, accepted = units > WARP_SIZE or units & (units - 1) != 0, f"a power of two up to {WARP_SIZE}"
    else:  # tiles may be single threads: how many of them are too many is known with the inner mapping alone
        wrong, accepted = scope == SCOPES["thread in block"] and units > BLOCK_THREADS, f"at most {BLOCK_THREADS}"
    if wrong:
        message = f"a {scope.whole} does not have {units} {scope.unit}s"
        raise UserError(message, code="mismatch", key=str(scope), found=units, accepted=accepted)


def check_composition(levels: Sequence[Level]) -> None:
    """Check that levels nest and that their threads fit into a block.

    Raises:
        UserError: It says which scope must follow, or how many threads a block has.
    """
    for (outer, _), (inner, _) in pairwise(levels):
        if inner.whole != outer.unit:
            fitting = ", ".join(name for name, scope in SCOPES.items() if scope.whole == outer.unit)
            raise UserError(
                f"the mapping before gives data to each {outer.unit}, and this one shares out that of a {inner.whole}",
                code="conflict",
                found=str(inner),
                accepted=fitting or "no further mapping: a thread is not divided",
            )
    for scope, units in levels:
        threads = units * tile_of(levels) if scope == SCOPES["warp in block"] else 0
        if threads > BLOCK_THREADS:
            raise UserError(
                f"{units} warps of {tile_of(levels)} threads are too many for a block",
                code="out-of-range",
                key=str(scope),
                found=f"{threads} threads",
                accepted=f"at most {BLOCK_THREADS}",
            )


def tile_of(levels: Sequence[Level]) -> int:
    """Return the threads per warp, or per tile in its place."""
    return next((units for scope, units in levels if scope.whole == "warp"), WARP_SIZE)


def check_launch(levels: Sequence[Level], shape: LaunchShape) -> None:
    """Check that a launch has the mapping's number of units in each scope.

    With more of them, two would be given the same elements; with fewer, elements would be left out.

    Raises:
        UserError: It names the scope, what the launch has and what the mapping needs.
    """
    tile = tile_of(levels)
    for scope, units in levels:
        if "warp" in (scope.unit, scope.whole) and shape.threads % tile:
            raise UserError(
                f"{scope} needs blocks of whole warps",
                code="mismatch",
                key="block",
                found=f"{shape.threads} threads",
                accepted=f"a multiple of {tile}",
            )
        flat = scope.unit == "block" or scope.whole != "grid"
        for name, sizes in (("grid", shape.grid), ("block", shape.block)):
            if not flat and any(size != 1 for size in sizes[scope.axes :]):
                raise UserError(
                    f"{scope} needs a launch along {' and '.join('xyz'[: scope.axes])} alone",
                    code="unsupported",
                    key=name,
                    found=",".join(map(str, sizes)),
                    accepted=f"{' = '.join('xyz'[scope.axes :])} = 1; or block in grid: … then thread in block: …",
                )
        count = units_of(scope, shape, tile)
        if count != units:
            raise UserError(
                f"{scope}: the mapping has {units} {scope.unit}s, and the launch has {count} in a {scope.whole}",
                code="mismatch",
                key="grid" if scope.unit == "block" else "block",
                found=count,
                accepted=str(units),
            )


def units_of(scope: ThreadScope, shape: LaunchShape, tile: int) -> int:
    """Count the units per whole of a launch."""
    return _threads_of(scope.whole, shape, tile) // _threads_of(scope.unit, shape, tile)


def wholes_of(scope: ThreadScope, shape: LaunchShape, tile: int) -> int:
    """Count the wholes of a launch, each with units numbered from 0."""
    return _threads_of("grid", shape, tile) // _threads_of(scope.whole, shape, tile)


def _threads_of(unit: Unit, shape: LaunchShape, tile: int) -> int:
    return {"thread": 1, "warp": tile, "block": shape.threads, "grid": shape.blocks * shape.threads}[unit]


_THREAD: Final = "(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z))"
_ROWS: Final = tuple(f"(threadIdx.{axis} + blockDim.{axis} * blockIdx.{axis})" for axis in "xyz")
_BLOCK: Final = "(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z))"


def number(levels: Sequence[Level]) -> str:
    """Return the CUDA expression of the thread number t, an `int`.

    In a composition, the units of the innermost scope count first.
    """
    tile, text, below = tile_of(levels), "", 1
    for scope, units in reversed(levels):
        own = {
            "thread in warp": f"({_THREAD} & {tile - 1})",
            "thread in block": _THREAD,
            "thread in grid": _ROWS[0],
            "thread in grid xy": f"({_ROWS[0]} + gridDim.x * blockDim.x * {_ROWS[1]})",
            "thread in grid xyz": (
                f"({_ROWS[0]} + gridDim.x * blockDim.x * ({_ROWS[1]} + gridDim.y * blockDim.y * {_ROWS[2]}))"
            ),
            "warp in block": f"({_THREAD} / {tile})",
            "warp in grid": f"({_ROWS[0]} / {tile})",
            "block in grid": _BLOCK,
        }[str(scope)]
        text = f"{text} + {own} * {below}" if text else own
        below *= units
    return f"(int)({text})"
