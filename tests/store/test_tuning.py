from __future__ import annotations

import json
import lzma
from dataclasses import replace
from pathlib import Path

import pytest
from planted_tuning import GPU, LABEL, SIZES, facts, plant

from lab.base.errors import StoreError
from lab.measured.timing import Kind, Samples
from lab.store.tuning import FACTS, TuningStore
from lab.store.tuning_model import Cut, CutKind, KernelFacts, ProtocolStep, StepRow, Timed, TimingStage


def test_the_store_gives_back_what_it_was_given(tmp_path: Path) -> None:
    timed = Timed(Samples((1.0, 2.0), 4), Kind.MEASURED, "warm", 1e-8)
    failed = Timed(None, Kind.MEASURED, failure="it hung")
    facts = KernelFacts("abc", "MT8x8", "g", "float32_nn", "t", {"a": 1, "b": True, "c": "x"}, "sm_90")
    step = ProtocolStep(
        "g", 3, "ForkParameters", "One.", ((1, 2, 3),), (StepRow("k", {"a": "1"}, 2.0, "", wins=True),), {"no": 2}
    )
    with TuningStore(tmp_path, create=True) as store:
        store.write_times(TimingStage.FINAL, (1, 2, 3), {"abc": timed, "def": failed})
        store.write_times(TimingStage.STEPS, (1, 2, 3), {"abc": failed})
        store.write_kernels([facts])
        store.write_steps({"float32_nn": (step,)}, {"float32_nn": (Cut(CutKind.NEIGHBOURS, 4, 0.2, 4, 12, 30),)})
    with TuningStore(tmp_path) as store:
        assert store.times(TimingStage.FINAL) == {"abc": {(1, 2, 3): timed}, "def": {(1, 2, 3): failed}}
        assert store.times(TimingStage.STEPS) == {"abc": {(1, 2, 3): failed}}
        assert store.kernels() == (facts,)
        assert store.steps() == ({"float32_nn": (step,)}, {"float32_nn": (Cut(CutKind.NEIGHBOURS, 4, 0.2, 4, 12, 30),)})
    with TuningStore(tmp_path, create=True) as store:
        store.clear()
        assert not store.times(TimingStage.FINAL)
        assert store.noted("steps") is None


COMMITTED = [Path(__file__).parents[2] / "reports" / "h200" / name for name in ("gemm_tensile", "gemm_deepbench")]


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda folder: folder.name)
def test_the_facts_of_committed_runs_are_read(folder: Path) -> None:
    raw = json.loads(lzma.decompress((folder / "tuning.json.xz").read_bytes()))["facts"]
    found = FACTS.validate_python(raw)
    assert found.gpu is not None
    assert (found.kind, found.gpu.name, found.tuning) == (Kind.MEASURED, "NVIDIA H200", folder.name)
    again = json.loads(FACTS.dump_json(found))
    assert again == raw


def test_facts_come_back_as_they_were(tmp_path: Path) -> None:
    loss = facts(GPU).libraries["sgemm_nn"]
    infinite = replace(loss, loss=replace(loss.loss, max=float("inf")))
    expected = replace(facts(GPU), libraries={"sgemm_nn": infinite}, notes=("Told.",), grown_again="By lab.")
    with TuningStore(tmp_path, create=True) as store:
        assert store.known_facts() is None
        store.write_facts(expected)
        assert store.facts() == expected


def test_an_empty_store_has_no_facts_steps_or_times(tmp_path: Path) -> None:
    with TuningStore(tmp_path, create=True) as store:
        with pytest.raises(StoreError, match="holds no tuning run: the database is empty"):
            store.facts()
        assert store.steps() == ({}, {})
        assert store.kernels() == ()
        assert store.times(TimingStage.FINAL) == {}


def test_a_rule_that_nobody_wrote_is_an_error(tmp_path: Path) -> None:
    with TuningStore(tmp_path, create=True) as store:
        store.note("cuts", {LABEL: [{"rule": "by chance", "points": 7}]})
        with pytest.raises(StoreError, match=r"tuning\.sqlite: cuts cannot be read: float32_nn\.0\.kind"):
            store.steps()


def test_clear_forgets_everything(tmp_path: Path) -> None:
    with TuningStore(plant(tmp_path, GPU), create=True) as store:
        assert len(store.times(TimingStage.FINAL)["id-small"]) == len(SIZES)
        store.clear()
        assert (store.known_facts(), store.kernels(), store.times(TimingStage.FINAL)) == (None, (), {})


def test_a_folder_without_facts_holds_no_run(tmp_path: Path) -> None:
    with TuningStore(tmp_path, create=True) as store:
        assert store.known_facts() is None
        with pytest.raises(StoreError, match="holds no tuning run"):
            store.facts()
        store.write_facts(facts(None))
        assert store.facts() == facts(None)


def test_times_of_batches_stand_beside_those_of_products(tmp_path: Path) -> None:
    timed = Timed(Samples((1.0,)), Kind.MEASURED)
    with TuningStore(tmp_path / "run", create=True) as store:
        for size in ((1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 5)):
            store.write_times(TimingStage.FINAL, size, {"a": timed})
    with TuningStore(tmp_path / "run") as store:
        assert set(store.times(TimingStage.FINAL)["a"]) == {(1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 5)}
    with TuningStore(tmp_path / "run", create=True) as store:
        store.clear()
        assert store.times(TimingStage.FINAL) == {}
