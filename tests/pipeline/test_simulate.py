"""The scheduler on loops whose cycles can be counted by hand."""

from dataclasses import replace

import pytest

from lab.isa.control import Control
from lab.pipeline.machine import machine_of
from lab.pipeline.simulate import Cause, simulate
from lab.pipeline.trace import Slot, Traffic, Unit, passes

MACHINE = machine_of("sm_90")


def control(stall=1, write=None, read=None, waits=()):
    return Control(stall, False, write, read, waits, (False,) * 4)


TRAFFIC = Traffic()


def fma(clash=0, **bits):
    return Slot(Unit.NONE, 4, False, clash, 0, 1, control(**bits))


def other(unit=Unit.NONE, width=4, left=0, **bits):
    return Slot(unit, width, False, 0, left, 0, control(**bits))


def test_independent_fma_fill_every_cycle():
    cycles = simulate([fma()] * 50, warps=1, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == 50
    assert cycles.by_cause == {Cause.FMA: 50}


def test_warps_share_the_slots():
    assert simulate([fma()] * 50, warps=4, blocks=2, machine=MACHINE, traffic=TRAFFIC).total == 200


def test_what_is_no_fma_costs_its_slot():
    cycles = simulate([fma()] * 30 + [other()] * 10, warps=2, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == 80
    assert cycles.by_cause == {Cause.FMA: 60, Cause.OTHER: 20}


def test_banks_cost_extra_cycles():
    cycles = simulate([fma(clash=3)] * 40, warps=1, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == 40 * (1 + MACHINE.three_in_a_bank)
    assert cycles.by_cause[Cause.BANKS] == 40 * MACHINE.three_in_a_bank


def test_a_stall_hides_behind_another_warp():
    loop = [fma(stall=4)] * 20
    alone, four = (simulate(loop, warps, 1, MACHINE, TRAFFIC) for warps in (1, 4))
    assert alone.total == 80
    assert alone.by_cause[Cause.STALL] == 60
    assert four.total == pytest.approx(80, abs=4)


def test_shared_memory_bounds_when_its_passes_exceed_the_fma():
    loop = [other(Unit.SHARED, width=16, write=0), *[fma()] * 4]
    cycles = simulate(loop * 20, warps=4, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == pytest.approx(
        4 * 20 * 4 * 4, rel=0.05
    )  # 4 warps, 20 accesses, 4 passes, a quarter of the SM
    assert cycles.by_cause[Cause.QUEUE] > cycles.by_cause[Cause.FMA]


def test_a_result_is_waited_for():
    loop = [other(Unit.SHARED, width=4, write=3), fma(waits=(3,)), *[fma()] * 9]
    cycles = simulate(loop, warps=1, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.by_cause[Cause.SHARED] == pytest.approx(4 + MACHINE.shared_latency - 1)
    assert simulate([loop[0], fma(), *loop[2:]], warps=1, blocks=1, machine=MACHINE, traffic=TRAFFIC).total == 11


def test_global_loads_take_the_longer_latency():
    loop = [other(Unit.GLOBAL, width=16, write=1), *[fma()] * 100, fma(waits=(1,))]
    cycles = simulate(loop, warps=1, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == pytest.approx(MACHINE.global_latency, rel=0.05)
    assert cycles.by_cause[Cause.GLOBAL] > 700


def test_copies_are_waited_for_by_group():
    copy, commit = other(Unit.COPY, width=16), other(Unit.COMMIT)
    body = [fma()] * 2000
    now = simulate([copy, commit, other(Unit.WAIT, left=0), *body], warps=1, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    later = simulate(
        [copy, commit, other(Unit.WAIT, left=1), *body], warps=1, blocks=1, machine=MACHINE, traffic=TRAFFIC
    )
    assert now.by_cause[Cause.GLOBAL] > 800
    assert Cause.GLOBAL not in later.by_cause
    assert later.total == 2003


def test_a_block_waits_for_its_last_warp():
    loop = [*[fma()] * 20, other(Unit.BARRIER)]
    one, two = (simulate(loop, 4, blocks, MACHINE, TRAFFIC) for blocks in (1, 2))
    assert one.by_cause[Cause.BARRIER] == pytest.approx(MACHINE.block_barrier, abs=2)
    assert two.total < one.total  # another block fills the gap


def test_causes_add_up():
    loop = [other(Unit.SHARED, width=12, write=0), fma(waits=(0,), clash=2), fma(stall=3), other(Unit.INTEGER),
            other(Unit.BRANCH, stall=5), other(Unit.BARRIER)]  # fmt: skip
    cycles = simulate(loop, warps=4, blocks=2, machine=MACHINE, traffic=TRAFFIC)
    assert sum(cycles.by_cause.values()) == pytest.approx(cycles.total)


def test_only_compared_architectures_have_a_model():
    assert machine_of("sm_90a") is MACHINE
    assert machine_of("sm_80") is None
    assert replace(MACHINE, queue=1) != MACHINE


@pytest.mark.parametrize(
    ("width", "counted", "of_bytes", "expected"),
    [
        (4, 0.0, 0.0, 1.0),  # nothing counted: the bytes decide
        (16, 0.0, 0.0, 4.0),
        (16, 3.0, 16.0, 3.0),  # the PTX has it as wide
        (16, 1.0, 4.0, 4.0),  # four accesses without conflicts, merged
        (16, 17.0, 4.0, 17.0),  # conflicts of many ways are paid once
        (4, 3.0, 16.0, 3.0),
    ],
)
def test_passes_of_shared_memory(width, counted, of_bytes, expected):
    slot = other(Unit.SHARED, width=width)
    assert passes(slot, Traffic(load_wavefronts=counted, load_bytes=of_bytes)) == expected


def test_passes_of_global_memory_follow_the_sectors():
    assert passes(other(Unit.GLOBAL, width=4), Traffic(sectors=32.0)) == 16.0
    assert passes(other(Unit.COPY, width=16), Traffic()) == 4.0
    assert passes(fma(), Traffic(sectors=32.0)) == 0.0


def test_one_warp_of_a_block_issues_what_it_does_alone():
    alone = replace(other(), once=True)
    cycles = simulate([*[fma()] * 30, *[alone] * 10], warps=4, blocks=2, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == 4 * 30 + 2 * 10


def test_bulk_copies_are_waited_for_an_iteration_later():
    copy, traffic = replace(other(Unit.BULK), once=True), Traffic(copy_wavefronts=64)
    assert passes(copy, traffic) == 64
    short, long = (
        simulate([other(Unit.PHASE), copy, *[fma()] * n], warps=1, blocks=1, machine=MACHINE, traffic=traffic)
        for n in (100, 2000)
    )
    assert short.total == pytest.approx(64 + MACHINE.global_latency, abs=3)
    assert short.by_cause[Cause.GLOBAL] > 800
    assert long.total == 2002
