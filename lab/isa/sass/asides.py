"""Instructions of SASS beside the path that every warp takes, in kernels with bulk copies.

One warp of a block asks for a bulk copy, behind a branch that the others take. And where a wait for an mbarrier fails
at its first try, ptxas spins in a block of its own behind the kernel's last instruction; a loop's body contains it.
"""

from __future__ import annotations

from lab.isa.model import Function, Instruction, InstructionClass

_EVERYONES = frozenset({InstructionClass.FMA, InstructionClass.MMA})
_WAIT = "SYNCS.PHASECHK"


def asides(function: Function) -> frozenset[int]:
    """Indices of the instructions that one warp of a block issues, and of those that spin."""
    return elected(function) | spins(function)


def elected(function: Function) -> frozenset[int]:
    """Indices of what stands with a bulk copy behind the nearest forward branch around it.

    A branch around work that all warps do, arithmetic or a barrier of the block, is not one that a warp takes alone.
    """
    code = function.instructions
    found: set[int] = set()
    for copy in code:
        if copy.cls is not InstructionClass.BULK_COPY or copy.index in found:
            continue
        around = [
            range(branch.index + 1, branch.targets[0])
            for branch in code[: copy.index]
            if branch.predicate and branch.targets and branch.targets[0] > copy.index
        ]
        nearest = min(around, key=len, default=range(0))
        if not any(_for_all(code[i]) for i in nearest):
            found.update(nearest)
    return frozenset(found)


def _for_all(instruction: Instruction) -> bool:
    return instruction.cls in _EVERYONES or instruction.opcode.startswith("BAR.")


def spins(function: Function) -> frozenset[int]:
    """Indices of loops that try again to see an mbarrier's phase complete, with the jump back behind them."""
    code = function.instructions
    found: set[int] = set()
    for wait in code:
        if not wait.opcode.startswith(_WAIT) or wait.index + 2 >= len(code):
            continue
        again, back = code[wait.index + 1], code[wait.index + 2]
        out_of_line = back.opcode.partition(".")[0] == "BRA" and not back.predicate and back.targets
        # nothing but what precedes the wait in its own block may stand between the loop's header and the wait
        if out_of_line and again.predicate and again.targets and wait.index - 1 <= again.targets[0] <= wait.index:
            found.update(range(again.targets[0], back.index + 1))
    return frozenset(found)
