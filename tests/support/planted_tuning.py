"""The store of a tuning run whose times are invented; nothing was measured."""

from __future__ import annotations

from pathlib import Path

from lab.library.grid import Loss
from lab.measured.timing import GpuDescription, Kind, Samples
from lab.store.tuning import TuningStore
from lab.store.tuning_model import (
    Census,
    Cut,
    CutKind,
    FinalSizes,
    KernelFacts,
    LibraryFacts,
    ProblemType,
    ProtocolStep,
    StepRow,
    Timed,
    TimingFacts,
    TimingStage,
    TuningFacts,
    baseline_id,
)

SIDES = (16, 64, 256, 1024)
SIZES = tuple((m, n, 512) for m in SIDES for n in SIDES)
LABEL = "float32_nn"
CENSUS = Census("gemm", 512, 8, 5, 2, 37)
GPU = GpuDescription("NVIDIA H200", "sm_90", 132, 1980, 150109880320, 62914560, "580", "13.0")


def invented(kernel: str, m: int, n: int) -> float:
    """`small` is faster below 100 in both, `large` above; the single-tuned one is large with a penalty.

    It has as many digits as committed results keep.
    """
    best = float(f"{1e-3 + m * n * 512 * 2 / 5e10:.4g}")
    few = max(m, n) < 100
    return float(f"{best * {'small': 1 if few else 3, 'large': 2 if few else 1, 'one': 1.5}[kernel]:.5g}")


def facts(gpu: GpuDescription | None) -> TuningFacts:
    worst = (16, 16, 512)
    return TuningFacts(
        tuning="planted",
        question="Which <kernel> is fastest?",
        source="question: Which?\n",
        command="python -m lab tune planted.yaml",
        started="2026-01-01T00:00:00+00:00",
        lab_version="0",
        commit="abc",
        python="3",
        packages={"numpy": "2"},
        gpu=gpu,
        predicted_for="H200",
        not_measured="" if gpu else "There is no GPU.",
        baseline="",
        interrupted=False,
        timing=TimingFacts(samples=5, enough_ms=0.0, cache="auto", warmup_ms=300.0, verify=True),
        types={LABEL: ProblemType("float32", "nn")},
        peaks={"float32": 60.0},
        final={LABEL: FinalSizes(ranges=SIZES, exact=((16, 16, 512), (7, 7, 7)))},
        libraries={
            "sgemm_nn": LibraryFacts(
                type=LABEL,
                kernels=("small", "large"),
                splits=2,
                exact=1,
                interpolated=40,
                loss=Loss(mean=0.0123, max=0.2, worst=worst, sizes=16, unmeasured=0),
                held_out=Loss(mean=0.0171, max=0.3, worst=worst, sizes=9, unmeasured=0),
            )
        },
        singles={LABEL: ("id-one",)},
    )


def plant(folder: Path, gpu: GpuDescription | None) -> Path:
    kind = Kind.MEASURED if gpu else Kind.PREDICTED
    with TuningStore(folder, create=True) as store:
        names = ("small", "large", "one")
        store.write_kernels(
            KernelFacts(f"id-{name}", name, "g", LABEL, "t", {"a": 1}, "sm_90", census=CENSUS) for name in names
        )
        for m, n, k in SIZES:
            times = {f"id-{name}": Timed(Samples((invented(name, m, n),) * 3), kind, "cold", 1e-8) for name in names}
            if gpu:
                times[baseline_id(LABEL)] = Timed(Samples((invented("large", m, n),)), kind)
            store.write_times(TimingStage.FINAL, (m, n, k), times)
        failed = StepRow("large", {"TT": "8x8"}, None, "", wins=False, failure="hung")
        rows = (StepRow("small", {"TT": "2x2"}, 1.0, "", wins=True), failed)
        step = ProtocolStep("g", 4, "BenchmarkForkParameters", "Kept.", ((1, 2, 3),), rows, {"no": 3})
        store.write_steps({LABEL: [step]}, {LABEL: [Cut(CutKind.FIRST_SAMPLE, 42, 0.15)]})
        store.write_facts(facts(gpu))
    return folder
