"""`lab calibrate` on a real GPU, in a quick form: two microbenchmarks."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from lab.cli.calibrate import calibrate, shown
from lab.hardware.calibration import calibrated, read
from lab.hardware.gpus import from_description
from lab.measured.timing import GpuDescription

pytestmark = pytest.mark.gpu


def test_two_microbenchmarks_give_constants_that_a_gpu_can_have(gpu: GpuDescription, tmp_path: Path) -> None:
    file, told = tmp_path / "calibration.yaml", io.StringIO()
    made = calibrate(Console(file=told, width=200), only=["banks"], file=file)
    assert made.model == gpu.name
    assert set(made.calibration.constants) == {"launch", "shared_wavefronts"}, made.missing
    assert "banks: 2 of 2 variants measured" in told.getvalue()
    constants = made.calibration.constants
    assert 0.5 < constants["launch"].value < 20
    assert 0.8 < constants["shared_wavefronts"].value < 1.2
    assert all(constant.spread < 0.2 for constant in constants.values())
    here = calibrated(from_description(gpu), read(file))
    assert here.latencies.shared_wavefronts == constants["shared_wavefronts"].value
    assert next(iter(shown([], file))) == gpu.name
