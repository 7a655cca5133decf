"""A variant's record as the stages fill it in."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.emulator.results import Finding
from lab.experiment.load import from_text, load
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.gpu.process.job import BaselineResult, Failure, JobResult, JobStage
from lab.hardware.gpus import gpu_for
from lab.hardware.tensormaps import TensorMap
from lab.isa.mix import Counts
from lab.measured.timing import CardState, Measurement, Samples, Verification
from lab.recorded.run_records import (
    BuildRecord,
    Condition,
    EmulatedStep,
    EmulationRecord,
    PruneRule,
    Status,
    Suspicion,
    VariantRecord,
)
from lab.stages import record as records
from lab.templates.launches import Launch, Launches
from lab.toolchain.base import Build, Resources


def record(**values):
    given = {"status": Status.INSPECTED, "reason": "", "flops": 10**9, "bytes_moved": 1, **values}
    return VariantRecord("v", "k", "", "t", {}, {"m": 1}, "sm_90", **given)


def test_a_pruned_variant_says_which_rule_and_why():
    made = records.pruned(record(), PruneRule.SPILLS, "8 bytes")
    assert (made.status, made.reason, made.pruned_by) == (Status.PRUNED, "spills: 8 bytes", PruneRule.SPILLS)


PASSED = Verification(True, 0.0, 1e-6, "", "emulator")
WRONG = Verification(False, 0.5, 1e-6, "C[0]: got 1, expected 2", "emulator")


@pytest.mark.parametrize(
    ("verification", "unsupported", "status", "reason"),
    [
        (PASSED, "", Status.VERIFIED, ""),
        (WRONG, "", Status.WRONG, "emulator: C[0]: got 1, expected 2"),
        (None, "unknown instruction", Status.INSPECTED, "unknown instruction"),
    ],
)
def test_an_emulation_verifies_a_variant_or_fails_it_or_says_nothing(verification, unsupported, status, reason):
    made = records.judged(record(), EmulationRecord({}, (), verification, unsupported=unsupported))
    assert (made.status, made.reason) == (status, reason)
    assert made.emulation.unsupported == unsupported
    assert made.estimate is None


@pytest.mark.parametrize(
    ("stage", "status"),
    [
        (JobStage.PREPARE, Status.NOT_EXECUTED),
        (JobStage.LAUNCH, Status.NOT_EXECUTED),
        (JobStage.CRASH, Status.NOT_EXECUTED),
        (JobStage.VERIFY, Status.WRONG),
        (JobStage.VERIFY_AGAIN, Status.SUSPECT),
        (JobStage.TIMEOUT, Status.NOT_EXECUTED),
    ],
)
def test_a_job_that_failed_has_the_status_of_its_stage(stage, status):
    made = records.measured(record(), JobResult("v", failure=Failure(stage, "why")), "GPU-a")
    assert (made.status, made.reason, made.measurement) == (status, "why", None)


FAULT = Finding("out-of-bounds", 7, "st.global", None, None, None, None, "why")
AT_FULL_SIZE = Suspicion(Condition.FULL_SIZE, "", FAULT)
IN_ORDER = Suspicion(Condition.ORDER, "y[3] depends on which block comes first")


@pytest.mark.parametrize(
    ("emulation", "status", "reason"),
    [
        (EmulationRecord({}, (), PASSED, findings=(FAULT,), suspicions=(IN_ORDER,)), Status.WRONG, FAULT.summary),
        (EmulationRecord({}, (), PASSED, suspicions=(AT_FULL_SIZE,)), Status.SUSPECT, AT_FULL_SIZE.summary),
        (EmulationRecord({}, (), PASSED, suspicions=(IN_ORDER, AT_FULL_SIZE)), Status.SUSPECT, "(and 1 more)"),
        (EmulationRecord({}, (), PASSED, suspicions=(IN_ORDER,), not_shown=("x",)), Status.SUSPECT, IN_ORDER.detail),
        (EmulationRecord({}, (), suspicions=(IN_ORDER,), failure="too long"), Status.SUSPECT, IN_ORDER.detail),
        (EmulationRecord({}, (), failure="too long"), Status.NOT_EXECUTED, "too long"),
        (EmulationRecord({}, (), PASSED, not_shown=("no values at full size",)), Status.PARTIAL, "no values at full"),
        (EmulationRecord({}, (), WRONG, not_shown=("no values at full size",)), Status.WRONG, WRONG.worst),
    ],
)
def test_what_is_worst_decides_the_verdict(emulation, status, reason):
    made = records.judged(record(), emulation)
    assert made.status is status
    assert reason in made.reason


@pytest.mark.parametrize(
    ("emulation", "status"),
    [
        (EmulationRecord({}, (), PASSED), Status.VERIFIED),
        (EmulationRecord({}, (), PASSED, not_shown=("no values at full size",)), Status.PARTIAL),
        (EmulationRecord({}, (), PASSED, suspicions=(IN_ORDER,)), Status.SUSPECT),
        (EmulationRecord({}, (), unsupported="wgmma"), Status.PARTIAL),
        (None, Status.PARTIAL),
    ],
)
def test_a_gpu_takes_back_nothing_of_what_the_cpu_found_or_did_not_show(emulation, status):
    before = record() if emulation is None else records.judged(record(), emulation)
    made = records.measured(before, JobResult("v", PASSED), "GPU-a")
    assert made.status is status
    assert bool(made.reason) is (status is not Status.VERIFIED)
    assert emulation is None or emulation.unsupported in made.reason
    failed = records.measured(before, JobResult("v", failure=Failure(JobStage.VERIFY, "C[0]")), "GPU-a")
    assert (failed.status, failed.reason) == (Status.WRONG, "C[0]")


def test_a_job_that_went_well_is_verified_and_keeps_its_times():
    timed = Measurement(Samples((1.0,)), None, None, "cold", CardState(), CardState())
    executed = EmulationRecord({}, (), PASSED)
    made = records.measured(record(reason="old", emulation=executed), JobResult("v", PASSED, timed), "GPU-a")
    assert (made.status, made.reason, made.measurement.card) == (Status.VERIFIED, "", "GPU-a")
    assert made.throughput == pytest.approx(1.0)


def test_the_error_of_a_baseline_that_was_compared_is_kept():
    timed = Measurement(Samples((1.0,)), Samples((2.0,)), "cublas", "cold", CardState(), CardState())
    compared = BaselineResult("cublas", verification=replace(PASSED, max_error=3e-7))
    made = records.measured(
        record(), JobResult("v", PASSED, timed, baseline=compared, others=(BaselineResult("copy"),)), "GPU-a"
    )
    assert made.measurement.errors == {"cublas": 3e-7}


def test_kernels_of_the_file_that_are_not_launched_are_idle(tmp_path):
    source = "".join(f"__global__ void {name}(float *x) {{\n  *x = 1;\n}}\n" for name in "abc")
    (tmp_path / "k.cu").write_text(f'extern "C" __global__ void symbol(float *x) {{ *x = 1; }}\n{source}')
    text = 'source: k.cu\nkernel: b\narguments: {x: "out float32[1]"}\ngrid: 1\nblock: 1\n'
    template = from_text(text, tmp_path / "k.yaml").kernels[0].template
    planned = SimpleNamespace(
        point=SimpleNamespace(kernel=SimpleNamespace(template=template)),
        request=SimpleNamespace(name="k.cu", kernels=("b",)),
        launches=SimpleNamespace(entries=("symbol", "b")),
    )
    assert records._idle(cast("Any", planned)) == [("k.cu", 2, 4), ("k.cu", 8, 10)]
    planned.point.kernel.template = None
    assert records._idle(cast("Any", planned)) == []


def test_conditions_on_template_parameters_of_launched_kernels_are_warned_about(tmp_path):
    body = "{\n#if TWICE\n  *x = 2;\n#endif\n}\n"
    (tmp_path / "k.cu").write_text(
        "".join(f"template <int TWICE> __global__ void {name}(float *x) {body}" for name in "ab")
    )
    text = 'source: k.cu\nkernel: b<1>\narguments: {x: "out float32[1]"}\ngrid: 1\nblock: 1\n'
    template = from_text(text, tmp_path / "k.yaml").kernels[0].template
    planned = SimpleNamespace(
        point=SimpleNamespace(kernel=SimpleNamespace(template=template)),
        request=SimpleNamespace(name="k.cu", kernels=("b<1>",)),
        launches=SimpleNamespace(entries=()),
    )
    (warning,) = records._constant_conditions(cast("Any", planned))
    assert warning.startswith("k.cu(7): #if")
    assert "TWICE" in warning
    planned.point.kernel.template = None
    assert records._constant_conditions(cast("Any", planned)) == []


def test_only_the_launches_beside_the_main_one_are_overhead():
    gpu = gpu_for("H200")
    before = Launch("before", (1, 1, 1), (32, 1, 1), 0, (), bytes_moved=10**6)
    main = Launch("main", (1, 1, 1), (32, 1, 1), 0, (), bytes_moved=10**9, main=True)
    silent = Launch("silent", (1, 1, 1), (32, 1, 1), 0, ())
    assert records._overhead_seconds(Launches((main,)), gpu) == 0
    expected = pytest.approx(1e6 / (gpu.dram_gb_s * 1e9))
    assert records._overhead_seconds(Launches((before, main)), gpu) == expected
    assert records._overhead_seconds(Launches((before, main, silent)), gpu) == expected
    assert records._overhead_seconds(Launches((before, main, before)), gpu) == 2 * expected.expected


def test_a_launch_says_where_the_rows_of_its_tensor_maps_begin():
    maps = [
        TensorMap(name, name, "float16", (600, 600), leading, (64, 64)) for name, leading in (("b", 600), ("a", 640))
    ]
    launch = Launch("k", (2, 1, 1), (32, 1, 1), 0, (("a", "tensor_map"), ("n", "int32"), ("b", "tensor_map")))
    assert records._geometry(launch, maps).map_alignments == (128, 16)
    assert records._geometry(replace(launch, arguments=()), maps).map_alignments == ()


def test_execution_marks_the_hot_loop_in_both_listings(make):
    built = make("no_gpu").records()[0]
    ptx, sass = built.ptx, built.sass
    (first,) = ptx.loops
    copies = Counts(4, {"ld.global": 2, "st.global": 2}, {}, 0, 32)
    second = replace(first, label="copying", hot=False, counts=copies)
    (sass_first,) = sass.loops
    built = replace(
        built,
        ptx=replace(ptx, loops=(first, second)),
        sass=replace(sass, loops=(replace(sass_first, label=".L_copy", hot=False, counts=copies), sass_first)),
    )
    step = EmulatedStep(ptx.name, built.launch, hot_label="copying")
    made = records.judged(built, EmulationRecord({}, (step,)))
    assert (made.ptx.hot_name, made.sass.hot_name) == ("copying", ".L_copy")
    for other in (replace(step, hot_label=first.label), replace(step, hot_label=""), replace(step, entry="another")):
        kept = records.judged(built, EmulationRecord({}, (other,)))
        assert (kept.ptx, kept.sass) == (built.ptx, built.sass)


class Compiler:
    name, version = "played", "1"

    def supports(self, arch):
        return True


def test_a_kernel_that_waits_for_its_grid_is_launched_cooperatively_also_from_its_record(tmp_path):
    (tmp_path / "k.cu").write_text("__global__ void k(float *y) { *y = 1; }\n")
    (tmp_path / "k.yaml").write_text(
        'source: k.cu\nproblem: {n: 1}\narguments: {y: "out float32[n]"}\ngrid: 1\nblock: 32\n'
    )
    experiment = load(tmp_path / "k.yaml")
    (planned,) = plan(experiment, expand(experiment).points, [cast("Any", Compiler())], ["sm_90"])
    build = Build("", b"", {}, "", "", "played", "1", "sm_90", 0.0, {"k": "_Z1kPf"})
    assert not records.built(experiment, planned, build, None).launched.steps[0].cooperative
    waiting = replace(build, ptx=".visible .entry _Z1kPf(\n) { mov.u32 %r1, %envreg2; }")
    made = records.built(experiment, planned, waiting, None)
    assert made.launched.steps[0].cooperative
    resources = Resources(32, 0, 0, 0, 0, 0, 0)
    kept = BuildRecord("played", "1", "", resources, "", 0.0, False, "", made.known.symbols, made.known.fixed)
    assert records.built_before(experiment, planned, record(build=kept), None).launched == made.launched


def test_the_launches_before_the_main_one_take_their_traffic_and_their_starts():
    gpu = gpu_for("H200")
    before = Launch("before", (1, 1, 1), (32, 1, 1), 0, (), bytes_moved=10**6)
    main = Launch("main", (1, 1, 1), (32, 1, 1), 0, (), bytes_moved=10**9, main=True)
    machine = gpu.latencies
    assert machine.compared
    moved = 1e6 / (gpu.dram_gb_s * 1e9) / machine.dram_share
    assert records._before_seconds(Launches((main,)), gpu) == 0
    assert records._before_seconds(Launches((before, main)), gpu) == pytest.approx(moved + machine.launch_s)
    buffers = [SimpleNamespace(zero=zero, elements=count) for zero, count in ((True, 1), (True, 0), (False, 5))]
    zeroed = cast("Any", SimpleNamespace(steps=(before, main), main=main, workspace=buffers))
    assert records._before_seconds(zeroed, gpu) == pytest.approx(moved + 2 * machine.launch_s)
    unknown = replace(gpu, latencies=replace(machine, compared=False))
    assert records._before_seconds(Launches((before, main)), unknown) == 0


def test_the_largest_of_each_resource_counts():
    one, two = Resources(32, 0, 7, 5, 0, 1, 9), Resources(40, 0, 6, 5, 2, 0, 8)
    assert records._largest([one, two]) == Resources(40, 0, 7, 5, 2, 1, 9)


def test_more_than_one_sentence_is_counted():
    assert records._first_of(["a"]) == "a"
    assert records._first_of(["a", "b", "c"]) == "a (and 2 more)"
