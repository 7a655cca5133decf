"""Clusters that the card holds at once, and the least that its product holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.gpu.device.residents import clusters_of
from lab.hardware.clusters import clusters_held
from lab.hardware.gpus import from_description

pytestmark = pytest.mark.gpu


def test_the_driver_says_how_many_and_no_fewer_than_the_least(session):
    gpu = from_description(session.start())
    found = dict(clusters_of(0))
    if gpu.architecture.arch < "sm_90":
        assert found == {}
        return
    assert found[2] * 2 <= gpu.sms
    for size, number in found.items():
        assert clusters_held(replace(gpu, clusters=()), 1, size) <= number <= gpu.sms // size
