"""Prefetch distance of a loop's `cp.async` copies: iterations from commit to wait."""

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
    """Return the iterations of a PTX loop between issuing `cp.async` copies and waiting for them.

    An iteration commits g groups, and a wait leaves the last n in flight. Groups committed by the end of an iteration
    are waited for once n more groups have been committed: (n + g - b) / g iterations later, where b groups of an
    iteration precede the wait in the text. Copies may be issued after the wait, so this may be more than n / g.

    Args:
        body: The loop's instructions in the order of the text; only those of `is_group` count.

    Returns:
        The distance at the first wait; None if the loop commits no group or waits for none.
    """
    commits = [place for place, instruction in enumerate(body) if instruction.opcode.startswith(_COMMIT)]
    waits = (
        (place, in_flight) for place, instruction in enumerate(body) if (in_flight := _left(instruction)) is not None
    )
    place, in_flight = next(waits, (0, None))
    if not commits or in_flight is None:
        return None
    before = sum(commit < place for commit in commits)
    return (in_flight + len(commits) - before) / len(commits)


def _left(instruction: Instruction) -> int | None:
    """Return the number of groups a wait leaves in flight; None if it is not a wait or the operand is not a number."""
    if instruction.opcode.startswith(_WAIT_ALL):
        return 0
    try:
        return integer(instruction.operands[0]) if instruction.opcode.startswith(_WAIT) else None
    except (IndexError, ValueError):
        return None
