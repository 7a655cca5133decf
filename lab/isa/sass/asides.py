"""Finds single-warp code in SASS kernels with bulk copies: elected threads and mbarrier spin loops.

One warp of a block issues a bulk copy, behind a branch that the others take. And if the first try of an mbarrier wait
fails, the warp spins in a separate basic block, which ptxas places after the kernel's last instruction and which
belongs to the body of the loop that waits.
"""

from __future__ import annotations

from lab.isa.model import Function, Instruction, InstructionClass

_EVERYONES = frozenset({InstructionClass.FMA, InstructionClass.MMA})
_WAIT = "SYNCS.PHASECHK"


def asides(function: Function) -> frozenset[int]:
    """Return the indices of the instructions issued by only one warp per block, and of mbarrier spin loops."""
    return elected(function) | spins(function)


def elected(function: Function) -> frozenset[int]:
    """Return the indices of the instructions skipped by the nearest forward branch around a bulk copy.

    A branch around work of all warps, arithmetic or a block barrier, does not count.
    """
    code = function.instructions
    indices: set[int] = set()
    for copy in code:
        if copy.cls is not InstructionClass.BULK_COPY or copy.index in indices:
            continue
        around = [
            range(branch.index + 1, branch.targets[0])
            for branch in code[: copy.index]
            if branch.predicate and branch.targets and branch.targets[0] > copy.index
        ]
        nearest = min(around, key=len, default=range(0))
        if not any(_for_all(code[i]) for i in nearest):
            indices.update(nearest)
    return frozenset(indices)


def _for_all(instruction: Instruction) -> bool:
    return instruction.cls in _EVERYONES or instruction.opcode.startswith("BAR.")


def spins(function: Function) -> frozenset[int]:
    """Return the indices of loops that retry an mbarrier wait, including the jump back after them."""
    code = function.instructions
    indices: set[int] = set()
    for wait in code:
        if not wait.opcode.startswith(_WAIT) or wait.index + 2 >= len(code):
            continue
        again, back = code[wait.index + 1], code[wait.index + 2]
        out_of_line = back.opcode.partition(".")[0] == "BRA" and not back.predicate and back.targets
        # only the instruction before the wait in its own block may lie between the loop's header and the wait
        if out_of_line and again.predicate and again.targets and wait.index - 1 <= again.targets[0] <= wait.index:
            indices.update(range(again.targets[0], back.index + 1))
    return frozenset(indices)
