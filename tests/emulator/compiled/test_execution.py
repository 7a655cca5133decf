"""Both engines on random programs and on compiled kernels; cores, counts and what goes back to the interpreter."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import compiling
import numpy as np
import pytest
import random_ptx
import small_ptx

from lab.emulator import api
from lab.emulator.api import launch
from lab.emulator.compiled import execution, layout
from lab.emulator.compiled.execution import SUSPICIOUS, Geometry, cores
from lab.emulator.results import Engine


@pytest.mark.parametrize("seed", range(12))
def test_both_engines_agree_on_a_random_program(seed):
    kernel = random_ptx.random_kernel(seed)
    interpreted, compiled = random_ptx.agreed(kernel, seed)
    assert (compiled.lines, compiled.loops) == (interpreted.lines, interpreted.loops)


def test_both_engines_agree_on_a_matrix_product():
    m, n, k = 130, 120, 20
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    outs = [np.full((m, n), np.nan, np.float32) for _ in range(3)]
    ways: tuple[tuple[Engine, int], ...] = (("interpreted", 1), ("compiled", 1), ("compiled", 2))
    ptx, args = compiling.ptx("gemm_128"), [m, n, k, a, b]
    emulations = [
        launch(ptx, "sgemm", (2, 1), 256, [*args, out], check=False, engine=engine, threads=threads)
        for out, (engine, threads) in zip(outs, ways, strict=True)
    ]
    for out, emulation in zip(outs[1:], emulations[1:], strict=True):
        assert emulation.engine == "compiled", emulation.not_compiled
        np.testing.assert_array_equal(out.view(np.uint32), outs[0].view(np.uint32))
        assert (emulation.counts, emulation.lines, emulation.loops) == (
            emulations[0].counts,
            emulations[0].lines,
            emulations[0].loops,
        )


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
        ({"schedule": 1}, "a schedule seed is set"),
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


LOOP = """mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
    ld.global.u32 %r2, [%rd2]; mov.u32 %r3, 200; $L: add.s32 %r2, %r2, 1; add.s32 %r3, %r3, -1; setp.gt.s32 %p1, %r3, 0;
    @%p1 bra $L; st.global.u32 [%rd2], %r2;"""


@pytest.fixture
def soon(monkeypatch):
    """Machine code is worth its making after a little work."""
    monkeypatch.setattr(api, "work_to_make", lambda _instructions: 100_000)


@pytest.mark.parametrize(
    ("body", "engine", "why", "clean"),
    [
        (LOOP, "compiled", "", True),
        (LOOP + "mov.u32 %r4, %clock;", "interpreted", "operand %clock", True),
        (LOOP + "st.global.u32 [%rd1], %r1;", "interpreted", SUSPICIOUS, False),
        ("st.global.u32 [%rd9+4096], 1;" + LOOP, "interpreted", "", False),
    ],
)
def test_much_work_goes_over_to_machine_code(soon, body, engine, why, clean):
    """Partial work by the interpreter leaves no trace in the buffers."""
    ptx = small_ptx.kernel("ld.param.u64 %rd9, [out];" + body, ["out"])
    outs, emulations = [], []
    for choice in ("interpreted", "auto"):
        outs.append(np.arange(64, dtype=np.uint32))
        emulations.append(launch(ptx, "k", 1, 64, [outs[-1]], engine=choice))
    assert emulations[1].engine == engine
    assert why in emulations[1].not_compiled
    assert emulations[1].clean == clean
    assert (emulations[0].lines, emulations[0].findings) == (emulations[1].lines, emulations[1].findings)
    np.testing.assert_array_equal(outs[0], outs[1])


def test_little_work_is_the_interpreters():
    ptx = small_ptx.kernel(LOOP, ["out"])
    assert launch(ptx, "k", 1, 64, [np.zeros(64, np.uint32)], engine="auto").engine == "interpreted"


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_one_array_may_be_read_and_written_through_two_parameters(engine):
    body = """mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mul.wide.u32 %rd3, %r1, 4;
        add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3; ld.global.u32 %r2, [%rd1]; add.s32 %r2, %r2, 1;
        st.global.u32 [%rd2], %r2;"""
    data = np.arange(32, dtype=np.uint32)
    emulation = launch(small_ptx.kernel(body, ["a", "b"]), "k", 1, 32, [data, data], engine=engine)
    assert emulation.clean
    np.testing.assert_array_equal(data, np.arange(1, 33))


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ([0, 0, 0, 0], 0),
        ([0, layout.FAULT, 0, 0], layout.FAULT),
        ([layout.STOPPED, layout.FAULT], layout.FAULT),
        ([layout.STOPPED, layout.STOPPED], layout.STOPPED),
    ],
)
def test_a_fault_counts_more_than_that_others_were_stopped(given, result):
    """Each of several workers takes its blocks when all have begun."""
    together, results = threading.Barrier(len(given), timeout=60), iter(given)
    workers = [SimpleNamespace(stop=np.zeros(1, np.int64), context=np.zeros(1, np.int64)) for _ in given]
    spans = []

    def run(_context, first, last):
        together.wait()
        spans.append((first, last))
        return next(results)

    geometry = Geometry((len(given), 1, 1), (32, 1, 1), 0, 0)
    assert execution._run(run, cast("Any", workers), geometry, None) == result
    assert sorted(spans) == [(i, i + 1) for i in range(len(given))]
    assert all(worker.stop[0] for worker in workers)


@pytest.mark.parametrize(
    ("chosen", "workers", "wanted"),
    [
        (None, 1, [(i, i + 1) for i in range(6)]),
        (np.array([1, 5]), 1, [(1, 2), (5, 6)]),
        (np.array([4]), 3, [(4, 5)]),
    ],
)
def test_the_blocks_that_workers_take(chosen, workers, wanted):
    spans = []

    def run(_context, first, last):
        spans.append((first, last))
        return 0

    made = [SimpleNamespace(stop=np.zeros(1, np.int64), context=np.zeros(1, np.int64)) for _ in range(workers)]
    geometry = Geometry((3, 2, 1), (32, 1, 1), 0, 0, chosen=chosen)
    assert execution._run(run, cast("Any", made), geometry, None) == 0
    assert sorted(spans) == wanted
