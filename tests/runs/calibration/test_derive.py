from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.hardware.calibration import CONSTANTS, calibrated
from lab.hardware.gpus import gpu_for
from lab.runs.calibration.derive import RULES, MicroTimings, Timing, calibration_of, derive
from lab.runs.calibration.microbenchmarks import measured_before

REPORTS = Path(__file__).parents[3] / "reports" / "h200" / "micro"


@pytest.fixture(scope="module")
def bench() -> MicroTimings:
    return measured_before(REPORTS)[0]


def test_the_committed_results_give_every_constant(bench: MicroTimings) -> None:
    constants, missing = derive(bench)
    assert missing == {}
    assert list(constants) == list(CONSTANTS) == list(RULES)
    assert all(constant.spread < 0.02 and constant.n >= 10 for constant in constants.values())


def test_the_committed_results_give_the_built_in_constants_of_the_h200(bench: MicroTimings) -> None:
    made, _ = calibration_of(bench, "2026-11-23", "0")
    gpu = gpu_for("H200")
    latencies = calibrated(gpu, {"NVIDIA H200": made}).latencies
    fields = {one.sets for one in CONSTANTS.values() if one.sets} | {"dram_share", "shuffle_cycles"}
    off = {name: getattr(latencies, name) / getattr(gpu.latencies, name) - 1 for name in fields}
    assert max(map(abs, off.values())) < 0.04, off
    # the largest: 20 bytes of scattered sectors was rounded from 19.2
    assert max(off, key=lambda name: abs(off[name])) == "l2_scattered_bytes"


def test_the_references_of_scaled_constants_are_what_the_committed_results_give(bench: MicroTimings) -> None:
    constants, _ = derive(bench)
    for name, known in CONSTANTS.items():
        if known.reference:
            assert constants[name].value == pytest.approx(known.reference, rel=1e-5), name


def test_twice_as_slow_a_clock_gives_the_same_cycles_and_half_the_latency_is_half(bench: MicroTimings) -> None:
    constants, _ = derive(bench)
    slow = {
        name: tuple(replace(row, us=2 * row.us, clock_mhz=row.clock_mhz / 2) for row in rows)
        for name, rows in bench.timings.items()
    }
    slower, _ = derive(replace(bench, timings=slow))
    for name, constant in constants.items():
        timed = constant.unit in {"GB/s", "sectors/ns", "µs", "ns"}
        ratio = {"µs": 2, "ns": 2, "GB/s": 0.5, "sectors/ns": 0.5}[constant.unit] if timed else 1
        assert slower[name].value == pytest.approx(ratio * constant.value, rel=1e-4), name


def test_what_was_not_measured_is_missing_with_the_reason(bench: MicroTimings) -> None:
    some = {name: rows for name, rows in bench.timings.items() if name in {"banks", "chase"}}
    constants, missing = derive(replace(bench, timings=some))
    assert list(constants) == ["shared_wavefronts"]
    assert "pipes has no measured variant" in missing["fma_lanes"]
    assert "launch has no measured variant" in missing["l1_latency"]


def test_an_impossible_value_is_left_out(bench: MicroTimings) -> None:
    wrong = tuple(replace(row, us=1e-3 * row.us) for row in bench.timings["banks"])
    constants, missing = derive(replace(bench, timings={**bench.timings, "banks": wrong}))
    assert "shared_wavefronts" not in constants
    assert "0.05 to 16" in missing["shared_wavefronts"]


def test_the_working_set_fits_the_l2_that_there_is(bench: MicroTimings) -> None:
    small = replace(bench, gpu=replace(bench.gpu, l2_bytes=6 * 2**20))
    rows = {row.values["words"]: row.us for row in bench.timings["working_set"]}
    constants, _ = derive(small)
    expected = 16 * 512 * 512 * 528 / ((rows[65536] - 1.59037) * 1980 * 132)
    assert constants["l2_read_bytes"].value == pytest.approx(expected, rel=1e-4)
    tiny = replace(bench, gpu=replace(bench.gpu, l2_bytes=2**10))
    assert "of at most" in derive(tiny)[1]["l2_read_bytes"]


def test_rows_are_chosen_by_their_values() -> None:
    row = Timing({"kind": 1, "blocks": 1}, 5.0, 0.0, 3, 1000)
    bench = MicroTimings(measured_before(REPORTS)[0].gpu, {"pipes": (row,)})
    assert bench.row("pipes", kind=1) is row
    with pytest.raises(LookupError, match="pipes has no measured variant kind=2"):
        bench.row("pipes", kind=2)
