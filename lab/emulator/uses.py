"""Uses of a loaded value, as far as the text of a program tells."""

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
    """The part of `lab.emulator.program.Program` that shows where values go."""

    code: list[tuple[int, Instruction]]
    blocks: list[CodeBlock]

    @property
    def priority(self) -> Sequence[int]:
        """Rank of each block: a branch back to a loop's head goes to a lower rank, or to the same one."""

    @property
    def definedness(self) -> Definedness:
        """The registers that instructions read and write."""

    def successors(self, block: CodeBlock) -> list[int]:
        """Return the blocks of the same function that can follow a block."""


@dataclass(slots=True)
class ValueUses:
    """The uses of a value in a register, and of what is computed from it.

    Attributes:
        sinks: Stores and atomics that take it, by their positions.
        branches: Branches that it decides.
        compares: `atom.cas` that compare memory with it.
        addresses: It is part of an address.
        crosses: It goes to other lanes, or into a barrier's reduction.
        unknown: It goes to local memory or to a function, where it is not followed.
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
        """Return whether it does more than decide branches."""
        return bool(self.sinks) or self.addresses

    @property
    def only_sinks(self) -> frozenset[int] | None:
        """The sinks, where there are some and nothing else becomes of the value; None otherwise."""
        other = not self.sinks or self.branches or self.addresses or self.crosses or self.unknown or self.guards
        return None if other else frozenset(self.sinks)


def uses_of(program: FlowGraph, position: int) -> ValueUses:
    """Return the uses of what a load leaves in registers, in whatever order instructions are executed."""
    number = program.code[position][0]
    inside = [at for at, (function, _) in enumerate(program.code) if function == number and at != position]
    held, uses = set(program.definedness.roles(position).writes), ValueUses()
    grows = True
    while grows:
        before = len(held)
        for at in inside:
            _follow(program, at, held, uses)
        grows = len(held) > before
    return uses


def _follow(program: FlowGraph, at: int, held: set[str], uses: ValueUses) -> None:
    """Add what one instruction does with the values in registers."""
    instruction, roles = program.code[at][1], program.definedness.roles(at)
    family, *words = instruction.opcode.split(".")
    guarded, read = instruction.predicate in held, not held.isdisjoint(roles.reads)
    if family in ("bra", "brx", "ret", "exit", "trap"):
        if guarded or read:
            uses.branches.add(at)
        return
    uses.addresses |= not held.isdisjoint(roles.addresses)
    if not (guarded or read):
        return
    uses.guards |= guarded
    uses.crosses |= family in _BETWEEN_LANES
    if family == "call" or (family == "st" and not _ELSEWHERE.isdisjoint(words)):
        uses.unknown = True
    elif family in _STORES:
        uses.sinks.add(at)
        if family == "atom" and "cas" in words and instruction.operands[2] in held:
            uses.compares.add(at)
    if family not in ("ld", "atom"):
        held.update(roles.writes)
