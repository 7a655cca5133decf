"""Scheduling of blocks and warps, and detection of deadlocks and endless loops."""

import compiling
import numpy as np
import pytest
import race_cases
from race_cases import RACE

from lab.emulator.api import launch

HEAD = race_cases.HEAD
ENTERED = [(case, changes) for case in race_cases.CASES for changes in (("", ""), *case.clean)]
BROKEN = [(case, changes) for case in race_cases.CASES for changes in case.mutants]


def run(case, change=("", ""), **options):
    assert change[0] in case.source
    arguments = case.arguments()
    source = case.source.replace(*change, 1) if change[0] else case.source
    return launch(compiling.compile_text(source), "k", case.grid, case.block, arguments, **options), arguments


@pytest.mark.parametrize(("case", "change"), ENTERED, ids=lambda one: getattr(one, "name", None))
def test_kernels_that_synchronise_end_and_are_clean(case, change):
    emulation, arguments = run(case, change)
    assert emulation.clean, emulation.findings
    assert case.check(arguments)


@pytest.mark.parametrize(("case", "change"), BROKEN, ids=lambda one: getattr(one, "name", None))
def test_kernels_that_lack_a_part_race(case, change):
    emulation, _ = run(case, change)
    assert RACE & {finding.kind for finding in emulation.findings}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("case", race_cases.CASES, ids=lambda case: case.name)
def test_other_fair_orders_give_the_same_results(case, seed):
    emulation, arguments = run(case, schedule=seed)
    assert emulation.clean, emulation.findings
    assert case.check(arguments)


@pytest.mark.parametrize("seed", [None, 1])
def test_blocks_that_wait_for_each_other_are_a_deadlock(seed):
    source = """k(unsigned* locks) {
        if (threadIdx.x == 0) {
            volatile unsigned* held = locks;
            while (atomicCAS(&locks[blockIdx.x], 0u, 1u) != 0u) {}
            while (held[1 - blockIdx.x] == 0u) {}
            while (atomicCAS(&locks[1 - blockIdx.x], 0u, 1u) != 0u) {}
        }
    }"""
    ptx = compiling.compile_text(HEAD + source, "-lineinfo")
    emulation = launch(ptx, "k", 2, 32, [np.zeros(2, np.uint32)], schedule=seed)
    (finding,) = [finding for finding in emulation.findings if finding.kind == "deadlock"]
    assert finding.source is not None
    assert finding.source.line == 6
    assert finding.other is not None
    assert finding.other.block != finding.block  # the block that took that lock
    assert finding.other.source is not None
    assert finding.other.source.line == 4
    assert emulation.steps < 5000


def test_a_flag_that_nobody_sets_is_a_deadlock_that_names_who_waits():
    source = """k(volatile unsigned* flag, unsigned* out) {
        if (threadIdx.x == 0) while (*flag == 0) {}
        __syncthreads();
        out[blockIdx.x * 64 + threadIdx.x] = 1;
    }"""
    ptx = compiling.compile_text(HEAD + source)
    emulation = launch(ptx, "k", 3, 64, [np.zeros(1, np.uint32), np.zeros(192, np.uint32)])
    (finding,) = emulation.findings
    assert (finding.kind, finding.count) == ("deadlock", 3)
    assert "63 threads wait at PTX line" in finding.detail


def test_batches_that_wait_for_later_ones():
    source = """k(volatile unsigned* state) {  // every block waits for the next one
        if (threadIdx.x == 0) {
            if (blockIdx.x + 1 < gridDim.x) while (state[blockIdx.x + 1] == 0) {}
            state[blockIdx.x] = 1;
        }
    }"""
    state = np.zeros(24, np.uint32)
    emulation = launch(compiling.compile_text(HEAD + source), "k", 24, 1024, [state])
    assert emulation.clean
    assert state.all()


def test_a_grid_that_meets_through_its_workspace():
    source = """k(unsigned* a, unsigned* b) {
        unsigned high, low, at = blockIdx.x * 32 + threadIdx.x;
        asm volatile("mov.u32 %0, %%envreg1;" : "=r"(high));
        asm volatile("mov.u32 %0, %%envreg2;" : "=r"(low));
        unsigned* bar = (unsigned*)((unsigned long long)high << 32 | low) + 1;
        a[at] = at;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(bar, 1u);
            while (*(volatile unsigned*)bar < gridDim.x) {}
            __threadfence();
        }
        __syncthreads();
        b[at] = a[gridDim.x * 32 - 1 - at];
    }"""
    out = np.zeros(128, np.uint32)
    assert launch(compiling.compile_text(HEAD + source), "k", 4, 32, [np.zeros(128, np.uint32), out]).clean
    np.testing.assert_array_equal(out, 127 - np.arange(128))
