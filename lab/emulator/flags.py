"""Which volatile reads are of flags: their values decide where threads go, and another thread's write is waited for.

A volatile access orders nothing. That is what a thread wants of a flag that it polls, or looks at once before it takes
another way. A volatile read whose value is computed with, stored or used as an address is one of data, and needs a
barrier or a fence like any other. The text of a program tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from lab.emulator.control import CodeBlock
from lab.emulator.definedness import Definedness
from lab.emulator.memory.order import VOLATILE, order_of
from lab.isa.model import Instruction

FlagUse = Literal["polled", "looked at"]
"""What a volatile read does with a flag: a loop ends, or begins, by its value; or some other branch is taken by it."""

_ELSEWHERE = frozenset({"local", "param"})
_STORES = frozenset({"st", "atom", "red", "cp", "wmma", "stmatrix"})


class FlowGraph(Protocol):
    """What is asked of a program: `lab.emulator.program.Program`."""

    code: list[tuple[int, Instruction]]
    blocks: list[CodeBlock]

    @property
    def priority(self) -> Sequence[int]:
        """Rank of each block: a branch back to a loop's head goes to a lower rank, or to the same one."""

    @property
    def definedness(self) -> Definedness:
        """What instructions read and write."""

    def successors(self, block: CodeBlock) -> list[int]:
        """Return the blocks of the same function that can follow a block."""


@dataclass(slots=True)
class _Uses:
    """What becomes of a loaded value: whether it is data, whether that cannot be told, and branches that it decides."""

    data: bool = False
    unknown: bool = False
    branches: set[int] = field(default_factory=set)


def flag_reads(program: FlowGraph) -> Mapping[int, FlagUse]:
    """Return the volatile reads of flags, by their positions; other volatile reads are of data."""
    reads = {at: _order_level(instruction) for at, (_, instruction) in enumerate(program.code)}
    strong = [at for at, level in reads.items() if level]
    if not any(reads[at] == VOLATILE for at in strong):
        return {}
    uses = {at: _uses_of(program, at) for at in strong}
    loops = [loop for loop in _loops(program) if any(_polls(program, loop, at, uses[at]) for at in strong)]
    found: dict[int, FlagUse] = {}
    for at in strong:
        if reads[at] != VOLATILE:
            continue
        use = uses[at]
        if use.unknown or any(_leaves(program, loop, use) or _enters(program, loop, use) for loop in loops):
            found[at] = "polled"
        elif not use.data:
            found[at] = "looked at"
    return found


def _order_level(instruction: Instruction) -> int:
    """Return the level of a strong read; 0 for other instructions."""
    family, *words = instruction.opcode.split(".")
    if family not in ("ld", "atom"):
        return 0
    return order_of(words, update=family == "atom").level


def _uses_of(program: FlowGraph, position: int) -> _Uses:
    """Follow what a load leaves in registers, in whatever order instructions are executed."""
    number = program.code[position][0]
    inside = [at for at, (function, _) in enumerate(program.code) if function == number]
    held, uses = set(program.definedness.roles(position).writes), _Uses()
    grows = True
    while grows:
        before = len(held)
        for at in inside:
            _follow(program, at, held, uses)
        grows = len(held) > before
    return uses


def _follow(program: FlowGraph, at: int, held: set[str], uses: _Uses) -> None:
    """Add what one instruction does with the values in registers."""
    instruction, roles = program.code[at][1], program.definedness.roles(at)
    family, *words = instruction.opcode.split(".")
    guarded = instruction.predicate in held
    if family in ("bra", "brx"):
        if guarded or not held.isdisjoint(roles.reads):
            uses.branches.add(at)
        return
    if not held.isdisjoint(roles.addresses):
        uses.data = True
    if not (guarded or not held.isdisjoint(roles.reads)):
        return
    if family == "call" or (family == "st" and not _ELSEWHERE.isdisjoint(words)):
        uses.unknown = True
    elif family in _STORES:
        uses.data = True
    if family != "ld":
        held.update(roles.writes)


# --- loops ------------------------------------------------------------------------------------------------------------


def _loops(program: FlowGraph) -> list[frozenset[int]]:
    """Return the blocks of each loop: those from its head to the last branch back to it, in the program's order."""
    ranks = program.priority
    last: dict[int, int] = {}
    for block in program.blocks:
        for target in program.successors(block):
            if ranks[target] <= ranks[block.index] < len(program.blocks):
                last[target] = max(last.get(target, 0), ranks[block.index])
    return [
        frozenset(
            block.index
            for block in program.blocks
            if block.function == program.blocks[head].function and ranks[head] <= ranks[block.index] <= end
        )
        for head, end in last.items()
    ]


def _polls(program: FlowGraph, loop: frozenset[int], position: int, uses: _Uses) -> bool:
    """Return whether a loop ends by what a strong read in it reads."""
    inside = any(program.blocks[index].first <= position < program.blocks[index].stop for index in loop)
    return inside and _leaves(program, loop, uses)


def _leaves(program: FlowGraph, loop: frozenset[int], uses: _Uses) -> bool:
    """Return whether a value decides a branch out of a loop."""
    blocks = [block for block in program.blocks if block.end in uses.branches and block.index in loop]
    return any(not loop.issuperset(program.successors(block)) for block in blocks)


def _enters(program: FlowGraph, loop: frozenset[int], uses: _Uses) -> bool:
    """Return whether a value decides a branch into a loop: compilers take the first round out of a loop."""
    for block in program.blocks:
        if block.end not in uses.branches or block.index in loop:
            continue
        targets = program.successors(block)
        further = [index for target in targets for index in program.successors(program.blocks[target])]
        if not loop.isdisjoint([*targets, *further]):
            return True
    return False
