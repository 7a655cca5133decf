"""Words about the guesses of a draft, which are said before any verdict that rests on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # with the parser of CUDA, which takes a moment to import
    from lab.templates.plain.draft import Guess

PROVISIONAL = "if the guess is right: "
"""What stands in front of a verdict that rests on a guess."""


def announce(guess: Guess) -> str:
    """Return the line that names a guess, its reason and the option that replaces it."""
    return f"guessed: {guess.key}: {guess.value}; {guess.reason}. To set it: {guess.option}"


def summarise(guesses: Sequence[Guess]) -> str:
    """Return what was guessed: `arguments.A and grid were guessed`."""
    keys = list(dict.fromkeys(guess.key for guess in guesses))
    *first, last = keys
    return f"{', '.join(first)} and {last} were guessed" if first else f"{last} was guessed"


def note(guesses: Sequence[Guess]) -> str:
    """Return the sentence that stands in the report."""
    return f"Not judged: {summarise(guesses)}. Every verdict here holds only if that is right."
