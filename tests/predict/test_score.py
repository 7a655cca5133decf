from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from lab.hardware.clusters import clusters_likely
from lab.hardware.gpus import gpu_for
from lab.hardware.latencies import latencies_of
from lab.isa.mix import WarpChain
from lab.predict.score import ORDER, KernelScore, busy_slices, score
from lab.predict.work import Fetched, LaunchWork, Ring, Spilled

H200 = gpu_for("H200")
CLOCK = H200.clock_mhz * 1e6
WORK = LaunchWork(blocks=132 * 64, warps_per_block=8, blocks_per_sm=8, instructions=1e9, by_class={"integer": 1e3})


def test_issue_slots_are_four_a_cycle_and_sm():
    scored = score(H200, [WORK], 0)
    assert scored.resources["issue slots"] == pytest.approx(1e9 / 132 / 4 / CLOCK)
    assert scored.bound == "issue slots"


def test_the_least_bytes_take_the_copys_share_of_the_bandwidth():
    scored = score(H200, [replace(WORK, instructions=0.0)], 10**9)
    assert scored.resources["DRAM"] == pytest.approx(1e9 / (4.8e12 * 0.867))
    assert scored.bound == "DRAM"


def test_the_whole_is_the_norm_of_the_resources_and_the_launch():
    scored = score(H200, [WORK], 10**9)
    norm = sum(seconds**ORDER for seconds in scored.resources.values()) ** (1 / ORDER)
    assert scored.seconds == pytest.approx(norm + scored.launches_s)
    assert max(scored.resources.values()) < scored.seconds
    assert list(scored.resources.values()) == sorted(scored.resources.values(), reverse=True)


def test_a_grid_that_does_not_fill_its_last_round_takes_as_long_as_one_that_does():
    """133 blocks are two rounds for the fullest SM."""
    full = replace(WORK, blocks=264, instructions=264e6)
    tail = replace(WORK, blocks=133, instructions=133e6)
    slots = [score(H200, [one], 0).resources["issue slots"] for one in (full, tail)]
    assert slots[0] == pytest.approx(slots[1])


def test_occupancy_hides_latency_and_loads_that_go_together_share_it():
    nothing = replace(WORK, instructions=0.0)
    loads = replace(nothing, load_requests=8.0 * WORK.blocks * WORK.warps_per_block)
    alone, more, together, without = (
        score(H200, [one], 0).resources["latency"]
        for one in (replace(loads, blocks_per_sm=1), loads, replace(loads, loads_together=8), nothing)
    )
    assert alone == pytest.approx(WORK.blocks_per_sm * more)
    assert more - without == pytest.approx(8 * (together - without))


def test_the_order_of_instructions_says_how_long_a_warp_takes_alone():
    machine = H200.latencies
    chain = WarpChain(100, 400.0, 2, atomics=6, local_loads=7, shared_loads=3, barriers=4, others=5)
    loads = 2.0 * WORK.blocks * WORK.warps_per_block
    latency_s = score(H200, [replace(WORK, chain=chain, load_requests=loads)], 0).resources["latency"]
    alone = 400 + 2 * machine.global_latency + 3 * machine.shared_latency + 4 * machine.block_barrier
    alone += 5 * machine.special_cycles + 6 * machine.l2_latency + 7 * machine.l1_latency + machine.block_latency
    assert latency_s == pytest.approx(alone * 64 / 8 / CLOCK)


@pytest.mark.parametrize(
    ("missed", "lines", "distant", "in_l1", "in_l2"),
    [
        (0.0, 1, 0.0, 1.0, 1.0),
        (1.0, 1, 0.0, 0.0, 1.0),
        (0.5, 1, 0.25, 0.5, 0.75),
        (0.5, 3, 0.25, 0.125, 0.421875),
        (0.5, 1, 9.0, 0.5, 0.5),
    ],
)
def test_loads_take_as_long_as_the_last_of_their_lines(missed, lines, distant, in_l1, in_l2):
    machine, warps = H200.latencies, WORK.blocks * WORK.warps_per_block
    sectors = 4.0 * lines * warps
    served = Fetched(2 * lines * warps, missed * sectors, 0, sectors)  # two groups of loads, `lines` each
    work = replace(WORK, chain=WarpChain(1, 0.0, global_loads=2), load_requests=2.0 * warps, load_sectors=sectors)
    latency_s = score(H200, [replace(work, fetched=served)], round(32 * distant * sectors)).resources["latency"]
    each = in_l1 * machine.l1_latency + (in_l2 - in_l1) * machine.l2_latency + (1 - in_l2) * machine.global_latency
    assert latency_s == pytest.approx((2 * each + machine.block_latency) * 64 / 8 / CLOCK)


def test_a_warp_waits_for_no_more_loads_than_it_executes():
    """The text has four loads one behind the other; three of them are on a path that was not taken."""
    machine, warps = H200.latencies, WORK.blocks * WORK.warps_per_block
    work = replace(WORK, chain=WarpChain(1, 0.0, global_loads=4), load_requests=1.0 * warps)
    latency_s = score(H200, [work], 0).resources["latency"]
    assert latency_s == pytest.approx((machine.global_latency + machine.block_latency) * 64 / 8 / CLOCK)


def test_warps_that_meet_at_barriers_wait_for_each_others_products():
    """Eight warps are two a sub-partition: each waits for the products of one other, half of its block's."""
    chain, alone = WarpChain(1, 0.0, barriers=2), replace(WORK, blocks_per_sm=1)
    macs = {"float16": 2048.0 * 1000 * WORK.blocks}  # 1000 cycles a block at the documented rate
    works = (
        replace(alone, chain=chain, products=macs),
        replace(alone, chain=chain, group_products=macs),
        replace(alone, chain=replace(chain, barriers=0.0), products=macs),
        replace(alone, chain=chain, products=macs, warps_per_block=4),
    )
    meeting, together, apart, four = (score(H200, [work], 0).resources["latency"] * CLOCK / 64 for work in works)
    machine = H200.latencies
    assert apart == pytest.approx(machine.block_latency)
    assert together == pytest.approx(machine.block_latency + 2 * machine.block_barrier)
    assert meeting == pytest.approx(together + 500 / machine.warp_products)
    assert four == pytest.approx(together)


def test_blocks_that_multiply_on_one_sm_wait_for_each_other():
    """Four warps of a block multiply side by side; three blocks beside it are with what they need most of."""
    chain, macs = WarpChain(1, 0.0, barriers=2), {"float16": 2048.0 * 1000 * WORK.blocks}
    block = replace(WORK, warps_per_block=4, chain=chain, products=macs, blocks_per_sm=4)
    machine = H200.latencies
    products, reads = 1000 / machine.warp_products, 500.0
    apart = machine.block_latency + 2 * machine.block_barrier
    for waves, own, beside in (
        (0.0, 0.0, products),
        (reads, 3 / 4 * reads, (products**2 + reads**2) / (products + reads)),
    ):
        work = replace(block, wavefronts=waves * WORK.blocks, waited_wavefronts=waves * WORK.blocks)
        latency_cycles = score(H200, [work], 0).resources["latency"] * CLOCK / 64
        assert latency_cycles == pytest.approx((apart + own + 3 * beside) / 4)


def test_spills_go_as_far_as_the_caches_do_not_hold_them():
    """A million requests of 128 bytes, half of which L1 holds and a quarter of the rest L2."""
    chain = WarpChain(100, 0.0, local_loads=10.0)
    plain = replace(WORK, instructions=0.0, chain=chain)
    held, lost = (replace(plain, spilled=Spilled(6e5, 4e5, past_l1=p1, past_l2=p2)) for p1, p2 in ((0, 0), (0.5, 0.75)))
    none, near, far = (score(H200, [work], 10**9).resources for work in (plain, held, lost))
    machine = latencies_of("sm_90")
    assert near["L1"] == pytest.approx(1e6 / machine.l1_lines / 132 / CLOCK)
    assert near["load/store units"] == pytest.approx(1e6 / 132 / CLOCK)
    assert near["DRAM"] == none["DRAM"]
    assert "L2 reads" not in near
    assert far["L2 reads"] == pytest.approx(0.5 * 6e5 * 128 / machine.l2_read_bytes / 132 / CLOCK)
    assert far["L2 writes"] == pytest.approx(0.5 * 4e5 * 128 / machine.store_bytes / 132 / CLOCK)
    assert far["DRAM"] - none["DRAM"] == pytest.approx(0.5 * 0.75 * 1e6 * 128 / (4.8e12 * 0.867))
    assert far["latency"] > near["latency"] == none["latency"]


def test_launches_pass_through_l2_what_fits_and_through_dram_the_rest():
    part, rate = replace(WORK, least_bytes=5e8), 4.8e12 * 0.867
    scored = score(H200, [part] * 4, 10**9)
    assert scored.resources["DRAM"] == pytest.approx(4 * (5e8 - H200.l2_bytes) / rate)
    small = score(H200, [replace(part, least_bytes=0.9 * H200.l2_bytes)] * 4, 10**7)
    assert small.resources["DRAM"] == pytest.approx(1e7 / rate)


def test_everything_waits_for_the_block_with_most_work_but_the_launch_of_blocks():
    even = score(H200, [WORK], 10**9).resources
    uneven = score(H200, [replace(WORK, uneven=1.25)], 10**9).resources
    same = {"starts of blocks"}
    assert {n: uneven[n] / even[n] for n in even} == pytest.approx({n: 1 if n in same else 1.25 for n in even})


@pytest.mark.parametrize(
    ("field", "resource"),
    [
        ("store_sectors", "L2 writes"),
        ("wavefronts", "shared memory"),
        ("updates", "atomics"),
        ("partial_bytes", "DRAM"),
    ],
)
def test_each_count_makes_its_resource_slower_and_no_other(field, resource):
    changed: dict[str, Any] = {field: 1e10}
    before = score(H200, [WORK], 10**6).resources
    after = score(H200, [replace(WORK, **changed)], 10**6).resources
    assert after[resource] > before.get(resource, 0.0)
    assert {n: s for n, s in after.items() if n != resource} == {n: s for n, s in before.items() if n != resource}


def test_float64_runs_on_its_own_lanes():
    work = replace(WORK, by_class={"fma": 1e9})
    single, double = (score(H200, [replace(work, double=d)], 0).resources["floating point"] for d in (0.0, 1.0))
    lanes = H200.architecture
    assert double / single == pytest.approx(lanes.fp32_lanes / (lanes.fp64_lanes or 0))


def test_launches_add_up():
    single, two = score(H200, [WORK], 0), score(H200, [WORK, WORK], 0)
    assert two.resources["issue slots"] == pytest.approx(2 * single.resources["issue slots"])
    assert two.launches_s == 2 * single.launches_s


def test_an_architecture_without_latencies_of_its_own_is_scored_too():
    assert score(gpu_for("A100"), [WORK], 10**6).seconds > 0


def resources(**changed):
    return score(H200, [replace(WORK, **changed)], 0).resources


def test_a_shuffle_takes_its_lanes_and_its_latency():
    shuffled = resources(instructions=0.0, by_class={"shuffle": 1e6})
    machine = latencies_of("sm_90")
    fullest = 64  # blocks
    assert shuffled["shuffles"] == pytest.approx(1e6 / 132 * 32 / 32 / CLOCK)
    each = 1e6 / (WORK.blocks * WORK.warps_per_block)
    assert machine is not None
    assert shuffled["latency"] == pytest.approx(
        (each * machine.shuffle_cycles + machine.block_latency) * fullest / 8 / CLOCK
    )
    assert machine is not None


def test_stored_sectors_take_the_stores_share_of_l2():
    machine = latencies_of("sm_90")
    assert machine is not None
    assert resources(store_sectors=1e6)["L2 writes"] == pytest.approx(1e6 / 132 * 32 / machine.store_bytes / CLOCK)
    alone = resources(store_sectors=1e6, stored_alone=1e6)["L2 writes"]
    assert alone == pytest.approx(4 * resources(store_sectors=1e6)["L2 writes"])
    assert resources(load_sectors=1e6)["L2 reads"] == pytest.approx(1e6 / 132 * 32 / machine.l2_scattered_bytes / CLOCK)
    even = resources(load_sectors=1e6, load_bytes=32e6)["L2 reads"]
    assert even == pytest.approx(1e6 / 132 * 32 / machine.l2_read_bytes / CLOCK)


def test_l1_takes_a_pass_for_the_words_of_a_bank_and_less_for_a_tag():
    machine = latencies_of("sm_90")
    assert machine is not None
    fetched = Fetched(lines=1e6, likely=0, least=0, most=0)
    old, shifted, crowded = (
        resources(load_sectors=1e6, fetched=replace(fetched, passes=passes))["L1"] for passes in (None, 5e5, 3e6)
    )
    assert old == pytest.approx(1e6 / 132 / CLOCK)
    assert shifted == pytest.approx(5e5 / 132 / CLOCK)  # two lines a request, whose words lie in different banks
    assert crowded == pytest.approx(3e6 / 132 / CLOCK)
    apart = resources(load_sectors=1e6, fetched=replace(fetched, passes=1e5))["L1"]
    assert apart == pytest.approx(1e6 / machine.l1_tags / 132 / CLOCK)


def test_code_beyond_the_instruction_cache_is_fetched():
    machine = latencies_of("sm_90")
    assert machine is not None
    short, long, longest = (
        resources(code=((100, 9e6), (text, 1e6)), warps_per_block=4, blocks_per_sm=2).get("instruction fetch", 0.0)
        for text in (2048, 4096, 10_000)
    )
    assert short == 0.0
    assert long == pytest.approx(1e6 / machine.fetched(65536, 8) / 132 / CLOCK)
    assert longest == pytest.approx(1e6 / machine.fetched(160_000, 8) / 132 / CLOCK)


def test_an_even_access_looks_up_a_line_for_four_sectors_and_a_scattered_one_for_each():
    even, scattered = (resources(load_sectors=1e6, load_bytes=used)["L1"] for used in (32e6, 4e6))
    assert even == pytest.approx(1e6 / 4 / 132 / CLOCK)
    assert scattered == pytest.approx((1e6 - 4e6 / 32 * 3 / 4) / 132 / CLOCK)


def test_what_is_read_again_costs_between_once_and_every_time():
    again = replace(WORK, instructions=0.0, load_sectors=1e9, load_bytes=32e9)
    once = score(H200, [again], 2 * 10**9)
    every = score(H200, [again], 32 * 10**9).resources["L2 reads"]
    assert once.resources["L2 reads"] == pytest.approx(every / 4)
    assert once.least_s < once.seconds < once.most_s
    assert once.most_s > every


@pytest.mark.parametrize("moved", [0, 10**6, 10**10])
@pytest.mark.parametrize("instructions", [0.0, 1e6, 1e10])
def test_a_time_lies_between_its_bounds(moved, instructions):
    scored = score(H200, [replace(WORK, instructions=instructions, load_sectors=1e7, load_bytes=1e8)], moved)
    assert scored.launches_s <= scored.least_s <= scored.seconds <= scored.most_s


def test_updates_spread_over_the_slices_that_hold_them():
    work = replace(WORK, updates=1e6)
    single, two, many = (score(H200, [replace(work, chunks=n)], 0).resources["atomics"] for n in (1, 2, 10_000))
    assert single == pytest.approx(0.732e-3)
    assert single / two == pytest.approx(2, rel=0.01)
    assert single / many == pytest.approx(76)
    assert busy_slices(0, 76) == pytest.approx(1)


def test_blocks_are_started_one_after_another():
    small, large = (replace(WORK, blocks=n, warps_per_block=1) for n in (1_000_000, 2_000_000))
    assert score(H200, [small], 0).resources["starts of blocks"] == pytest.approx(0.601e-3)
    assert score(H200, [small, large], 0).resources["starts of blocks"] == pytest.approx(1.803e-3)


def test_every_resource_to_the_last_digit():
    """133 blocks: two of them on the fullest SM."""
    machine, sm = latencies_of("sm_90"), H200.architecture
    assert machine is not None
    classes = ["fma", "float", "integer", "compare", "special", "convert", "shuffle", "barrier", "move"]
    memory = ["ld.global", "st.global", "ld.shared", "st.shared", "ld.local", "st.local", "atomic", "cp.async"]
    work = LaunchWork(
        blocks=133,
        warps_per_block=16,
        blocks_per_sm=4,
        instructions=5e6,
        by_class={cls: 1e5 * number for number, cls in enumerate([*classes, *memory], start=1)},
        load_requests=133 * 16 * 7.0,
        load_sectors=3e6,
        load_bytes=32e6,
        store_sectors=2e6,
        partial_bytes=500.0,
        wavefronts=7e5,
        updates=1e5,
        chunks=3,
        loads_together=2.0,
        double=0.25,
    )
    scored, share, warp = score(H200, [work], 10**8), 2 / 133, 1 / (133 * 16)
    chain = 4 * machine.global_latency + 8e5 * warp * machine.block_barrier + 7e5 * warp * machine.shuffle_cycles
    chain += 5e6 * warp * machine.dependent_cycles + machine.block_latency
    cycles = {
        "issue slots": 5e6 * share / 4,
        "floating point": 3e5 * share * 32 * (0.75 / 128 + 0.25 / sm.fp64_lanes),
        "integer": 7e5 * share * 32 / 64,
        "special functions": 5e5 * share * 32 / 16,
        "conversions": 6e5 * share * 32 / 32,
        "shuffles": 7e5 * share * 32 / 32,
        "load/store units": 1e5 * sum(range(10, 18)) * share * 32 / sm.lsu_lanes,
        "shared memory": 7e5 * share,
        "L1": share * (1e6 / 4 + 2e6),
        "L2 reads": share
        * 32
        * math.sqrt(3e6 * (1e8 / 32 - 2e6 + 500 / 32))
        * (1 / machine.l2_read_bytes / 3 + 2 / 3 / machine.l2_scattered_bytes),
        "L2 writes": share * 32 * 2e6 / machine.store_bytes,
        "latency": chain * (1 + machine.large_block_loss) * 2 / 2,
    }
    seconds = {name: number / CLOCK for name, number in cycles.items()}
    seconds["atomics"] = 1e5 * machine.atomic_update_s / busy_slices(3, machine.l2_slices)
    seconds["starts of blocks"] = 133 * machine.block_start_s
    seconds["DRAM"] = (1e8 + 500) / (H200.dram_gb_s * 1e9 * machine.dram_share)
    assert scored.resources == pytest.approx(seconds, rel=1e-13, abs=0)
    norm = sum(one**ORDER for one in seconds.values()) ** (1 / ORDER)
    assert scored.seconds == pytest.approx(norm + machine.launch_s, rel=1e-13)
    assert scored.launches_s == machine.launch_s


def test_a_launch_that_does_nothing_counted_only_starts():
    machine = latencies_of("sm_90")
    assert machine is not None
    seconds_by_resource = score(H200, [replace(WORK, instructions=0.0, by_class={}, warps_per_block=1)], 0).resources
    assert seconds_by_resource == pytest.approx(
        {
            "latency": machine.block_latency * 64 / 8 / CLOCK,
            "starts of blocks": WORK.blocks * machine.block_start_s,
        },
        rel=1e-13,
        abs=0,
    )


@pytest.mark.parametrize(("warps", "factor"), [(1, 1.0), (8, 1.0), (12, 1 + 0.22 * math.log2(1.5)), (32, 1.44)])
def test_large_blocks_hold_their_place_until_their_last_warp_ends(warps, factor):
    usual, scaled = (
        resources(instructions=0.0, by_class={}, warps_per_block=number)["latency"] for number in (8, warps)
    )
    assert scaled == pytest.approx(usual * factor, rel=1e-13)


def test_no_more_blocks_hide_latency_than_there_are():
    single, two, most = (resources(blocks=132 * 2, blocks_per_sm=held, by_class={})["latency"] for held in (1, 2, 8))
    assert single == pytest.approx(2 * two, rel=1e-13)
    assert most == two
    assert resources(blocks=132 * 2, blocks_per_sm=0, by_class={})["latency"] == single


def test_adding_floats_in_one_sector_takes_its_own_time():
    machine = latencies_of("sm_90")
    assert machine is not None
    plain, floats = (resources(updates=1e6, one_float=one)["atomics"] for one in (False, True))
    assert plain == pytest.approx(1e6 * machine.atomic_update_s, rel=1e-13)
    assert floats == pytest.approx(1e6 * machine.float_update_s, rel=1e-13)


def test_a_score_without_resources_is_of_its_launches():
    unknown = replace(H200, dram_gb_s=None)
    assert "DRAM" not in score(unknown, [WORK], 10**9).resources
    assert KernelScore(1.0).launches_s == 0
    assert busy_slices(3, 2) == pytest.approx(2 * (1 - 1 / 8), rel=1e-13)
    assert busy_slices(2, 4) == pytest.approx(4 * (1 - 9 / 16), rel=1e-13)


def test_a_card_without_float64_lanes_of_its_own_uses_the_others():
    gpu = replace(H200, architecture=replace(H200.architecture, fp64_lanes=0))
    work = replace(WORK, by_class={"fma": 1e9}, double=0.5)
    busy_s = score(gpu, [work], 0).resources["floating point"]
    assert busy_s == pytest.approx(1e9 / 132 * 32 / 128 / CLOCK, rel=1e-13)


RING = Ring(fills=132 * 100, bytes=32768.0, fetched=32768.0, ahead=1, in_turn=False)
ONE_AN_SM = replace(WORK, blocks=132, blocks_per_sm=1, instructions=0.0, by_class={})


def test_a_stage_arrives_once_for_as_many_as_are_filled_at_the_same_time():
    single, two, near = (
        score(H200, [replace(ONE_AN_SM, ring=replace(RING, ahead=n))], moved).resources
        for n, moved in ((1, 10**9), (2, 10**9), (1, 0))
    )
    machine = H200.latencies
    assert single["stages"] == pytest.approx(100 * (machine.global_latency + 32768 / 128) / CLOCK)
    assert two["stages"] == pytest.approx(single["stages"] / 2)
    # however many are under way, L2 sends no more
    assert single["L2 reads"] == two["L2 reads"] == pytest.approx(100 * 32768 / machine.stage_bytes / CLOCK)
    # where nothing comes from DRAM, L2 has the last line, too
    assert near["stages"] == pytest.approx(100 * (machine.l2_latency + 32768 / 128) / CLOCK)


def test_rows_that_begin_within_lines_arrive_later():
    machine = H200.latencies
    whole, half, all_of_it = (
        score(H200, [replace(ONE_AN_SM, ring=replace(RING, ahead=2, rows=rows))], 10**9).resources["L2 reads"]
        for rows in (((128, 32768.0),), ((16, 8192.0), (128, 24576.0)), ((16, 32768.0), (64, 0.0)))
    )
    at_16 = dict(machine.unaligned_rows)[16]
    assert whole == pytest.approx(100 * 32768 / machine.stage_bytes / CLOCK)
    assert half == pytest.approx(whole * (at_16 + 3) / 4)
    assert all_of_it == pytest.approx(whole * at_16)


@pytest.mark.parametrize(("fetched", "longer"), [(8192.0, 1.0), (24576.0, 0.75 * 2.05)])
def test_what_a_block_of_a_cluster_fetches_itself_takes_longer_or_what_it_receives(fetched, longer):
    rows = ((16, fetched),)
    ring = replace(RING, ahead=4, fetched=fetched, rows=rows)
    assert dict(H200.latencies.unaligned_rows)[16] == 2.05
    l2_read_s = score(H200, [replace(ONE_AN_SM, ring=ring)], 10**9).resources["L2 reads"]
    assert l2_read_s == pytest.approx(longer * 100 * 32768 / H200.latencies.stage_bytes / CLOCK)


@pytest.mark.parametrize("blocks", [132 * 2, 132 + 1, 33])
def test_l2_sends_all_sms_together_so_much(blocks):
    """100 stages a block: the last blocks do not receive less than L2 has."""
    ring = replace(RING, fills=100.0 * blocks, ahead=8)
    l2_read_s = score(H200, [replace(ONE_AN_SM, blocks=blocks, ring=ring)], 0).resources["L2 reads"]
    assert l2_read_s == pytest.approx(blocks / 132 * 100 * 32768 / H200.latencies.stage_bytes / CLOCK)


def test_what_blocks_that_stay_receive_is_no_more_where_some_have_more_passes():
    even, uneven = (
        score(H200, [replace(ONE_AN_SM, ring=replace(RING, ahead=8), uneven=n)], 0).resources for n in (1, 1.6)
    )
    assert uneven["L2 reads"] == pytest.approx(even["L2 reads"])
    assert uneven["stages"] == pytest.approx(1.6 * even["stages"])


def test_a_stage_of_a_cluster_is_free_when_all_its_blocks_have_read_it():
    single, two = (score(H200, [replace(ONE_AN_SM, cluster=n, ring=RING)], 10**9).resources["stages"] for n in (1, 2))
    rounds = math.ceil(132 / (2 * clusters_likely(H200, 1, 2)))  # clusters may not get at all SMs
    assert two / rounds == pytest.approx(single + 100 * H200.latencies.cluster_latency / CLOCK)


def test_blocks_that_wait_for_the_same_lines_wait_for_dram_together():
    """A hundredth of what 132 blocks fetch comes from DRAM, for which 11.5 wait."""
    moved = round(132 * 100 * 32768 / 100)
    stages_s = score(H200, [replace(ONE_AN_SM, ring=RING)], moved).resources["stages"]
    machine, waiting = H200.latencies, math.sqrt(132) / 100
    latency = waiting * machine.global_latency + (1 - waiting) * machine.l2_latency
    assert stages_s == pytest.approx(100 * (latency + 32768 / 128) / CLOCK)


def norm(resources, *but):
    return sum(seconds**ORDER for name, seconds in resources.items() if name not in but) ** (1 / ORDER)


def test_stages_of_products_hide_half_of_what_dram_needs():
    ring = replace(RING, ahead=8)
    for products, bare in (({"float16": 1e6}, H200.latencies.bare_dram), ({}, 0.0)):
        work = replace(ONE_AN_SM, group_products=products, ring=ring)
        still, moving = (score(H200, [work], moved) for moved in (0, 10**8))
        assert "DRAM" not in still.resources
        assert still.seconds - still.launches_s == pytest.approx(norm(still.resources, "power"))
        hidden = norm(moving.resources, "power", *["DRAM"] * (bare > 0))
        assert moving.seconds - moving.launches_s == pytest.approx(hidden + bare * moving.resources["DRAM"])


def test_a_stage_is_asked_for_again_when_the_products_of_the_next_step_are_queued():
    """100 stages an SM, of which each has products of 1000 cycles."""
    machine = H200.latencies
    macs = {"float16": 132 * 100 * 1000 * 2048 * machine.group_products}
    ring = replace(RING, bytes=12800.0, fetched=12800.0)
    single, three = (
        score(H200, [replace(ONE_AN_SM, group_products=macs, ring=replace(ring, ahead=n))], 10**7) for n in (1, 3)
    )
    waiting = 10**7 / (132 * 100 * 12800) * math.sqrt(132)
    trip = 1000 + waiting * machine.global_latency + (1 - waiting) * machine.l2_latency + 12800 / 128
    assert single.resources["stages"] == pytest.approx(100 * trip / CLOCK)
    assert three.resources["stages"] == pytest.approx(single.resources["stages"] / 3)
    bare = machine.bare_dram * single.resources["DRAM"]
    assert single.seconds - single.launches_s == pytest.approx(norm(single.resources, "DRAM", "power") + bare, rel=1e-3)
    assert three.seconds < single.seconds


@pytest.mark.parametrize(("instructions", "cycles"), [(1, 0), (8, 875), (0, 1000)])
def test_the_last_instruction_of_a_step_is_queued_while_the_others_are_made(instructions, cycles):
    """100 stages an SM, each with products of 1000 cycles; four warps execute an instruction together."""
    machine = H200.latencies
    work = replace(
        ONE_AN_SM,
        by_class={"mma": 132 * 100 * 4.0 * instructions},
        group_products={"float16": 132 * 100 * 1000 * 2048 * machine.group_products},
        ring=RING,
    )
    stages_s = score(H200, [work], 0).resources["stages"]
    assert stages_s == pytest.approx(100 * (cycles + machine.l2_latency + 32768 / 128) / CLOCK)


def test_stages_delay_what_is_done_with_them_as_other_resources_do():
    busy = replace(ONE_AN_SM, instructions=132 * 1e6)
    without, early, even = (
        score(H200, [replace(busy, ring=ring)], 0)
        for ring in (None, replace(RING, fills=132 * 60), replace(RING, fills=132 * 600))
    )
    assert without.seconds < early.seconds < 1.01 * without.seconds
    assert even.seconds - even.launches_s == pytest.approx(norm(even.resources))
    assert even.seconds - even.launches_s > 1.1 * max(even.resources.values())


def test_warps_that_copy_and_multiply_ask_when_a_stage_has_been_read():
    chain = WarpChain(1000, 50_000.0)
    work = replace(ONE_AN_SM, chain=chain, ring=replace(RING, in_turn=True))
    loaded, read = (
        score(H200, [one], 0).resources
        for one in (replace(work, products={"float16": 1.0}), replace(work, group_products={"float16": 1.0}))
    )
    arrival = H200.latencies.l2_latency + 32768 / H200.latencies.copy_bytes
    assert "stages" not in read
    assert read["copies"] == pytest.approx((100 * arrival + 50_000) / CLOCK)
    # what is multiplied is in registers, so that its stage is filled meanwhile
    assert loaded["copies"] == pytest.approx(100 * arrival / CLOCK)


@pytest.mark.parametrize(
    ("instructions", "products", "least"), [(132 * 8 * 6000.0, 1.0, 6000), (0.0, 132 * 8 * 512.0 * 7000, 7000)]
)
def test_a_warp_whose_waits_for_copies_are_left_out_takes_no_less_than_it_issues(instructions, products, least):
    machine = H200.latencies
    work = replace(
        ONE_AN_SM,
        chain=WarpChain(1000, 5000.0),
        ring=replace(RING, in_turn=True),
        instructions=instructions,
        products={"float16": products * machine.warp_products},
    )
    waiting, reading = (
        score(H200, [replace(work, ring=ring)], 0).resources["latency"] * CLOCK - machine.block_latency
        for ring in (work.ring, RING)
    )
    assert waiting == pytest.approx(least)
    assert reading == pytest.approx(5000)


def test_no_block_multiplies_while_the_only_one_of_an_sm_begins_and_ends():
    chain, ends = WarpChain(1000, 50_000.0), WarpChain(100, 3000.0)
    work = replace(ONE_AN_SM, blocks=132 * 4, chain=chain, ends=ends)
    alone, beside = (score(H200, [replace(work, blocks_per_sm=n)], 0).resources for n in (1, 4))
    machine = H200.latencies
    assert beside["ends of blocks"] == pytest.approx((3000 + machine.block_latency) / CLOCK)
    assert alone["ends of blocks"] == pytest.approx(4 * beside["ends of blocks"])
    # they come on top of all else, and are no longer part of the latency
    assert alone["latency"] == pytest.approx(4 * 47_000 / CLOCK)
    scored = score(H200, [replace(work, blocks_per_sm=1)], 0)
    assert scored.seconds == pytest.approx(scored.launches_s + alone["latency"] + alone["ends of blocks"], rel=1e-3)
    # a block stores no faster than L2 takes it, and loads what it executes
    stored = replace(work, blocks_per_sm=1, store_sectors=132 * 4 * 12_000.0)
    assert score(H200, [stored], 0).resources["ends of blocks"] == pytest.approx(
        4 * (12_000 * 32 / machine.store_bytes + machine.block_latency) / CLOCK
    )
    waits = replace(work, blocks_per_sm=1, ends=replace(ends, global_loads=9.0), end_loads=132 * 4 * 8 * 2.0)
    assert score(H200, [waits], 0).resources["ends of blocks"] == pytest.approx(
        alone["ends of blocks"] + 4 * 2 * machine.global_latency / CLOCK
    )


@pytest.mark.parametrize(("blocks", "cluster", "rounds"), [(132, 1, 1), (132, 2, 1), (120, 4, 1), (128, 4, 2)])
def test_the_blocks_of_a_cluster_start_when_there_is_room_for_all(blocks, cluster, rounds):
    """An H200 holds 30 clusters of four that fill an SM each."""
    work = replace(ONE_AN_SM, blocks=blocks, cluster=cluster, instructions=blocks * 1e6)
    assert score(H200, [work], 0).resources["issue slots"] == pytest.approx(rounds * 1e6 / 4 / CLOCK)


def test_what_a_queue_of_short_launches_reads_is_in_l2():
    work = replace(WORK, instructions=1e7)
    once, again = score(H200, [work], 10**7), score(H200, [work], 10**7, warm_below_s=1.0)
    assert "DRAM" in once.resources
    assert "DRAM" not in again.resources
    assert again.launches_s == H200.latencies.relaunch_s < once.launches_s
    # more than L2 holds comes from DRAM each time, and what takes longer is not launched in a queue
    large = score(H200, [work], 10**8, warm_below_s=1.0).resources["DRAM"]
    assert large == pytest.approx(score(H200, [work], 10**8).resources["DRAM"])
    assert score(H200, [work], 10**7, warm_below_s=1e-6) == once


def test_bulk_copies_pass_by_l1():
    work = replace(ONE_AN_SM, bulk_sectors=132 * 1e6)
    seconds_by_resource = score(H200, [work], 0).resources
    assert seconds_by_resource["L2 reads"] == pytest.approx(32e6 / H200.latencies.l2_bytes / CLOCK)
    assert "L1" not in seconds_by_resource


def test_the_gpus_power_lets_all_sms_multiply_no_faster_than_that():
    """Short of that, as where few SMs have work, the tensor cores keep their clock."""
    machine = H200.latencies
    busy = replace(ONE_AN_SM, group_products={"float16": 132e9})
    scored = score(H200, [busy], 0)
    full = 1e9 / 2048 / machine.group_products / CLOCK
    assert scored.resources["tensor cores"] == pytest.approx(full)
    assert scored.resources["power"] == pytest.approx(full / machine.tensor_clock - scored.launches_s)
    assert full / machine.tensor_clock <= scored.seconds < 1.05 * full / machine.tensor_clock
    few = score(H200, [replace(busy, blocks=33, group_products={"float16": 33e9})], 0)
    assert few.seconds == pytest.approx(few.launches_s + full, rel=1e-3)


def test_what_warps_store_while_others_multiply_is_not_bare():
    ends = WarpChain(100, 4000.0)
    work = replace(ONE_AN_SM, chain=ends, ends=ends)
    alone, turns = (score(H200, [replace(work, turns=n)], 0).resources for n in (1.0, 4.0))
    machine = H200.latencies
    assert alone["ends of blocks"] == pytest.approx((4000 + machine.block_latency) / CLOCK)
    assert "latency" not in alone
    assert turns["ends of blocks"] == pytest.approx((1000 + machine.block_latency) / CLOCK)
    assert turns["latency"] == pytest.approx(3000 / CLOCK)


def test_warps_that_multiply_and_meet_at_barriers_read_shared_memory_one_after_the_other():
    chain = WarpChain(1000, 2000.0, barriers=8.0)
    multiplying = replace(ONE_AN_SM, chain=chain, products={"float16": 1.0}, waited_wavefronts=132 * 800.0)
    meeting, apart, other = (
        score(H200, [one], 0).resources["latency"] * CLOCK
        for one in (
            multiplying,
            replace(multiplying, chain=replace(chain, barriers=0.0)),
            replace(multiplying, products={}),
        )
    )
    machine = H200.latencies
    waits = 8 * machine.block_barrier
    assert other == pytest.approx(2000 + waits + machine.block_latency)
    assert apart == pytest.approx(2000 + machine.block_latency, rel=1e-3)
    assert meeting == pytest.approx(other + 7 / 8 * 800, rel=1e-3)


def test_the_last_blocks_of_an_sm_take_a_round_with_fewer_beside_them():
    """Three blocks an SM, of which it holds two."""
    chain = WarpChain(1000, 2000.0, barriers=8.0)
    work = replace(ONE_AN_SM, blocks=132 * 3, blocks_per_sm=2, chain=chain, products={"float16": 132 * 3 * 1e6})
    three, two, single = (
        score(H200, [replace(work, blocks=132 * n, products={"float16": 132 * n * 1e6})], 0).resources["latency"]
        for n in (3, 2, 1)
    )
    end = H200.latencies.block_latency / CLOCK
    assert three == pytest.approx(two + single - end / 2)
    # other warps may go on as soon as theirs is free
    other = replace(work, products={})
    assert score(H200, [other], 0).resources["latency"] == pytest.approx(
        1.5 * score(H200, [replace(other, blocks=132 * 2)], 0).resources["latency"]
    )


def test_large_blocks_lose_nothing_more_where_their_warps_wait_for_each_others_products():
    chain = WarpChain(1000, 2000.0, barriers=8.0)
    work = replace(ONE_AN_SM, chain=chain, warps_per_block=16)
    waiting, other = (
        score(H200, [replace(work, products=made, waited_wavefronts=132 * 800.0)], 0).resources["latency"]
        for made in ({"float16": 1.0}, {})
    )
    machine = H200.latencies
    alone = 2000 + 8 * machine.block_barrier
    assert other == pytest.approx((1 + machine.large_block_loss) * (alone + machine.block_latency) / CLOCK)
    assert waiting == pytest.approx((alone + 15 / 16 * 800 + machine.block_latency) / CLOCK, rel=1e-3)


def test_products_of_warpgroups_take_as_long_as_their_operands_are_read():
    busy = replace(ONE_AN_SM, group_products={"float16": 132e9}, wavefronts=132 * 2e5)
    few, many = (score(H200, [replace(busy, group_wavefronts=132 * n)], 0).resources for n in (1e5, 1e6))
    assert few["tensor cores"] == pytest.approx(1e9 / 2048 / H200.latencies.group_products / CLOCK)
    assert many["tensor cores"] == pytest.approx(1e6 / H200.latencies.group_products / CLOCK)
    # blocks of a cluster write into each other's shared memory
    pair = score(H200, [replace(busy, group_wavefronts=132e6, cluster=2)], 0).resources["tensor cores"]
    rounds = math.ceil(132 / (2 * clusters_likely(H200, 1, 2)))
    beside = H200.latencies.copies_beside * 2e5
    assert pair == pytest.approx(rounds * (1e6 + beside) / H200.latencies.group_products / CLOCK)
    # what one warp multiplies comes from registers
    alone = score(H200, [replace(ONE_AN_SM, products={"float16": 132e9}, wavefronts=132 * 1e7)], 0).resources
    assert alone["tensor cores"] == pytest.approx(1e9 / 2048 / H200.latencies.warp_products / CLOCK)


def test_a_gpu_that_nobody_measured_is_not_bound_by_the_block_starts_of_another():
    """A vector addition of 16 million floats."""
    adds = replace(WORK, blocks=65536, instructions=65536.0 * 8 * 20)
    assert score(gpu_for("B200"), [adds], 3 << 26).bound == "DRAM"
    assert "starts of blocks" in score(H200, [adds], 3 << 26).resources
