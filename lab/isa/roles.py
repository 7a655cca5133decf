"""Warp specialisation: roles of warps that change their register count (`setmaxnreg` of PTX, `USETMAXREG` of SASS).

The warps of a block may redistribute its registers: producer warps release some, consumer warps acquire them (PTX ISA,
"setmaxnreg"). A role follows from the code reachable after a change, up to the next change, not from names or the
order of the text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lab.isa.cfg import ControlFlow
from lab.isa.invariant_predicates import names
from lab.isa.model import Function, Instruction, InstructionClass
from lab.isa.paths import Paths
from lab.isa.ptx.constants import integer


class Role(StrEnum):
    """The role of a warp: producer or consumer."""

    PRODUCER = "producer"  # issue asynchronous copies into shared memory, no matrix instructions
    CONSUMER = "consumer"  # reach matrix instructions
    OTHER = "other"  # neither, or they call unknown code


@dataclass(frozen=True, slots=True)
class WarpRole:
    """The role of warps between two changes of their register count.

    Attributes:
        role: Their role.
        registers: Registers per thread; None for warps that keep the launch's count while others change theirs.
        line: Listing line of the change; for warps without a change, the first instruction that shows their role.
    """

    role: Role
    registers: int | None
    line: int


def warp_roles(function: Function, flow: ControlFlow) -> tuple[WarpRole, ...]:
    """Return the roles of a kernel's warps; empty if none of them changes its register count.

    Args:
        function: Of PTX or SASS.
        flow: Its control flow.

    Returns:
        One per change, in listing order. Producer or consumer warps that never change their count come first.
    """
    counts = {
        instruction.index: count
        for instruction in function.instructions
        if (count := given_registers(instruction)) is not None
    }
    if not counts:
        return ()
    paths, labels = Paths(function, flow, frozenset(counts)), function.labels.keys()
    uncut = tuple(paths.uncut())
    role = _role(uncut, labels)
    first = () if role is Role.OTHER else (WarpRole(role, None, _telling(uncut)),)
    return first + tuple(
        WarpRole(_role(paths.after(place), labels), count, function.instructions[place].line)
        for place, count in counts.items()
    )


_CHANGES: Final = ("setmaxnreg.", "USETMAXREG.")
_CALLS: Final = frozenset({"call", "CALL"})
_KNOWN_CALLS: Final = frozenset({"vprintf", "__assertfail"})
"""System calls of device code (CUDA, "PTX Writer's Guide to Interoperability"): no copies, no matrix instructions."""


def changes_registers(opcode: str) -> bool:
    """Return whether an opcode of PTX or SASS changes the register count of warps."""
    return opcode.startswith(_CHANGES)


def given_registers(instruction: Instruction) -> int | None:
    """Return the register count an instruction sets per thread; None if it sets none or the operand is not a number."""
    if changes_registers(instruction.opcode):
        with suppress(IndexError, ValueError):
            return integer(instruction.operands[-1])
    return None


def _multiplies(instruction: Instruction) -> bool:
    return instruction.cls is InstructionClass.MMA


_SASS_COPIES: Final = ("LDGSTS.", "UTMALDG.", "UBLKCP.S.")
"""`LDGSTS` is `cp.async`, `UTMALDG` a TMA load, `UBLKCP.S.G` a bulk copy from global memory; its first letter names
the destination. Taken from the output of nvdisasm 13.5 for such PTX."""


def _fetches(instruction: Instruction) -> bool:
    """Return whether it is an asynchronous copy into shared memory: `cp.async.ca.shared.global`, `UTMALDG.2D`."""
    if instruction.cls not in {InstructionClass.CP_ASYNC, InstructionClass.BULK_COPY}:
        return False
    opcode = instruction.opcode
    if opcode.startswith(_SASS_COPIES):
        return True
    spaces = [word for word in opcode.split(".") if word.startswith(("shared", "global"))]
    return opcode.startswith("cp.async.") and len(spaces) > 1 and spaces[0].startswith("shared")


def _role(reached: Iterable[Instruction], labels: Collection[str]) -> Role:
    """Return the role of warps that execute some instructions.

    Args:
        reached: The instructions that the warps can reach.
        labels: Labels of the function.
    """
    instructions = tuple(reached)
    if any(map(_multiplies, instructions)):
        return Role.CONSUMER
    if any(_calls_unknown(instruction, labels) for instruction in instructions):
        return Role.OTHER
    return Role.PRODUCER if any(map(_fetches, instructions)) else Role.OTHER


def _calls_unknown(instruction: Instruction, labels: Collection[str]) -> bool:
    """Return whether it calls unknown code: not printf or an assertion, nor a subroutine of its own section."""
    if instruction.opcode.partition(".")[0] not in _CALLS:
        return False
    called = {name for operand in instruction.operands for name in names(operand)}
    return not called & _KNOWN_CALLS and not called.intersection(labels)


def _telling(reached: Iterable[Instruction]) -> int:
    return min(instruction.line for instruction in reached if _multiplies(instruction) or _fetches(instruction))
