"""Grids of as many blocks as the GPU holds at once: plain kernels through build, checks, emulation and records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mistakes import coded
from narrowing import as_

from lab.base.errors import UserError
from lab.experiment.load import from_text
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.hardware.clusters import clusters_held
from lab.hardware.gpus import from_description
from lab.measured.timing import GpuDescription
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.stages.build import BuildFailure, build, build_task
from lab.stages.emulate import emulate
from lab.stages.record import built_before
from lab.store.codec import VARIANT, record_to_text
from lab.toolchain.select import toolchain

SOURCE = """extern "C" __global__ void __launch_bounds__(THREADS) shift(float* out, const float* in, int n) {
    __shared__ float room[ROOM];
    for (int first = blockIdx.x * THREADS; first < n; first += gridDim.x * THREADS) {
        room[threadIdx.x] = first + threadIdx.x < n ? in[first + threadIdx.x] : 0.0f;
        __syncthreads();
        if (first + threadIdx.x < n) out[first + threadIdx.x] = room[threadIdx.x] + 1.0f;
        __syncthreads();
    }
}
"""
FILE = """source: k.cu
problem: {n: 10_000_000}
emulate: {n: 1000}
arguments: {out: "out float32[n]", in: "float32[n]", n: int32}
parameters: {THREADS: 256, ROOM: ROOMS}
grid: min(ceil_div(n, THREADS), resident_blocks)
block: THREADS
reference: {out: in + 1}
archs: [sm_90]
"""
H200_SMS = 132


@pytest.fixture
def read(tmp_path):
    (tmp_path / "k.cu").write_text(SOURCE)

    def read(text=FILE, rooms="[256]"):
        return from_text(text.replace("ROOMS", rooms), tmp_path / "k.yaml")

    return read


def planned_of(experiment):
    return plan(experiment, expand(experiment).points, [toolchain("nvrtc")], list(experiment.archs))


def inspected(experiment, gpu=None):
    planned = planned_of(experiment)
    outcomes = build([build_task(one) for one in planned])
    context = FlowContext(experiment, gpu, emulate=True)
    return context, [flow.inspect(context, *pair, None) for pair in zip(planned, outcomes, strict=True)]


def a_gpu(sms):
    return GpuDescription("NVIDIA H200", "sm_90", sms, 1980, 140 << 30, 60 << 20, "580", "13.0")


def test_the_grid_follows_the_machine_code_of_each_variant(read):
    _, (small, large) = inspected(read(rooms="[256, 12000]"))
    assert small.record.launch.grid == (8 * H200_SMS, 1, 1)  # 2,048 threads on an SM
    assert large.record.launch.grid == (4 * H200_SMS, 1, 1)  # 48,000 bytes of 228 KiB each


def test_the_grid_follows_the_gpu_that_measures(read):
    experiment = read()
    context, (variant,) = inspected(experiment, a_gpu(100))
    assert variant.record.launch.grid == (800, 1, 1)
    assert flow.job_of(experiment, variant.planned, variant.cubin).launches.steps[0].grid == (800, 1, 1)
    record = VARIANT.validate_json(record_to_text(variant.record))
    (planned,) = planned_of(experiment)
    assert built_before(experiment, planned, record, context.gpu).launched == variant.planned.launched


def test_the_small_problem_is_executed_with_its_own_grid(read):
    context, (variant,) = inspected(read())
    task = flow.emulation_task(context, variant)
    assert task.launches.steps[0].grid == (4, 1, 1)
    emulation = emulate(task, variant.ptx)
    assert emulation.verification.passed, emulation


def test_a_fault_between_the_turns_of_a_block_is_found(read, tmp_path):
    neighbour = SOURCE.replace("room[threadIdx.x] +", "room[threadIdx.x] + 0 * room[threadIdx.x ^ 32] +")
    (tmp_path / "k.cu").write_text(neighbour.replace("        __syncthreads();\n    }", "    }"))
    context, (variant,) = inspected(read())
    task = flow.emulation_task(context, variant)
    assert task.fewer is not None
    assert [one.steps[0].grid for one in (task.launches, task.fewer)] == [(4, 1, 1), (2, 1, 1)]
    assert not emulate(replace(task, fewer=None), variant.ptx).findings  # each block takes one turn
    emulation = emulate(task, variant.ptx)
    assert emulation.findings[0].kind == "shared-race"
    assert "in a launch of 2 blocks" in emulation.notes[-1]


def test_each_launch_of_a_sequence_has_its_own(read):
    text = FILE.replace("grid: min(ceil_div(n, THREADS), resident_blocks)\nblock: THREADS\n", "")
    step = "{kernel: shift, grid: GRID, block: THREADS, arguments: [out, in, n], shared_bytes: MORE}"
    steps = [step.replace("GRID", "resident_blocks").replace("MORE", more) for more in ("0", "100_000")]
    experiment = read(f"{text}launches: [{', '.join(steps)}]\n")
    _, (variant,) = inspected(experiment)
    assert [step.launch.grid[0] for step in variant.record.steps] == [8 * H200_SMS, 2 * H200_SMS]
    (planned,) = planned_of(experiment)
    assert built_before(experiment, planned, variant.record, None).launched == variant.planned.launched


def test_a_build_that_fails_has_no_grid(read):
    experiment = read()
    (planned,) = planned_of(experiment)
    variant = flow.inspect(FlowContext(experiment, None, emulate=True), planned, BuildFailure("no"), None)
    assert variant.record.launch is None


def test_the_expression_is_part_of_the_variant(read):
    (one,) = planned_of(read())
    (other,) = planned_of(read(FILE.replace("resident_blocks)", "2 * resident_blocks)")))
    assert one.fingerprint != other.fingerprint


def test_a_parameter_of_that_name_is_meant(read):
    _, (variant,) = inspected(read(FILE.replace("{THREADS", "{resident_blocks: 5, THREADS")))
    assert variant.record.launch.grid == (5, 1, 1)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("resident_blocks)", "resident_block)", "unknown name 'resident_block' in the grid"),
        ("block: THREADS", "block: resident_blocks", "unknown name 'resident_blocks' in the block"),
    ],
)
def test_only_grids_know_the_name(read, old, new, words):
    with pytest.raises(UserError, match=words) as caught:
        read(FILE.replace(old, new))
    assert "k.yaml:" in str(caught.value)


@pytest.mark.parametrize(
    ("grid", "found"), [("resident_blocks / 2", "528.0"), ("resident_blocks * 10**7", "10560000000")]
)
def test_a_grid_that_comes_out_wrong_is_told_with_its_place(read, grid, found):
    experiment = read(FILE.replace("min(ceil_div(n, THREADS), resident_blocks)", grid))
    with pytest.raises(UserError, check=coded("wrong-value", key="grid", line=6)) as caught:
        inspected(experiment)
    assert "k.yaml:6" in str(caught.value)
    assert "key: grid" in str(caught.value)
    assert found in str(caught.value)


def test_an_architecture_without_a_gpu_in_the_table_is_told(read):
    experiment = replace(read(), gpu=())
    (planned,) = planned_of(experiment)
    (outcome,) = build([build_task(planned)])
    unknown = replace(planned, request=replace(planned.request, arch="sm_88"))
    with pytest.raises(UserError, check=coded("unknown-name", key="grid", found="sm_88", line=6)) as caught:
        flow.inspect(FlowContext(experiment, None, emulate=True), unknown, outcome, None)
    assert "k.yaml:6" in str(caught.value)


TEMPLATE = """question: q
operator: softmax
problem: {m: 100000, n: 1024}
kernels:
  - {template: softmax/TEMPLATE.cu.j2, parameters: {cluster: [1, 8], persistent: [24, occupancy]}}
archs: [sm_90]
"""


@pytest.mark.parametrize("template", ["fused", "staged", "twice", "online"])
def test_the_softmax_templates_keep_every_sm_at_work(tmp_path, template):
    experiment = from_text(TEMPLATE.replace("TEMPLATE", template), tmp_path / "t.yaml")
    planned = planned_of(experiment)
    outcomes = build([build_task(one) for one in planned])  # they take seconds, and are of no GPU
    for sms in (H200_SMS, 78):
        context = FlowContext(experiment, a_gpu(sms), emulate=True)
        for one, outcome in zip(planned, outcomes, strict=True):
            record = flow.inspect(context, one, outcome, None).record
            cluster = as_(int, record.parameters["cluster"])
            held = clusters_held(from_description(a_gpu(sms)), record.prediction.blocks_per_sm, cluster)
            wanted = held * cluster if record.parameters["persistent"] == "occupancy" else 24
            assert record.launch.grid == (wanted, 1, 1)
