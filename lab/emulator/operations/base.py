"""Operations on registers: the table from an opcode's family to the builder of its NumPy form.

An arithmetic operation becomes an `Alu`: a function that writes its results from its operands, and the types of both.
The same function serves all threads at once (operands are whole register arrays) and a part of them (operands are
gathered, results scattered), so each operation is written once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.emulator.arrays import Values
from lab.emulator.opcodes import Opcode


@dataclass(frozen=True, slots=True)
class Alu:
    """An operation on registers alone.

    PTX's arithmetic yields one NaN, the canonical one. The compiled engine makes results canonical only where their
    bits are used: until then they are loose.

    Attributes:
        compute: Called as ``compute(*outs, *ins)`` with arrays of (count,) or, for sources, (1,) elements. It writes
            the outs; a single out may be one of the ins.
        outs: PTX type of each destination.
        ins: PTX type of each source.
        loose: A NaN among the results stands for the canonical one.
        tolerant: A source may be such a NaN.
        copies: The result is the source: it is loose where the source is.
    """

    compute: Callable[..., Any]
    outs: tuple[str, ...]
    ins: tuple[str, ...]
    loose: bool = False
    tolerant: bool = False
    copies: bool = False


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
