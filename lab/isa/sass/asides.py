"""Finds instructions of SASS that are not on the path of every warp, in kernels with bulk copies.

One warp of a block requests a bulk copy, behind a branch that the others take. And if the first try of a wait for an
mbarrier fails, the warp spins in a separate block that ptxas places behind the kernel's last instruction, and which
belongs to the body of the loop that waits.
"""

from __future__ import annotations

from lab.isa.model import Function, Instruction, InstructionClass

_EVERYONES = frozenset({InstructionClass.FMA, InstructionClass.MMA})
_WAIT = "SYNCS.PHASECHK"


def asides(function: Function) -> frozenset[int]:
    """Return the indices of the instructions that only one warp of a block issues, and of those that spin."""
    return elected(function) | spins(function)


def elected(function: Function) -> frozenset[int]:
    """Return the indices of the instructions that the nearest forward branch around a bulk copy skips.

    A branch around work that all warps do, arithmetic or a barrier of the block, does not count.
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
    """Return the indices of loops that retry a wait for an mbarrier's phase, with the jump back behind them."""
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
