"""Approximate instructions and the largest errors that PTX ISA documents for them.

The emulator computes them nearly exactly. A GPU need not: a result that passes with exact ones may miss its tolerance
there. So a launch can be executed with each result displaced by the whole documented error, up or down at random.

PTX ISA 8.7, sections "div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2" and "tanh". For rcp and rsqrt in float64
it documents none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Doubles, Mask
from lab.emulator.binding import OperandBinder
from lab.emulator.lanes import Lanes
from lab.emulator.program import Program

_ULP: Final = 2.0**-23
"""An ulp of float32 relative to a value, at most."""

ErrorBound = Callable[[Doubles, Doubles], Doubles]
"""From the operand and the result, (count,) each, to the largest absolute error."""


def _relative(error: float) -> ErrorBound:
    return lambda _, y: error * np.abs(y)


def _absolute(error: float) -> ErrorBound:
    return lambda _, y: np.full(y.shape, error)


def _periodic(x: Doubles, y: Doubles) -> Doubles:
    """Sine and cosine: an absolute bound within two periods about 0, a relative one beyond."""
    return np.where(np.abs(x) <= 2 * np.pi, 2.0**-20.5, 2.0**-14.7 * np.abs(y))


def _logarithm(x: Doubles, y: Doubles) -> Doubles:
    return np.where((x > 0.5) & (x < 2), 2.0**-22, 2.0**-22 * np.abs(y))  # noqa: PLR2004 - as the ISA has it


_BOUNDS: Final[dict[tuple[str, str], ErrorBound]] = {
    ("div", "f32"): _relative(2 * _ULP),
    ("rcp", "f32"): _relative(_ULP),
    ("sqrt", "f32"): _relative(2.0**-23),
    ("rsqrt", "f32"): _relative(2.0**-22.9),
    ("sin", "f32"): _periodic,
    ("cos", "f32"): _periodic,
    ("lg2", "f32"): _logarithm,
    ("ex2", "f32"): _relative(2 * _ULP),
    ("tanh", "f32"): _relative(2.0**-11),
    ("ex2", "f16"): _relative(2.0**-9.9),
    ("ex2", "bf16"): _relative(2.0**-7),
    ("tanh", "f16"): _absolute(2.0**-10.987),
    ("tanh", "bf16"): _absolute(2.0**-8),
}
"""By family and element type."""


def bound_of(opcode: str) -> ErrorBound | None:
    """Return the documented bound of an approximate instruction; None for any other one."""
    family, *words = opcode.split(".")
    if "approx" not in words and not (family == "div" and "full" in words):
        return None
    return _BOUNDS.get((family, words[-1].removesuffix("x2")))


def approximate_positions(program: Program) -> tuple[int, ...]:
    """Return the positions of the instructions whose results have a documented error."""
    return tuple(i for i, (_, one) in enumerate(program.code) if bound_of(one.opcode) is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """The errors of the approximate instructions of a launch.

    Attributes:
        signs: Draws their signs.
        displaced: Positions of the instructions that have one; None for all.
    """

    signs: np.random.Generator
    displaced: Collection[int] | None = None

    @classmethod
    def of(cls, seed: int | None, displaced: Collection[int] | None) -> Self | None:
        """Return errors with a seed; None without one."""
        return None if seed is None else cls(np.random.default_rng(seed), displaced)

    def around(
        self, binder: OperandBinder, position: int, part: Callable[[Lanes], Any]
    ) -> Callable[[Lanes], None] | None:
        """Return an instruction that has an error; None for one that has none.

        Args:
            binder: Reads and writes the instruction's operands.
            position: Index of the instruction.
            part: Executes it without an error.
        """
        opcode, texts = binder.instruction.opcode, binder.instruction.operands
        bound = bound_of(opcode)
        if bound is None or (self.displaced is not None and position not in self.displaced):
            return None
        kind = opcode.rpartition(".")[2]
        stored = "f32" if kind == "f32" else f"b{32 if kind.endswith('x2') else 16}"
        operand, result = binder.source(texts[1], stored), binder.source(texts[0], stored)
        write, signs = binder.target(texts[0], stored), self.signs

        def displaced(lanes: Lanes) -> None:
            x = _widened(np.broadcast_to(operand(lanes), (lanes.count,)).copy(), kind)
            part(lanes)
            held = np.broadcast_to(result(lanes), (lanes.count,)).copy()
            y = _widened(held, kind)
            with np.errstate(all="ignore"):
                moved = y + bound(x, y) * signs.choice((-1.0, 1.0), y.shape)
            exact: Mask = ~np.isfinite(y) | (y == 0) | ~np.isfinite(moved)
            write(lanes, _narrowed(np.where(exact, y, moved), kind))

        return displaced


def _widened(held: NDArray[Any], kind: str) -> Doubles:
    """Return stored elements as float64; of pairs, (2 * count,)."""
    if kind == "f32":
        return held.astype(np.float64)
    halves = np.ascontiguousarray(held).view(np.uint16)
    if kind.startswith("bf16"):
        return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return halves.view(np.float16).astype(np.float64)


def _narrowed(values: Doubles, kind: str) -> NDArray[Any]:
    """Return float64 values as they are stored."""
    if kind == "f32":
        return values.astype(np.float32)
    if kind.startswith("bf16"):
        bits = values.astype(np.float32).view(np.uint32)
        halves = ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(
            np.uint16
        )
    else:
        halves = values.astype(np.float16).view(np.uint16)
    return halves.view(np.uint32) if kind.endswith("x2") else halves
