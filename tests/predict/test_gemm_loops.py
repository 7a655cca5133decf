"""The loop along k of a kernel with matrix instructions, and the copies that feed it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.isa.mix import Counts, KernelMix, LoopMix
from lab.predict.gemm_loops import (
    Copies,
    awaited_share,
    both_sides,
    copies_of,
    counts_of_copies,
    multiplying_share,
    operand_wavefronts,
    products_of,
    ring_of,
    stores_results,
    take_turns,
    tile_visits,
    tiles_grown,
    with_loop_along_k,
)
from lab.recorded.run_records import EmulatedStep, LaunchRecord

LAUNCH = LaunchRecord((2, 1, 1), (128, 1, 1), 98304)
WGMMA = "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
INCOMING = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
OUTGOING = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"


def loop(label: str, *, depth: int = 1, parent: str | None = None, hot: bool = False, **by_class: int) -> LoopMix:
    named = {name.replace("_", "."): n for name, n in by_class.items()}
    return LoopMix(label, depth, parent, hot, Counts(sum(named.values()), named, {}, 0, 0), 1, 1, ((1, 1),), None)


def ptx(*loops: LoopMix) -> KernelMix:
    return KernelMix("ptx", "k", Counts(100, {}, {}, 0, 0), loops, None)


def executed(
    by_class: dict[str, int], opcodes: dict[str, int] | None = None, memory: dict[str, MemoryCount] | None = None
) -> ExecutedCounts:
    warps = sum(by_class.values())
    return ExecutedCounts(warps, 32 * warps, by_class, {}, opcodes or {}, {}, memory or {})


TILES = loop("tiles", mma=4, integer=30, st_global=8, special=16)
ALONG_K = loop("k", depth=2, parent="tiles", mma=4, integer=10, ld_shared=2)
DONE = executed({"mma": 80, "integer": 500, "ld.shared": 60, "special": 900})


def test_the_loop_along_k_is_the_one_that_multiplies_whatever_executed_most() -> None:
    loads = MemoryCount(requests=60, wavefronts=120, bytes_used=7680)
    done = replace(DONE, memory={"shared.load": loads, "global.store": loads})
    step = EmulatedStep("k", LAUNCH, done, done, hot_label="tiles")
    loop_step = with_loop_along_k(step, ptx(TILES, ALONG_K))
    assert (loop_step.hot_label, loop_step.hot_loop is not None) == ("k", True)
    assert loop_step.hot_loop is not None
    # 80 matrix instructions, of which a pass has 4
    assert loop_step.hot_loop.warps_by_class == {"mma": 80, "integer": 200, "ld.shared": 40}
    assert loop_step.hot_loop.warps == 320
    assert loop_step.hot_loop.memory == {"shared.load": replace(loads, requests=40, wavefronts=80, bytes_used=5120)}


@pytest.mark.parametrize(
    ("done", "text"),
    [
        (DONE, ptx(TILES, replace(ALONG_K, label="own"))),
        (executed({"fma": 80}), ptx(TILES, ALONG_K)),
        (DONE, ptx(loop("L", fma=4))),
        (DONE, None),
    ],
)
def test_what_executed_most_is_left_where_it_multiplies_or_nothing_does(
    done: ExecutedCounts, text: KernelMix | None
) -> None:
    step = EmulatedStep("k", LAUNCH, done, done, hot_label="own")
    assert with_loop_along_k(step, text) is step


def test_a_loop_over_tiles_stores_results_and_a_loop_that_copies_does_not() -> None:
    along, step = replace(ALONG_K, hot=True), EmulatedStep("k", LAUNCH, DONE, DONE, hot_label="k")
    assert stores_results(ptx(TILES, along), step)
    alone, copying = replace(along, depth=1, parent=None), loop("producer", cp_async_bulk=2)
    assert not stores_results(ptx(alone, copying), step)
    assert not stores_results(ptx(TILES, along), replace(step, executed=executed({"fma": 80})))
    # copies take results from where threads laid them; what comes into a loop of its own is no result
    laid = loop("tiles", mma=4, st_shared=8, cp_async_bulk=1)
    assert stores_results(ptx(laid, along), step)
    assert not stores_results(ptx(loop("tiles", mma=4, cp_async_bulk=1), along), step)
    assert not stores_results(ptx(alone, replace(laid, label="beside")), step)


def test_the_loop_along_k_is_the_inner_one_where_the_first_step_of_a_tile_stands_before_it() -> None:
    tiles = loop("tiles", mma=12, st_global=8)
    loop_step = with_loop_along_k(EmulatedStep("k", LAUNCH, DONE, DONE, hot_label="tiles"), ptx(tiles, ALONG_K))
    assert loop_step.hot_label == "k"
    # of loops side by side, the one that multiplies most
    beside = loop("edge", mma=2)
    assert with_loop_along_k(EmulatedStep("k", LAUNCH, DONE, DONE), ptx(tiles, ALONG_K, beside)).hot_label == "k"


FLAT = loop("flat", hot=True, mma=4, integer=40, st_global=8, ld_shared=2)


def test_what_a_loop_over_steps_and_tiles_does_once_a_tile_is_no_part_of_each_step() -> None:
    """20 passes of 4 matrix instructions, of which 5 end a tile: they store 8 times and take 30 more integers."""
    loads, stores = MemoryCount(requests=40, sectors=80), MemoryCount(requests=40, sectors=160)
    memory = {"shared.load": loads, "global.store": stores}
    done = executed({"mma": 80, "integer": 20 * 10 + 5 * 30, "st.global": 40, "ld.shared": 40}, None, memory)
    step = EmulatedStep("k", LAUNCH, done, done, hot_label="flat")
    loop_step = with_loop_along_k(step, ptx(FLAT))
    assert loop_step.hot_loop is not None
    assert loop_step.hot_loop.warps_by_class == {"mma": 80, "integer": 200, "st.global": 0, "ld.shared": 40}
    assert loop_step.hot_loop.warps == 320
    assert loop_step.hot_loop.memory == {"shared.load": loads, "global.store": MemoryCount()}
    assert stores_results(ptx(FLAT), loop_step)
    # where every pass stores, nothing is of a tile alone
    each = executed({"mma": 80, "st.global": 160})
    every = replace(step, executed=each, hot_loop=each)
    assert with_loop_along_k(every, ptx(FLAT)) is every
    assert not stores_results(ptx(FLAT), every)
    # stores to shared memory that no bulk copy reads bring operands, some of them in branches that are not taken
    laid = executed({"mma": 80, "st.shared": 40})
    operands = replace(step, executed=laid, hot_loop=laid)
    assert with_loop_along_k(operands, ptx(loop("flat", hot=True, mma=4, st_shared=8))) is operands


def bulk(opcodes: dict[str, int], *, outgoing: int = 0, multicast: int = 1) -> EmulatedStep:
    """Return a step with eight 32 KiB stages shared by two blocks; `outgoing` bytes leave by bulk copies."""
    arrived = 8 * 32768
    moved = arrived // multicast + outgoing
    memory = {
        "global.copy": MemoryCount(sectors=moved // 32, bytes_used=moved),
        "shared.copy": MemoryCount(bytes_used=arrived + outgoing),
        "shared.store": MemoryCount(bytes_used=outgoing),
    }
    made = {"mbarrier.arrive.expect_tx.shared::cta.b64": 8, INCOMING: 16, **opcodes}
    return EmulatedStep("k", LAUNCH, executed({"cp.async.bulk": 16, "mma": 80}, made, memory))


def test_a_ring_has_an_mbarrier_or_a_pair_of_them_for_each_stage() -> None:
    alone = copies_of(bulk({"mbarrier.init.shared::cta.b64": 8}), 1.0)
    paired = copies_of(bulk({"mbarrier.init.shared::cta.b64": 16, "mbarrier.arrive.shared::cta.b64": 64}), 1.0)
    assert alone is not None
    assert paired is not None
    assert [alone.ahead, paired.ahead] == [3, 3]  # of four stages one is read
    ring, short = (ring_of(bulk({}), None, paired, 5.0, stages * 32768 + 64) for stages in (4, 3))
    assert ring is not None
    assert short is not None
    assert (ring.fills, ring.bytes, ring.fetched, ring.in_turn) == (40, 32768, 32768, False)
    # of mbarriers that no stage fits to, some are for other things
    assert [ring.ahead, short.ahead] == [3, 2]


def test_all_warps_may_come_by_what_a_single_thread_asks_for() -> None:
    """Four warps of each block execute what fills a stage, predicated off but for one thread of the block."""
    barrier, fill = "mbarrier.init.shared::cta.b64", "mbarrier.arrive.expect_tx.shared::cta.b64"
    step = bulk({barrier: 32, fill: 32})
    done = step.executed
    assert done is not None
    told = copies_of(replace(step, executed=replace(done, threads_by_opcode={barrier: 8, fill: 8})), 1.0)
    assert told is not None
    assert (told.fills, told.ahead) == (8, 3)


def test_a_scheduler_of_tiles_may_give_blocks_some_beyond_the_data() -> None:
    """Of two blocks, all eight warps lay results of two tiles: 16 stores each."""
    laid = loop("tiles", mma=4, st_shared=16, cp_async_bulk=1)
    step = EmulatedStep("k", LAUNCH, executed({"mma": 80, "st.shared": 8 * 2 * 16}))
    along = replace(ALONG_K, hot=True)
    assert tile_visits(ptx(laid, along), step) == 2
    assert tile_visits(ptx(TILES, along), step) == 1
    assert tile_visits(None, step) == 1


def test_copies_that_blocks_share_are_fetched_once() -> None:
    step = bulk({"mbarrier.init.shared::cta.b64": 8}, multicast=2)
    ring = ring_of(step, None, copies_of(step, 1.0), 1.0, 0)
    assert ring is not None
    assert (ring.bytes, ring.fetched) == (32768, 16384)


def test_a_ring_knows_where_rows_begin_by_the_copies_of_each_tensor_map() -> None:
    step = replace(bulk({"mbarrier.init.shared::cta.b64": 8}), fetched_by_map=(65536, 196608))
    made = [ring_of(step, None, copies_of(step, 1.0), 1.0, 0, alignments=alignments) for alignments in ((128, 16), ())]
    # eight stages are filled
    assert [ring.rows if ring is not None else None for ring in made] == [((128, 8192), (16, 24576)), ()]


def test_copies_that_store_results_are_told_from_those_that_bring_operands() -> None:
    outgoing_copies = copies_of(bulk({OUTGOING: 4}, outgoing=65536), 1.0)
    plain = copies_of(bulk({}), 1.0)
    assert outgoing_copies is not None
    assert plain is not None
    assert (outgoing_copies.sectors, outgoing_copies.shared_bytes) == (plain.sectors, plain.shared_bytes)
    assert [outgoing_copies.stored, plain.stored] == [65536 / 32, 0]
    assert outgoing_copies.leaving == pytest.approx(65536 / (8 * 32768 + 65536))
    # of tiles that reach beyond the data, less is stored than lies in shared memory
    partly = copies_of(bulk({OUTGOING: 4}, outgoing=65536), 2.0)
    assert partly is not None
    assert partly.stored == 32768 / 32
    assert all(map(counts_of_copies, (OUTGOING, INCOMING, "mbarrier.init.shared::cta.b64")))


def test_kernels_without_bulk_copies_or_without_mbarriers_have_no_such_ring() -> None:
    assert copies_of(EmulatedStep("k", LAUNCH, DONE), 1.0) is None
    without = executed({"cp.async.bulk": 16}, {INCOMING: 16}, {"shared.copy": MemoryCount(bytes_used=512)})
    step = EmulatedStep("k", LAUNCH, without)
    assert ring_of(step, None, copies_of(step, 1.0), 1.0, 0) is None


@pytest.mark.parametrize(("opcode", "ahead"), [(MMA, 2), (WGMMA, 1)])
def test_stages_of_cp_async_are_as_many_as_fit_into_shared_memory(opcode: str, ahead: int) -> None:
    memory = {"shared.copy": MemoryCount(bytes_used=10 * 32768)}
    done = executed({"cp.async": 64, "mma": 160}, {opcode: 160}, memory)
    text = ptx(loop("k", hot=True, mma=4, cp_async=8))
    step = EmulatedStep("k", LAUNCH, done)
    # two blocks of four warps make five passes each, of 4 matrix instructions
    ring = ring_of(step, text, None, 3.0, 98304 + 64)
    assert ring is not None
    assert (ring.fills, ring.bytes, ring.ahead, ring.in_turn) == (30, 32768, ahead, True)
    assert ring_of(step, ptx(loop("k", hot=True, cp_async=8)), None, 3.0, 98304) is None
    # the text says how far ahead copies are asked for, and what a pass asks for: 128 threads 192 bytes each
    (along,) = text.loops
    told = replace(along, copies_ahead=2.5, counts=replace(along.counts, load_bytes_global=192))
    ring = ring_of(step, ptx(told), None, 3.0, 98304 + 64)
    assert ring is not None
    assert (ring.fills, ring.bytes, ring.ahead) == (30, 24576, 2.5)
    assert awaited_share(step, ring, 3.0) == pytest.approx(24576 / 32768)
    assert awaited_share(step, None, 3.0) == 1
    assert ring_of(replace(step, executed=DONE), text, None, 3.0, 98304) is None


def test_products_keep_the_proportions_of_what_was_executed() -> None:
    done = executed({"mma": 30}, {MMA: 10, WGMMA: 20})
    assert products_of(done, 60.0, group=False) == {"float16": 20 * 2048}
    assert products_of(done, 60.0, group=True) == {"float16": 40 * 64 * 256 * 16 / 4}


@pytest.mark.parametrize(
    ("area", "blocks", "small", "real", "cluster", "grown"),
    [
        # 192 x 192: no other sides cover 256 x 256 in four tiles; 22 x 22 of them cover the real result
        (192 * 192, (4, 132), (256, 256), (4096, 4096), 1, 22 * 22 / 4),
        # 256 x 128 or 128 x 256, which is the same here
        (256 * 128, (2, 132), (256, 256), (4096, 4096), 1, 512 / 2),
        # of these two, one gives each block a tile
        (256 * 128, (2, 16), (256, 256), (4096, 128), 1, 16 / 2),
        (256 * 128, (2, 32), (256, 256), (4096, 128), 1, 32 / 2),
        # clusters of two along either side: 192 x 128 is in 22 x 32 tiles
        (192 * 128, (4, 132), (256, 256), (4096, 4096), 2, 22 * 32 / 4),
        (17 * 17, (4, 132), (256, 256), (4096, 4096), 1, None),
    ],
)
def test_tiles_are_as_many_as_sides_that_fit_the_small_result_say(
    area: int, blocks: tuple[int, int], small: tuple[int, int], real: tuple[int, int], cluster: int, grown: float | None
) -> None:
    assert tiles_grown(area, blocks, small, real, cluster) == (None if grown is None else pytest.approx(grown))


@pytest.mark.parametrize(
    ("both", "tiles"),
    [(None, (32 + 64 + 16) / 3), (128 + 128, 32), (64 + 256, (64 + 16) / 2), (999, (32 + 64 + 16) / 3)],
)
def test_the_sum_of_the_sides_of_a_tile_leaves_fewer_of_them(both: float | None, tiles: float) -> None:
    """Four tiles of 128 x 128, of 64 x 256 or of 256 x 64 cover 256 x 256."""
    assert tiles_grown(128 * 128, (4, 132), (256, 256), (4096, 64), 1, sides_sum=both) == pytest.approx(tiles / 4)


def test_copies_say_the_sum_of_the_sides_of_a_tile() -> None:
    """A tile of 256 x 64 takes four instructions of four warps for 32 bytes along k, each 64 x 64."""
    instruction = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"
    step = EmulatedStep("k", LAUNCH, executed({"mma": 16}, {instruction: 16}))
    copies = Copies(0.0, 0.0, 0.0, 1.0, (256 + 64) * 32.0, 1)
    assert both_sides(256 * 64, step, copies) == 256 + 64
    assert both_sides(256 * 64, step, None) is None
    assert both_sides(256 * 64, replace(step, executed=executed({"mma": 16}, {MMA: 16})), copies) is None


def test_warps_that_arrive_at_a_barrier_and_go_on_hand_over_their_turn() -> None:
    turns, waits = (
        KernelMix("ptx", "k", Counts(2, {}, {opcode: 2}, 0, 0), (), None) for opcode in ("bar.arrive", "bar.sync")
    )
    assert [take_turns(turns), take_turns(waits), take_turns(None)] == [True, False, False]


def test_warps_that_take_registers_are_those_that_multiply() -> None:
    taking = EmulatedStep("k", LAUNCH, executed({"mma": 8}, {"setmaxnreg.inc.sync.aligned.u32": 4}))
    assert multiplying_share(taking, None, None) == 0.5  # four of two blocks' eight warps
    assert multiplying_share(EmulatedStep("k", LAUNCH, DONE), ptx(ALONG_K), None) == 1


@pytest.mark.parametrize(("text", "share"), [(5, 0.5), (2, 1.0), (0, 1.0)])
def test_warps_that_multiply_make_a_pass_for_each_stage_that_is_filled(text: int, share: float) -> None:
    """Eight stages of two blocks; 80 matrix instructions are passes of so many warps of four."""
    step = bulk({})
    along = ptx(loop("k", hot=True, mma=text))
    assert multiplying_share(step, along, copies_of(step, 1.0)) == share


def test_products_of_four_warps_read_rows_and_columns_in_shared_memory() -> None:
    done = executed({"mma": 30}, {MMA: 10, WGMMA: 20})
    # 64 rows and 256 columns of 32 bytes for each four warps, in passes of 128 bytes; mma.sync reads registers
    assert operand_wavefronts(done, 60.0) == pytest.approx(40 / 4 * (64 + 256) * 32 / 128)
