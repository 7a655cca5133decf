"""From counts of an execution to the model's inputs, and the model on real kernels."""

from pathlib import Path

import pytest

from lab import kernels
from lab.building import BuildTask, Built, build
from lab.emulation import EmulationTask
from lab.emulator.results import MemoryCount
from lab.estimation import EstimateTask, execute, loop_memory, traffic_of, trips_of
from lab.launches import launches
from lab.limits import gpu_for
from lab.limits.occupancy import occupancy
from lab.operators import operator
from lab.store import ExecutedLines
from lab.toolchain import CompileRequest, toolchain

ROOTS = (Path(__file__).parents[1] / "kernel_src",)
GPU = gpu_for("H200")
SMALL = {"m": 128, "n": 128, "k": 64}


def built(template, given):
    gemm, declared = operator("gemm"), kernels.load(template, ROOTS)
    parameters, problem = kernels.complete(declared, given), gemm.problem(SMALL)
    steps = launches(declared, parameters, problem)
    request = CompileRequest(kernels.render(declared, parameters, problem), "kernel.cu", "sm_90")
    [made] = build([BuildTask(toolchain("nvrtc"), request, steps.entries)])
    assert isinstance(made, Built)
    return made, steps, problem


def estimated(template, given):
    made, steps, problem = built(template, given)
    (step,) = steps.steps
    threads = step.block[0] * step.block[1]
    held = occupancy(GPU.architecture, made.build.resources[step.entry], threads, 0).blocks_per_sm
    model = EstimateTask(GPU, made.loops[step.entry], made.ptx[step.entry], threads // 32, held)
    record, found = execute(EmulationTask(steps, "gemm", problem, 0, {}), made.build.ptx, model)
    assert record.verification.passed
    return made, record, found


def test_shares_add_up_and_the_estimate_stays_below_the_peak():
    _, _, found = estimated("gemm/tiled.cu.j2", {})
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert 30 < found.tflops < GPU.peak_tflops("float32")
    assert max(found.shares, key=found.shares.get) == "fma"


def test_bank_conflicts_cost_what_they_cost():
    """The ladder's rungs 3 and 4 differ in one element of padding; on an H200 4.1 times the throughput."""
    with_conflicts = estimated("gemm/v3_shared.cu.j2", {})[2]
    without = estimated("gemm/v4_padded.cu.j2", {})[2]
    assert 2.5 < without.tflops / with_conflicts.tflops < 6
    assert max(with_conflicts.shares, key=with_conflicts.shares.get) == "memory queue"


def test_the_loop_from_tile_to_tile_of_a_persistent_block_is_no_part_of_the_main_loop():
    tile = {"block_m": 64, "block_n": 64, "thread_m": 8, "thread_n": 8, "block_k": 16}
    alone, persistent = (
        built("gemm/sgemm.cu.j2", {**tile, "workers": workers})[0].loops["sgemm"] for workers in (0, 4)
    )
    assert (alone.nested, persistent.nested) == (False, False)
    assert alone.fma == persistent.fma == 64 * 16


def test_traffic_is_that_of_the_loop_which_fetches():
    """The 8 k steps of a tile multiply what a loop around them fetches; C is stored behind both."""
    made, record, _ = estimated("gemm/tiled.cu.j2", {"unroll": 1})
    found = loop_memory(record.lines, made.ptx[record.launches[0].entry])
    assert "global.store" in record.executed.memory
    assert set(found) == {"global.load", "shared.load", "shared.store"}
    assert found["shared.load"].requests <= record.executed.memory["shared.load"].requests
    assert loop_memory((), made.ptx[record.launches[0].entry]) == {}


def test_launches_before_the_main_one_cost_their_time():
    found = estimated("gemm/tiled.cu.j2", {})[2]
    assert found.delayed(10**12, 0.0) == found
    seconds = 1e12 / (found.tflops * 1e12)
    assert found.delayed(10**12, seconds).tflops == pytest.approx(found.tflops / 2)


def test_a_last_round_that_does_not_fill_the_gpu_costs_a_whole_one():
    found = estimated("gemm/tiled.cu.j2", {})[2]
    assert found.on(GPU, 264, 2).tflops == found.tflops
    assert found.on(GPU, 265, 2).tflops == pytest.approx(found.tflops * 265 / 528)


@pytest.mark.parametrize("unroll", [1, 2, 4, 8])
def test_turns_of_the_hot_loop_are_counted_whatever_the_compiler_unrolls(unroll):
    made, record, _ = estimated("gemm/tiled.cu.j2", {"unroll": unroll})
    entry = record.launches[0].entry
    loop, ptx = made.loops[entry], made.ptx[entry]
    trips = trips_of(record.lines, ptx, loop.fma) if loop.nested else None
    steps_in_text = loop.fma / 64  # 8 x 8 fma a k step
    if trips is not None:
        assert trips * steps_in_text == pytest.approx(8)  # the depth of the tile
    else:
        assert steps_in_text % 8 == 0


def test_lines_that_say_nothing_give_no_turns():
    made, steps, _ = built("gemm/tiled.cu.j2", {"unroll": 1})
    ptx = made.ptx[steps.steps[0].entry]
    assert trips_of((), ptx, 64) is None
    assert trips_of((ExecutedLines((1,), "fma", 1, 32, {}),), ptx, 64) is None


def test_means_of_the_traffic():
    memory = {
        "shared.load": MemoryCount(10, 30, 0, 10 * 32 * 16, 40),
        "global.load": MemoryCount(2, 0, 8, 256, 0),
        "global.copy": MemoryCount(2, 0, 32, 1024, 0),
    }
    found = traffic_of(memory)
    assert (found.load_wavefronts, found.load_bytes, found.sectors) == (3.0, 16.0, 10.0)
    assert (found.store_wavefronts, found.store_bytes) == (0.0, 0.0)
