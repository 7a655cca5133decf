"""How much work the interpreter may do before machine code takes a launch over."""

from __future__ import annotations

from collections.abc import Callable, Sequence

PER_STEP = 2000
"""Threads whose work costs as much as what a step costs besides."""

CACHED = 1_000_000
"""Work, in instructions of threads, that takes as long as to load machine code: some hundredths of a second."""

_MADE, _MADE_PER_INSTRUCTION = 4_000_000, 20_000


def work_to_make(instructions: int) -> int:
    """Return the work that takes as long as to make machine code of so many instructions: 0.2 to 2 s."""
    return _MADE + _MADE_PER_INSTRUCTION * instructions


class Outgrown(Exception):  # noqa: N818  a way out of the loop, not an error
    """The launch is one for machine code."""


class Allowance:
    """Work that is left until the next question whether machine code shall take over."""

    def __init__(self, questions: Sequence[tuple[int, Callable[[], bool]]]) -> None:
        """Begin without work done.

        Args:
            questions: Amounts of work since the start, rising, and what then tells whether machine code takes over.
        """
        self._questions = list(questions)
        self._done = 0

    def spend(self, instructions: int, threads: int) -> None:
        """Note instructions that some threads execute together.

        Raises:
            Outgrown: machine code takes over.
        """
        self._done += instructions * (threads + PER_STEP)
        while self._questions and self._done > self._questions[0][0]:
            _, ask = self._questions.pop(0)
            if ask():
                raise Outgrown


class Budget(Allowance):
    """An allowance that ends the work once it is spent: what is larger than the whole of it is begun all the same."""

    def spend(self, instructions: int, threads: int) -> None:
        """Note instructions that some threads execute together.

        Raises:
            Outgrown: What was noted before is the whole allowance.
        """
        super().spend(0, threads)
        self._done += instructions * (threads + PER_STEP)
