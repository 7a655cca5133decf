"""The table of register operations, from opcode family to the builder of its NumPy form.

An arithmetic operation becomes an `Alu`: a function that computes its results from its operands, and the types of both.
The same function handles all threads at once (operands are whole register arrays) and a subset (operands are gathered,
results scattered), so each operation is written once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.emulator.arrays import Values
from lab.emulator.opcodes import Opcode


@dataclass(frozen=True, slots=True)
class Alu:
    """A register-only operation.

    PTX arithmetic only produces the canonical NaN. The compiled engine canonicalises results only where their bits
    are used: until then they are loose.

    Attributes:
        compute: Called as ``compute(*outs, *ins)`` with arrays of (count,) or, for sources, (1,) elements. It writes
            the outs; a single out may be one of the ins.
        outs: PTX type of each destination.
        ins: PTX type of each source.
        loose: The results may contain NaNs other than the canonical one.
        tolerant: The sources may contain such NaNs.
        copies: The result is the source: it is loose where the source is.
    """

    compute: Callable[..., Any]
    outs: tuple[str, ...]
    ins: tuple[str, ...]
    loose: bool = False
    tolerant: bool = False
    copies: bool = False


AluBuilder = Callable[[Opcode, int], Alu]
"""Builds an operation from its opcode and the number of operands."""

ALU: dict[str, AluBuilder] = {}
"""Builders by family. `operations.table` completes the table."""


def operation(*families: str) -> Callable[[AluBuilder], AluBuilder]:
    """Register a builder in `ALU`."""

    def enter(build: AluBuilder) -> AluBuilder:
        for family in families:
            ALU[family] = build
        return build

    return enter


def from_ufunc(ufunc: Callable[..., Any]) -> Callable[..., None]:
    """Convert ``f(a, b, out=out)`` to ``g(out, a, b)``, for a function of one or two arrays."""

    def unary(out: Values, a: Values) -> None:
        ufunc(a, out=out)

    def binary(out: Values, a: Values, b: Values) -> None:
        ufunc(a, b, out=out)

    return unary if getattr(ufunc, "nin", 2) == 1 else binary


def assign(compute: Callable[..., Any]) -> Callable[..., None]:
    """Convert a function that returns its result to one that writes it to its first argument."""

    def write(out: Values, *ins: Values) -> None:
        out[...] = compute(*ins)

    return write
