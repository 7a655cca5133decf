"""What warps do that change how many registers they have: `setmaxnreg` of PTX, `USETMAXREG` of SASS.

The warps of a block may divide its registers among themselves: those that fetch give some up, those that multiply take
them (PTX ISA, "setmaxnreg"). What warps do is read from the code that they can reach from there, up to the next change.
Names and the order of the text say nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lab.isa.cfg import ControlFlow
from lab.isa.conditions import names
from lab.isa.model import Function, Instruction, InstructionClass
from lab.isa.paths import Paths
from lab.isa.ptx.constants import integer


class Role(StrEnum):
    """What warps do with the registers that they have."""

    PRODUCER = "producer"  # they ask for asynchronous copies into shared memory, and multiply nothing
    CONSUMER = "consumer"  # they reach matrix instructions
    OTHER = "other"  # neither, or code that is called and not known


@dataclass(frozen=True, slots=True)
class WarpRole:
    """Warps between a change of their registers and the next one.

    Attributes:
        role: What they do.
        registers: Registers of a thread; None of warps that keep those of the launch while others change theirs.
        line: Listing line of the change; of warps without a change, of the first instruction that tells their role.
    """

    role: Role
    registers: int | None
    line: int


def warp_roles(function: Function, flow: ControlFlow) -> tuple[WarpRole, ...]:
    """Return the roles of a kernel's warps; empty where none of them change their registers.

    Args:
        function: Of PTX or SASS.
        flow: Its control flow.

    Returns:
        One for each change, in the order of the text. Before them stand warps that fetch or multiply and never change.
    """
    counts = {one.index: count for one in function.instructions if (count := given_registers(one)) is not None}
    if not counts:
        return ()
    paths, own = Paths(function, flow, frozenset(counts)), function.labels.keys()
    kept = tuple(paths.uncut())
    role = _role(kept, own)
    first = () if role is Role.OTHER else (WarpRole(role, None, _telling(kept)),)
    return first + tuple(
        WarpRole(_role(paths.after(place), own), count, function.instructions[place].line)
        for place, count in counts.items()
    )


_CHANGES: Final = ("setmaxnreg.", "USETMAXREG.")
_CALLS: Final = frozenset({"call", "CALL"})
_KNOWN_CALLS: Final = frozenset({"vprintf", "__assertfail"})
"""System calls of device code (CUDA, "PTX Writer's Guide to Interoperability"), which neither copy nor multiply."""


def changes_registers(opcode: str) -> bool:
    """Whether an opcode of PTX or SASS changes how many registers warps have."""
    return opcode.startswith(_CHANGES)


def given_registers(instruction: Instruction) -> int | None:
    """Return the registers that an instruction gives a thread; None where it changes none, or in no plain number."""
    if changes_registers(instruction.opcode):
        with suppress(IndexError, ValueError):
            return integer(instruction.operands[-1])
    return None


def _multiplies(instruction: Instruction) -> bool:
    return instruction.cls is InstructionClass.MMA


_SASS_COPIES: Final = ("LDGSTS.", "UTMALDG.", "UBLKCP.S.")
"""`LDGSTS` is `cp.async`, `UTMALDG` a tensor copy from global memory, `UBLKCP.S.G` a bulk copy from there; the first
letter of the latter is where it goes. Read from what nvdisasm 13.5 prints of such PTX."""


def _fetches(instruction: Instruction) -> bool:
    """Whether it asks for an asynchronous copy into shared memory: `cp.async.ca.shared.global`, `UTMALDG.2D`."""
    if instruction.cls not in {InstructionClass.CP_ASYNC, InstructionClass.BULK_COPY}:
        return False
    opcode = instruction.opcode
    if opcode.startswith(_SASS_COPIES):
        return True
    spaces = [word for word in opcode.split(".") if word.startswith(("shared", "global"))]
    return opcode.startswith("cp.async.") and len(spaces) > 1 and spaces[0].startswith("shared")


def _role(reached: Iterable[Instruction], own: Collection[str]) -> Role:
    """The role of warps that execute these.

    Args:
        reached: What they reach.
        own: Labels of the function.
    """
    found = tuple(reached)
    if any(map(_multiplies, found)):
        return Role.CONSUMER
    if any(_calls_unknown(one, own) for one in found):
        return Role.OTHER
    return Role.PRODUCER if any(map(_fetches, found)) else Role.OTHER


def _calls_unknown(instruction: Instruction, own: Collection[str]) -> bool:
    """Whether it calls what may multiply: not what prints or ends, nor a routine that ptxas put behind a kernel."""
    if instruction.opcode.partition(".")[0] not in _CALLS:
        return False
    called = {name for operand in instruction.operands for name in names(operand)}
    return not called & _KNOWN_CALLS and not called.intersection(own)


def _telling(reached: Iterable[Instruction]) -> int:
    return min(one.line for one in reached if _multiplies(one) or _fetches(one))
