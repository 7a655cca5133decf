"""Operations on registers as LLVM IR: the table from an opcode's family to the builder of its vector form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.emulator.compiled.ir import Code
from lab.emulator.opcodes import Opcode

Emit = Callable[[Code, Sequence[str]], Sequence[str]]
"""Writes an operation: from the names of its sources to the names of its results."""


@dataclass(frozen=True, slots=True)
class Form:
    """An operation on registers alone, as vectors of 32 lanes.

    PTX's arithmetic yields one NaN, the canonical one. To make it so after every operation is dear, and only a look at
    the bits can tell: so such results are marked, and made canonical where their bits are used.

    Attributes:
        emit: Writes the operation.
        outs: PTX type of each destination.
        ins: PTX type of each source.
        loose: A NaN among the results stands for the canonical one.
        tolerant: A source may be such a NaN.
        copies: The result is the source: it is loose where the source is.
    """

    emit: Emit
    outs: tuple[str, ...]
    ins: tuple[str, ...]
    loose: bool = False
    tolerant: bool = False
    copies: bool = False


FormBuilder = Callable[[Opcode, int], Form]
"""Builds an operation from its opcode and the number of operands written."""

FORMS: dict[str, FormBuilder] = {}
"""Family to builder. `lab.emulator.compiled.decoding` has it complete."""


def form(*families: str) -> Callable[[FormBuilder], FormBuilder]:
    """Enter a builder in the table `FORMS`."""

    def enter(build: FormBuilder) -> FormBuilder:
        for family in families:
            FORMS[family] = build
        return build

    return enter


def one(write: Callable[..., str]) -> Emit:
    """Turn a function of the code and the sources that returns one result into `Emit`."""
    return lambda code, ins: (write(code, *ins),)
