"""Next steps for one variant, decided from frozen values alone."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any, cast

import pytest
from run_support import H200

from lab.base.errors import UserError
from lab.base.executor import WorkerLostError
from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.gpu.timing.cache import Flush
from lab.isa.mix import Counts, KernelMix
from lab.operators.checked import OperatorFault
from lab.recorded.predictions import Bound, Estimate, Prediction
from lab.recorded.run_records import Status, VariantRecord
from lab.runs import flow
from lab.runs.flow import FlowContext, NextStep
from lab.runs.reference import ReferenceVariant
from lab.stages.build import BuildFailure
from lab.stages.emulate import EmulationTask, not_executed
from lab.templates.launches import BuiltLaunch, Launches
from lab.toolchain.base import CompileRequest, Toolchain

TEMPLATE = """{#---
summary: s
operator: gemm
entry: k
parameters: {first: {type: int, default: 0, help: h}}
grid: ["ceil_div(m, 32)"]
block: [32]
arguments: {m: int32, C: T*}
---#}
extern "C" __global__ void k(int m, {{ T }}* C) { C[threadIdx.x] = m + {{ first }}; }
"""
EXPERIMENT = """question: Does it?
operator: gemm
problem: {m: 64, n: 64, k: 64}
emulate: {m: 32}
kernels:
  - {template: mine.cu.j2, parameters: {first: [1, 2, 3, 4, 5]}}
baselines: [cublas, torch]
cache: cold
seed: 9
archs: [sm_90]
"""


class Compiler:
    name, version = "played", "1"

    def supports(self, arch):
        return True


class TritonCompiler(Compiler):
    name = "triton"


@pytest.fixture
def context(tmp_path):
    (tmp_path / "mine.cu.j2").write_text(TEMPLATE)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return FlowContext(load(tmp_path / "small.yaml"), H200, emulate=True)


@pytest.fixture
def planned(context):
    return plan(context.experiment, expand(context.experiment).points, [cast("Toolchain", Compiler())], ["sm_90"])


@pytest.fixture
def variant(context, planned):
    """A variant that failed to build, with the record of one that did not: nothing here looks at its code."""
    failed = flow.inspect(context, planned[0], BuildFailure("refused"), None)
    return replace(failed, record=replace(failed.record, status=Status.INSPECTED, reason=""), ptx="ptx", cubin=b"x")


def test_a_build_that_failed_is_recorded_with_its_reason(context, planned):
    failed = flow.inspect(context, planned[0], BuildFailure("refused"), 2)
    assert (failed.record.status, failed.record.reason, failed.record.round) == (Status.COMPILE_FAILED, "refused", 2)
    assert (failed.ptx, failed.cubin, failed.model, failed.position) == ("", b"", None, 0)
    assert flow.step_after_build(context, failed, spared=False) is NextStep.RECORD
    assert flow.step_before_measurement(context, failed) is NextStep.RECORD
    assert flow.reason_not_measured(context, failed) == ""


def test_a_name_of_cudas_is_not_taken_for_a_macro():
    assert "{TILE: …}" in flow._undefined('k.cu(1): error: identifier "TILE" is undefined')
    for name in ("cudaGraphLaunch", "cuGetErrorName", "__nanosleep"):
        assert flow._undefined(f'k.cu(1): error: identifier "{name}" is undefined') == ""


def test_emulation_comes_before_the_gpu_unless_it_is_not_wanted(context, variant):
    assert flow.step_after_build(context, variant, spared=False) is NextStep.EMULATE
    assert flow.step_after_build(context, variant, spared=True) is NextStep.MEASURE
    assert flow.step_after_build(replace(context, emulate=False), variant, spared=False) is NextStep.MEASURE
    assert flow.step_after_build(replace(context, emulate=False, gpu=None), variant, spared=False) is NextStep.RECORD


def test_a_suspect_variant_is_not_measured_and_one_verified_in_part_is(context, variant):
    suspect, partial = (
        replace(variant, record=replace(variant.record, status=status)) for status in (Status.SUSPECT, Status.PARTIAL)
    )
    assert flow.step_before_measurement(context, suspect) is NextStep.RECORD
    assert flow.step_before_measurement(context, partial) is NextStep.MEASURE


def test_machine_code_for_another_gpu_is_recorded_with_a_sentence(context, variant):
    other = replace(variant, planned=replace(variant.planned, request=CompileRequest("", "kernel.cu", "sm_80")))
    assert flow.step_before_measurement(context, other) is NextStep.RECORD
    assert flow.reason_not_measured(context, other) == "Variants for sm_80 were not measured: the GPU is sm_90."
    assert flow.step_before_measurement(context, variant) is NextStep.MEASURE
    assert flow.reason_not_measured(context, variant) == ""
    assert flow.reason_not_measured(replace(context, gpu=None), other) == ""


def test_the_emulator_gets_the_small_problem_and_equal_work_has_one_key(context, variant, planned):
    task = flow.emulation_task(context, variant)
    assert (task.problem["m"], task.problem["n"], task.seed) == (32, 64, 9)
    assert task.launches.steps[0].grid == (1, 1, 1)
    work = flow.emulation_work(variant, task)
    assert work.args == (task, "ptx", None)
    assert work.timeout_s == flow.EMULATION_TIMEOUT_S
    assert flow.emulation_work(replace(variant, planned=planned[1]), task).key == work.key
    assert flow.emulation_work(replace(variant, ptx="other"), task).key != work.key


def test_what_triton_writes_by_itself_is_excused_and_a_race_is_not(context, variant):
    assert flow.emulation_task(context, variant).excused == frozenset()
    triton = replace(variant.planned, toolchain=cast("Toolchain", TritonCompiler()))
    excused = flow.emulation_task(context, replace(variant, planned=triton)).excused
    assert excused == {"missing-proxy-fence", "wgmma-misuse"}


def test_each_size_that_the_cpu_has_smaller_is_halved_for_every_eighth_variant(context, variant, tmp_path):
    assert flow.emulation_task(context, variant).halved == ()  # gemm says how many operations it takes
    (tmp_path / "k.cu").write_text("__global__ void k(float *y, int n, int rows, int same) {}")
    (tmp_path / "k.yaml").write_text(
        "question: q?\nsource: k.cu\nproblem: {n: 4096, rows: 99, same: 4}\nemulate: {n: 40, rows: 1}\n"
        'arguments: {y: "out float32[n]", n: int32, rows: int32, same: int32}\n'
        "parameters: {threads: [32, 64]}\ngrid: ceil_div(n, threads)\nblock: threads\n"
    )
    own = replace(context, experiment=load(tmp_path / "k.yaml"))
    first, second = plan(own.experiment, expand(own.experiment).points, [cast("Toolchain", Compiler())], ["sm_90"])
    half, *doubled = flow.emulation_task(own, replace(variant, planned=first)).halved
    assert (half.name, half.ratio, half.problem["n"], half.problem["rows"]) == ("n", 2.0, 20, 1)
    others = [("n", 4.0, 10), ("n", 0.5, 80), ("n", 0.25, 160), ("rows", 0.5, 2), ("rows", 0.25, 4)]
    *resized, both = doubled
    assert [(one.name, one.ratio, one.problem[one.name]) for one in resized] == others
    assert (both.name, both.ratio, both.problem["n"], both.problem["rows"]) == ("", 0.25, 80, 2)  # rows have no half
    assert half.launches.steps[0].grid == (1, 1, 1)
    assert flow.emulation_task(own, replace(variant, planned=second)).halved == ()
    least, middle, largest = flow.emulation_task(own, replace(variant, planned=first)).samples
    assert [(one.problem["n"], one.problem["rows"]) for one in (largest, middle, least)] == [
        (256, 3),
        (128, 1),
        (64, 1),
    ]
    assert (largest.ratio, largest.launches.steps[0].grid) == (256 / 40 * 3, (8, 1, 1))
    assert [half.problem["n"] for half in largest.halved] == [128, 64, 512, 1024, 256, 256, 256, 128, 512]
    assert not flow.emulation_task(own, replace(variant, planned=second)).samples[-1].halved


def with_sizes(context, variant, folder, real, small):
    """The context of a problem and an emulated one, and the variant there, without matrix instructions and with one."""
    file = folder / "sizes.yaml"
    file.write_text(EXPERIMENT.replace("{m: 64, n: 64, k: 64}", real).replace("{m: 32}", small))
    own = replace(context, experiment=load(file))
    first, *_ = plan(own.experiment, expand(own.experiment).points, [cast("Toolchain", Compiler())], ["sm_90"])
    plain = replace(variant, planned=first)
    mix = KernelMix("ptx", "k", Counts(1, {"mma": 1}, {"mma.sync": 1}, 0, 0), (), None)
    return own, plain, replace(plain, record=replace(plain.record, ptx=mix))


def test_a_sample_of_an_operator_has_the_fields_that_follow_its_sizes(context, variant, tmp_path):
    real, small = "{m: 4096, n: 4096, k: 4096, layout: tn, alpha: 0.5}", "{m: 272, n: 144, k: 80}"
    own, plain, multiplying = with_sizes(context, variant, tmp_path, real, small)
    assert flow.emulation_task(own, plain).samples == ()  # it has no matrix instruction
    least, *_ = flow.emulation_task(own, multiplying).samples
    found = [least.problem[name] for name in ("m", "n", "k", "lda", "ldb", "ldc", "alpha")]
    assert found == [512, 256, 128, 128, 128, 512, 0.5]
    assert least.ratio == pytest.approx(512 / 272 * 256 / 144 * 128 / 80)
    assert least.launches.steps[0].grid == (16, 1, 1)


@pytest.mark.parametrize(
    ("real", "leading"),
    [
        ("{m: 4101, n: 4096, k: 4104, layout: tn}", (136, 136, 513)),  # at multiples of 8, and of 1
        ("{m: 4096, n: 4096, k: 4096, layout: tn, lda: 5000}", (5000, 128, 512)),  # the first is the file's own
    ],
)
def test_rows_of_a_sample_begin_as_those_of_the_real_problem(context, variant, tmp_path, real, leading):
    own, _, multiplying = with_sizes(context, variant, tmp_path, real, "{m: 272, n: 144, k: 80}")
    least, *_ = flow.emulation_task(own, multiplying).samples
    assert [least.problem[name] for name in ("m", "n", "k")] == [512, 256, 128]
    assert tuple(least.problem[name] for name in ("lda", "ldb", "ldc")) == leading


TASK = EmulationTask(Launches(()), "gemm", {}, 0, {})


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (TimeoutError(), "the emulation took longer than 300 s; a smaller `emulate` problem helps"),
        (MemoryError(), "the emulation needs more memory than its share; a smaller `emulate` problem helps"),
        (WorkerLostError("gone", killed=False), "the emulating process ended by itself: gone"),
    ],
)
def test_an_emulation_that_ends_badly_is_a_record_that_says_so(variant, error, why):
    future: Future[Any] = Future()
    future.set_exception(error)
    record, pace = flow.emulation_outcome(variant, TASK, future)
    assert (record.failure, pace) == (why, None)
    judged = flow.judge(variant, (record, pace)).record
    assert (judged.status, judged.reason) == (Status.NOT_EXECUTED, why)


def test_python_of_the_users_own_is_named_where_its_process_ended(variant):
    future: Future[Any] = Future()
    future.set_exception(WorkerLostError("exit code 0", killed=False))
    record, _ = flow.emulation_outcome(variant, replace(TASK, operator="./my_op.py:Mine"), future)
    assert record.failure.endswith("by itself: exit code 0; ./my_op.py:Mine ran there and may have ended it")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("x"), "lab itself failed to execute this variant: KeyError: 'x'"),
        (OSError(28, "No space left"), "this machine cannot execute it: No space left"),
        (OperatorFault("my_op.py:3: Mine.inputs raised ValueError"), "my_op.py:3: Mine.inputs raised ValueError"),
    ],
)
def test_a_mistake_in_an_emulation_is_this_variants_failure(variant, error, words):
    future: Future[Any] = Future()
    future.set_exception(error)
    found, _ = flow.emulation_outcome(variant, TASK, future)
    assert found.failure == words
    assert found.fault == f"not executed: {words}"


def test_an_emulation_that_ends_well_is_handed_on(variant):
    future: Future[Any] = Future()
    done = (not_executed(TASK, "unknown instruction"), None)
    future.set_result(done)
    assert flow.emulation_outcome(variant, TASK, future) == done


def record(*, ceiling=None, estimate=None):
    prediction = (
        Prediction("H200", 0.5, 2, "registers", 66.9, (Bound("issue slots", ceiling, "x"),)) if ceiling else None
    )
    made = VariantRecord("v", "k", "l", "t", {}, {}, "sm_90", Status.INSPECTED, "", 10**12, 1, prediction=prediction)
    return replace(made, estimate=Estimate(estimate, 1.0, {}) if estimate else None)


def test_a_search_measures_what_promises_most_first():
    order = sorted((record(), record(ceiling=40.0), record(ceiling=90.0, estimate=30.0), record(estimate=50.0)),
                   key=lambda one: flow.urgency(one, searching=True))  # fmt: skip
    assert [(one.estimate and one.estimate.tflops, bool(one.prediction)) for one in order] == [
        (50.0, False),
        (None, True),
        (30.0, True),
        (None, False),
    ]
    assert flow.urgency(record(ceiling=40.0), searching=False) == 0.0


@pytest.mark.parametrize(("most", "executed"), [(None, 5), (9, 5), (5, 5), (2, 2), (1, 1), (0, 0)])
def test_evenly_spread_variants_are_executed(planned, most, executed):
    spared = flow.spared([one.position for one in planned], most)
    assert len(planned) - len(spared) == executed
    if most == 2:
        assert spared == {1, 3, 4}


def test_the_job_and_the_policy_follow_the_experiment(context, planned):
    job = flow.job_of(context.experiment, planned[1], b"cubin")
    assert (job.variant, job.cubin, job.seed, job.problem["k"]) == (planned[1].variant, b"cubin", 9, 64)
    policy = flow.policy_of(context.experiment)
    assert (policy.baseline, policy.others, policy.flush) == ("cublas", ("torch",), Flush.ON)
    assert flow.policy_of(replace(context.experiment, baselines=())).baseline is None


def test_the_reference_variant_is_launched_with_the_constants_of_the_file(tmp_path):
    (tmp_path / "k.cu").write_text("__constant__ float f[4];\n__global__ void k(float *y) { y[threadIdx.x] = f[M]; }\n")
    (tmp_path / "k.yaml").write_text(
        'source: k.cu\nproblem: {n: 32}\narguments: {y: "out float32[n]"}\nconstants: {f: "float32[4]"}\n'
        "parameters: {M: [0, 1]}\ngrid: 1\nblock: 32\n"
    )
    experiment = load(tmp_path / "k.yaml")
    first, second = plan(experiment, expand(experiment).points, [cast("Toolchain", Compiler())], ["sm_90"])
    known = BuiltLaunch({"k": "_Z1kPf", "f": "f"})
    job = flow.job_of(experiment, second.built(known), b"2", ReferenceVariant(first.built(known), "", b"1"))
    assert job.reference is not None
    assert job.reference.cubin == b"1"
    assert [(constant.name, constant.symbol) for constant in job.reference.launches.constants] == [("f", "f")]
    assert job.reference.launches == job.launches


def test_what_waits_for_the_gpu_has_no_ptx(variant):
    assert (flow.for_gpu(variant).ptx, flow.for_gpu(variant).cubin) == ("", b"x")


def test_a_mistake_in_the_file_that_shows_while_executing_ends_the_run_with_its_place(variant):
    future: Future[Any] = Future()
    future.set_exception(
        UserError("c has shape [3], its reference has shape [6]", code="wrong-value", key="reference.c")
    )
    with pytest.raises(UserError) as caught:
        flow.emulation_outcome(variant, TASK, future)
    assert caught.value.at is not None
    assert caught.value.key == "reference.c"
