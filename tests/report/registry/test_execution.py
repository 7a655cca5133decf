"""Columns of what executing a kernel showed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from written_runs import variant

from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.measured.counters import LaunchCounters, Profile
from lab.measured.timing import Verification
from lab.recorded.run_records import Condition, EmulatedStep, EmulationRecord, LaunchRecord, Suspicion, VariantRecord
from lab.report.registry.execution import EXECUTION

COLUMNS = {(column.name, column.kind): column for column in EXECUTION}
BY_NAME = {column.name: column for column in EXECUTION}
RECORD, _ = variant("tiled", {"unroll": 1}, "unroll=1", 64, 4, 9, 0.8, measured=True)


def executed(**memory: MemoryCount) -> VariantRecord:
    """The record after 100 warp instructions with these accesses; `global_load` stands for `global.load`."""
    counts = ExecutedCounts(
        warps=100,
        threads=3200,
        warps_by_class={"special": 20, "fma": 80},
        threads_by_class={},
        warps_by_opcode={},
        threads_by_opcode={},
        memory={name.replace("_", "."): count for name, count in memory.items()},
    )
    step = EmulatedStep("gemm", LaunchRecord((1, 1, 1), (32, 1, 1), 0))
    return replace(RECORD, emulation=EmulationRecord({}, (step,), executed=counts, bytes_needed=640))


def test_traffic_is_per_request_and_per_byte_needed():
    record = executed(
        global_load=MemoryCount(requests=10, sectors=40, bytes_used=1280),
        global_store=MemoryCount(requests=5, sectors=40, bytes_used=640),
        shared_load=MemoryCount(requests=4, wavefronts=10, ideal_wavefronts=4),
    )
    assert BY_NAME["sectors_per_global_load"].get(record) == 4.0
    assert BY_NAME["sectors_per_global_store"].get(record) == 8.0
    assert BY_NAME["conflicts_per_shared_load"].get(record) == 1.5
    assert BY_NAME["conflicts_per_shared_store"].get(record) is None
    assert BY_NAME["moved_per_byte_needed"].get(record) == pytest.approx(80 * 32 / 640)


def test_suspicions_are_counted_and_the_first_is_told():
    emulation = EmulationRecord(
        {}, (), Verification(True, 0.0, 1e-6, "", "emulator"), suspicions=(Suspicion(Condition.ORDER, "y[3] differs"),)
    )
    record = replace(RECORD, emulation=emulation)
    assert BY_NAME["suspicions"].get(record) == 1
    assert BY_NAME["first_suspicion"].get(record) == emulation.suspicions[0].summary
    clean = replace(record, emulation=replace(emulation, suspicions=()))
    assert (BY_NAME["suspicions"].get(clean), BY_NAME["first_suspicion"].get(clean)) == (0, None)


def test_shares_are_of_the_executed_instructions():
    record = executed()
    assert BY_NAME["executed_special_share"].get(record) == pytest.approx(0.2)
    assert BY_NAME["executed_convert_share"].get(record) == 0.0
    assert BY_NAME["executed_warp_instructions"].get(record) == 100


def test_predicted_and_emulated_accesses_have_columns_of_their_own():
    record = replace(RECORD, accesses={"global.load": 4.0, "shared.store": 1.0})
    assert BY_NAME["predicted_sectors_per_global_load"].get(record) == 4.0
    assert BY_NAME["predicted_conflicts_per_shared_store"].get(record) == 1.0
    assert BY_NAME["predicted_conflicts_per_shared_load"].get(record) is None
    assert BY_NAME["sectors_per_global_load"].get(record) is None


def test_each_pipe_has_its_own_figure():
    launch = LaunchCounters("k", 1.0, 0.0, pipes={"fma": 0.75, "lsu": 0.25}, occupancy=0.5, issue_share=0.5)
    record = replace(RECORD, profile=Profile("Nsight Compute 2025.3", "cold", (launch,)))
    shown = {name: BY_NAME[f"counted_pipe_{name}"].get(record) for name in ("fma", "lsu")}
    assert shown == {"fma": 0.75, "lsu": 0.25}
    assert BY_NAME["achieved_occupancy"].get(record) == 0.5


def test_without_an_execution_every_cell_is_empty():
    assert {column.get(RECORD) for column in EXECUTION} == {None}
    assert len(COLUMNS) == len(EXECUTION)
