from __future__ import annotations

from lab.cli.guesses import announce, note, summarise
from lab.templates.plain.draft import Guess

SHAPE = Guess("arguments.A", "float32[n]", "no condition bounds its index", "--argument 'A=float32[n]'")
GRID = Guess("grid", "n", "the kernel names no size", "--grid 'n'")


def test_a_guess_names_its_reason_and_its_option():
    line = announce(SHAPE)
    assert all(part in line for part in (SHAPE.key, SHAPE.value, SHAPE.reason, SHAPE.option))


def test_guesses_are_summarised_by_their_keys():
    assert summarise([SHAPE]) == "arguments.A was guessed"
    assert summarise([SHAPE, GRID, GRID]) == "arguments.A and grid were guessed"
    assert summarise([SHAPE]) in note([SHAPE])
