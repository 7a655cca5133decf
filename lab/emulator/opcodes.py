"""Opcodes and the types that they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

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


_LATER = re.compile(
    r"tcgen05\.|clusterlaunchcontrol\.|.*\.(kind::|block_scale|cta_group::|tile::gather4|tile::scatter4|b4x16_p64|b6x16_p32"
    r"|im2col::w|im2col_no_offs::w)"
)
"""Opcodes and modifiers that begin with sm_100 (PTX ISA, target notes of each instruction)."""


def begins_later(opcode: str) -> bool:
    """Return whether an instruction begins with sm_100; the emulator executes a part of those."""
    return _LATER.match(f"{opcode}.") is not None


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


def chosen_by_sign(op: Opcode) -> tuple[str, str, bool]:
    """Take everything from a `slct`.

    Returns:
        The type of what is chosen, that of the number whose sign decides, and whether its subnormals are flushed.

    Raises:
        UnknownForm: The number is of another type than s32 and f32.
    """
    ftz = op.flag("ftz")
    control = [part for part in op.parts if part in DTYPES][-1]
    if control not in ("s32", "f32"):
        raise UnknownForm(f".{control}")
    op.parts.reverse()
    op.parts.remove(control)
    t = op.type()
    op.finish()
    return t, control, ftz


def element_of(t: str, count: int) -> str:
    """Return the type of each of the parts that `mov` packs into a register, or takes out of one.

    Args:
        t: Type of the register.
        count: Number of parts.

    Raises:
        UnknownForm: There are no such parts.
    """
    if not count:
        raise UnknownForm("a vector without elements")
    bits = 8 * DTYPES[t].itemsize // count
    if t[0] != "b" and t not in ("u32", "u64"):
        raise UnknownForm(f"a vector in .{t}")
    if f"b{bits}" not in DTYPES:
        raise UnknownForm(f"{count} elements of .{t}")
    return f"b{bits}"
