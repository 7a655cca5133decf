"""Uses of a loaded value, from static analysis of the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lab.emulator.control import CodeBlock
from lab.emulator.definedness import Definedness
from lab.isa.model import Instruction

_ELSEWHERE = frozenset({"local", "param"})
_STORES = frozenset({"st", "atom", "red", "cp", "wmma", "stmatrix"})
_BETWEEN_LANES = frozenset(
    {"shfl", "vote", "match", "redux", "elect", "mma", "wmma", "wgmma", "movmatrix", "bar", "barrier"}
)


class FlowGraph(Protocol):
    """The part of `lab.emulator.program.Program` needed for dataflow analysis."""

    code: list[tuple[int, Instruction]]
    blocks: list[CodeBlock]

    @property
    def priority(self) -> Sequence[int]:
        """The rank of each block: a back edge goes to a lower rank or the same one."""

    @property
    def definedness(self) -> Definedness:
        """The registers that instructions read and write."""

    def successors(self, block: CodeBlock) -> list[int]:
        """Return the successors of a block within its function."""


@dataclass(slots=True)
class ValueUses:
    """The uses of a register's value, and of values computed from it.

    Attributes:
        sinks: Stores and atomics that use it, by position.
        branches: Branches that it decides.
        compares: `atom.cas` that compare memory with it.
        addresses: It is part of an address.
        crosses: It goes to other lanes, or into a barrier's reduction.
        unknown: It goes to local memory or to a function, where it is not tracked.
        guards: It is the guard of an instruction other than a branch.
    """

    sinks: set[int] = field(default_factory=set)
    branches: set[int] = field(default_factory=set)
    compares: set[int] = field(default_factory=set)
    addresses: bool = False
    crosses: bool = False
    unknown: bool = False
    guards: bool = False

    @property
    def data(self) -> bool:
        """Return whether it is used as data or address, beyond branches."""
        return bool(self.sinks) or self.addresses

    @property
    def only_sinks(self) -> frozenset[int] | None:
        """The sinks, if they are the only uses of the value; None otherwise."""
        has_other_uses = (
            not self.sinks or self.branches or self.addresses or self.crosses or self.unknown or self.guards
        )
        return None if has_other_uses else frozenset(self.sinks)


def uses_of(program: FlowGraph, position: int) -> ValueUses:
    """Return the uses of a load's results, independent of execution order."""
    number = program.code[position][0]
    inside = [at for at, (function, _) in enumerate(program.code) if function == number and at != position]
    registers, uses = set(program.definedness.roles(position).writes), ValueUses()
    grows = True
    while grows:
        before = len(registers)
        for at in inside:
            _follow(program, at, registers, uses)
        grows = len(registers) > before
    return uses


def _follow(program: FlowGraph, at: int, registers: set[str], uses: ValueUses) -> None:
    """Add one instruction's uses of the values in registers."""
    instruction, roles = program.code[at][1], program.definedness.roles(at)
    family, *words = instruction.opcode.split(".")
    guarded, reads = instruction.predicate in registers, not registers.isdisjoint(roles.reads)
    if family in ("bra", "brx", "ret", "exit", "trap"):
        if guarded or reads:
            uses.branches.add(at)
        return
    uses.addresses |= not registers.isdisjoint(roles.addresses)
    if not (guarded or reads):
        return
    uses.guards |= guarded
    uses.crosses |= family in _BETWEEN_LANES
    if family == "call" or (family == "st" and not _ELSEWHERE.isdisjoint(words)):
        uses.unknown = True
    elif family in _STORES:
        uses.sinks.add(at)
        if family == "atom" and "cas" in words and instruction.operands[2] in registers:
            uses.compares.add(at)
    if family not in ("ld", "atom"):
        registers.update(roles.writes)
