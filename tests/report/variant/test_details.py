"""The facts of a variant beside its listings: sections appear with their data, and only then."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from narrowing import as_

from lab.isa.roles import Role, WarpRole
from lab.measured.timing import Samples
from lab.recorded.run_records import (
    Condition,
    EmulationRecord,
    FullSizeRecord,
    LaunchRecord,
    Status,
    StepRecord,
    Suspicion,
)
from lab.report.variant.details import variant_detail


@pytest.fixture
def record(make):
    with make("sweep") as store:
        return store.records()[0]


def sections(record):
    return {heading: (kind, dict(rows)) for heading, kind, rows in as_(list, variant_detail(record)["sections"])}


def test_every_detail_is_json(record):
    made = variant_detail(record)
    assert json.loads(json.dumps(made))["name"] == record.kernel
    assert (made["status"], made["label"]) == (record.status, record.label)


def test_a_variant_that_did_not_compile_has_its_problem_alone(record):
    bare = replace(
        record, status=Status.COMPILE_FAILED, build=None, ptx=None, sass=None, prediction=None, verification=None,
        measurement=None, launch=None,
    )  # fmt: skip
    assert sections(bare) == {"Build": ("static", {"problem": "m=4096 n=4096 k=4096 dtype=float32"})}
    assert variant_detail(bare)["hot"] == {"ptx": [], "sass": []}


def test_registers_by_role_stand_beside_those_of_the_launch(record):
    assert "registers by role" not in sections(record)["Build"][1]
    counts = replace(record.ptx.counts, by_opcode={"setmaxnreg.inc.sync.aligned.u32": 1})
    mix = replace(record.ptx, counts=counts, roles=(WarpRole(Role.CONSUMER, 232, 1), WarpRole(Role.PRODUCER, 40, 2)))
    _, rows = sections(replace(record, ptx=mix, sass=None))["Build"]
    assert rows["registers by role"] == "producer 40, consumer 232"


def test_bounds_are_listed_lowest_first(record):
    kind, rows = sections(record)["Occupancy and bounds"]
    assert kind == "predicted"
    rates = [float(text.split()[1]) for text in rows.values() if text.startswith("≤")]
    assert rates == sorted(rates)
    assert len(rates) == 3


def test_times_stand_with_their_number_and_the_cards_state(record):
    timed = replace(record.measurement, samples=Samples((2.0, 1.0, 3.0), batch=4), notes=("The clock fell.",))
    kind, rows = sections(replace(record, measurement=timed))["Measurement"]
    assert kind == "measured"
    assert rows["variant"] == "median 2.0000 ms, p20 1.4000, p80 2.6000, n = 3 × 4"
    assert rows["card before"] == "1755 MHz SM, 3201 MHz memory, 612 W, 58 °C"
    assert rows["note"] == "The clock fell."
    assert "fresh process" not in rows


def test_a_card_that_reports_nothing_says_so(record):
    silent = replace(
        record.measurement.before, sm_clock_mhz=None, memory_clock_mhz=None, power_w=None, temperature_c=None
    )
    rows = sections(replace(record, measurement=replace(record.measurement, before=silent)))["Measurement"][1]
    assert rows["card before"] == "not reported"


def test_what_the_emulator_could_not_execute_is_said_instead_of_figures(record):
    emulation = EmulationRecord({"m": 8}, (), unsupported="wgmma is not supported")
    rows = sections(replace(record, emulation=emulation))["Execution on the CPU"][1]
    assert rows == {"not executed": "wgmma is not supported", "problem": "m=8"}


def test_what_ran_at_the_full_size_what_is_suspect_and_what_was_not_shown_are_rows(record):
    emulation = EmulationRecord(
        {"m": 8},
        (),
        suspicions=(Suspicion(Condition.ORDER, "y[3] differs"),),
        not_shown=("values at the full size",),
        full_size=FullSizeRecord({"m": 4096}, 23, 7813, 2944, covered=True),
    )
    rows = sections(replace(record, emulation=emulation))["Execution on the CPU"][1]
    assert "23 of 7,813 blocks" in rows[Condition.FULL_SIZE]
    assert rows["suspect"] == emulation.suspicions[0].summary
    assert rows["not shown"] == "values at the full size"


def test_several_launches_have_a_row_each(record):
    launch = LaunchRecord((8, 1, 1), (256, 1, 1), 1024)
    steps = (StepRecord("pack", launch, bytes_moved=2_500_000), StepRecord("sgemm", launch, sass=record.sass))
    rows = sections(replace(record, launch=None, steps=steps))["Launches"][1]
    geometry = "grid 8×1×1, block 256×1×1, 1024 B dynamic shared"
    assert rows["1. pack"] == f"{geometry}; moves at least 2.5 MB (declared)"
    assert rows["2. sgemm"].startswith(f"{geometry}; SASS hot loop {record.sass.hot_loop.counts.instructions} instr")


def test_only_hot_loops_have_lines(record):
    cold = replace(record.ptx.loops[0], hot=False, label="other")
    made = variant_detail(replace(record, ptx=replace(record.ptx, loops=(*record.ptx.loops, cold))))
    hot, other = made["hot"]["ptx"]
    assert hot["lines"] == record.ptx.loops[0].lines
    assert (other["label"], other["lines"]) == ("other", ())
