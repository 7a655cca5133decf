from __future__ import annotations

import pytest

from lab.operators.builtin import operator
from lab.store.tuning_model import Census, ProblemType


def test_the_efficiencies_are_the_papers():
    # section V: 512 MACs, 8 other vector instructions, 5 scalar, 2 global memory, 37 LDS: 98 %, 97 %, 90 % (rounded)
    counted = Census("gemm", fma=512, vector=8, control=5, global_memory=2, shared_memory=37)
    assert counted.efficiency("all") == pytest.approx(512 / 520)
    assert counted.efficiency("memory") == pytest.approx(512 / 525)
    assert counted.efficiency("none") == pytest.approx(512 / 564)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_a_size_is_the_operators_problem(layout):
    problem = ProblemType("float32", layout).problem((5, 7, 9))
    assert problem == operator("gemm").problem({"m": 5, "n": 7, "k": 9, "layout": layout})
