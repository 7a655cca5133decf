"""How far ahead of its use a loop asks for what `cp.async` copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lab.isa.model import Instruction
from lab.isa.ptx.constants import integer

_COMMIT: Final = "cp.async.commit_group"
_WAIT: Final = "cp.async.wait_group"
_WAIT_ALL: Final = "cp.async.wait_all"


def is_group(instruction: Instruction) -> bool:
    """Return whether an instruction commits a group of copies or waits for groups."""
    return instruction.opcode.startswith((_COMMIT, _WAIT, _WAIT_ALL))


def passes_ahead(body: Sequence[Instruction]) -> float | None:
    """Return the passes through a loop of PTX from the request for copies to the wait for them.

    A pass commits g groups, and a wait leaves the last n in flight. What is committed by the end of a pass is waited
    for when n groups more have been committed: (n + g - b) / g passes later, where b groups of a pass come before the
    wait in the text. Copies may be asked for after the wait of the same pass, so that this may be more than n / g.

    Args:
        body: The loop's instructions in the order of the text; only those of `is_group` count.

    Returns:
        That of the first wait; None where the loop commits no group or waits for none.
    """
    commits = [place for place, one in enumerate(body) if one.opcode.startswith(_COMMIT)]
    waits = ((place, left) for place, one in enumerate(body) if (left := _left(one)) is not None)
    place, left = next(waits, (0, None))
    if not commits or left is None:
        return None
    before = sum(one < place for one in commits)
    return (left + len(commits) - before) / len(commits)


def _left(instruction: Instruction) -> int | None:
    """Return how many groups a wait leaves in flight; None for what is no wait or says it in no plain number."""
    if instruction.opcode.startswith(_WAIT_ALL):
        return 0
    try:
        return integer(instruction.operands[0]) if instruction.opcode.startswith(_WAIT) else None
    except (IndexError, ValueError):
        return None
