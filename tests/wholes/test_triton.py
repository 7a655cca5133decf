"""A Triton function through build, checks and emulation; a stand-in makes the machine code where Triton is not here."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.cli.inspect import inspect_variant, variants
from lab.experiment.load import from_text
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.gpu.device.packed_arguments import marshal
from lab.hardware.gpus import gpu_for
from lab.hardware.occupancy import occupancy
from lab.operators.builtin import operator
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.stages.build import Built, build, build_task
from lab.stages.emulate import emulate
from lab.stages.record import built_before
from lab.store.codec import VARIANT, record_to_text
from lab.templates.launches import BuiltLaunch
from lab.toolchain.base import CompiledLaunch, CompileRequest
from lab.toolchain.select import toolchain
from lab.toolchain.triton.compiler import find_triton
from lab.toolchain.triton.source import restored

FUNCTION = """import triton
import triton.language as tl

@triton.jit
def add(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
"""
FILE = """source: k.py:add
problem: {n: 10_000}
emulate: {n: 1000}
arguments: {out: "out float32[n]", x: "float32[n]", n: int32}
parameters: {BLOCK: 256}
configs: {num_warps: 2}
grid: ceil_div(n, BLOCK)
reference: {out: x + 1}
archs: [sm_90]
"""
CUDA = """extern "C" __global__ void __launch_bounds__(64) __cluster_dims__(CTAS, 1, 1)
add(float* out, const float* x, int n HIDDEN) {
    extern __shared__ float room[];
    int share = BLOCK / CTAS;
    for (int k = threadIdx.x; k < share; k += 64) {
        int i = blockIdx.x * share + k;
        room[k] = i < n ? x[i] : 0;
        if (i < n) out[i] = room[k] + 1;
    }
}
"""


class StandIn:
    """Compiles CUDA that looks from outside like what Triton makes of the function."""

    name, version, architectures, identity = "triton", "3", (), ""

    def __init__(self, hidden=2):
        self.hidden = hidden

    def supports(self, arch):
        return True

    def compile(self, request):
        source = restored(request)
        hidden = "".join(f", void* h{i}" for i in range(self.hidden))
        absent = [place for place, (name, _) in enumerate(source.signature) if name in source.ones]
        text = CUDA.replace("HIDDEN", hidden).replace("CTAS", str(source.num_ctas)).replace("BLOCK", "256")
        compiled = toolchain("nvrtc").compile(CompileRequest(text, "kernel.cu", request.arch))
        fixed = CompiledLaunch(
            threads=32 * source.num_warps,
            dynamic_shared_bytes=1024 // source.num_ctas,
            cluster=source.num_ctas,
            hidden_pointers=2,
            absent_arguments=tuple(absent),
        )
        return replace(compiled, toolchain="triton", symbols={"add": "add"}, launch=fixed)


@pytest.fixture(params=["stand-in", "triton"])
def compiler(request):
    if request.param == "stand-in":
        return StandIn()
    return find_triton() or pytest.skip("Triton is not on this machine")


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "k.py").write_text(FUNCTION)
    (tmp_path / "k.yaml").write_text(FILE)

    def read(text=FILE):
        return from_text(text, tmp_path / "k.yaml")

    return read


def inspected(experiment, compiler):
    (planned,) = plan(experiment, expand(experiment).points, [compiler], ["sm_90"])
    (outcome,) = build([build_task(planned)])
    assert isinstance(outcome, Built), outcome
    context = FlowContext(experiment, None, emulate=True)
    return context, flow.inspect(context, planned, outcome, None), outcome


@pytest.mark.parametrize("ctas", [1, 2])
def test_a_function_is_built_checked_and_executed(read, compiler, ctas):
    experiment = read(FILE.replace("num_warps: 2", f"num_warps: 2, num_ctas: {ctas}"))
    context, variant, outcome = inspected(experiment, compiler)
    assert flow.argument_mistake(context, variant, outcome) is None
    task = flow.emulation_task(context, variant)
    (step,) = task.launches.steps
    assert (step.grid, step.block) == ((4 * ctas, 1, 1), (64, 1, 1))
    record = emulate(task, variant.ptx)
    assert (record.fault, record.unsupported, record.failure) == ("", "", "")
    assert record.verification.passed


def test_a_stride_that_is_always_1_is_not_passed(read, compiler, tmp_path):
    with_stride = FUNCTION.replace("x, n, BLOCK", "x, stride, n, BLOCK").replace(
        "tl.load(x + at", "tl.load(x + at * stride"
    )
    (tmp_path / "k.py").write_text(with_stride)
    context, variant, outcome = inspected(read(FILE.replace("n: int32}", "stride: int32 = 1, n: int32}")), compiler)
    assert flow.argument_mistake(context, variant, outcome) is None
    task = flow.emulation_task(context, variant)
    assert [name for name, _ in task.launches.steps[0].arguments][:3] == ["out", "x", "n"]
    record = emulate(task, variant.ptx)
    assert (record.fault, record.unsupported, record.failure) == ("", "", "")
    assert record.verification.passed


def test_a_record_knows_how_its_variant_is_launched(read, compiler):
    experiment = read()
    _, variant, outcome = inspected(experiment, compiler)
    assert variant.record.launch.block == (64, 1, 1)
    again = VARIANT.validate_json(record_to_text(variant.record))
    assert again.build.launch == outcome.build.launch
    (planned,) = plan(experiment, expand(experiment).points, [compiler], ["sm_90"])
    resumed = planned.built(BuiltLaunch.of(again.build))
    assert resumed.launched == variant.planned.launched
    job = flow.job_of(experiment, resumed, variant.cubin)
    assert job.launches.steps[0].dynamic_shared_bytes == outcome.build.launch.dynamic_shared_bytes
    computed = operator(job.operator)
    inputs = computed.inputs(computed.restored(job.problem), 0)
    codes, values = marshal(job.launches.steps[0].arguments, inputs, {"out": 512, "x": 1024})
    assert (codes, values) == ("PPiPP", (512, 1024, 10_000, 0, 0))


def test_programs_as_many_as_the_gpu_holds(read, compiler):
    experiment = read(FILE.replace("ceil_div(n, BLOCK)", "min(ceil_div(n, BLOCK), resident_blocks // 250)"))
    context, variant, outcome = inspected(experiment, compiler)
    launched = outcome.build.launch
    use, threads = outcome.build.resources["add"], launched.threads
    held = occupancy(gpu_for("sm_90").architecture, use, threads, launched.dynamic_shared_bytes).blocks_per_sm
    assert variant.planned.launched.steps[0].grid == (held * 132 // 250, 1, 1)
    assert 1 < held * 132 // 250 < 40
    assert flow.emulation_task(context, variant).launches.steps[0].grid == (4, 1, 1)
    (planned,) = plan(experiment, expand(experiment).points, [compiler], ["sm_90"])
    resumed = built_before(experiment, planned, variant.record, None)
    assert resumed.launched == variant.planned.launched


def test_machine_code_with_other_arguments_is_a_mistake(read):
    context, variant, outcome = inspected(read(), StandIn(hidden=3))
    mistake = flow.argument_mistake(context, variant, outcome)
    assert "takes 4 arguments" in str(mistake) or "the kernel takes 4" in str(mistake)


def test_inspecting_runs_no_python_unasked(read, tmp_path, monkeypatch):
    monkeypatch.setattr("lab.cli.inspect.toolchains", lambda experiment: (StandIn(),))
    (tmp_path / "k.py").write_text(f"raise SystemExit(3)\n{FUNCTION}")
    (planned,) = variants(tmp_path / "k.yaml")
    with pytest.raises(UserError, check=coded("refused", key="source", found="k.py", line=1)) as caught:
        inspect_variant(tmp_path / "k.yaml", planned.variant)
    assert "--run-operator" in str(caught.value)
    assert inspect_variant(tmp_path / "k.yaml", planned.variant, run_operator=True).listings
