"""Opcodes and the types in them."""

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
"""NumPy types of PTX's fundamental and packed types. Untyped bits are unsigned; bf16 and packed pairs are bits."""


_LATER = re.compile(
    r"tcgen05\.|clusterlaunchcontrol\.|.*\.(kind::|block_scale|cta_group::|tile::gather4|tile::scatter4|b4x16_p64|b6x16_p32"
    r"|im2col::w|im2col_no_offs::w)"
)
"""Opcodes and modifiers introduced with sm_100 (PTX ISA, target notes of each instruction)."""


def begins_later(opcode: str) -> bool:
    """Return whether an instruction requires sm_100, which the emulator does not support."""
    return _LATER.match(f"{opcode}.") is not None


class UnknownForm(Exception):  # noqa: N818  turned into UnsupportedInstruction where the line is known
    """Raised for an unsupported modifier or form of an operation."""


class Opcode:
    """An opcode's dot-separated parts. Builders consume them one by one, so that none is ignored.

    Attributes:
        text: The opcode as written.
        family: Its first part, such as `add`.
        parts: The parts not consumed yet; `::` does not separate parts.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.family, *self.parts = text.split(".")

    def flag(self, name: str) -> bool:
        """Consume a modifier; return whether it was present."""
        if name in self.parts:
            self.parts.remove(name)
            return True
        return False

    def one_of(self, names: Sequence[str], default: str | None = None) -> str:
        """Consume the first modifier that is one of `names`.

        Raises:
            UnknownForm: none is present and there is no default.
        """
        for modifier in self.parts:
            if modifier in names:
                self.parts.remove(modifier)
                return modifier
        if default is None:
            raise UnknownForm(f"none of .{', .'.join(names)}")
        return default

    def type(self) -> str:
        """Consume the first type among the parts."""
        return self.one_of(tuple(DTYPES))

    def finish(self) -> None:
        """Check that every part was consumed.

        Raises:
            UnknownForm: a modifier is left.
        """
        if self.parts:
            raise UnknownForm(f"modifier .{'.'.join(self.parts)}")


def chosen_by_sign(op: Opcode) -> tuple[str, str, bool]:
    """Consume all parts of a `slct`.

    Returns:
        The type of the selected value, the type of the control operand, and whether its subnormals are flushed.

    Raises:
        UnknownForm: The control operand is neither s32 nor f32.
    """
    ftz = op.flag("ftz")
    control = [modifier for modifier in op.parts if modifier in DTYPES][-1]
    if control not in ("s32", "f32"):
        raise UnknownForm(f".{control}")
    op.parts.reverse()
    op.parts.remove(control)
    t = op.type()
    op.finish()
    return t, control, ftz


def element_of(t: str, count: int) -> str:
    """Return the element type that `mov` packs into, or unpacks from, a register.

    Args:
        t: Type of the register.
        count: Number of parts.

    Raises:
        UnknownForm: The register has no such elements.
    """
    if not count:
        raise UnknownForm("a vector without elements")
    bits = 8 * DTYPES[t].itemsize // count
    if t[0] != "b" and t not in ("u32", "u64"):
        raise UnknownForm(f"a vector in .{t}")
    if f"b{bits}" not in DTYPES:
        raise UnknownForm(f"{count} elements of .{t}")
    return f"b{bits}"
