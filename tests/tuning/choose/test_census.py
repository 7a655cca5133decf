from __future__ import annotations

from lab.isa.mix import Counts, KernelMix, LoopMix
from lab.store.tuning_model import Census
from lab.tuning.choose.census import census


def test_the_census_counts_every_instruction_of_the_hot_loop_once():
    by_class = {
        "fma": 64,
        "integer": 5,
        "move": 3,
        "branch": 1,
        "barrier": 2,
        "ld.global": 2,
        "ld.shared": 8,
        "st.shared": 4,
    }
    counts = Counts(sum(by_class.values()), by_class, {}, 0, 0)
    loop = LoopMix("L", 1, None, True, counts, 1, 9, ((1, 9),), None)
    found = census(KernelMix("sass", "gemm", counts, (loop,), None))
    assert found == Census("gemm", fma=64, vector=8, control=3, global_memory=2, shared_memory=12)
    assert census(KernelMix("sass", "gemm", counts, (), None)) is None
