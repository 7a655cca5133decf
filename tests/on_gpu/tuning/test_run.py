"""A survey and a whole tuning run on a real GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.gpu.timing.survey import BASELINE, Entrant, Ground, Survey, SurveyPolicy
from lab.library import dispatch
from lab.operators.gemm import tolerance_of
from lab.operators.matrices import tolerance_of_sums
from lab.store.tuning import TuningStore
from lab.store.tuning_model import ProblemType, TimingStage
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain
from lab.tuning.product import product
from lab.tuning.run import TuningOptions, tune

pytestmark = pytest.mark.gpu

TENSILE = "gemm/tensile.cu.j2"
KERNELS: dict[str, dict[str, Any]] = {
    "whole": {},
    "sub-groups": {"work_group_0": 8, "work_group_1": 8, "local_split_u": 4, "thread_tile_0": 4, "thread_tile_1": 4},
    "atomics": {"thread_tile_0": 4, "thread_tile_1": 4, "global_split_u": 6},
    "workspace": {
        "thread_tile_0": 4,
        "thread_tile_1": 2,
        "global_split_u": 8,
        "global_split_u_algorithm": "workspace",
        "global_split_u_work_group_mapping_round_robin": True,
    },
}
SIZES = [(1, 1, 1), (67, 45, 129), (512, 1, 5000), (35, 700, 2048), (1000, 1000, 1000)]


class Silent:
    def began(self, *_, **__):
        pass

    resumed = asked = built = timed = stepped = drawing = began


BATCHES = [(1, 1, 1, 1), (67, 45, 129, 5), (16, 16, 64, 257), (35, 70, 204, 33), (128, 256, 64, 9)]


@pytest.mark.parametrize("batched", [False, True], ids=["product", "batch"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64", "complex128"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_every_kernel_agrees_with_the_devices_reference(gpu, session, layout, dtype, batched):
    template, kind = kernels.load(TENSILE, kernels.search_path()), ProblemType(dtype, layout, batched=batched)
    parameters = {name: template.completed(given) for name, given in KERNELS.items()}
    if dtype in ("float16", "bfloat16"):
        del parameters["atomics"]  # which would round each part to C's 16 bits
    cubins = {
        f"{name} {kind.label}": toolchain("nvrtc")
        .compile(CompileRequest(Instance(template, own, product(kind, kind.least)).source, "kernel.cu", gpu.arch))
        .cubin
        for name, own in parameters.items()
    }
    ground = Ground(dtype, (3_000_000, 3_000_000, 1_000_000), 128 << 20, 0)  # eight parts of 1000 x 1000 complex128
    for size in BATCHES if batched else SIZES:
        problem = product(kind, size)
        entrants = tuple(
            Entrant(f"{name} {kind.label}", Instance(template, own, problem).launches)
            for name, own in parameters.items()
        )
        policy = SurveyPolicy(samples=2, drop=None, warmup_ms=0.0)
        points = session.survey(Survey(ground, problem, entrants, baseline=True, policy=policy), cubins)
        for point in points:
            if point.kernel == BASELINE and point.failure:
                continue  # cuBLAS may be missing
            assert point.failure == "", (size, point)
            assert point.error <= tolerance_of(problem)
            assert point.samples.n == 2


def test_a_kernel_of_another_layout_is_found_wrong(gpu, session):
    template = kernels.load(TENSILE, kernels.search_path())
    parameters = template.completed({})
    source = Instance(template, parameters, product(ProblemType("float32", "tt"), (1, 1, 1))).source
    cubin = toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", gpu.arch)).cubin
    problem = product(ProblemType("float32", "nn"), (64, 64, 64))
    order = Survey(
        Ground("float32", (3_000_000, 3_000_000, 1_000_000), 64 << 20, 0),
        problem,
        (Entrant("wrong", Instance(template, parameters, problem).launches),),
        baseline=False,
        policy=SurveyPolicy(warmup_ms=0.0),
    )
    (point,) = session.survey(order, {"wrong": cubin})
    assert "the result is wrong" in point.failure


def test_batches_are_tuned_beside_cublas(gpu, tmp_path):
    file = Path(__file__).parents[3] / "experiments" / "gemm_batched.yaml"
    outcome = tune(file, TuningOptions(output=tmp_path, arch=gpu.arch), Silent())
    assert outcome.failed == ()
    with TuningStore(tmp_path) as store:
        times = store.times(TimingStage.FINAL)
    assert {len(size) for own in times.values() for size in own} == {4}
    assert all(timed.ms for own in times.values() for timed in own.values())
    (library,) = outcome.libraries
    made = dispatch.load(library)
    assert isinstance(made, dispatch.Dispatcher)
    assert made.library.batched
    assert {made.select(16, 16, 64, batch) for batch in (1, 16, 512)} <= set(made.library.logic.kernels)


def test_a_tuning_run_measures_and_its_library_computes(gpu, tmp_path):
    file = Path(__file__).parents[3] / "experiments" / "gemm_tensile_small.yaml"
    outcome = tune(file, TuningOptions(output=tmp_path, arch=gpu.arch), Silent())
    assert outcome.failed == ()
    with TuningStore(tmp_path) as store:
        times = store.times(TimingStage.FINAL)
    assert all(
        timed.error is not None and timed.error <= tolerance_of_sums("float32")
        for own in times.values()
        for timed in own.values()
    )
    (library,) = outcome.libraries
    assert dispatch.load(library).select(1, 1, 1)
