"""The FP16/BF16 GEMM ladder, emulated: correct on awkward sizes, and free of races and bad accesses."""

from __future__ import annotations

import functools
import itertools
import re

import pytest
from compiling import compile_text
from covering import gated, pairs
from hgemm_cases import HALVES, SETTINGS, arch, problems, rung, template

from lab.isa.mix import kernel_mix
from lab.isa.ptx.module import read_ptx
from lab.isa.sass.module import read_sass
from lab.operators.builtin import operator
from lab.stages.emulate import EmulationTask, emulate
from lab.store import figures
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache
from lab.toolchain.select import build, toolchain

LAYOUTS = ("nn", "nt", "tn", "tt")
RUNGS = sorted({name for name, _ in SETTINGS.values()})
TYPES = (("float16", "float16"), ("bfloat16", "bfloat16"), ("bfloat16", "float32"), ("float16", "bfloat16"))


def made(name, parameters, problem):
    return Instance.of(template(name), parameters, problem)


def executed(instance, text, arch):
    return emulate(
        EmulationTask(instance.launches, "gemm", instance.problem, 0, {}), compile_text(text, arch=f"compute_{arch}")
    )


def features(key, layout, types, points):
    """Every setting; and of a rung, the pairs of what transposes an operand, the types and the points."""
    return {key, *pairs(SETTINGS[key][0], layout[0], layout[1], types[0], points), *pairs(layout, types)}


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(
    ("key", "layout", "types", "points"), gated(itertools.product(SETTINGS, LAYOUTS, TYPES, HALVES), features)
)
def test_every_rung_is_right_and_clean(key, layout, types, points):
    (name, given), ptx = SETTINGS[key], ""
    for problem in problems(name, layout, *types, points=points):
        instance = made(name, given, problem)
        assert instance.unmet() is None
        ptx = ptx or compile_text(instance.source, "--generate-line-info", arch=f"compute_{arch(name)}")
        done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), ptx)
        assert done.unsupported == ""
        assert done.fault == "", f"{problem}: {done.fault}"
        assert done.verification.passed, f"{problem}: {done.verification}"


def test_no_rung_is_left_out():
    known = {name for name in kernels.available(kernels.search_path()) if name.startswith("hgemm/")}
    assert {f"hgemm/{name}.cu.j2" for name, _ in SETTINGS.values()} == known - {"hgemm/cutlass.cu.j2"}


@pytest.mark.parametrize("name", [name for name in RUNGS if rung(name) >= 2])
def test_columns_that_no_copy_can_fetch_are_refused(name):
    problem = operator("gemm").problem({"m": 64, "n": 64, "k": 60, "dtype": "float16"})
    assert "16 bytes" in made(name, {}, problem).unmet().because
    assert made(name, {}, operator("gemm").problem({**problem, "ldb": 64})).unmet() is None


@pytest.mark.parametrize(("m", "most"), [(136, 1.3), (137, 1.6), (139, 1.6), (142, 1.6)])
@pytest.mark.parametrize("key", ["cluster", "ldmatrix, slabs", "packed"])
def test_columns_of_c_are_stored_whole_wherever_they_begin(key, m, most):
    name, parameters = SETTINGS[key]
    problem = operator("gemm").problem({"m": m, "n": 129, "k": 40, "dtype": "bfloat16", "layout": "tn", "alpha": 0.5})
    instance = made(name, {**parameters, "warp_m": 64} if "slabs" in key else parameters, problem)
    done = executed(instance, instance.source, arch(name))
    assert (done.unsupported, done.fault, done.verification.passed) == ("", "", True)
    assert done.launches[-1].executed.memory["global.store"].sectors <= most * m * 129 * 2 / 32


@pytest.mark.parametrize("name", [name for name in RUNGS if rung(name) >= 3])
def test_sums_stay_in_registers_while_wgmma_adds_to_them(name):
    problem = operator("gemm").problem({"m": 64, "n": 64, "k": 64, "dtype": "bfloat16"})
    request = CompileRequest(made(name, {}, problem).source, "kernel.cu", f"sm_{arch(name)}")
    built = toolchain("nvrtc").compile(request)
    assert all(resource.spill_store_bytes == 0 for resource in built.resources.values())
    assert "serialized" not in built.log  # ptxas's word where it waits for each wgmma by itself


CLUSTERS = ["v7_cluster", "v8_epilogue", "v9_pingpong"]


@pytest.fixture(scope="module")
def mix_of(tmp_path_factory):
    """The mix of a rung's PTX and that of its machine code."""
    cache = Cache(tmp_path_factory.mktemp("cache"))

    @functools.cache
    def mixes(name):
        problem = operator("gemm").problem({"m": 64, "n": 64, "k": 64, "dtype": "bfloat16"})
        small = next(given for known, given in SETTINGS.values() if known == name)  # by default, it takes ptxas 3 s
        request = CompileRequest(made(name, small, problem).source, "kernel.cu", f"sm_{arch(name)}")
        made_of = build(toolchain("nvrtc"), request, cache)
        sass = made_of.disassembly
        (machine,) = read_sass(sass.text, sass.lines, "kernel.sass").kernels
        (virtual,) = read_ptx(made_of.build.ptx).kernels
        return kernel_mix("ptx", virtual), kernel_mix("sass", machine)

    return mixes


@pytest.mark.parametrize("name", CLUSTERS)
def test_blocks_of_a_cluster_share_stages_without_fences_of_the_gpu(name, mix_of):
    _, mix = mix_of(name)
    assert mix.hot_counts.by_class["mma"]
    assert figures.wide_fences(mix) == 0
    assert "MEMBAR.ALL.GPU" not in mix.counts.by_opcode  # outside of the loop, it would wait for all that is written


@pytest.mark.parametrize("name", CLUSTERS)
def test_machine_code_gives_each_role_the_registers_of_its_ptx(name, mix_of):
    ptx, sass = (sorted((role.registers, role.role) for role in mix.roles) for mix in mix_of(name))
    assert ptx == sass == [(40, "producer"), (232, "consumer")]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("v6_persistent", {"block_m": 64}),
        ("v6_persistent", {"block_m": 64, "block_n": 192, "warpgroups": 3}),
        ("v6_persistent", {"block_m": 64, "block_n": 64, "warpgroups": 1}),
        ("v7_cluster", {"block_m": 64}),
        ("v9_pingpong", {"block_m": 64, "block_n": 64}),
        ("stream", {"block_m": 64}),
    ],
)
def test_roles_have_the_registers_that_a_template_gives_them(name, given):
    problem = operator("gemm").problem({"m": 64, "n": 64, "k": 64, "dtype": "bfloat16"})
    source = made(name, {**given, "stages": 2}, problem).source
    (kernel,) = read_ptx(compile_text(source, arch="compute_90a")).kernels
    given_up, taken = (re.findall(rf"setmaxnreg\.{word}\S* (\d+);", source) for word in ("dec", "inc"))
    asked = {*((int(count), "producer") for count in given_up), *((int(count), "consumer") for count in taken)}
    assert {(role.registers, role.role.value) for role in kernel_mix("ptx", kernel).roles} == asked
    assert len(asked) == (0 if given.get("warpgroups") == 1 else 2)


@pytest.mark.parametrize("layout", ["tn", "nt"])
@pytest.mark.parametrize("name", [name for name in RUNGS if name[1] < "3"])
def test_the_first_rungs_run_from_ampere_on(name, layout):
    parameters = next(given for known, given in SETTINGS.values() if known == name)
    problem = operator("gemm").problem(
        {"m": 65, "n": 31, "k": 72, "lda": 80, "ldb": 80, "dtype": "bfloat16", "layout": layout}
    )
    instance = made(name, parameters, problem)
    built = toolchain("nvrtc").compile(CompileRequest(instance.source, "kernel.cu", "sm_80"))
    assert built.cubin
    done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), built.ptx)
    assert (done.unsupported, done.fault) == ("", "")
    assert done.verification.passed


def depths_and_layouts():
    """Yield tile depths, alternating the pairs of layouts that transpose each operand once."""
    for number, block_k in enumerate((16, 32, 64)):
        for layout in LAYOUTS:
            marks = [] if layout in (("nn", "tt"), ("nt", "tn"))[number % 2] else [pytest.mark.thorough]
            yield pytest.param(block_k, layout, id=f"{block_k}-{layout}", marks=marks)


@pytest.mark.parametrize(("block_k", "layout"), list(depths_and_layouts()))
def test_no_two_rows_of_a_matrix_share_banks(layout, block_k):
    problem = operator("gemm").problem({"m": 64, "n": 64, "k": 64, "dtype": "float16", "layout": layout})
    parameters = {"block_m": 64, "block_n": 64, "warp_m": 32, "warp_n": 32, "block_k": block_k}
    instance = made("v1_ldmatrix", parameters, problem)
    done = emulate(EmulationTask(instance.launches, "gemm", problem, 0, {}), compile_text(instance.source))
    for access in ("shared.load", "shared.store"):
        counted = done.executed.memory[access]
        assert counted.wavefronts == counted.ideal_wavefronts > 0


def test_sums_that_wait_for_their_copy_share_no_banks():
    problem = operator("gemm").problem({"m": 64, "n": 256, "k": 64, "dtype": "float16"})
    instance = made("v8_epilogue", {"block_m": 64, "blocks": 2}, problem)
    done = executed(instance, instance.source, "90a")
    stored, copied = done.executed.memory["shared.store"], done.executed.memory["global.copy"]
    assert stored.wavefronts == stored.ideal_wavefronts == 64 * 256 * 2 // 128  # C, 128 bytes each time
    assert "global.store" not in done.executed.memory
    tiles_of_a_and_b = 64 * 64 + 256 * 64  # that of A once for both blocks
    assert copied.bytes_used == (tiles_of_a_and_b + 64 * 256) * 2
