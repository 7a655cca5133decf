"""Budgets for the work the interpreter does before compiled code takes over a launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

PER_STEP = 2000
"""The overhead of one interpreter step, expressed in threads."""

CACHED = 1_000_000
"""Work (thread instructions) that takes as long as loading compiled code: some hundredths of a second."""

_MADE, _MADE_PER_INSTRUCTION = 4_000_000, 20_000


def work_to_make(instructions: int) -> int:
    """Return the work that takes as long as compiling this many instructions: 0.2 to 2 s."""
    return _MADE + _MADE_PER_INSTRUCTION * instructions


class Outgrown(Exception):  # noqa: N818  a way out of the loop, not an error
    """Raised when compiled code should take over the launch."""


class Allowance:
    """The work left until the next check for a switch to compiled code."""

    def __init__(self, questions: Sequence[tuple[int, Callable[[], bool]]]) -> None:
        """Start with no work done.

        Args:
            questions: Ascending amounts of work since the start, each with the check to run once it is exceeded.
        """
        self._questions = list(questions)
        self._done = 0

    def spend(self, instructions: int, threads: int) -> None:
        """Record instructions that some threads execute together.

        Raises:
            Outgrown: compiled code takes over.
        """
        self._done += instructions * (threads + PER_STEP)
        while self._questions and self._done > self._questions[0][0]:
            _, ask = self._questions.pop(0)
            if ask():
                raise Outgrown


class Budget(Allowance):
    """An allowance that stops the work once it is spent. An operation larger than the whole budget still starts."""

    def spend(self, instructions: int, threads: int) -> None:
        """Record instructions that some threads execute together.

        Raises:
            Outgrown: The work recorded before has used up the allowance.
        """
        super().spend(0, threads)
        self._done += instructions * (threads + PER_STEP)
