"""What has an estimate, and what the model declines."""

from typing import cast

import pytest

from lab.hardware.gpus import gpu_for
from lab.hardware.latencies import SmLatencies, latencies_of
from lab.isa.sass.control import Control
from lab.predict.schedulers.estimate import Edges, Pace, estimate
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
    assert paced().tflops == pytest.approx(GPU.peak_tflops("float32"))
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
    machine, each = cast("SmLatencies", latencies_of("sm_90")), 1e6
    pace, most = Pace(GPU, machine, rates, 4, EDGES, 0.0, {}), max(rates)
    blocks = GPU.sms * most + 3
    edge = 40 * 4 / 4 + 1024 / machine.store_bytes
    full, last = (number * (each / rates[number] + edge) for number in (most, 1))
    latencies = machine.global_latency * (1 if most > 1 else 2)
    seconds = 1e-5 + machine.launch_s + (full + last + latencies) / (GPU.clock_mhz * 1e6)
    found = pace.on(int(blocks * each), blocks, before_s=1e-5).tflops
    assert found == pytest.approx(blocks * each / seconds / 1e12, rel=1e-9)
