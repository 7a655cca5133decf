"""The table of operations: an opcode's family to the function that builds its NumPy form.

An arithmetic operation becomes an `Alu`: a function that writes its results from its operands, and the types in
which both are seen. The same function serves all threads at once (operands are whole register arrays) and a
part of them (operands are gathered, results scattered), so each operation is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# PTX fundamental and packed types as NumPy sees them. Untyped bits are unsigned; bf16 and packed pairs are bits.
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "pred": "?", "b8": "u1", "u8": "u1", "s8": "i1",
        "b16": "u2", "u16": "u2", "s16": "i2", "f16": "f2", "bf16": "u2",
        "b32": "u4", "u32": "u4", "s32": "i4", "f32": "f4", "tf32": "u4",
        "f16x2": "u4", "bf16x2": "u4", "u16x2": "u4", "s16x2": "u4",
        "b64": "u8", "u64": "u8", "s64": "i8", "f64": "f8", "f32x2": "u8",
    }.items()
}  # fmt: skip


class UnknownForm(Exception):  # noqa: N818  turned into UnsupportedInstruction where the line is known
    """A modifier or form of an operation that is not known."""


class Opcode:
    """An opcode's dot-separated parts, taken one by one so that nothing is ignored."""

    def __init__(self, text: str) -> None:
        """Split; `::` belongs to its part."""
        self.text = text
        self.family, *self.parts = text.split(".")

    def flag(self, name: str) -> bool:
        """Take a modifier if it is there."""
        if name in self.parts:
            self.parts.remove(name)
            return True
        return False

    def one_of(self, names: Sequence[str], default: str | None = None) -> str:
        """Take the first modifier that is one of `names`.

        Raises:
            UnknownForm: none is there and no default is given.
        """
        for part in self.parts:
            if part in names:
                self.parts.remove(part)
                return part
        if default is None:
            raise UnknownForm(f"none of .{', .'.join(names)}")
        return default

    def type(self) -> str:
        """Take the first type among the parts."""
        return self.one_of(tuple(DTYPES))

    def finish(self) -> None:
        """Refuse whatever was not taken.

        Raises:
            UnknownForm: a modifier is left.
        """
        if self.parts:
            raise UnknownForm(f"modifier .{'.'.join(self.parts)}")


@dataclass(frozen=True, slots=True)
class Alu:
    """An operation on registers alone.

    Attributes:
        compute: Called as ``compute(*outs, *ins)``; writes the outs, which may be one of the ins.
        outs: Type of each destination.
        ins: Type of each source. A ufunc's form needs no wrapper: ``compute(out, a, b)``.
    """

    compute: Callable[..., Any]
    outs: tuple[str, ...]
    ins: tuple[str, ...]


ALU: dict[str, Callable[[Opcode, int], Alu]] = {}
"""Family to a builder that takes the opcode and the number of operands written."""


def operation(*families: str) -> Callable[[Callable[[Opcode, int], Alu]], Callable[[Opcode, int], Alu]]:
    """Enter a builder in the table."""

    def enter(build: Callable[[Opcode, int], Alu]) -> Callable[[Opcode, int], Alu]:
        for family in families:
            ALU[family] = build
        return build

    return enter


def from_ufunc(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    """Turn ``f(a, b, out)`` into ``g(out, a, b)``."""

    def one(out: Array, a: Array) -> None:
        ufunc(a, out=out)

    def two(out: Array, a: Array, b: Array) -> None:
        ufunc(a, b, out=out)

    return one if getattr(ufunc, "nin", 2) == 1 else two


def assign(compute: Callable[..., Any]) -> Callable[..., None]:
    """Turn a function that returns its result into one that writes it."""

    def write(out: Array, *ins: Array) -> None:
        out[...] = compute(*ins)

    return write


SYSTEM: dict[str, Callable[..., Callable[[Array | None], None]]] = {}
"""Family to a builder for what needs the machine: memory, lanes of a warp, asynchronous copies.

A builder takes ``(machine, position, op)`` and returns a function of the chosen threads (None for all).
"""


def system(*families: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a builder in the table."""

    def enter(build: Callable[..., Any]) -> Callable[..., Any]:
        for family in families:
            SYSTEM[family] = build
        return build

    return enter
