"""Compile variants and read what was made of them."""

from __future__ import annotations

import pytest

from lab.base.errors import CompileError
from lab.stages.build import BuildFailure, BuildTask, Built, build
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

SOURCE = """extern "C" __global__ void first(float* x) { x[threadIdx.x] = VALUE; }
extern "C" __global__ void second(float* x)
{
    float s = 0;
#pragma unroll 1
    for (int i = 0; i < 64; ++i) s = s * x[i] + 1;
    x[0] = s;
}
"""


def task(source, *entries):
    return BuildTask(toolchain("nvrtc"), CompileRequest(source, "kernel.cu", "sm_90"), entries)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """One batch: both kernels, the second alone, another constant, and a source that is refused."""
    source = SOURCE.replace("VALUE", "1.0f")
    tasks = [
        task(source, "second", "first"),
        task(source, "second"),
        task(SOURCE.replace("VALUE", "2.0f"), "second", "first"),
        task("this is not CUDA", "first"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        made = build(tasks)
        again = build(tasks[:1])
    return made, again


def test_the_mixes_are_those_of_the_launched_kernels_in_order(outcomes):
    (both, one, _, _), _ = outcomes
    assert list(both.ptx) == list(both.sass) == ["second", "first"]
    assert list(one.ptx) == ["second"]
    assert both.ptx["second"].hot_loop.counts.fma == 1
    assert both.ptx["first"].hot_loop is None


def test_only_launched_kernels_decide_the_hash_of_the_machine_code(outcomes):
    (both, one, other, _), _ = outcomes
    assert both.sass_sha256 != one.sass_sha256
    assert both.sass_sha256 != other.sass_sha256
    assert len(both.sass_sha256) == 64


def test_a_kernel_with_a_loop_of_fma_has_a_main_loop_for_the_model(outcomes):
    (both, *_), _ = outcomes
    assert both.loops["second"].fma >= 1


def test_a_source_that_is_refused_costs_no_other(outcomes):
    (*good, refused), _ = outcomes
    assert all(isinstance(one, Built) for one in good)
    assert isinstance(refused, BuildFailure)
    assert "error" in refused.reason
    assert "error" in refused.log
    assert refused.command


def test_a_second_build_comes_from_the_cache_and_is_the_same(outcomes):
    (first, *_), (again,) = outcomes
    assert (first.cached, again.cached) == (False, True)
    for what in ("ptx", "sass", "sass_sha256", "loops", "disassembly"):
        assert getattr(again, what) == getattr(first, what)
    assert again.build.cubin == first.build.cubin


def test_a_compiler_that_refuses_is_a_value_and_no_error():
    class Refusing:
        name, version, identity = "refusing", "1", "refusing 1"
        architectures = ("sm_90",)

        def supports(self, arch):
            return True

        def compile(self, request):
            raise CompileError("error: no", "the log", "the command")

    (found,) = build([BuildTask(Refusing(), CompileRequest("x", "kernel.cu", "sm_90"), ("k",))])
    assert (found.reason, found.log, found.command) == ("error: no", "the log", "the command")


NO_KERNEL = "the source has no kernel `add`"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("__global__ void add(float* a) { a[0] = 1; }", f'{NO_KERNEL}; it has `_Z3addPf`: write extern "C"'),
        ('extern "C" __global__ void addd() {}', f"{NO_KERNEL}; it has `addd`: did you mean 'addd'?"),
        ('extern "C" __global__ void k(float* a) { a[0] = 1; }', f"{NO_KERNEL}; it has `k`: name one of them"),
        ('#if 0\nextern "C" __global__ void add() {}\n#endif\n', f"{NO_KERNEL}: its PTX has no entry point at all"),
        ('extern "C" __global__ void add() {}\n// \0 \n', "the source has a NUL byte in line 2"),
        ('extern "C" __global__ void add() {}\n\n// \ud800', "line 3 has U+D800, half of a surrogate pair"),
    ],
)
def test_a_source_without_its_kernel_costs_one_variant_and_says_what_is_there(source, words):
    fine = task('extern "C" __global__ void add(float* a) { a[0] = 1; }', "add")
    before, failed, after = build([fine, task(source, "add"), fine])
    assert isinstance(before, Built)
    assert isinstance(after, Built)
    assert isinstance(failed, BuildFailure)
    assert words in failed.reason


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("\0", "a NUL byte in line 1,"),
        ("a\nb\0\n", "a NUL byte in line 2,"),
        ("\ud800", "line 1 has U+D800"),
        ("\na\n\udfff\n", "line 3 has U+DFFF"),
    ],
)
def test_a_source_that_is_no_text_names_its_line(source, said):
    (failure,) = build([task(source, "k")])
    assert isinstance(failure, BuildFailure)
    assert said in failure.reason
