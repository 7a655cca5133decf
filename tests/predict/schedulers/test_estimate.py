"""Time estimates: supported kernels, and kernels the model declines."""

from dataclasses import replace
from typing import cast

import pytest

from lab.hardware.gpus import gpu_for
from lab.hardware.latencies import SmLatencies, latencies_of
from lab.isa.sass.control import Control
from lab.predict.schedulers.estimate import Edges, Pace, _numbers, estimate
from lab.predict.schedulers.loop import MainLoop, Slot, Traffic, Unit

GPU = gpu_for("H200")
BITS = Control(1, False, None, None, (), (False,) * 4)
COUNTED = Traffic(bulk_wavefronts=128.0, bulk_sectors=512.0)


def slot(unit=Unit.NONE, fma=0, *, once=False):
    return Slot(unit, 4, False, (0, 0), (0, 0), 0, fma, BITS, once)


def paced(*others, gpu=GPU, fma=64):
    loop = MainLoop((*others, *[slot(fma=1)] * fma), (), (), nested=False, fma=fma)
    return estimate(gpu, loop, warps_per_block=4, blocks_per_sm=2, traffic=COUNTED)


def test_a_loop_of_fma_alone_runs_at_the_peak():
    assert paced().tflops == pytest.approx(GPU.peak_tflops("float32"), rel=1e-13)
    assert paced().rates == {1: 256, 2: 256}


def test_a_loop_without_fma_has_no_estimate():
    assert paced(slot(), fma=0) is None


def test_a_loop_that_uses_tensor_cores_besides_has_no_estimate():
    assert paced(slot(Unit.TENSOR)) is None


def test_a_wait_for_what_another_loop_copies_has_no_estimate():
    wait, copy = slot(Unit.PHASE), slot(Unit.BULK, once=True)
    assert paced(wait) is None
    assert paced(wait, copy).cycles > paced(copy).cycles


def test_an_architecture_that_was_never_compared_has_no_estimate():
    assert paced(gpu=gpu_for("A100")) is None


EDGES = Edges(instructions=40.0, stored_bytes=1024.0)


@pytest.mark.parametrize("rates", [{1: 100.0, 2: 160.0}, {1: 100.0}])
def test_rounds_edges_and_the_launch_add_up_to_the_time(rates):
    """Every SM is full once or more, and in the last round has one block; one begins while another goes on."""
    machine, work_per_block = cast("SmLatencies", latencies_of("sm_90")), 1e6
    pace, most = Pace(GPU, machine, rates, 4, EDGES, 0.0, {}), max(rates)
    blocks = GPU.sms * most + 3
    edge = 40 * 4 / 4 + 1024 / machine.store_bytes
    full, last = (number * (work_per_block / rates[number] + edge) for number in (most, 1))
    latencies = machine.global_latency * (1 if most > 1 else 2)
    seconds = 1e-5 + machine.launch_s + (full + last + latencies) / (GPU.clock_mhz * 1e6)
    found = pace.on(int(blocks * work_per_block), blocks, before_s=1e-5).tflops
    assert found == pytest.approx(blocks * work_per_block / seconds / 1e12, rel=1e-13)


MACHINE = cast("SmLatencies", latencies_of("sm_90"))


def pace(rates, **changed):
    return replace(Pace(GPU, MACHINE, rates, 4, Edges(), 7.0, {"fma": 1.0}), **changed)


def seconds(estimated, flops):
    return flops / (estimated.tflops * 1e12)


def test_full_rounds_have_no_rest():
    flops, blocks = 3 * 132 * 2 * 10**6, 3 * 132 * 2
    busy = (3 * 2 * 1e6 / 160 + MACHINE.global_latency) / (GPU.clock_mhz * 1e6)
    found = pace({1: 100.0, 2: 160.0}).on(flops, blocks)
    assert seconds(found, flops) == pytest.approx(MACHINE.launch_s + busy, rel=1e-13)
    assert (found.cycles, found.shares) == (7.0, {"fma": 1.0})


def test_the_rest_fills_the_sms_evenly():
    """A rest of 133 blocks is two on the fullest SM, of 132 one."""
    for rest, most in ((132, 1), (133, 2), (265, 3)):
        flops = rest * 10**6
        busy = (most * 1e6 / {1: 100, 2: 160, 3: 180}[most] + MACHINE.global_latency) / (GPU.clock_mhz * 1e6)
        found = pace({1: 100.0, 2: 160.0, 4: 200.0}).on(flops, rest)
        assert seconds(found, flops) == pytest.approx(MACHINE.launch_s + busy, rel=1e-13)


def test_dram_is_a_lower_limit_of_the_time():
    flops, moved = 132 * 10**6, 10**9
    found = pace({1: 100.0}).on(flops, 132, bytes_moved=moved)
    dram = moved / (GPU.dram_gb_s * 1e9 * MACHINE.dram_share)
    assert seconds(found, flops) == pytest.approx(MACHINE.launch_s + dram, rel=1e-13)
    unknown = pace({1: 100.0}, gpu=replace(GPU, dram_gb_s=None)).on(flops, 132, bytes_moved=moved)
    assert unknown == pace({1: 100.0}).on(flops, 132)


def test_rates_between_simulated_numbers_are_interpolated():
    rates = pace({1: 100.0, 2: 160.0, 8: 400.0})
    assert [rates.rate(blocks) for blocks in (1, 2, 5, 8)] == [100, 160, 280, 400]
    assert pace({2: 160.0, 4: 200.0}).rate(1) == 160
    assert pace({1: 100.0, 4: 160.0}).rate(3) == pytest.approx(140, rel=1e-13)


def test_the_numbers_of_blocks_that_are_simulated():
    assert [_numbers(most) for most in (1, 2, 3, 4, 5, 8, 9)] == [
        *((1,), (1, 2), (1, 2, 3), (1, 2, 4), (1, 2, 4, 5), (1, 2, 4, 8), (1, 2, 4, 8, 9))
    ]


def test_shares_are_of_the_cycles_of_an_iteration():
    found = paced(*[slot()] * 36)
    assert found.cycles == 200  # two warps a sub-partition, each 64 fma and 36 others
    assert found.shares == pytest.approx({"fma": 0.64, "other instructions": 0.36}, rel=1e-13)
    assert found.rates == pytest.approx({1: 256 * 0.64, 2: 256 * 0.64}, rel=1e-13)


def test_no_resident_block_no_estimate():
    loop = MainLoop((slot(fma=1),), (), (), nested=False, fma=1)
    assert estimate(GPU, loop, warps_per_block=4, blocks_per_sm=0, traffic=COUNTED) is None
    alone = estimate(GPU, loop, warps_per_block=4, blocks_per_sm=1, traffic=COUNTED)
    assert (alone.edges, alone.warps_per_block, alone.machine) == (Edges(0.0, 0.0), 4, MACHINE)
