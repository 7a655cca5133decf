"""Emulated TF32 and int8 GEMMs on the ladder rungs that use mma.sync, compiled for sm_80."""

from __future__ import annotations

import pytest
from compiling import compile_text
from hgemm_cases import WARP_TYPES, WARPS, narrow_warps, problems, template

from lab.isa.matrix import matrix_product, matrix_products
from lab.isa.mix import kernel_mix
from lab.isa.sass.module import read_sass
from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache
from lab.toolchain.select import build, toolchain

GEMM = operator("gemm")
LAYOUTS = ("nn", "nt", "tn", "tt")
AMPERE = "compute_80"


def settings():
    """Yield the first setting of v0 and v2 with all layouts, later settings with one, cycling through the types.

    v1 reads its tiles as v2 does. What is left of layouts and types is thorough.
    """
    seen = {"v1_ldmatrix"}
    for number, (key, (name, parameters)) in enumerate(WARPS.items()):
        further = name in seen
        seen.add(name)
        for place, layout in enumerate(LAYOUTS):
            for turn, types in enumerate(WARP_TYPES):
                in_turn = turn == (number + place) % 2 and (not further or place == number % 4)
                marks = [] if in_turn else [pytest.mark.thorough]
                yield pytest.param(name, parameters, layout, types, id=f"{key}-{layout}-{types[0]}", marks=marks)


def executed(instance, ptx):
    return emulate(EmulationTask(instance.launches, "gemm", instance.problem, 0, {}), ptx)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("name", "given", "layout", "types"), list(settings()))
def test_every_rung_is_right_and_clean(name, given, layout, types):
    ptx = ""
    for problem in problems(name, layout, *types):
        instance = Instance.of(template(name), narrow_warps(name, given, types[0]), problem)
        assert (instance.unsupported(), instance.unmet()) == (None, None)
        ptx = ptx or compile_text(instance.source, "--generate-line-info", arch=AMPERE)
        done = executed(instance, ptx)
        assert done.unsupported == ""
        assert done.fault == "", f"{problem}: {done.fault}"
        assert done.verification.passed, f"{problem}: {done.verification}"


@pytest.mark.parametrize("types", WARP_TYPES, ids=lambda types: types[0])
@pytest.mark.parametrize("block", [32, 64, 128])
def test_operands_along_m_and_n_are_read_without_bank_conflicts(block, types):
    """Whatever the width of a line; and the products that instructions do are those of the problem."""
    tile = {"m": block, "n": block, "k": 64, "dtype": types[0], "layout": "nt"}
    problem = GEMM.problem({**tile, **({"precision": types[2]} if types[2] else {})})
    parameters = {"block_m": block, "block_n": block, "warp_m": 32, "warp_n": 32, "block_k": 32}
    instance = Instance.of(template("v1_ldmatrix"), parameters, problem)
    done = executed(instance, compile_text(instance.source, arch=AMPERE))
    assert done.verification.passed
    for access in ("shared.load", "shared.store"):
        counted = done.executed.memory[access]
        assert counted.wavefronts == counted.ideal_wavefronts > 0
    products = [(n, matrix_product(opcode)) for opcode, n in done.executed.warps_by_opcode.items()]
    assert sum(n * made.multiply_adds for n, made in products if made) == block * block * 64


@pytest.mark.parametrize(
    ("given", "values", "products"),
    [
        ({"block_k": 32}, {"dtype": "float32", "precision": "tf32"}, {"tf32": 64 * 32 * 32}),
        ({"block_k": 64}, {"dtype": "int8"}, {"int8": 64 * 32 * 64}),
    ],
)
def test_an_ampere_runs_their_instructions_and_keeps_sums_in_registers(given, values, products, tmp_path):
    """The hot loop's products are those of a warp's tile in a step along k."""
    problem = GEMM.problem({"m": 64, "n": 64, "k": 64, "layout": "nt", **values})
    instance = Instance.of(template("v2_stages"), {**given, "stages": 3}, problem)
    made = build(toolchain("nvrtc"), CompileRequest(instance.source, "kernel.cu", "sm_80"), Cache(tmp_path))
    assert [resource.spill_store_bytes for resource in made.build.resources.values()] == [0]
    (function,) = read_sass(made.disassembly.text, made.disassembly.lines, "kernel.sass").kernels
    assert matrix_products(kernel_mix("sass", function).hot_counts.by_opcode) == products


@pytest.mark.parametrize(
    ("name", "given", "values", "words"),
    [
        ("v0_fragments", {}, {"dtype": "float32"}, "precision: tf32"),
        ("v1_ldmatrix", {}, {"dtype": "float32"}, "precision: tf32"),
        ("v2_stages", {}, {"dtype": "float32"}, "precision: tf32"),
        ("v1_ldmatrix", {"block_k": 16}, {"dtype": "int8"}, "32 bytes along k"),
        ("v1_ldmatrix", {"block_m": 256, "block_n": 256, "block_k": 128, "warp_m": 128, "warp_n": 128},
         {"dtype": "float32", "precision": "tf32"}, "227 KiB"),
        ("v2_stages", {"block_k": 16}, {"dtype": "int8"}, "32 bytes along k"),
        ("v2_stages", {"block_k": 64, "stages": 6}, {"dtype": "float32", "precision": "tf32"}, "227 KiB"),
        ("v2_stages", {}, {"dtype": "float32", "precision": "tf32", "lda": 66}, "multiple of that"),
        ("v2_stages", {}, {"dtype": "int8", "ldb": 72}, "multiple of that"),
    ],
)  # fmt: skip
def test_what_a_rung_does_not_multiply_is_refused_with_the_reason(name, given, values, words):
    problem = GEMM.problem({"m": 64, "n": 64, "k": 64, "layout": "tn", **values})
    unmet = Instance.of(template(name), given, problem).unmet()
    assert unmet is not None
    assert words in unmet.because


def test_floats_of_eight_bits_are_none_of_theirs():
    """An instruction of a warp for them came with sm_89, and on sm_90 it is made of two of float16."""
    problem = GEMM.problem({"m": 64, "n": 64, "k": 64, "layout": "tn", "dtype": "float8_e4m3fn"})
    unsupported = Instance.of(template("v2_stages"), {}, problem).unsupported()
    assert unsupported is not None
    assert unsupported[0] == "dtype"
