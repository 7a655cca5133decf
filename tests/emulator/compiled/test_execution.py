"""Both engines on random programs and on compiled kernels; cores, counts and what goes back to the interpreter."""

import compiling
import numpy as np
import pytest
import random_ptx
import small_ptx

from lab.emulator.api import launch
from lab.emulator.compiled import execution
from lab.emulator.compiled.execution import Geometry, cores
from lab.emulator.results import Engine


@pytest.mark.parametrize("seed", range(12))
def test_both_engines_agree_on_a_random_program(seed):
    kernel = random_ptx.random_kernel(seed)
    interpreted, wanted = random_ptx.run(kernel, seed, "interpreted")
    compiled, found = random_ptx.run(kernel, seed, "compiled")
    assert compiled.engine == "compiled", compiled.not_compiled
    np.testing.assert_array_equal(found, wanted)
    assert (compiled.lines, compiled.loops) == (interpreted.lines, interpreted.loops)


def test_both_engines_agree_on_a_matrix_product():
    m, n, k = 130, 120, 20
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    outs = [np.full((m, n), np.nan, np.float32) for _ in range(3)]
    ways: tuple[tuple[Engine, int], ...] = (("interpreted", 1), ("compiled", 1), ("compiled", 2))
    ptx, args = compiling.ptx("gemm_128"), [m, n, k, a, b]
    done = [
        launch(ptx, "sgemm", (2, 1), 256, [*args, out], check=False, engine=engine, threads=threads)
        for out, (engine, threads) in zip(outs, ways, strict=True)
    ]
    for out, emulation in zip(outs[1:], done[1:], strict=True):
        assert emulation.engine == "compiled", emulation.not_compiled
        np.testing.assert_array_equal(out.view(np.uint32), outs[0].view(np.uint32))
        assert (emulation.counts, emulation.lines, emulation.loops) == (done[0].counts, done[0].lines, done[0].loops)


def test_without_counts_there_are_none():
    emulation, out = random_ptx.run(random_ptx.random_kernel(3), 3, "compiled", count=False)
    assert emulation.engine == "compiled"
    assert (emulation.counts, emulation.lines, emulation.steps) == (None, (), 0)
    assert out.any()


def test_memory_is_as_it_was_when_the_interpreter_takes_over():
    """The kernel adds to its buffer before it fails: twice would show."""
    body = """mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
        ld.global.u32 %r2, [%rd2]; add.s32 %r2, %r2, 5; st.global.u32 [%rd2], %r2; ld.global.u32 %r3, [%rd1+4096];"""
    out = np.arange(32, dtype=np.uint32)
    emulation = launch(small_ptx.kernel(body, ["out"]), "k", 1, 32, [out], check=False, engine="compiled")
    assert emulation.engine == "interpreted"
    np.testing.assert_array_equal(out, np.arange(32) + 5)


def test_many_rounds_of_a_loop_are_left_to_the_interpreter(monkeypatch):
    """They may be a wait for another warp, for which the compiled engine would wait forever."""
    monkeypatch.setattr(execution, "ROUNDS", 50)
    body = "mov.u32 %r1, 60; $L: add.s32 %r1, %r1, -1; setp.gt.s32 %p1, %r1, 0; @%p1 bra $L;"
    emulation = launch(small_ptx.kernel(body), "k", 1, 32, [], check=False, engine="compiled")
    assert emulation.not_compiled == "a loop that may wait for another warp"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"schedule": 1}, "another order of execution was asked for"),
        ({"check": False, "max_steps": 9}, "the steps are limited"),
    ],
)
def test_some_launches_are_for_the_interpreter(options, why):
    emulation = launch(small_ptx.kernel(""), "k", 1, 32, [], engine="compiled", **options)
    assert (emulation.engine, emulation.not_compiled) == ("interpreted", why)


def test_a_launch_that_was_not_to_be_compiled_says_nothing_about_it():
    emulation = launch(small_ptx.kernel(""), "k", 1, 32, [])
    assert (emulation.engine, emulation.not_compiled) == ("interpreted", "")


def test_a_function_without_an_instruction_is_asked_of_numpy():
    assert execution._exactly(3, 3.0) == 8.0


def test_sizes():
    assert Geometry((3, 2, 1), (33, 1, 1), 0, 0).warps == 2
    assert Geometry((3, 2, 1), (33, 1, 1), 0, 0).blocks == 6
    assert cores() >= 1
