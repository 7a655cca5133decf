"""Operations on registers: types, opcodes, and the table from an opcode's family to the builder of its NumPy form.

An arithmetic operation becomes an `Alu`: a function that writes its results from its operands, and the types of both.
The same function serves all threads at once (operands are whole register arrays) and a part of them (operands are
gathered, results scattered), so each operation is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.emulator.arrays import Values

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
"""PTX's fundamental and packed types to NumPy's. Untyped bits are unsigned; bf16 and packed pairs are bits."""


class UnknownForm(Exception):  # noqa: N818  turned into UnsupportedInstruction where the line is known
    """A modifier or form of an operation that the emulator does not know."""


class Opcode:
    """An opcode's dot-separated parts. Builders take them one by one, so that none is ignored.

    Attributes:
        text: The opcode as written.
        family: Its first part, such as `add`.
        parts: The parts that have not been taken yet; `::` belongs to its part.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.family, *self.parts = text.split(".")

    def flag(self, name: str) -> bool:
        """Take a modifier; return whether it was there."""
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
        """Check that every part was taken.

        Raises:
            UnknownForm: a modifier is left.
        """
        if self.parts:
            raise UnknownForm(f"modifier .{'.'.join(self.parts)}")


@dataclass(frozen=True, slots=True)
class Alu:
    """An operation on registers alone.

    Attributes:
        compute: Called as ``compute(*outs, *ins)`` with arrays of (count,) or, for sources, (1,) elements. It writes
            the outs; a single out may be one of the ins.
        outs: PTX type of each destination.
        ins: PTX type of each source.
    """

    compute: Callable[..., Any]
    outs: tuple[str, ...]
    ins: tuple[str, ...]


AluBuilder = Callable[[Opcode, int], Alu]
"""Builds an operation from its opcode and the number of operands written."""

ALU: dict[str, AluBuilder] = {}
"""Family to builder. `operations.table` has it complete."""


def operation(*families: str) -> Callable[[AluBuilder], AluBuilder]:
    """Enter a builder in the table `ALU`."""

    def enter(build: AluBuilder) -> AluBuilder:
        for family in families:
            ALU[family] = build
        return build

    return enter


def from_ufunc(ufunc: Callable[..., Any]) -> Callable[..., None]:
    """Turn ``f(a, b, out=out)`` into ``g(out, a, b)``, for a function of one or two arrays."""

    def one(out: Values, a: Values) -> None:
        ufunc(a, out=out)

    def two(out: Values, a: Values, b: Values) -> None:
        ufunc(a, b, out=out)

    return one if getattr(ufunc, "nin", 2) == 1 else two


def assign(compute: Callable[..., Any]) -> Callable[..., None]:
    """Turn a function that returns its result into one that writes it to its first argument."""

    def write(out: Values, *ins: Values) -> None:
        out[...] = compute(*ins)

    return write
