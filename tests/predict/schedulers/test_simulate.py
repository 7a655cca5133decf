"""The scheduler on loops whose cycles can be counted by hand."""

from dataclasses import replace
from typing import cast

import pytest

from lab.hardware.latencies import SmLatencies, latencies_of
from lab.isa.sass.control import Control
from lab.predict.schedulers.loop import Slot, Traffic, Unit, passes
from lab.predict.schedulers.simulate import Cause, simulate

MACHINE = cast("SmLatencies", latencies_of("sm_90"))


def control(stall=1, write=None, read=None, waits=()):
    return Control(stall, False, write, read, waits, (False,) * 4)


TRAFFIC = Traffic()


def fma(reads=(1, 1), alone=None, **bits):
    return Slot(Unit.NONE, 4, False, reads, alone or reads, 0, 1, control(**bits))


def other(unit=Unit.NONE, width=4, left=0, **bits):
    return Slot(unit, width, False, (0, 0), (0, 0), left, 0, control(**bits))


def test_independent_fma_fill_every_cycle():
    cycles = simulate([fma()] * 50, warps=1, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == 50
    assert cycles.by_cause == {Cause.FMA: 50}


def test_warps_share_the_slots_of_their_sub_partition():
    four, eight = (simulate([fma()] * 50, warps, 1, MACHINE, TRAFFIC).total for warps in (4, 8))
    assert (four, eight) == (50, 100)
    assert simulate([fma()] * 50, warps=4, blocks=3, machine=MACHINE, traffic=TRAFFIC).total == 150


def test_what_is_no_fma_costs_its_slot():
    cycles = simulate([fma()] * 30 + [other()] * 10, warps=4, blocks=2, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == 80
    assert cycles.by_cause == {Cause.FMA: 60, Cause.OTHER: 20}


@pytest.mark.parametrize(("reads", "each"), [((1, 1), 1), ((0, 2), 2), ((2, 1), 2), ((3, 0), 3)])
def test_a_bank_delivers_one_register_a_cycle(reads, each):
    cycles = simulate([fma(reads)] * 100, warps=1, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == 100 * each
    assert cycles.by_cause.get(Cause.BANKS, 0) == pytest.approx(100 * (each - 1))


def test_conflicts_in_turns_of_both_banks_cost_nothing_as_long_as_the_window_takes_them():
    """Two from the even bank and two from the odd one keep each port busy in two cycles of two."""
    cycles = simulate([fma((2, 0)), fma((0, 2))] * 50, warps=1, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == pytest.approx(100, abs=2)


def test_another_warp_empties_the_operand_cache():
    loop = [fma((1, 1), alone=(3, 0), stall=2)] * 50
    alone, shared = (simulate(loop, warps, 1, MACHINE, TRAFFIC) for warps in (4, 8))
    assert Cause.BANKS not in alone.by_cause
    assert shared.by_cause[Cause.BANKS] > 50


def test_a_stall_hides_behind_another_warp():
    loop = [fma(stall=4)] * 20
    alone, four = (simulate(loop, warps, 1, MACHINE, TRAFFIC) for warps in (4, 16))
    assert alone.total == 80
    assert alone.by_cause[Cause.STALL] == 60
    assert four.total == pytest.approx(80, abs=4)


def test_shared_memory_bounds_when_its_passes_exceed_the_fma():
    loop = [other(Unit.SHARED, width=16, write=0), *[fma()] * 4]
    cycles = simulate(loop * 20, warps=16, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == pytest.approx(16 * 20 * 4, rel=0.05)  # 16 warps, 20 accesses, 4 passes, one path
    assert cycles.by_cause[Cause.QUEUE] > cycles.by_cause[Cause.FMA]


def test_registers_are_written_at_4_bytes_a_lane_and_cycle_whatever_lanes_share():
    shared_by_lanes = Traffic(load_wavefronts=1.0, load_bytes=16.0)
    loop = [other(Unit.SHARED, width=16, write=0), *[fma()] * 4]
    cycles = simulate(loop * 20, warps=16, blocks=1, machine=MACHINE, traffic=shared_by_lanes)
    assert cycles.total == pytest.approx(16 * 20 * 4, rel=0.05)
    narrow = [other(Unit.SHARED, width=4, write=0), *[fma()] * 4]
    assert simulate(narrow * 20, 16, 1, MACHINE, shared_by_lanes).total == pytest.approx(4 * 20 * 5, rel=0.05)


def test_a_sub_partition_sends_one_memory_instruction_in_so_many_cycles():
    one_pass = Traffic(load_wavefronts=1.0, load_bytes=4.0)
    cycles = simulate([other(Unit.SHARED, width=4, write=0)] * 100, 4, 1, MACHINE, one_pass)
    assert cycles.total == pytest.approx(100 * MACHINE.send, rel=0.05)


def test_copies_whose_lanes_read_many_lines_hold_up_what_their_sub_partition_sends():
    copies = [other(Unit.COPY, width=4)] * 50
    few, many = (
        simulate(copies, 4, 1, MACHINE, Traffic(sectors=4.0, copy_wavefronts=lines)).total for lines in (1.0, 4.0)
    )
    assert few == pytest.approx(50 * MACHINE.send, rel=0.1)
    assert many == pytest.approx(4 * 50 * 4, rel=0.1)  # four sub-partitions, four lines each, one tag a cycle


def test_data_that_arrives_takes_turns_with_loads():
    """Copies of all sub-partitions, each four passes when it arrives, on a data path that loads keep busy."""
    loads = [other(Unit.SHARED, width=16, write=0)] * 40
    without = simulate(loads, 4, 1, MACHINE, Traffic(load_wavefronts=4.0, load_bytes=16.0))
    both = simulate(
        [other(Unit.COPY, width=16)] * 10 + loads,
        4,
        1,
        MACHINE,
        Traffic(load_wavefronts=4.0, load_bytes=16.0, copy_wavefronts=4.0, sectors=16.0),
    )
    assert without.total == pytest.approx(4 * 40 * 4, rel=0.05)
    assert both.total >= without.total + 4 * 10 * 4 * 0.9


def test_a_result_is_waited_for():
    loop = [other(Unit.SHARED, width=4, write=3), fma(waits=(3,)), *[fma()] * 9]
    cycles = simulate(loop, warps=1, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    # addresses, one pass, the latency, less the load's own slot
    assert cycles.by_cause[Cause.SHARED] == pytest.approx(MACHINE.send + 1 + MACHINE.shared_latency - 1)
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
    assert two.total < 2 * one.total  # another block fills the gap


def test_a_block_waits_for_its_warps_on_other_sub_partitions():
    """Five warps: the first sub-partition has two of them, and the others wait for it."""
    loop = [*[fma()] * 200, other(Unit.BARRIER)]
    four, five = (simulate(loop, warps, 1, MACHINE, TRAFFIC) for warps in (4, 5))
    assert four.total == pytest.approx(220, abs=4)
    assert five.total == pytest.approx(420, abs=6)
    assert five.by_cause[Cause.BARRIER] > 100


def test_causes_add_up():
    loop = [other(Unit.SHARED, width=12, write=0), fma((2, 1), waits=(0,)), fma(stall=3), other(Unit.INTEGER),
            other(Unit.BRANCH, stall=5), other(Unit.BARRIER)]  # fmt: skip
    cycles = simulate(loop, warps=4, blocks=2, machine=MACHINE, traffic=TRAFFIC)
    assert sum(cycles.by_cause.values()) == pytest.approx(cycles.total)


def test_one_warp_of_a_block_issues_what_it_does_alone():
    alone = replace(other(), once=True)
    cycles = simulate([*[fma()] * 30, *[alone] * 10], warps=4, blocks=2, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == 2 * 30 + 2 * 10  # of the first sub-partition, which has both of those warps


def test_bulk_copies_are_waited_for_an_iteration_later():
    copy, traffic = replace(other(Unit.BULK), once=True), Traffic(bulk_wavefronts=128, bulk_sectors=512)
    assert passes(copy, traffic) == 128
    short, long = (
        simulate([other(Unit.PHASE), copy, *[fma()] * n], warps=1, blocks=1, machine=MACHINE, traffic=traffic)
        for n in (100, 2000)
    )
    from_l2 = 512 * 32 / MACHINE.l2_bytes
    assert short.total == pytest.approx(from_l2 + MACHINE.global_latency, abs=3)
    assert short.by_cause[Cause.GLOBAL] > 800
    assert long.total == 2002


def test_data_of_bulk_copies_takes_turns_with_loads_and_is_asked_for_without_tags():
    loads = [other(Unit.SHARED, width=16, write=0)] * 40
    counted = Traffic(load_wavefronts=4.0, load_bytes=16.0, bulk_wavefronts=128, bulk_sectors=512)
    bulk = [replace(other(Unit.BULK), once=True)]
    without, both = (simulate(path, 4, 1, MACHINE, counted).total for path in (loads, bulk + loads))
    assert both == pytest.approx(without + 128, rel=0.05)


def test_a_sub_partition_that_is_done_waits_for_the_others():
    cycles = simulate([fma()] * 50, warps=5, blocks=1, machine=MACHINE, traffic=TRAFFIC)
    assert cycles.total == 100
    # one sub-partition has two warps; three have one and wait half of the time
    assert cycles.by_cause == pytest.approx({Cause.FMA: 62.5, Cause.BARRIER: 37.5})


def test_sectors_come_at_the_rate_of_l2():
    """A warp that waits for its load waits for L2, for the data path, which is as fast, and for the latency."""
    assert MACHINE.l2_bytes == 2 * 32
    sectors = 10 * MACHINE.global_latency * MACHINE.l2_bytes / 32
    loop = [other(Unit.GLOBAL, width=16, write=0), fma(waits=(0,))]
    one, four = (simulate(loop, warps, 1, MACHINE, Traffic(sectors=sectors)).total for warps in (1, 4))
    assert one == pytest.approx((10 + 10 + 1) * MACHINE.global_latency, rel=0.01)
    assert four == pytest.approx(4 * 10 * MACHINE.global_latency, rel=0.1)
