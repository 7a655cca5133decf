"""Registers and shared memory that cost a block per SM."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from advice_support import RESOURCES, modelled

from lab.advice.evidence import Evidence
from lab.advice.rules.occupancy import find
from lab.isa.mix import WarpChain
from lab.recorded.run_records import LaunchRecord

WAITING: dict[str, Any] = {"chain": WarpChain(100, 10_000.0)}


def findings(registers: int, dynamic: int, blocks_per_sm: int, **work):
    launch = LaunchRecord((13200, 1, 1), (256, 1, 1), dynamic)
    evidence = Evidence(resources=replace(RESOURCES, registers=registers), launch=launch)
    return list(find(modelled(evidence, blocks_per_sm, **(work or WAITING))))


def test_registers_to_save_are_named_with_the_launch_bound():
    (found,) = findings(136, 0, 1)
    assert found.cause == "an SM holds 1 block, limited by registers"
    assert found.remedy == "save 8 of 136 registers per thread for 2 blocks per SM: __launch_bounds__(256, 2)"
    assert found.gain == pytest.approx(2, rel=0.05)


def test_shared_memory_to_save_is_named():
    (found,) = findings(32, 58_368, 3)
    assert found.cause == "an SM holds 3 blocks, limited by shared memory"
    # a quarter of the 228 KiB, less the KiB that each block has reserved: 1 KiB fewer
    assert found.remedy == "save 1024 of 58368 bytes of shared memory per block for 4 blocks per SM"


def test_too_much_to_save_is_no_finding():
    assert findings(255, 0, 1) == []


def test_a_kernel_that_waits_for_nothing_is_no_finding():
    assert findings(136, 0, 1, wavefronts=1e10) == []
