from __future__ import annotations

from lab.isa.cuda.body.polynomials import ONE, ZERO, atom, number
from lab.isa.cuda.body.symbolic_values import Pointer


def test_a_row_is_what_the_next_index_skips():
    assert Pointer("x", ZERO, 4).row == ONE
    assert Pointer("x", ZERO, 4, inner=(number(3), atom("n"))).row == number(3) * atom("n")
