from __future__ import annotations

from pathlib import Path

from lab.measured.timing import Kind, Samples
from lab.store.tuning import TuningStore
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
        store.clear()
        assert not store.times(TimingStage.FINAL)
        assert store.noted("steps") is None
