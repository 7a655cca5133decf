"""Getters are None where the record lacks what they read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from written_runs import variant

from lab.recorded.run_records import Status
from lab.report.registry.getters import built, card, executed, hot, profiled, timed, traffic

RECORD, _ = variant("tiled", {"unroll": 1}, "unroll=1", 64, 4, 9, 0.8, measured=True)


def test_they_read_what_is_there():
    assert built(lambda build: build.toolchain)(RECORD) == "nvrtc"
    assert timed(lambda measurement: measurement.cache)(RECORD) == "warm"
    assert card(lambda state: state.temperature_c)(RECORD) == 61  # when the samples ended
    assert hot("ptx", lambda counts: counts.fma)(RECORD) == 64


@pytest.mark.parametrize(
    "getter",
    [
        built(lambda _: 1),
        timed(lambda _: 1),
        card(lambda _: 1),
        hot("sass", lambda _: 1),
        profiled(lambda _: 1),
        executed(lambda _: 1),
        traffic(("global.load",), lambda _: 1.0),
    ],
)
def test_they_are_none_where_it_is_not(getter):
    assert getter(replace(RECORD, build=None, ptx=None, sass=None, measurement=None)) is None


def test_a_failed_variant_has_no_times():
    assert timed(lambda _: 1)(replace(RECORD, status=Status.NOT_EXECUTED)) is None
