"""Waves of blocks that leave SMs idle."""

from __future__ import annotations

import pytest
from advice_support import modelled

from lab.advice.evidence import Evidence
from lab.advice.rules.tail import find
from lab.recorded.run_records import LaunchRecord


def findings(blocks: int):
    launch = LaunchRecord((blocks, 1, 1), (256, 1, 1), 0)
    return list(find(modelled(Evidence(launch=launch), blocks=blocks, wavefronts=1e9, instructions=1e4)))


def test_one_block_more_than_sms_takes_twice_as_long():
    (found,) = findings(133)
    assert found.cause == "133 blocks on 132 SMs: the fullest gets 2, the mean is 1.01"
    assert found.gain == pytest.approx(2 * 132 / 133, rel=0.02)


def test_idle_sms_are_counted():
    (found,) = findings(33)
    assert found.cause == "33 blocks leave 99 of 132 SMs idle"
    assert found.gain == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize("blocks", [132, 264, 13_201])
def test_even_and_large_grids_are_no_finding(blocks):
    assert findings(blocks) == []
