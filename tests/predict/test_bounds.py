import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistakes import coded

from lab.base.errors import UserError
from lab.hardware.gpus import PRODUCTS, gpu_for
from lab.isa.mix import Counts, KernelMix, LoopMix
from lab.measured.timing import Merit
from lab.predict.bounds import LaunchFacts, delayed, predict, predict_sequence

CLASSES = {
    "FFMA": "fma", "FFMA2": "fma", "DFMA": "fma", "HFMA2": "fma", "FADD": "float", "LDS": "ld.shared",
    "LDSM": "ld.shared", "STS": "st.shared", "LDG": "ld.global", "STG": "st.global", "LDGSTS": "cp.async",
    "HMMA": "mma", "HGMMA": "mma", "QMMA": "mma", "UTCHMMA": "mma", "IADD3": "integer", "BRA": "branch",
    "BAR": "barrier",
}  # fmt: skip

# 128x128 tile, 8x8 elements a thread, k tile unrolled once: 64 FFMA and 4 LDS.128 a k step.
GEMM_STEP = {"FFMA": 64, "LDS.128": 4}
PLAIN = LaunchFacts(256)


@dataclass(frozen=True)
class Use:
    registers: int = 128
    shared_bytes: int = 16384
    barriers: int = 1


def _counts(opcodes):
    by_class: dict[str, int] = {}
    for opcode, n in opcodes.items():
        name = CLASSES[opcode.partition(".")[0]]
        by_class[name] = by_class.get(name, 0) + n
    return Counts(sum(opcodes.values()), by_class, dict(opcodes), 0, 0)


def _loop(label, opcodes, *, hot):
    return LoopMix(label, 1, None, hot, _counts(opcodes), 1, 2, ((1, 2),), None)


def _mix(hot, *others):
    loops = (*(_loop(f".L{n}", other, hot=False) for n, other in enumerate(others)), _loop(".hot", hot, hot=True))
    return KernelMix("sass", "kernel", _counts({"IADD3": 500}), loops, None)


def _predict(hot, gpu="H200", *, use=Use(), launch=PLAIN, **changed):
    facts: dict[str, Any] = {"flops": 2 * 4096**3, "bytes_moved": 4 * 3 * 4096**2, "dtype": "float32"}
    mix = hot if isinstance(hot, KernelMix) else _mix(hot)
    return predict(gpu_for(gpu), mix, use, launch, **(facts | changed))


def _bounds(prediction):
    return {bound.name: bound for bound in prediction.bounds}


def test_what_one_warp_issues_alone_is_no_ones_bound():
    whole = _mix(GEMM_STEP)
    beside = replace(whole, loops=(replace(whole.loops[0], aside=3),))
    slots = [_bounds(_predict(mix))["issue slots"] for mix in (whole, beside)]
    assert slots[1].tflops == pytest.approx(slots[0].tflops * 68 / 65)
    assert slots[1].explanation.startswith("64 FFMA of 65 issued")


def test_h200_issue_bound_is_the_fma_share_of_the_peak():
    bound = _bounds(_predict(GEMM_STEP))["issue slots"]
    # 64 of 68: 66.9082 x 64 / 68
    assert bound.tflops == pytest.approx(132 * 128 * 2 * 1.98e-3 * 64 / 68)
    assert bound.explanation.startswith("64 FFMA of 68 issued: 94.1 %; 68 issue cycles and 64 float32 pipe cycles")


def test_v100_has_issue_slots_to_spare():
    # 16 lanes a sub-partition: 64 FFMA keep the pipe 128 cycles, 68 instructions the scheduler 68.
    bound = _bounds(_predict(GEMM_STEP, "V100 SXM2"))["issue slots"]
    assert bound.tflops == pytest.approx(80 * 64 * 2 * 1.53e-3)
    # 64 FFMA among 160: 128 pipe cycles against 160 issue cycles.
    bound = _bounds(_predict({"FFMA": 64, "IADD3": 96}, "V100 SXM2"))["issue slots"]
    assert bound.tflops == pytest.approx(80 * 64 * 2 * 1.53e-3 * 128 / 160)


def test_fp64_on_a_card_with_two_lanes():
    # 2 lanes an SM: a DFMA keeps them 16 cycles, 4 x 16 = 64 of a scheduler's; 10 of them outlast 300 instructions.
    bound = _bounds(_predict({"DFMA": 10, "IADD3": 290}, "RTX 4090", dtype="float64"))["issue slots"]
    assert bound.tflops == pytest.approx(128 * 2 * 2 * 2.52e-3)
    assert "640 float64 pipe cycles" in bound.explanation


def test_packed_arithmetic_counts_each_result():
    # H200: 256 FP16 results a cycle; an HFMA2 is 64 a warp, one cycle of a scheduler: half of them, half the peak.
    bound = _bounds(_predict({"HFMA2": 8, "IADD3": 8}, dtype="float16"))["issue slots"]
    assert bound.tflops == pytest.approx(132 * 256 * 2 * 1.98e-3 / 2)
    # B200: an FFMA2 is 64 results for 32 lanes, two cycles, so it leaves every second issue slot free.
    bound = _bounds(_predict({"FFMA2": 8, "IADD3": 8}, "B200"))["issue slots"]
    assert bound.tflops == pytest.approx(148 * 128 * 2 * 1.965e-3)


def test_additions_share_the_pipe_at_half_the_operations():
    # 4 FFMA and 4 FADD: 12 operations in 8 cycles where the peak has 16.
    bound = _bounds(_predict({"FFMA": 4, "FADD": 4}))["issue slots"]
    assert bound.tflops == pytest.approx(132 * 128 * 2 * 1.98e-3 * 12 / 16)


def test_shared_memory_bound_by_hand():
    # One FFMA for two LDS (a 1:2 ratio): 2 operations x 32 lanes in 2 cycles of the SM: 32 of 256 a cycle.
    bound = _bounds(_predict({"FFMA": 1, "LDS": 2}))["shared memory"]
    assert bound.tflops == pytest.approx(32 * 132 * 1.98e-3)
    assert "1 FFMA per 2 shared-memory wavefronts (2 accesses)" in bound.explanation


def test_counted_wavefronts_lower_the_shared_memory_bound():
    loop = {"FFMA": 64, "LDS.128": 4, "LDS.64": 2, "STS": 1, "LDSM.16.M88.4": 1}
    least = _bounds(_predict(loop))["shared memory"].tflops
    own = _bounds(_predict(loop, wavefronts_per_access={4: 1, 8: 2, 16: 4}))["shared memory"].tflops
    # 4 x 4 + 2 x 2 + 1 + 4 wavefronts instead of 4 + 2 + 1 + 4: no lanes of LDSM share a row
    assert own == pytest.approx(least * 11 / 25)
    assert least == pytest.approx(64 * 2 * 32 / 11 * 132 * 1.98e-3)


def test_memory_pipe_counts_loads_and_stores_of_every_space():
    loop = {"FFMA": 16, "LDS.128": 2, "LDG.E.128": 1, "STS.128": 1, "LDGSTS.E.128": 1, "STG.E": 1, "BAR.SYNC": 1}
    bound = _bounds(_predict(loop))["memory pipe"]
    assert bound.tflops == pytest.approx(16 * 2 * 32 / 6 * 132 * 1.98e-3)
    assert "16 FFMA per 6 loads and stores" in bound.explanation


def test_dram_and_roofline():
    # 2 x 4096^3 operations over 3 x 4096^2 floats: 682.7 per byte x 4.8 TB/s
    bounds = _bounds(_predict(GEMM_STEP))
    assert bounds["DRAM"].tflops == pytest.approx(2 * 4096 / 12 * 4.8)
    assert bounds["roofline"].tflops == pytest.approx(66.908, abs=1e-3)
    # a vector sum: 1 operation for 12 bytes
    bounds = _bounds(_predict({"FFMA": 1, "LDG.E": 2, "STG.E": 1}, flops=10**8, bytes_moved=12 * 10**8))
    assert bounds["DRAM"].tflops == bounds["roofline"].tflops == pytest.approx(0.4)
    assert "4800 GB/s" in bounds["DRAM"].explanation


def test_waves():
    # 1024 blocks on 132 SMs: 8 on the fullest, where 7.76 would be even
    bounds = _bounds(_predict(GEMM_STEP, launch=LaunchFacts(256, blocks=1024)))
    assert bounds["waves"].tflops == pytest.approx(66.9082 * 1024 / (8 * 132), rel=1e-5)
    assert "1024 blocks on 132 SMs, 8 on the fullest: 97.0 % of the peak" in bounds["waves"].explanation
    # a block an SM is no loss, however many an SM could hold
    full = _predict(GEMM_STEP, launch=LaunchFacts(256, blocks=132))
    assert full.blocks_per_sm == 2
    assert _bounds(full)["waves"].tflops == full.peak_tflops
    assert "waves" not in _bounds(_predict(GEMM_STEP))


def test_the_hot_loop_decides_and_a_straight_kernel_is_its_own():
    mix = _mix(GEMM_STEP, {"FFMA": 1, "IADD3": 99})
    assert _predict(mix) == _predict(GEMM_STEP)
    straight = replace(mix, loops=(), counts=_counts(GEMM_STEP))
    assert _predict(straight) == _predict(GEMM_STEP)


def test_a_loop_without_fma_of_the_type_has_only_the_problem_s_bounds():
    assert set(_bounds(_predict({"FADD": 4, "LDG.E": 1}))) == {"DRAM", "roofline"}
    assert set(_bounds(_predict({"FFMA": 4, "LDS": 1}, dtype="float64"))) == {"DRAM", "roofline"}


def test_without_operations_nothing_bounds():
    prediction = _predict({"LDG.E": 1, "STG.E": 1}, flops=0)
    assert prediction.bounds == ()
    assert prediction.ceiling is None


def test_tensor_cores_are_not_held_to_the_ordinary_peak():
    prediction = _predict({"HMMA.16816.F32": 16, "LDS": 4, "FFMA": 1}, launch=LaunchFacts(256, blocks=7))
    assert prediction.peak > 10 * gpu_for("H200").peak_tflops("float32")
    assert _bounds(prediction)["waves"].tflops == pytest.approx(prediction.peak * 7 / 132)


def test_unknown_bandwidth_leaves_out_dram():
    gpu = replace(gpu_for("H200"), dram_gb_s=None)
    prediction = predict(gpu, _mix(GEMM_STEP), Use(), LaunchFacts(256), flops=100, bytes_moved=100, dtype="float32")
    bounds = _bounds(prediction)
    assert "DRAM" not in bounds
    assert bounds["roofline"].tflops == prediction.peak_tflops


def test_occupancy_comes_along():
    prediction = _predict(GEMM_STEP)
    assert (prediction.gpu, prediction.occupancy, prediction.blocks_per_sm) == ("H200", 0.25, 2)
    assert prediction.limited_by == "registers"
    assert _predict(GEMM_STEP, "T4", use=Use(64, 0, 1)).limited_by == "registers, warps"


def test_what_cannot_be_launched_has_no_ceiling():
    prediction = _predict(GEMM_STEP, launch=LaunchFacts(1024))
    assert (prediction.blocks_per_sm, prediction.occupancy, prediction.bounds) == (0, 0.0, ())
    assert prediction.limited_by == "128 registers x 1024 threads take 131072 registers per block; at most 65536"


def test_dynamic_shared_memory_counts():
    assert _predict(GEMM_STEP, launch=LaunchFacts(256, 150 * 1024)).limited_by == "shared memory"


def test_refusals():
    with pytest.raises(ValueError, match="SASS instruction mix, got ptx"):
        _predict(replace(_mix(GEMM_STEP), isa="ptx"))
    with pytest.raises(UserError, check=coded("unsupported", key="dtype", found="int32")):
        _predict(GEMM_STEP, dtype="int32")


LOOPS = st.fixed_dictionaries(
    {"FFMA": st.integers(1, 600)},
    optional={
        opcode: st.integers(1, 200)
        for opcode in ("FADD", "FFMA2", "LDS", "LDS.64", "LDS.128", "STS", "LDG.E", "LDGSTS.E", "IADD3", "BRA")
    },
)
NAMES = st.sampled_from([gpu.name for gpu in PRODUCTS])


@given(NAMES, LOOPS, st.integers(1, 10**13), st.integers(0, 10**11), st.integers(1, 10**5))
def test_ceiling_is_the_least_bound_and_never_above_the_peak(name, loop, flops, moved, blocks):
    prediction = _predict(
        loop, name, use=Use(32, 0, 1), launch=LaunchFacts(256, 0, blocks), flops=flops, bytes_moved=moved
    )
    bounds = _bounds(prediction)
    assert len(bounds) == len(prediction.bounds)
    assert all(bound.tflops > 0 for bound in prediction.bounds)
    assert prediction.ceiling.tflops == min(bound.tflops for bound in prediction.bounds)
    for held in ("issue slots", "roofline", "waves"):
        assert bounds[held].tflops <= prediction.peak_tflops


@given(NAMES, LOOPS, st.sampled_from(["IADD3", "LDS.128", "LDG.E", "BRA"]), st.integers(1, 50))
def test_more_overhead_never_raises_the_ceiling(name, loop, opcode, n):
    fat = loop | {opcode: loop.get(opcode, 0) + n}
    lean, heavy = (_predict(code, name, use=Use(32, 0, 1)) for code in (loop, fat))
    assert heavy.ceiling.tflops <= lean.ceiling.tflops


@given(NAMES, LOOPS, st.integers(0, 10**13), st.integers(1, 10**11))
def test_where_throughput_counts_bytes_the_one_bound_is_the_memory_bandwidth(name, loop, flops, moved):
    prediction = _predict(loop, name, use=Use(32, 0, 1), flops=flops, bytes_moved=moved, merit=Merit.BANDWIDTH)
    assert [bound.name for bound in prediction.bounds] == ["DRAM"]
    assert prediction.ceiling.rate == prediction.peak == gpu_for(name).dram_gb_s
    assert prediction.ceiling.tflops == pytest.approx(flops / moved * prediction.peak / 1e3)


def test_a_sequence_reaches_the_share_of_the_bandwidth_that_its_needed_bytes_have():
    launch_prediction, gpu = _predict(GEMM_STEP, flops=0, merit=Merit.BANDWIDTH), gpu_for("H200")

    def together(moved):
        return predict_sequence(
            gpu,
            [launch_prediction, launch_prediction],
            flops=100,
            bytes_needed=1000,
            bytes_moved=moved,
            merit=Merit.BANDWIDTH,
        ).ceiling

    assert together(1000).gb_s == together(None).gb_s == gpu.dram_gb_s
    assert together(4000).gb_s == pytest.approx(gpu.dram_gb_s / 4)
    assert together(4000).tflops == pytest.approx(together(1000).tflops / 4)
    assert together(0) is None


def exactly(value):
    return pytest.approx(value, rel=1e-13)


def test_every_ceiling_to_the_last_digit():
    gpu, loop = gpu_for("H200"), {"FFMA": 60, "FADD": 3, "LDS.128": 4, "LDG.E": 2, "IADD3": 11}
    bounds = _bounds(_predict(loop, launch=LaunchFacts(256, blocks=1000)))
    cycle = gpu.sms * gpu.clock_mhz * 1e6 / 1e12  # of every SM, in tera
    peak = 128 * 2 * cycle
    assert bounds["issue slots"].tflops == exactly(peak * (123 / 126) * (63 / 80))
    assert bounds["shared memory"].tflops == exactly(123 * 32 / 4 * cycle)
    assert bounds["memory pipe"].tflops == exactly(123 * 32 / (6 * 32 / gpu.architecture.lsu_lanes) * cycle)
    assert bounds["DRAM"].tflops == exactly(2 * 4096**3 / (12 * 4096**2) * gpu.dram_gb_s / 1e3)
    assert bounds["roofline"].tflops == exactly(peak)
    assert bounds["waves"].tflops == exactly(peak * 1000 / (8 * 132))
    assert [bound.gb_s for bound in bounds.values()] == [None] * 6


def test_what_the_ceilings_say():
    bounds = _bounds(_predict({"FFMA": 60, "FFMA2": 2, "LDS.64": 3, "STG.E": 1}, launch=LaunchFacts(256, blocks=133)))
    assert {name: bound.explanation for name, bound in bounds.items()} == {
        "issue slots": "62 FFMA+FFMA2 of 66 issued: 93.9 %; 66 issue cycles and 64 float32 pipe cycles per warp",
        "shared memory": "62 FFMA+FFMA2 per 3 shared-memory wavefronts (3 accesses), 1 per cycle and SM",
        "memory pipe": "62 FFMA+FFMA2 per 4 loads and stores, 32 lanes per cycle and SM",
        "DRAM": "682.7 FLOP per byte x 4800 GB/s",
        "roofline": "least of peak 66.91 TFLOP/s and DRAM 3277 TFLOP/s",
        "waves": "133 blocks on 132 SMs, 2 on the fullest: 50.4 % of the peak, for blocks of equal work",
    }
    streaming = _predict({"FFMA": 1}, flops=3, bytes_moved=2_500_000, merit=Merit.BANDWIDTH)
    assert streaming.ceiling.explanation == "2.5 MB at 4800 GB/s"
    assert streaming.ceiling.tflops == exactly(3 / 2_500_000 * 4.8)


def test_without_known_traffic_the_peak_alone_bounds():
    bounds = _bounds(_predict({"FADD": 1}, bytes_moved=0))
    assert set(bounds) == {"roofline"}
    assert bounds["roofline"].explanation == "least of peak 66.91 TFLOP/s and DRAM (unknown bandwidth)"
    assert _predict({"FADD": 1}, bytes_moved=0, merit=Merit.BANDWIDTH).bounds == ()
    assert _predict({"FADD": 1}, bytes_moved=1, flops=1).bounds[0].name == "DRAM"


def test_no_bandwidth_without_a_resident_block():
    assert _predict(GEMM_STEP, launch=LaunchFacts(1024), merit=Merit.BANDWIDTH).bounds == ()


def test_a_sequence_that_counts_operations_has_the_bounds_of_the_problem():
    launch_prediction, gpu = _predict(GEMM_STEP), gpu_for("H200")
    small = replace(launch_prediction, occupancy=0.125, limited_by="threads")
    facts: dict[str, Any] = {"bytes_needed": 100, "bytes_moved": 300, "merit": Merit.TFLOPS}
    prediction = predict_sequence(gpu, [launch_prediction, small], flops=600, **facts)
    assert (prediction.occupancy, prediction.limited_by) == (0.125, "threads")
    assert {name: bound.tflops for name, bound in _bounds(prediction).items()} == {
        "DRAM": exactly(2 * 4.8),
        "roofline": exactly(2 * 4.8),
    }
    assert predict_sequence(gpu, [launch_prediction, small], flops=1, **facts).bounds
    assert predict_sequence(gpu, [launch_prediction, small], flops=0, **facts).bounds == ()
    none = replace(small, blocks_per_sm=0)
    assert predict_sequence(gpu, [launch_prediction, none], flops=600, **facts).bounds == launch_prediction.bounds[:0]
    streams = facts | {"merit": Merit.BANDWIDTH}
    assert predict_sequence(gpu, [launch_prediction, replace(none, occupancy=0.0)], flops=600, **streams).bounds == ()


def test_a_sequence_says_how_much_more_it_moves():
    launch_prediction, gpu = _predict(GEMM_STEP, flops=0, merit=Merit.BANDWIDTH), gpu_for("H200")
    ceiling = predict_sequence(
        gpu, [launch_prediction] * 3, flops=100, bytes_needed=1000, bytes_moved=2500, merit=Merit.BANDWIDTH
    ).ceiling
    assert ceiling.explanation == "0.0025 MB at 4800 GB/s in 3 launches, 2.5x the bytes needed"
    nothing = predict_sequence(
        gpu, [launch_prediction], flops=100, bytes_needed=0, bytes_moved=40, merit=Merit.BANDWIDTH
    ).ceiling
    assert nothing.gb_s == 0
    assert nothing.explanation.endswith("in 1 launches, 40x the bytes needed")


def test_launches_before_a_kernel_take_their_time():
    prediction, flops = _predict(GEMM_STEP), 2 * 4096**3
    later = delayed(prediction, flops, 1e-3)
    assert [bound.name for bound in later.bounds] == [bound.name for bound in prediction.bounds]
    for before, after in zip(prediction.bounds, later.bounds, strict=True):
        assert after.tflops == exactly(flops / (flops / (before.tflops * 1e12) + 1e-3) / 1e12)
    idle = replace(prediction, bounds=(replace(prediction.bounds[0], tflops=0.0),))
    assert delayed(idle, flops, 1e-3) == idle
    assert not math.isinf(later.ceiling.tflops)


def test_matrix_instructions_are_bound_by_the_tensor_cores():
    # 128 x 256 tile of a block of two warpgroups, 64 deep: 4 products of 64 x 256 x 16 a warpgroup
    prediction = _predict({"HGMMA.64x256x16.F32.BF16": 4, "IADD3": 20}, dtype="float16")
    bounds = _bounds(prediction)
    peak = 132 * 2048 * 2 * 1.98e-3
    assert prediction.peak == pytest.approx(peak)
    assert bounds["tensor cores"].tflops == pytest.approx(peak)
    assert bounds["tensor cores"].explanation == "4 matrix instructions of 524.288 kFLOP per warp, float16"
    # a quarter of 64 x 256 x 16 takes 32 cycles of an SM, and 24 instructions of a warp take 6
    assert bounds["issue slots"].tflops == pytest.approx(peak * 4 * 32 / 6)
    # 256 columns of 32 bytes are 64 wavefronts for four warps
    assert bounds["shared memory"].tflops == pytest.approx(peak * 32 / 16)
    assert prediction.ceiling is not None
    assert prediction.ceiling.name in {"tensor cores", "roofline"}


def test_what_a_warp_issues_around_its_products_can_bound_it():
    # 16 x 8 x 16 multiply-adds take a cycle of an SM, as 4 instructions do
    bounds = _bounds(_predict({"HMMA.16816.F32": 8, "IADD3": 72}, dtype="float16"))
    assert bounds["issue slots"].tflops == pytest.approx(bounds["tensor cores"].tflops * 8 / 20)


def test_narrow_products_are_bound_by_what_they_read_in_shared_memory():
    bounds = _bounds(_predict({"HGMMA.64x8x16.F32": 1}, "H100", dtype="float16"))
    assert bounds["shared memory"].tflops == pytest.approx(bounds["tensor cores"].tflops * 2)


@pytest.mark.parametrize(
    ("opcode", "gpu"),
    [("UTCHMMA", "B200"), ("QMMA.16832.F32.E4M3.E4M3", "A100"), ("HMMA.16816.F32", "Jetson AGX Xavier")],
)
def test_matrix_instructions_without_a_known_rate_are_bound_by_dram_alone(opcode, gpu):
    prediction = _predict({opcode: 4, "IADD3": 4}, gpu)
    assert set(_bounds(prediction)) == {"DRAM"}
    assert prediction.peak == gpu_for(gpu).peak_tflops("float32")


def test_types_that_meet_in_a_loop_share_the_tensor_cores():
    gpu = gpu_for("H200")
    assert gpu.tensor_tflops({}) is None
    both = gpu.tensor_tflops({"float16": 1.0, "tf32": 1.0})
    assert both == pytest.approx(132 * 2 * 1.98e-3 * 2 / (1 / 2048 + 1 / 1024))
