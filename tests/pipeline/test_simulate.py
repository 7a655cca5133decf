"""The scheduler on loops whose cycles can be counted by hand."""

from dataclasses import replace

import pytest

from lab.isa.control import Control
from lab.pipeline.machine import machine_of
from lab.pipeline.simulate import Cause, simulate
from lab.pipeline.trace import Slot, Unit

MACHINE = machine_of("sm_90")


def control(stall=1, write=None, read=None, waits=()):
    return Control(stall, False, write, read, waits, (False,) * 4)


def fma(extra=0.0, **bits):
    return Slot(Unit.NONE, 0.0, extra, 0, 1, control(**bits))


def other(unit=Unit.NONE, passes=0.0, left=0, **bits):
    return Slot(unit, passes, 0.0, left, 0, control(**bits))


def test_independent_fma_fill_every_cycle():
    cycles = simulate([fma()] * 50, warps=1, blocks=1, machine=MACHINE)
    assert cycles.total == 50
    assert cycles.by_cause == {Cause.FMA: 50}


def test_warps_share_the_slots():
    assert simulate([fma()] * 50, warps=4, blocks=2, machine=MACHINE).total == 200


def test_what_is_no_fma_costs_its_slot():
    cycles = simulate([fma()] * 30 + [other()] * 10, warps=2, blocks=1, machine=MACHINE)
    assert cycles.total == 80
    assert cycles.by_cause == {Cause.FMA: 60, Cause.OTHER: 20}


def test_banks_cost_extra_cycles():
    cycles = simulate([fma(extra=0.5)] * 40, warps=1, blocks=1, machine=MACHINE)
    assert cycles.total == 60
    assert cycles.by_cause[Cause.BANKS] == 20


def test_a_stall_hides_behind_another_warp():
    loop = [fma(stall=4)] * 20
    alone, four = (simulate(loop, warps, 1, MACHINE) for warps in (1, 4))
    assert alone.total == 80
    assert alone.by_cause[Cause.STALL] == 60
    assert four.total == pytest.approx(80, abs=4)


def test_shared_memory_bounds_when_its_passes_exceed_the_fma():
    loop = [other(Unit.SHARED, passes=4.0, write=0), *[fma()] * 4]
    cycles = simulate(loop * 20, warps=4, blocks=1, machine=MACHINE)
    assert cycles.total == pytest.approx(
        4 * 20 * 4 * 4, rel=0.05
    )  # 4 warps, 20 accesses, 4 passes, a quarter of the SM
    assert cycles.by_cause[Cause.QUEUE] > cycles.by_cause[Cause.FMA]


def test_a_result_is_waited_for():
    loop = [other(Unit.SHARED, passes=1.0, write=3), fma(waits=(3,)), *[fma()] * 9]
    cycles = simulate(loop, warps=1, blocks=1, machine=MACHINE)
    assert cycles.by_cause[Cause.SHARED] == pytest.approx(4 + MACHINE.shared_latency - 1)
    assert simulate([loop[0], fma(), *loop[2:]], warps=1, blocks=1, machine=MACHINE).total == 11


def test_global_loads_take_the_longer_latency():
    loop = [other(Unit.GLOBAL, passes=4.0, write=1), *[fma()] * 100, fma(waits=(1,))]
    cycles = simulate(loop, warps=1, blocks=1, machine=MACHINE)
    assert cycles.total == pytest.approx(MACHINE.global_latency, rel=0.05)
    assert cycles.by_cause[Cause.GLOBAL] > 700


def test_copies_are_waited_for_by_group():
    copy, commit = other(Unit.COPY, passes=4.0), other(Unit.COMMIT)
    body = [fma()] * 2000
    now = simulate([copy, commit, other(Unit.WAIT, left=0), *body], warps=1, blocks=1, machine=MACHINE)
    later = simulate([copy, commit, other(Unit.WAIT, left=1), *body], warps=1, blocks=1, machine=MACHINE)
    assert now.by_cause[Cause.GLOBAL] > 800
    assert Cause.GLOBAL not in later.by_cause
    assert later.total == 2003


def test_a_block_waits_for_its_last_warp():
    loop = [*[fma()] * 20, other(Unit.BARRIER)]
    one, two = (simulate(loop, 4, blocks, MACHINE) for blocks in (1, 2))
    assert one.by_cause[Cause.BARRIER] == pytest.approx(MACHINE.block_barrier, abs=2)
    assert two.total < one.total  # another block fills the gap


def test_causes_add_up():
    loop = [other(Unit.SHARED, passes=3.0, write=0), fma(waits=(0,), extra=0.35), fma(stall=3), other(Unit.INTEGER),
            other(Unit.BRANCH, stall=5), other(Unit.BARRIER)]  # fmt: skip
    cycles = simulate(loop, warps=4, blocks=2, machine=MACHINE)
    assert sum(cycles.by_cause.values()) == pytest.approx(cycles.total)


def test_only_compared_architectures_have_a_model():
    assert machine_of("sm_90a") is MACHINE
    assert machine_of("sm_80") is None
    assert replace(MACHINE, queue=1) != MACHINE
