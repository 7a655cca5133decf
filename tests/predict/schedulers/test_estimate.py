"""What has an estimate, and what the model declines."""

import pytest

from lab.hardware.gpus import gpu_for
from lab.isa.sass.control import Control
from lab.predict.schedulers.estimate import estimate
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
