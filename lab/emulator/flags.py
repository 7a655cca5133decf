"""Volatile reads of flags: reads that control branches while another thread's write is awaited.

A volatile access does not order other accesses. That suffices for a flag that a thread polls, or checks once before a
branch. A volatile read whose value is computed with, stored or used as an address reads data, and needs a barrier or a
fence like any other. The program's text distinguishes the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from lab.emulator.control import CodeBlock
from lab.emulator.uses import FlowGraph, ValueUses, uses_of
from lab.isa.model import Instruction

FlagUse = Literal["polled", "looked at"]
"""The use of a flag: a loop exits or starts by its value, or another branch depends on it."""


_STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio"})
_NO_GUESS = _STRONG | {"param", "local", "const", "nc"}


def flag_reads(program: FlowGraph) -> Mapping[int, FlagUse]:
    """Return the volatile reads of flags, by position; other volatile reads read data."""
    strong = [at for at, (_, instruction) in enumerate(program.code) if _is_strong(instruction)]
    volatile = [at for at in strong if "volatile" in program.code[at][1].opcode.split(".")]
    if not volatile:
        return {}
    uses = {at: uses_of(program, at) for at in strong}
    loops = [loop for loop in _loops(program) if any(_polls(program, loop, at, uses[at]) for at in strong)]
    flags: dict[int, FlagUse] = {}
    for at in volatile:
        use = uses[at]
        if use.unknown or any(_leaves(program, loop, use) or _enters(program, loop, use) for loop in loops):
            flags[at] = "polled"
        elif not use.data:
            flags[at] = "looked at"
    return flags


def _is_strong(instruction: Instruction) -> bool:
    """Return whether an instruction reads memory by anything but a plain load."""
    family, *words = instruction.opcode.split(".")
    return family == "atom" or (family == "ld" and not _STRONG.isdisjoint(words))


# --- loops ------------------------------------------------------------------------------------------------------------


def _loops(program: FlowGraph) -> list[frozenset[int]]:
    """Return each loop's blocks, from its head to its last back edge, in program order."""
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


def _polls(program: FlowGraph, loop: frozenset[int], position: int, uses: ValueUses) -> bool:
    """Return whether a loop's exit depends on a strong read inside it."""
    return _inside(program, loop, position) and _leaves(program, loop, uses)


def _inside(program: FlowGraph, loop: frozenset[int], position: int) -> bool:
    return any(program.blocks[index].first <= position < program.blocks[index].stop for index in loop)


def _leaves(program: FlowGraph, loop: frozenset[int], uses: ValueUses) -> bool:
    """Return whether a value decides a branch out of a loop."""
    blocks = [block for block in program.blocks if block.end in uses.branches and block.index in loop]
    return any(not loop.issuperset(program.successors(block)) for block in blocks)


def _enters(program: FlowGraph, loop: frozenset[int], uses: ValueUses) -> bool:
    """Return whether a value decides a branch into a loop: compilers peel the first iteration."""
    for block in program.blocks:
        if block.end not in uses.branches or block.index in loop:
            continue
        targets = program.successors(block)
        further = [index for target in targets for index in program.successors(program.blocks[target])]
        if not loop.isdisjoint([*targets, *further]):
            return True
    return False


# --- guesses ----------------------------------------------------------------------------------------------------------


def guess_reads(program: FlowGraph) -> frozenset[int]:
    """Return the plain loads that only supply an `atom.cas` comparison value.

    A stale value costs such a loop one iteration: `old = *at; do { seen = old; old = atomicCAS(at, seen, f(seen)); }`.
    """
    swaps = {
        at
        for at, (_, instruction) in enumerate(program.code)
        if instruction.opcode.startswith("atom.") and "cas" in instruction.opcode.split(".")
    }
    if not swaps:
        return frozenset()
    loops = _loops(program)
    innermost = [
        min((loop for loop in loops if _inside(program, loop, at)), key=len, default=frozenset()) for at in swaps
    ]
    inner = {at for loop in innermost for index in loop for at in _positions(program.blocks[index])}
    guesses = set()
    for at in _compared_loads(program, swaps):
        uses = uses_of(program, at)
        checked = bool(uses.compares) and uses.sinks <= inner and uses.branches <= inner
        if checked and not (uses.addresses or uses.unknown or uses.crosses or uses.guards):
            guesses.add(at)
    return frozenset(guesses)


def _compared_loads(program: FlowGraph, swaps: set[int]) -> list[int]:
    """Return the plain loads that can supply an `atom.cas` comparison value, by backward tracing."""
    registers = {(program.code[at][0], program.code[at][1].operands[2]) for at in swaps}
    loads: set[int] = set()
    grows = True
    while grows:
        before = len(registers)
        for at, (number, instruction) in enumerate(program.code):
            roles = program.definedness.roles(at)
            if not any((number, name) in registers for name in roles.writes):
                continue
            family, *words = instruction.opcode.split(".")
            if family == "ld" and _NO_GUESS.isdisjoint(words):
                loads.add(at)
            elif family not in ("ld", "atom", "call"):
                registers.update((number, name) for name in roles.reads)
        grows = len(registers) > before
    return sorted(loads)


def _positions(block: CodeBlock) -> range:
    return range(block.first, block.stop if block.end is None else block.end + 1)
