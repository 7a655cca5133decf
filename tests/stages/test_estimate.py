"""From counts of an execution to the model's inputs, and the model on real kernels."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from narrowing import known

from lab.emulator.results import MemoryCount
from lab.hardware.gpus import gpu_for
from lab.hardware.latencies import latencies_of
from lab.hardware.occupancy import occupancy
from lab.operators.builtin import operator
from lab.predict.schedulers.estimate import Edges, Pace
from lab.recorded.run_records import ExecutedLines
from lab.stages import estimate as stage
from lab.stages.build import BuildTask, Built, build
from lab.stages.emulate import EmulationTask, Sample
from lab.stages.estimate import (
    EstimateTask,
    edges_of,
    execute,
    main_memory,
    memory_of,
    one_warp_asks,
    traffic_of,
    trips_of,
)
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.templates.launches import Launches
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

ROOTS = (Path(__file__).parents[2] / "kernel_src",)
GPU = gpu_for("H200")
SMALL = {"m": 128, "n": 128, "k": 64}


def built(template, given, **problem):
    gemm, declared = operator("gemm"), kernels.load(template, ROOTS)
    parameters, problem = declared.completed(given), gemm.problem({**SMALL, **problem})
    steps = Instance(declared, parameters, problem).launches
    request = CompileRequest(Instance(declared, parameters, problem).source, "kernel.cu", "sm_90")
    [outcome] = build([BuildTask(toolchain("nvrtc"), request, steps.entries)])
    assert isinstance(outcome, Built)
    return outcome, steps, problem


def estimated(template, given, **problem):
    outcome, steps, problem = built(template, given, **problem)
    (step,) = steps.steps
    threads = step.block[0] * step.block[1]
    held = occupancy(GPU.architecture, outcome.build.resources[step.entry], threads, 0).blocks_per_sm
    model = EstimateTask(GPU, outcome.loops[step.entry], outcome.ptx[step.entry], threads // 32, held)
    record, found = execute(EmulationTask(steps, "gemm", problem, 0, {}), outcome.build.ptx, model)
    assert record.verification.passed
    return outcome, record, found


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
    tile = {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "block_k": 16}
    alone, persistent = (
        built("gemm/sgemm.cu.j2", {**tile, "workers": workers})[0].loops["sgemm"] for workers in (0, 4)
    )
    assert (alone.nested, persistent.nested) == (False, False)
    assert alone.fma == persistent.fma == 4 * 4 * 16


def test_traffic_is_that_of_the_loop_which_fetches():
    """The 8 k steps of a tile multiply what a loop around them fetches; C is stored behind both."""
    outcome, record, _ = estimated("gemm/tiled.cu.j2", {"unroll": 1})
    found = main_memory(record.lines, outcome.ptx[record.launches[0].entry])
    assert "global.store" in record.executed.memory
    assert set(found) == {"global.load", "shared.load", "shared.store"}
    assert found["shared.load"].requests <= record.executed.memory["shared.load"].requests
    assert main_memory((), outcome.ptx[record.launches[0].entry]) == {}


FLOPS = 2 * 8192**3
PACE = Pace(GPU, known(latencies_of("sm_90")), {1: 400.0, 2: 440.0}, 8, Edges(), 1000.0, {"fma": 1.0})
FIXED = PACE.machine.launch_s
CYCLE = 1 / (GPU.clock_mhz * 1e6)


def seconds(found, flops=FLOPS):
    return flops / (found.tflops * 1e12)


def test_launches_before_the_main_one_cost_their_time():
    alone, behind = PACE.on(FLOPS, 264), PACE.on(FLOPS, 264, before_s=1e-3)
    assert seconds(behind) == pytest.approx(seconds(alone) + 1e-3)
    assert behind.shares == alone.shares == PACE.shares


def test_blocks_run_in_rounds_and_the_last_one_at_the_pace_of_what_is_left_for_an_sm():
    each = FLOPS / 264
    latency = PACE.machine.global_latency
    full, more = PACE.on(FLOPS, 264), PACE.on(round(each * 265), 265)
    assert seconds(full) == pytest.approx(FIXED + (2 * each / 440 + latency) * CYCLE)
    # 2 on every SM, then one on one of them
    assert seconds(more, each * 265) == pytest.approx(FIXED + (2 * each / 440 + each / 400 + latency) * CYCLE)


def test_a_grid_that_gives_an_sm_one_block_runs_at_the_pace_of_one():
    assert seconds(PACE.on(FLOPS, 132)) > seconds(PACE.on(FLOPS, 264))
    assert PACE.rate(1) == 400
    assert replace(PACE, rates={1: 400.0, 2: 440.0, 4: 460.0}).rate(3) == pytest.approx(450)


def test_edges_of_a_block_cost_their_instructions_and_their_stores_in_every_round():
    edges = Edges(instructions=500.0, stored_bytes=24_000.0)
    with_edges = replace(PACE, edges=edges)
    cycles = 2 * 3 * (500 * 8 / 4 + 24_000 / PACE.machine.store_bytes)
    assert seconds(with_edges.on(FLOPS, 792)) - seconds(PACE.on(FLOPS, 792)) == pytest.approx(cycles * CYCLE)


def test_an_sm_with_one_block_waits_for_its_first_data_in_every_round():
    pace = replace(PACE, rates={1: 400.0})
    flops = 400 * 132 * 1000
    latency = PACE.machine.global_latency
    assert seconds(pace.on(flops, 132), flops) == pytest.approx(FIXED + (1000 + latency) * CYCLE)
    assert seconds(pace.on(2 * flops, 264), 2 * flops) == pytest.approx(FIXED + 2 * (1000 + latency) * CYCLE)


def test_nothing_is_faster_than_its_traffic():
    bound = PACE.on(FLOPS, 264, bytes_moved=10**12)
    assert seconds(bound) == pytest.approx(FIXED + 1e12 / (GPU.dram_gb_s * 1e9 * PACE.machine.dram_share))
    assert PACE.on(FLOPS, 264, bytes_moved=1000) == PACE.on(FLOPS, 264)


def test_a_real_kernel_has_edges():
    """Its one block stores its tile of C once; scaling 64 sums takes a thread as many instructions at least."""
    _, record, found = estimated("gemm/tiled.cu.j2", {})
    assert found.edges.stored_bytes == 128 * 128 * 4
    assert record.executed.warps > 8 * found.edges.instructions > 8 * 64


def test_what_a_small_problem_fetches_before_its_loop_stands_for_what_the_loop_fetches():
    copy, load = MemoryCount(4, 16, 0, 2048, 4), MemoryCount(10, 30, 0, 5120, 40)
    (ptx,) = built("gemm/tiled.cu.j2", {"unroll": 1})[0].ptx.values()
    within, before = ptx.hot_loop.first_line, ptx.lines[0]
    loads = ExecutedLines((within,), "ld.shared", 10, 320, {"shared.load": load})
    first = ExecutedLines((before,), "cp.async", 4, 128, {"shared.copy": copy, "shared.store": copy})
    assert main_memory((first, loads), ptx) == {"shared.load": load, "shared.copy": copy}
    again = ExecutedLines((within,), "cp.async", 4, 128, {"shared.copy": copy + copy})
    assert main_memory((first, again), ptx) == {"shared.copy": copy + copy}
    assert main_memory((first,), ptx) == {"shared.copy": copy, "shared.store": copy}


@pytest.mark.parametrize(("asking", "expected"), [(0, True), (10, True), (11, False), (80, False)])
def test_bulk_copies_of_more_than_one_warp_of_a_block_are_seen(asking, expected):
    (ptx,) = built("gemm/tiled.cu.j2", {"unroll": 1})[0].ptx.values()
    first, *_, last = sorted(ptx.hot_loop.numbers)
    lines = (ExecutedLines((first,), "fma", 80, 2560, {}), ExecutedLines((last,), "cp.async.bulk", asking, asking, {}))
    assert one_warp_asks(lines, ptx, 8) is expected


def test_a_bulk_copy_of_one_warp_has_an_estimate_with_its_traffic():
    tile = {"block_m": 64, "block_n": 64, "thread_m": 8, "thread_n": 8, "block_k": 8}
    plain, bulk = (
        estimated("gemm/sgemm.cu.j2", {**tile, "copies": copies}, layout="nt")[2] for copies in ("async", "bulk")
    )
    assert 0.8 < bulk.tflops / plain.tflops < 1.25
    assert bulk.edges.stored_bytes == plain.edges.stored_bytes == 64 * 64 * 4


def test_bulk_copies_count_apart_from_the_copies_of_threads():
    thread_copies, bulk = MemoryCount(4, 16, 0, 2048, 4), MemoryCount(1, 128, 0, 16384, 128)
    lines = (
        ExecutedLines((3, 5), "cp.async", 4, 128, {"shared.copy": thread_copies}),
        ExecutedLines((4,), "cp.async.bulk", 1, 1, {"shared.copy": bulk, "global.copy": MemoryCount(1, 0, 512)}),
    )
    found = memory_of(lines, frozenset({3, 4, 5}))
    assert found == {
        "shared.copy": thread_copies + thread_copies,
        "shared.bulk": bulk,
        "global.bulk": MemoryCount(1, 0, 512),
    }
    traffic = traffic_of(found)
    assert (traffic.copy_wavefronts, traffic.bulk_wavefronts, traffic.bulk_sectors) == (4.0, 128.0, 512.0)
    assert traffic.sectors == 0


@pytest.mark.parametrize("unroll", [1, 2, 4, 8])
def test_turns_of_the_hot_loop_are_counted_whatever_the_compiler_unrolls(unroll):
    outcome, record, _ = estimated("gemm/tiled.cu.j2", {"unroll": unroll})
    entry = record.launches[0].entry
    loop, ptx = outcome.loops[entry], outcome.ptx[entry]
    trips = trips_of(record.lines, ptx, loop.fma) if loop.nested else None
    steps_in_text = loop.fma / 64  # 8 x 8 fma a k step
    if trips is not None:
        assert trips * steps_in_text == pytest.approx(8)  # the depth of the tile
    else:
        assert steps_in_text % 8 == 0


def test_lines_that_say_nothing_give_no_turns():
    outcome, steps, _ = built("gemm/tiled.cu.j2", {"unroll": 1})
    ptx = outcome.ptx[steps.steps[0].entry]
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


@pytest.mark.parametrize(("spares", "paces", "sampled"), [
    (True, (1.0,), [False]),
    (True, (None, None), [False, True]),
    (False, (None,), [True]),
])  # fmt: skip
def test_spared_samples_are_executed_where_nothing_is_estimated_without_them(monkeypatch, spares, paces, sampled):
    sample_requests: list[bool] = []
    found = iter(paces)

    def emulated(task, _ptx):
        sample_requests.append(bool(task.samples))
        return "counts"

    monkeypatch.setattr(stage, "emulate", emulated)
    monkeypatch.setattr(stage, "_executed", lambda task, ptx, _model: (emulated(task, ptx), next(found)))
    sample = Sample(2.0, Launches(()), {})
    task = EmulationTask(Launches(()), "gemm", {}, 0, {}, samples=(sample,), spares_samples=spares)
    counts, pace = execute(task, "ptx", cast("EstimateTask", "a model"))
    assert (cast("str", counts), pace) == ("counts", paces[0])
    assert sample_requests == sampled


def test_means_of_few_requests_and_of_none():
    counted = MemoryCount(1, 5, 3, 64, 2)
    keys = ("shared.load", "shared.store", "shared.copy", "shared.bulk", "global.load", "global.bulk")
    found = traffic_of(dict.fromkeys(keys, counted))
    assert (found.load_wavefronts, found.store_wavefronts) == (5, 5)
    assert (found.copy_wavefronts, found.bulk_wavefronts) == (5, 5)
    assert (found.load_bytes, found.store_bytes) == (2, 2)
    assert (found.sectors, found.bulk_sectors) == (3, 3)
    assert {getattr(traffic_of({}), name) for name in found.__dataclass_fields__} == {0}


def test_edges_are_means_over_blocks():
    (ptx,) = built("gemm/tiled.cu.j2", {"unroll": 1})[0].ptx.values()
    within, (first, last) = ptx.hot_loop.first_line, ptx.lines
    store = MemoryCount(2, 0, 0, 600, 0)
    lines = (
        ExecutedLines((within,), "fma", 1000, 32000, {}),
        ExecutedLines((first, last), "st.global", 12, 384, {"global.store": store}),
        ExecutedLines((last + 1,), "st.global", 7, 224, {"global.store": store}),
    )
    found = edges_of(lines, ptx, 3, 4)
    assert (found.instructions, found.stored_bytes) == (2, 400)
