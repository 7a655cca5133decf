from __future__ import annotations

import pytest

from lab.base.errors import StoreError
from lab.isa.mix import Counts, KernelMix, LoopMix
from lab.measured.timing import Kind, Samples
from lab.operators.builtin import operator
from lab.store.tuning import Stage, TuningStore
from lab.store.tuning_model import Census, Cut, KernelFacts, ProblemType, Row, Step, Timed
from lab.tuning.choose.census import census


def test_the_efficiencies_are_the_papers():
    # section V: 512 MACs, 8 other vector instructions, 5 scalar, 2 global memory, 37 LDS: 98 %, 97 %, 90 % (rounded)
    counted = Census("gemm", fma=512, vector=8, control=5, global_memory=2, shared_memory=37)
    assert counted.efficiency("all") == pytest.approx(512 / 520)
    assert counted.efficiency("memory") == pytest.approx(512 / 525)
    assert counted.efficiency("none") == pytest.approx(512 / 564)


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


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_a_size_is_the_operators_problem(layout):
    problem = ProblemType("float32", layout).problem((5, 7, 9))
    assert problem == operator("gemm").problem({"m": 5, "n": 7, "k": 9, "layout": layout})


def test_the_store_gives_back_what_it_was_given(tmp_path):
    timed = Timed(Samples((1.0, 2.0), 4), Kind.MEASURED, "warm", 1e-8)
    failed = Timed(None, Kind.MEASURED, failure="it hung")
    facts = KernelFacts("abc", "MT8x8", "g", "float32_nn", "t", {"a": 1, "b": True, "c": "x"}, "sm_90")
    step = Step("g", 3, "ForkParameters", "One.", ((1, 2, 3),), (Row("k", {"a": "1"}, 2.0, "", wins=True),), {"no": 2})
    with TuningStore(tmp_path, create=True) as store:
        store.write_times(Stage.FINAL, (1, 2, 3), {"abc": timed, "def": failed})
        store.write_times(Stage.STEPS, (1, 2, 3), {"abc": failed})
        store.write_kernels([facts])
        store.write_steps({"float32_nn": [step]}, {"float32_nn": [Cut("slow", 4)]})
        with pytest.raises(StoreError, match="in use"):
            TuningStore(tmp_path, create=True)
    with TuningStore(tmp_path) as store:
        assert store.times(Stage.FINAL) == {"abc": {(1, 2, 3): timed}, "def": {(1, 2, 3): failed}}
        assert store.times(Stage.STEPS) == {"abc": {(1, 2, 3): failed}}
        assert store.kernels() == (facts,)
        assert store.steps() == ({"float32_nn": [step]}, {"float32_nn": [Cut("slow", 4)]})
        store.clear()
        assert not store.times(Stage.FINAL)
        assert store.noted("steps") is None


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(StoreError, match="no tuning run"):
        TuningStore(tmp_path)


def test_a_damaged_store_is_told(tmp_path):
    (tmp_path / "tuning.sqlite").write_bytes(b"not a database" * 400)
    with pytest.raises(StoreError, match="cannot be opened"):
        TuningStore(tmp_path, create=True)
