"""Entries that name a source in an experiment with an operator: what becomes of them, and every mistake in them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.experiment.beside import offered
from lab.experiment.load import from_text
from lab.experiment.space import expand
from lab.experiment.variants import plan, toolchains
from lab.hardware.tensormaps import TensorMap
from lab.operators.base import Offered
from lab.operators.gemm import Gemm
from lab.runs import flow
from lab.stages.build import build, build_task
from lab.toolchain.select import toolchain
from lab.toolchain.triton.compiler import Triton
from lab.toolchain.triton.source import restored

SUPPORT = Path(__file__).parents[1] / "support"

SOURCE = """
__global__ void scale(float *c, const float *a, int rows, float factor, unsigned long long far)
{ c[threadIdx.x + OFFSET] = factor * a[0] * rows * far; }
struct Matrix { float *c; int rows; };
__global__ void other(Matrix of) { of.c[0] = of.rows; }
"""
TRITON = """import triton
import triton.language as tl

@triton.jit
def product(c, a, b, m, n, alpha, BLOCK: tl.constexpr = 64):
    pass
"""
HEAD = """question: Which?
operator: gemm
problem: {m: 1024, n: 512, k: 256}
emulate: {m: 64, n: 48, k: 33}
archs: [sm_90]
kernels:
"""
CUDA = """  - name: mine
    source: k.cu
    kernel: scale
    arguments: {c: C, a: A, rows: m, factor: 2 * alpha, far: lda * k}
    parameters: {OFFSET: [0, 1]}
    grid: ceil_div(n, 32)
    block: 32
"""
TRITONS = """  - source: k.py:product
    arguments: {c: C, a: B, b: A, m: n, n: m, alpha: alpha}
    configs: {num_warps: [4, 8]}
    grid: ceil_div(n, BLOCK)
    constraints: [layout == "nn"]
"""
OURS = "  - {template: gemm/v1_coalesced.cu.j2}\n"


@pytest.fixture
def read(tmp_path):
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "k.py").write_text(TRITON)
    shutil.copy(SUPPORT / "axpy_operator.py", tmp_path)

    def read(text, **options):
        return from_text(text, tmp_path / "e.yaml", **options)

    return read


def planned(experiment, tools=()):
    tools = tools or (*toolchains(replace(experiment, kernels=experiment.kernels[:1])), Triton(Path("python"), "3.9"))
    return plan(experiment, expand(experiment).points, tools, ["sm_90"])


def test_what_the_operator_has_stands_for_the_parameters(read):
    experiment = read(HEAD + CUDA + OURS)
    assert [kernel.name for kernel in experiment.kernels] == ["mine", "v1_coalesced"]
    first = expand(experiment).points[0].instance
    assert first.own_launches.steps[0].arguments == (
        ("c", "float32*"), ("a", "float32*"), ("rows", "int32"), ("factor", "float32"), ("far", "uint64")
    )  # fmt: skip
    [step] = first.launches.steps
    assert step.arguments == (
        ("C", "float32*"),
        ("A", "float32*"),
        ("kernel.rows", "int32"),
        ("kernel.factor", "float32"),
        ("kernel.far", "uint64"),
    )
    assert dict(first.launches.scalars) == {"kernel.rows": 1024, "kernel.factor": 2.0, "kernel.far": 1024 * 256}
    assert (step.grid, step.block) == ((16, 1, 1), (32, 1, 1))


def test_each_kernel_has_its_compilers(read):
    variants = planned(read(HEAD + OURS + TRITONS + CUDA + "toolchains: [nvrtc]\n"))
    assert [(variant.point.kernel.name, variant.toolchain.name, variant.label) for variant in variants] == [
        ("v1_coalesced", "nvrtc", ""),
        ("product", "triton", "num_warps=4"),
        ("product", "triton", "num_warps=8"),
        ("mine", "nvrtc", "OFFSET=0"),
        ("mine", "nvrtc", "OFFSET=1"),
    ]
    swept = planned(read(HEAD + OURS + TRITONS + "options: [[], [--use_fast_math]]\n"))
    assert [(one.toolchain.name, one.request.options) for one in swept] == [
        ("nvrtc", ()), ("nvrtc", ("--use_fast_math",)), ("triton", ()), ("triton", ())
    ]  # fmt: skip
    with pytest.raises(UserError, check=coded("unsupported", key="toolchains", found=("triton",), line=13)):
        toolchains(read(HEAD + OURS + TRITONS + "toolchains: [triton]\n"))


def test_types_of_triton_follow_the_problem(read):
    text = (HEAD + OURS + TRITONS).replace("k: 256}", "k: 256, dtype: [float16, bfloat16, float32]}")
    found = [restored(one.request) for one in planned(read(text)) if one.toolchain.name == "triton"]
    assert {one.signature for one in found} == {
        (("c", f"*{kind}"), ("a", f"*{kind}"), ("b", f"*{kind}"), ("m", "i32"), ("n", "i32"), ("alpha", "fp32"))
        for kind in ("fp16", "bf16", "fp32")
    }
    assert {one.divisible for one in found} == {("c", "a", "b", "m", "n")}


def test_other_problems_are_left_out(read):
    text = (HEAD + OURS + TRITONS).replace("k: 256}", "k: 256, layout: [nn, tn]}")
    expansion = expand(read(text))
    assert [point.label for point in expansion.points if point.kernel.name == "product"] == [
        "layout=nn num_warps=4",
        "layout=nn num_warps=8",
    ]
    assert expansion.excluded == {'layout == "nn"': 2}
    with pytest.raises(
        UserError,
        check=coded("nothing-left", key="kernels[1]", found='2 combinations, left out by: layout == "nn": 2', line=12),
    ) as caught:
        expand(read(text.replace("[nn, tn]", "tn")))
    assert caught.value.key == "kernels[1]"


def test_an_extension_of_the_operator_has_to_be_named(read):
    batched = (HEAD + TRITONS).replace("k: 256}", "k: 256, batch: 3}")
    assert {point.kernel.name for point in expand(read(batched.replace('"nn"', '"nn", batches == "strided"'))).points}
    with pytest.raises(UserError, check=coded("nothing-left", key="kernels[0]", line=11)):
        expand(read(batched))
    plain = (HEAD + OURS + TRITONS).replace('"nn"]', '"nn", batches == "none"]')
    assert "product" in {point.kernel.name for point in expand(read(plain)).points}


def test_scalars_of_an_operator_that_are_no_fields(read, monkeypatch):
    monkeypatch.setattr(Gemm, "offered", lambda *_: Offered({"m": 7, "own": 2.5}, {"C": "float32"}, ("C",)))
    [first, *_] = expand(read(HEAD + CUDA.replace("a: A, rows: m", "a: C, rows: own"))).points
    assert first.instance.launches.steps[0].arguments[2] == ("own", "int32")
    [other, *_] = expand(read(HEAD + CUDA.replace("a: A", "a: C"))).points
    assert other.instance.launches.steps[0].arguments[2] == ("m", "int32")


def test_a_structure_and_a_scratch_buffer(read):
    text = CUDA.replace("kernel: scale", "kernel: other").replace("    parameters: {OFFSET: [0, 1]}\n", "")
    arguments = "{of: {c: C, rows: m}}"
    [point] = expand(
        read(HEAD + text.replace("{c: C, a: A, rows: m, factor: 2 * alpha, far: lda * k}", arguments))
    ).points
    assert point.instance.launches.steps[0].arguments == (("of", "struct(float32* C, int32 kernel.rows)"),)
    [point, _] = expand(read(HEAD + CUDA.replace("a: A", 'a: "float32[n, m + 1] zeros"'))).points
    [buffer] = point.instance.launches.workspace
    assert (buffer.name, buffer.dtype, buffer.elements, buffer.zero) == ("a", "float32", 512 * 1025, True)


MAPPED = """  - source: map.cu
    arguments:
      c: C
      a_map: "A as map[64, TILE] of [k, m] strides [lda, 1] swizzle 128"
    parameters: {TILE: 32}
    grid: 1
    block: 32
"""


def test_a_tensor_map_of_an_array_of_the_operator(read, tmp_path):
    (tmp_path / "map.cu").write_text(
        "#include <cuda.h>\n"
        "__global__ void k(float *c, const __grid_constant__ CUtensorMap a_map) { c[0] = TILE + (size_t)&a_map; }"
    )
    experiment = read(HEAD + MAPPED)
    [point] = expand(experiment).points
    made = point.instance.launches
    assert made.tensor_maps == (TensorMap("a_map", "A", "float32", (1024, 256), 1024, (32, 64), 128),)
    assert made.steps[0].arguments == (("C", "float32*"), ("a_map", "tensor_map"))
    [variant] = planned(experiment, [toolchain("nvrtc")])
    [outcome] = build([build_task(variant)])
    context = flow.FlowContext(experiment, None, emulate=False)
    assert flow.argument_mistake(context, flow.inspect(context, variant, outcome, None), outcome) is None
    for old, new, part in (
        (" of [k, m] strides [lda, 1]", "", "a map of an operator's array must state its dimensions"),
        ("lda, 1", "ldx, 1", "unknown name 'ldx' in an argument"),
        ("A as", "float32[m, k] as", "a scratch buffer cannot have a tensor map"),
    ):
        with pytest.raises(UserError, match=part):
            read(HEAD + MAPPED.replace(old, new))


def test_the_operator_of_a_file(read):
    text = HEAD.replace("gemm", "./axpy_operator.py:Axpy").replace("{m: 1024, n: 512, k: 256}", "{n: 1000, a: 2.0}")
    text = text.replace("{m: 64, n: 48, k: 33}", "{n: 67}")
    [point, _] = expand(
        read(
            text
            + CUDA.replace(
                "{c: C, a: A, rows: m, factor: 2 * alpha, far: lda * k}", "{c: z, a: x, rows: n, factor: a, far: 1}"
            )
        )
    ).points
    assert dict(point.instance.launches.scalars) == {"kernel.rows": 1000, "kernel.factor": 2.0, "kernel.far": 1}
    with pytest.raises(UserError, check=coded("refused", key="operator", found="./axpy_operator.py:Axpy", line=2)):
        read(text + CUDA, run_operator=False)


@pytest.mark.parametrize(
    ("kernel", "old", "new", "parts"),
    [
        (CUDA, "source: k.cu", "source: k.cu\n    template: gemm/v1_coalesced.cu.j2",
         ("either a template or a source", "kernels[0].source")),
        (CUDA, "    source: k.cu\n", "", ("either a template or a source", "kernels[0].template", "e.yaml:7")),
        (OURS, ".j2}", ".j2, block: 32}",
         ("only a source has this key", "kernels[0].block", "template, name, parameters")),
        (CUDA, "k.cu", "none.cu", ("no such file", "kernels[0].source", "e.yaml:8")),
        (CUDA, "a: A", "a: D",
         ("no array or scalar 'D'", "kernels[0].arguments.a", "e.yaml:10", "an array (A, B, C)", "a scalar (m, n, k")),
        (CUDA, "rows: m", "rows: alfa", ("no array or scalar 'alfa'", "did you mean 'alpha'?")),
        (CUDA, "2 * alpha", "2 * alfa", ("unknown name 'alfa' in an argument", "kernels[0].arguments.factor")),
        (CUDA, "2 * alpha", "layout", ("not a number", "'nn'")),
        (CUDA, "2 * alpha", "2 *", ("kernels[0].arguments.factor",)),
        (CUDA, "factor: 2 * alpha", "factor: float32", ("the scalar factor has no value", "float32 = EXPRESSION")),
        (CUDA, "factor: 2 * alpha", "factor: float23 = 2", ("kernels[0].arguments.factor",)),
        (CUDA, "c: C, a: A", "c: A, a: A", ("no argument is an output of the operator", "accepted: C")),
        (CUDA, "    arguments: {c: C, a: A, rows: m, factor: 2 * alpha, far: lda * k}\n", "",
         ("a key is missing", "kernels[0].arguments", "an array (A, B, C)")),
        (CUDA, "a: A", 'a: "float32[m] normal"', ("a scratch buffer cannot have initial contents", "zeros")),
        (CUDA, "a: A", 'a: "float32[q]"', ("unknown name 'q' in an argument", "kernels[0].arguments.a")),
        (CUDA, "a: A, rows", 'k: "float32[n]", rows', ("the scratch buffer has the name of an array or a field",)),
        (CUDA, "{OFFSET: [0, 1]}", "{m: 1}", ("a parameter and a field of the problem have one name",)),
        (CUDA, "{OFFSET: [0, 1]}", "{OFFSET: 1, OTHER: [1, 2]}",
         ("parameter is not used", "kernels[0].parameters.OTHER")),
        (CUDA, "block: 32", "blok: 32", ("unknown key", "kernels[0].blok", "did you mean 'block'?")),
        (CUDA, "    block: 32\n", "", ("a key is missing", "kernels[0].block")),
        (CUDA, "ceil_div(n, 32)", "ceil_div(q, 32)", ("unknown name 'q' in the grid", "kernels[0].grid")),
        (CUDA, "{c: C, a: A,", "{c: C, a: max(m, n,", ("inside a bracket", "kernels[0].arguments.a")),
        (CUDA, "scale", "scales", ("no such kernel", "kernels[0].kernel", "did you mean 'scale'?")),
        (TRITONS, "m: n, n: m", "n: m, m: n",
         ("do not match the function product", "mind the order", "kernels[0].arguments")),
        (TRITONS, ", alpha: alpha", "", ("do not match the function product", "c, a, b, m, n, alpha")),
        (TRITONS, "[layout", "[layot", ("unknown name 'layot'", "kernels[0].constraints[0]")),
        (TRITONS, "configs", "block: 32\n    configs", ("does not use block", "kernels[0].block")),
        (TRITONS, "k.py:product", "k.py:produc",
         ("no such Triton function", "did you mean 'product'", "kernels[0].source")),
    ],
)  # fmt: skip
def test_mistakes_name_their_place(read, kernel, old, new, parts):
    assert old in kernel
    with pytest.raises(UserError) as caught:
        read(HEAD + kernel.replace(old, new))
    for part in parts:
        assert part in str(caught.value)


def test_all_mistakes_of_an_entry_are_told_together(read):
    with pytest.raises(UserError) as caught:
        read(HEAD + CUDA.replace("a: A", "a: D").replace("block: 32", "block: q"))
    assert "kernels[0].arguments.a" in str(caught.value)
    assert "kernels[0].block" in str(caught.value)


def test_element_types_that_no_field_says(read, monkeypatch):
    def offered_by(_, problem):
        return Offered({}, {"C": "float32" if problem.layout == "nn" else "int8"}, ("C",))

    monkeypatch.setattr(Gemm, "offered", offered_by)
    with pytest.raises(UserError, check=coded("wrong-value", key="kernels[0].arguments.c", line=8)):
        read((HEAD + TRITONS).replace("k: 256}", "k: 256, layout: [nn, tn]}").replace("a: B, b: A", "a: C, b: C"))


def test_one_problem_of_each_kind_is_asked(read, monkeypatch):
    checked_sizes = []

    def offered_by(_, problem):
        checked_sizes.append(problem.m)
        return Offered({}, {"C": problem.dtype}, ("C",))

    monkeypatch.setattr(Gemm, "offered", offered_by)
    text = (HEAD + TRITONS).replace("m: 1024", "m: [1024, 2048]").replace("k: 256", "k: 256, dtype: [float16, float32]")
    experiment = read(text.replace("a: B, b: A", "a: C, b: C"))
    assert checked_sizes == [64, 64]  # at the size that the CPU executes, once for each dtype
    assert [one.arrays["C"] for _, one in offered(experiment.operator, experiment.problems)] == [
        "float16", "float32"
    ] * 2  # fmt: skip


def test_the_page_on_kernels_shows_an_experiment(root):
    page = (root / "docs" / "reference" / "your-kernel.md").read_text()
    section = page.partition("## Beside an operator's kernels")[2]
    shown = section.partition("```yaml\n")[2].partition("```")[0]
    experiment = from_text(f"question: Which?\n{shown}", root / "experiments" / "shown.yaml")
    assert [kernel.name for kernel in experiment.kernels] == ["v9_pingpong", "Triton"]
    assert {point.kernel.name for point in expand(experiment).points} == {"v9_pingpong", "Triton"}


def test_the_experiment_on_triton_has_every_kernel_at_every_size(root):
    experiment = from_text(
        (root / "experiments" / "hgemm_triton.yaml").read_text(), root / "experiments" / "hgemm_triton.yaml"
    )
    names = [kernel.name for kernel in experiment.kernels]
    points = {(point.kernel.name, point.problem.values["m"]) for point in expand(experiment).points}
    assert points == {(name, m) for name in names for m in (2048, 4096, 8192, 2560)}
