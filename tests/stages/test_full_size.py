"""Sampled blocks at the problem's own size."""

from dataclasses import replace
from pathlib import Path

import compiling
import numpy as np
import pytest

from lab.emulator.results import Stored
from lab.operators.declared.declaration import declare
from lab.operators.indexed import IndexedInputs
from lab.recorded.run_records import Condition
from lab.stages import full_size
from lab.stages.full_size import FullSizeTask, SizedLaunches, execute_full_size, resident_at_once
from lab.templates.launches import Launch, Launches

SOURCE = """extern "C" __global__ void copy(float* y, const float* x, long long n) {
  long long i = blockIdx.x * 128ll + threadIdx.x;
  if (i < n) y[i] = x[i];
}
extern "C" __global__ void wraps(float* y, const float* x, long long n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) y[i] = x[i];
}
extern "C" __global__ void wrong(float* y, const float* x, long long n) {
  long long i = blockIdx.x * 128ll + threadIdx.x;
  if (i < n) y[i] = i < 1000000 ? x[i] : 0;
}
extern "C" __global__ void long_loop(float* y, const float* x, long long n) {
  long long i = blockIdx.x * 128ll + threadIdx.x;
  float s = 0;
  for (long long j = 0; j < n; ++j) s = s * 0.5f + x[(i + j) % n];
  if (i < n) y[i] = x[i] + 0 * s;
}
extern "C" __global__ void waits(float* y, const float* x, long long n, unsigned* done) {
  long long i = blockIdx.x * 128ll + threadIdx.x;
  if (threadIdx.x == 0 && blockIdx.x) while (atomicAdd(done + blockIdx.x - 1, 0u) == 0) ;
  __syncthreads();
  if (i < n) y[i] = x[i];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicExch(done + blockIdx.x, 1u);
}
extern "C" __global__ void unguarded(float* z, const float* y, long long n) {
  long long i = blockIdx.x * 128ll + threadIdx.x;
  z[i] = 2 * y[i];
}
extern "C" __global__ void guarded(float* z, const float* y, long long n) {
  long long i = blockIdx.x * 128ll + threadIdx.x;
  if (i < n) z[i] = 2 * y[i];
}
extern "C" __global__ void gathers(float* z, const float* y, long long n) {
  long long i = blockIdx.x * 128ll + threadIdx.x;
  if (i < n) z[i] = y[(long long)y[i] - 1];  // y holds numbers from 1
}"""


@pytest.fixture(scope="module")
def ptx():
    return compiling.compile_text(SOURCE, "-lineinfo")


@pytest.fixture(scope="module")
def operator():
    arguments = {"y": "out float32[n]", "x": "float32[n]", "n": "int64", "done": "scratch uint32[n // 128 + 1] zeros"}
    made, mistakes = declare(
        "k", arguments=arguments, reference={"y": "x"}, folder=Path(), problem=["n"], parameters=[]
    )
    assert mistakes == ()
    return made.reference


def sized(entry, n, grid=None):
    arguments = [("y", "float32*"), ("x", "float32*"), ("n", "int64")]
    arguments += [("done", "uint32*")] if entry == "waits" else []
    step = Launch(entry, (grid or -(-n // 128), 1, 1), (128, 1, 1), 0, tuple(arguments))
    return SizedLaunches({"n": n}, Launches((step,)))


def task_of(operator, entry, n, grid=None, between=(), work=50_000_000):
    return FullSizeTask(operator, 0, sized(entry, n, grid), work, tuple(sized(entry, one) for one in between))


def test_blocks_of_a_huge_problem_show_that_it_is_right(ptx, operator):
    found = execute_full_size(task_of(operator, "copy", 10_000_000_003), ptx)
    assert (found.suspicions, found.not_shown) == ((), ())
    assert (found.record.blocks, found.record.of_blocks) == (20, -(-10_000_000_003 // 128))
    assert found.record.covered
    assert found.record.compared == 19 * 128 + 10_000_000_003 % 128


def test_a_fault_has_its_line_where_it_begins_and_the_product_that_wraps(ptx, operator):
    between = [10_000, 1_000_000_000, 3_000_000_000, 6_000_000_000]
    found = execute_full_size(task_of(operator, "wraps", 10_000_000_000, between=between), ptx)
    first = found.suspicions[0]
    assert first.condition is Condition.FULL_SIZE
    assert (first.finding.kind, first.finding.source.line) == ("out-of-bounds", 7)
    assert "n = 3000000000" in first.detail
    assert "wraps around at" in first.detail


def test_a_grid_that_is_too_small_leaves_elements(ptx, operator):
    found = execute_full_size(task_of(operator, "copy", 1_000_003, grid=64), ptx)
    assert "no block writes" in found.suspicions[0].detail
    assert not found.record.covered


def test_values_are_compared_at_the_full_size(ptx, operator):
    found = execute_full_size(task_of(operator, "wrong", 5_000_000), ptx)
    assert found.suspicions[0].detail.startswith("y[")
    assert execute_full_size(task_of(operator, "wrong", 900_000), ptx).suspicions == ()


def test_values_are_not_compared_without_a_reference(ptx, operator):
    found = execute_full_size(task_of(operator, "wrong", 5_000_000), ptx, compare=False)
    assert (found.suspicions, found.record.compared) == ((), 0)


def test_a_reference_that_is_only_computed_as_a_whole_is_said(ptx):
    arguments = {"y": "out float32[n]", "x": "float32[n]", "n": "int64"}
    declared, _ = declare(
        "k", arguments=arguments, reference={"y": "cumsum(x)"}, folder=Path(), problem=["n"], parameters=[]
    )
    (told,) = execute_full_size(task_of(declared.reference, "copy", 900_000_000), ptx).not_shown
    assert told.endswith(": its reference needs more elements than can be read")


def test_what_does_not_end_in_time_is_not_shown(ptx, operator):
    found = execute_full_size(task_of(operator, "long_loop", 2_000_000_000, work=200_000), ptx)
    assert found.suspicions == ()
    assert "in the time allowed" in found.not_shown[0]


@pytest.mark.parametrize(("n", "blocks"), [(12_800_000, 4), (12_800_001, 8)])
def test_of_long_blocks_few_are_executed_and_fewer_where_the_grid_fits(ptx, operator, n, blocks):
    found = execute_full_size(replace(task_of(operator, "copy", n), block_warps=1e9), ptx)
    assert (found.suspicions, found.not_shown) == ((), ())
    assert (found.record.blocks, found.record.covered) == (blocks, True)


@pytest.fixture(scope="module")
def sequence():
    arguments = {"z": "out float32[n]", "y": "scratch float32[n]", "x": "float32[n]", "n": "int64"}
    declared, mistakes = declare("k", arguments=arguments, folder=Path(), problem=["n"], parameters=[])
    assert mistakes == ()
    return declared.reference


@pytest.mark.parametrize(("second", "faulty"), [("unguarded", True), ("guarded", False), ("gathers", False)])
def test_launches_that_read_what_all_blocks_wrote_are_checked_for_their_addresses(ptx, sequence, second, faulty):
    n, grid = 10_000_001, (78126, 1, 1)
    first = Launch("copy", grid, (128, 1, 1), 0, (("y", "float32*"), ("x", "float32*"), ("n", "int64")))
    then = Launch(second, grid, (128, 1, 1), 0, (("z", "float32*"), ("y", "float32*"), ("n", "int64")))
    task = FullSizeTask(sequence, 0, SizedLaunches({"n": n}, Launches((first, then))), 50_000_000)
    outcome = execute_full_size(task, ptx, compare=False)
    assert [suspicion.finding.kind for suspicion in outcome.suspicions] == ["out-of-bounds"] * 2 * faulty
    assert outcome.record.blocks == 40
    if not faulty:
        assert f"{second}: only addresses were checked" in outcome.not_shown[0]


def test_blocks_that_wait_for_earlier_ones_are_taken_from_the_beginning(ptx, operator):
    found = execute_full_size(task_of(operator, "waits", 1_000_000), ptx)
    assert found.suspicions == ()
    assert found.record.blocks >= 16


def test_blocks_that_wait_for_one_another_must_be_resident(operator):
    task = replace(task_of(operator, "copy", 1_000_000), resident=(1056,), gpu="H200")
    found = resident_at_once(task)
    assert "7,813 blocks" in found.suspicions[0].detail
    assert "1,056" in found.suspicions[0].detail
    assert resident_at_once(replace(task, resident=(8000,))).suspicions == ()


def test_elements_that_several_blocks_decide_are_not_compared():
    sampled = full_size._Sampled(IndexedInputs({}, {}, ("y", "best"), ("y",), {}))

    def settled(name, elements, ordered, updated=False):
        stored = Stored(name, np.arange(len(elements)), np.array(elements), np.zeros(len(elements)), updated)
        return full_size._settled(stored, sampled, ordered=ordered)

    assert settled("y", [0, 1], ordered=False)
    assert settled("y", [0, 1], ordered=True)
    assert settled("best", [0, 1], ordered=False)
    assert not settled("best", [0, 1], ordered=True)  # as under a lock
    assert not settled("y", [1, 1], ordered=True)
    assert not settled("y", [0, 1], ordered=False, updated=True)
