"""Instruction mix of a kernel and of each of its loops (static: instructions in the text)."""

from __future__ import annotations

from dataclasses import dataclass

from lab.isa.model import Isa


@dataclass(frozen=True, slots=True)
class Counts:
    """Instructions in a piece of code.

    Attributes:
        instructions: All of them (padding NOPs after the last exit of SASS are not counted).
        by_class: `InstructionClass` value to count; classes that do not occur are absent.
        by_opcode: Full opcode to count.
        load_bytes_shared: Bytes one thread loads from shared memory in one pass over the text.
        load_bytes_global: Bytes one thread loads from global memory in one pass over the text.
    """

    instructions: int
    by_class: dict[str, int]
    by_opcode: dict[str, int]
    load_bytes_shared: int
    load_bytes_global: int


@dataclass(frozen=True, slots=True)
class LoopMix:
    """One natural loop, with everything nested in it.

    Attributes:
        label: The header's label as in the listing (`$L__BB0_3`; SASS: `.L_x_2` or the header's address `0x1e0`).
        depth: 1 for an outermost loop.
        parent: Label of the loop around it, or None.
        hot: True for exactly one loop of a kernel that has loops: see `lab.isa.loops.hot_loop`.
        counts: Of the whole body, nested loops included.
        first_line: First listing line of the header block.
        last_line: Last listing line of the body.
        lines: The listing lines of the body, as closed ranges (a body need not be contiguous).
        live_registers: SASS: most live general-purpose registers within; None in PTX.
    """

    label: str
    depth: int
    parent: str | None
    hot: bool
    counts: Counts
    first_line: int
    last_line: int
    lines: tuple[tuple[int, int], ...]
    live_registers: int | None

    # The three figures of a loop, and bytes loaded per fma, are properties derived from `counts`.


@dataclass(frozen=True, slots=True)
class KernelMix:
    """One kernel: its own counts and its loops, outermost first in listing order."""

    isa: Isa
    name: str
    counts: Counts
    loops: tuple[LoopMix, ...]
    live_registers: int | None
