from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lab.emulator.results import ExecutedCounts, MemoryCount, ReuseCount
from lab.hardware.gpus import gpu_for
from lab.measured.timing import Merit
from lab.predict.score import KernelScore, score
from lab.predict.variant_scores import (
    _beyond,
    _growths,
    _launch,
    _multiplies,
    _steps,
    _tiles_grown,
    _whole_steps,
    lean,
    rate,
    real_work,
    scores,
    scores_of_problem,
)
from lab.recorded.run_records import EmulatedStep, EmulationRecord, ExecutedLines, LaunchRecord, SampleRecord, Status
from lab.store.figures import Basis, response_of, tied_with_best

SMALL, LARGE = (4, 1, 1), (4096, 1, 1)


def counted(warps: int, sectors: int = 0) -> ExecutedCounts:
    memory = {"global.load": MemoryCount(requests=8, sectors=sectors, bytes_used=1024)} if sectors else {}
    return ExecutedCounts(warps, 32 * warps, {"integer": warps}, {"integer": 32 * warps}, {}, {}, memory)


@pytest.fixture
def one(make):
    """Return a factory of records: 4 emulated blocks of 256 threads, and 4096 blocks at the real size."""

    def made(name="v", *, executed, looped=None, real=LARGE, small=SMALL):
        record = make("no_gpu").records()[0]
        threads = (256, 1, 1)
        step = EmulatedStep(record.ptx.name, LaunchRecord(small, threads, 0), executed, looped=looped)
        emulation = EmulationRecord({}, (step,), executed=executed, bytes_needed=1024)
        return replace(
            record, variant=name, sass=None,
            emulation=emulation, launch=LaunchRecord(real, threads, 0), bytes_moved=1 << 20,
            merit=Merit.BANDWIDTH, status=Status.VERIFIED,
            prediction=replace(record.prediction, blocks_per_sm=8, gpu="H200", bounds=(), peak_gb_s=4800.0),
        )  # fmt: skip

    return made


def slots(record, *others):
    return scores_of_problem([record, *others])[record.variant].resources["issue slots"]


def test_work_outside_of_loops_grows_with_the_blocks_alone(one):
    nothing = counted(0)
    few = one(executed=counted(1000), looped=nothing, real=(16, 1, 1))
    many = one(executed=counted(1000), looped=nothing, real=(160, 1, 1))
    # On 132 SMs the fullest has one and two blocks.
    assert slots(many) == pytest.approx(2 * slots(few))


def test_a_loop_over_the_grid_grows_with_the_work(one):
    over = one("over", executed=counted(1100), looped=counted(1000), real=SMALL)
    each = one("each", executed=counted(1000), looped=counted(0))
    # 1024 times the loop's instructions on 4 blocks, one an SM, in whole passes; 32 of 4096 blocks on the fullest SM.
    assert slots(over, each) == pytest.approx((1000 * 1024 + 100) / 4 / 4 / 1.98e9, rel=2e-3)
    assert slots(each, over) == pytest.approx(1000 * 1024 / 4096 * 32 / 4 / 1.98e9)


def test_blocks_that_loop_over_the_data_wait_for_the_one_that_makes_most_passes(one):
    text = one(executed=counted(0)).ptx.loops[0].counts.instructions
    warps = 4 * 8
    record = one(executed=counted(warps * text), looped=counted(warps * text), real=(1000, 1, 1))
    other = one("other", executed=counted(1000), looped=counted(1000))
    (step,) = _steps(record)
    # a pass of each of 4 blocks where the real problem has 4096 for 1000 blocks: 96 of these make a fifth
    assert _launch(record, step, 1024.0, 1.0).uneven == pytest.approx(5 / 4.096)
    assert _launch(other, _steps(other)[0], 1024.0, 1.0).uneven == 1
    fewer = one(executed=counted(text // 4 * 8), looped=counted(text // 4 * 8), small=(64, 1, 1), real=(64, 1, 1))
    (step,) = _steps(fewer)
    passes = 1024 * (text // 4) / text / 64
    assert _launch(fewer, step, 1024.0, 1.0).uneven == pytest.approx(math.ceil(passes) / passes)


def test_counts_of_blocks_of_the_real_problem_scale_with_the_blocks_alone(one):
    record = one(executed=counted(1000), looped=counted(900), real=(4096, 1, 1))
    step = EmulatedStep(
        record.ptx.name, LaunchRecord((64, 1, 1), (256, 1, 1), 0), counted(500, 128), looped=counted(400)
    )
    of_blocks = SampleRecord(record.problem, (step,), bytes_needed=record.bytes_moved // 64)
    own = replace(record, emulation=replace(record.emulation, of_blocks=of_blocks))
    work = real_work(own).launches[0]
    assert (work.instructions, work.load_sectors) == (500 * 64, 128 * 64)
    other = replace(record, variant="other")
    assert scores_of_problem([own, other])["v"] == scores_of_problem([own])["v"]


def test_blocks_that_read_too_much_to_be_traced_have_the_reuse_of_the_small_ones(one):
    record = one(executed=counted(100), looped=counted(100))
    reuse = ReuseCount(64, 16, (0, 0, 32), 8.0)
    small = replace(record.emulation.launches[0], reuse=reuse)
    large = replace(small, launch=LaunchRecord((2, 1, 1), (256, 1, 1), 0), executed=counted(1000), reuse=None)
    emulation = replace(record.emulation, launches=(small,), of_blocks=SampleRecord(record.problem, (large,), 1024))
    (step,) = _steps(replace(record, emulation=emulation))
    assert (step.reuse, step.reuse_growth) == (reuse, (1000 / 2) / (100 / 4))


def test_stores_grow_with_the_data_where_blocks_compute_beyond_it(one):
    stores = {"global.store": MemoryCount(requests=8, sectors=32, bytes_used=1024)}
    executed = ExecutedCounts(100, 3200, {}, {}, {}, {}, stores)
    record = one(executed=executed, looped=executed)
    (step,) = _steps(record)
    for work in (1024.0, 256.0):  # of 1024 times the bytes
        found = _launch(record, step, work, 1.0)
        assert (found.instructions, found.store_sectors) == (100 * work, 32 * 1024)


def test_a_launch_whose_declared_bytes_do_not_grow_does_the_same_work(one):
    loads = ExecutedCounts(
        100, 3200, {}, {}, {}, {}, {"global.load": MemoryCount(requests=8, sectors=32, bytes_used=1024)}
    )
    record = one(executed=loads, looped=loads, real=SMALL)
    (step,) = _steps(record)
    assert _launch(record, step, 256.0, 256.0).load_sectors == 256 * 32
    assert _launch(record, replace(step, bytes_moved=1024), 256.0, 256.0).load_sectors == 32
    assert _launch(record, replace(step, bytes_moved=256 * 1024), 256.0, 256.0).load_sectors == 256 * 32


def test_blocks_that_the_small_problem_fills_in_part_execute_more_at_the_real_size(one):
    """Of two variants with as many blocks at the small size, one has half as many at the real one."""
    whole = one("whole", executed=counted(1000), looped=counted(0))
    part = one("part", executed=counted(1000), looped=counted(0), real=(2048, 1, 1))
    assert slots(part, whole) == pytest.approx(slots(whole, part))


def test_a_blocks_own_work_grows_by_a_factor_that_all_variants_share(one):
    """Half as many blocks as the work asks for: each has twice as much to do, in its loops."""
    record = one(executed=counted(1000), looped=counted(1000), real=(2048, 1, 1))
    assert slots(record) == pytest.approx(1000 * 1024 / 2048 * 16 / 4 / 1.98e9)


def test_the_more_instructions_and_the_more_sectors_the_slower(one):
    records = (
        one("lean", executed=counted(10_000, 32)),
        one("busy", executed=counted(40_000, 32)),
        one("scattered", executed=counted(10_000, 320_000)),
        one("again", executed=counted(10_000, 32)),
    )
    found = response_of(records)
    assert found.basis is Basis.SCORE
    value = {record.variant: found.of(record) for record in records}
    assert value["lean"] == value["again"] > value["busy"]
    assert value["lean"] > value["scattered"]
    assert {record.variant for record in tied_with_best(records, found)} == {"lean", "again"}


def test_what_has_no_counts_or_does_not_fit_has_no_score(one):
    good = one(executed=counted(1000))
    unknown = replace(good.prediction, gpu="a card of tomorrow")
    for bad in (
        replace(good, emulation=None),
        replace(good, status=Status.WRONG),
        replace(good, prediction=replace(good.prediction, blocks_per_sm=0)),
        replace(good, prediction=None),
        replace(good, prediction=unknown),
    ):
        assert scores([bad]) == {}


def test_problems_are_scored_apart(one):
    first = one("a", executed=counted(1000), looped=counted(1000))
    other = replace(one("b", executed=counted(1000), looped=counted(1000), real=(2048, 1, 1)), problem={"n": 2})
    assert scores([first, other])["a"] == scores([first])["a"]


def test_lean_records_keep_what_their_lines_say_of_loops(one):
    record = one(executed=counted(130))
    (loop,) = record.ptx.loops
    inside, outside = loop.lines[0][0], loop.lines[-1][1] + 1
    lines = (
        ExecutedLines((inside, inside + 1), "integer", 50, 1600, {"shared.load": MemoryCount(1, 2, 0, 4, 1)}),
        ExecutedLines((outside,), "integer", 30, 960, {}),
    )
    record = replace(record, emulation=replace(record.emulation, lines=lines))
    kept = lean(record)
    assert kept.emulation.lines == ()
    looped = kept.emulation.launches[0].looped
    assert (looped.warps, looped.threads, looped.memory["shared.load"].wavefronts) == (100, 3200, 4)
    assert scores([kept]) == scores([record])
    assert lean(replace(record, emulation=None)).emulation is None
    turned = replace(record, emulation=replace(record.emulation, lines=lines[::-1]))
    assert lean(turned).emulation.launches[0].looped == looped


def test_throughput_by_a_score_is_the_works_over_the_time(make):
    record = make("no_gpu").records()[0]
    assert rate(record, KernelScore(1.0)) == pytest.approx(record.flops / 1e12)
    assert rate(replace(record, flops=0), KernelScore(1.0)) is None


def test_a_block_has_whole_warps(one):
    record = one(executed=counted(1000))
    small = replace(record.emulation.launches[0], launch=LaunchRecord(SMALL, (40, 1, 1), 0))
    narrow = replace(
        record, launch=LaunchRecord(LARGE, (40, 1, 1), 0), emulation=replace(record.emulation, launches=(small,))
    )
    (step,) = _steps(narrow)
    assert _launch(narrow, step, 1.0, 1.0).warps_per_block == 2


def test_counts_of_a_sample_go_before_those_of_the_emulated_problem(one):
    record = one(executed=counted(1000))
    done = record.emulation
    sample = SampleRecord(done.problem, one(executed=counted(3000)).emulation.launches, done.bytes_needed, done.flops)
    sampled = replace(record, emulation=replace(done, sample=sample))
    assert scores([sampled]) == scores([one(executed=counted(3000))])
    assert scores([lean(sampled)]) == scores([sampled])


def matrix_loops(tiles: int, products: int) -> ExecutedCounts:
    """Warp instructions of a loop over tiles, of which some are products of 16 x 8 x 16."""
    mma = {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": products}
    return ExecutedCounts(tiles, 32 * tiles, {"mma": products, "integer": tiles - products}, {}, mma, {}, {})


@pytest.fixture
def tiled(one):
    """4 blocks with a tile each on the CPU; at the real size 132 blocks that take several, for 4096 times the work."""
    record = one(executed=matrix_loops(1000, 64), looped=matrix_loops(900, 64), real=(132, 1, 1))
    loop = record.ptx.loops[0]
    outer, inner = replace(loop, label="tiles", hot=False, depth=1), replace(loop, label="k", hot=True, depth=2)
    inner = replace(inner, parent="tiles")
    done = replace(record.emulation, flops=2 * 2048 * 64)
    steps = tuple(replace(step, hot_loop=matrix_loops(600, 64), hot_label="k") for step in done.launches)
    return replace(
        record, merit=Merit.TFLOPS, flops=4096 * done.flops, ptx=replace(record.ptx, loops=(outer, inner)),
        emulation=replace(done, launches=steps),
    )  # fmt: skip


def test_a_loop_over_tiles_grows_with_them_and_the_loop_inside_with_the_work(tiled):
    (step,) = _steps(tiled)
    found = _launch(tiled, step, 4096.0, 16.0)  # 16 times as much to do in a tile, 256 times as many tiles
    assert found.instructions == pytest.approx(600 * 4096 + 300 * 256 + 100 * 33)
    assert found.products == {"float16": pytest.approx(64 * 2048 * 4096)}
    # as many blocks as the shared growth asks for: each has a tile
    found = _launch(tiled, step, 33.0 * 16, 16.0)
    assert found.instructions == pytest.approx(900 * 33 * 16 + 100 * 33)


def test_tiles_of_a_product_grow_with_k_where_all_variants_have_blocks_that_stay(tiled):
    (step,) = _steps(tiled)
    done = replace(tiled.emulation, problem={"m": 16, "n": 16, "k": 16})
    product = replace(tiled, problem={"m": 256, "n": 256, "k": 256}, emulation=done)
    launch = _launch(tiled, step, 4096.0, 16.0)
    by_depth = score(gpu_for("H200"), [launch], product.bytes_moved, warm_below_s=50e-6)
    assert scores([product])[tiled.variant].resources == pytest.approx(by_depth.resources)
    without_sizes = scores([tiled])[tiled.variant].resources
    assert without_sizes["issue slots"] != pytest.approx(by_depth.resources["issue slots"])


@pytest.fixture
def product(tiled):
    """A product of some size, made by so many blocks, of which the CPU executed 128 x 128 x 16 in 4."""
    done = replace(tiled.emulation, problem={"m": 128, "n": 128, "k": 16})

    def made(name, m, n, k, blocks):
        launch = replace(tiled.launch, grid=(blocks, 1, 1))
        return replace(tiled, variant=name, problem={"m": m, "n": n, "k": k}, emulation=done, launch=launch)

    return made


def deeper(*records):
    growth = m_n_k_growth(records[0])
    return _growths(
        {record.variant: (record, _steps(record)) for record in records}, {record.variant: growth for record in records}
    )


def m_n_k_growth(record):
    small = record.emulation.counted.problem
    return math.prod(record.problem[name] / small[name] for name in "mnk")


def test_whole_tiles_at_the_edges_make_no_product_less_deep(product):
    # 130 x 130 of tiles of 64 x 64: 9 in place of 4; of 128 x 32, 10
    assert deeper(product("square", 130, 130, 64, 9), product("flat", 130, 130, 64, 10)) == {"square": 4, "flat": 4}


def test_blocks_that_stay_are_as_deep_as_those_that_do_not(product):
    assert deeper(product("each", 1280, 1280, 64, 400), product("stay", 1280, 1280, 64, 132)) == {"each": 4, "stay": 4}


def test_blocks_that_share_the_depth_do_not_make_others_less_deep(product):
    parts, each = product("parts", 1280, 1280, 64, 1600), product("each", 1280, 1280, 64, 400)
    assert deeper(parts, each) == {"parts": 1, "each": 4}


@pytest.mark.parametrize(("made", "counts"), [({}, False), ({"fma": 1}, True)])
def test_blocks_of_a_launch_that_multiplies_nothing_do_not_say_how_deep_a_tile_gets(tiled, made, counts):
    (step,) = _steps(tiled)
    executed = replace(matrix_loops(1000, 64), warps_by_class=made)
    packing = replace(step, bytes_moved=1024, small=replace(step.small, executed=executed))
    assert _multiplies(step)
    assert _multiplies(packing) is counts


def test_sizes_that_happen_to_be_called_m_n_and_k_bound_nothing(tiled):
    """The sizes of a convolution may be named m, n and k, but its work does not scale with m n k."""
    done = replace(tiled.emulation, problem={"m": 3, "n": 8, "k": 8})
    convolution = replace(tiled, problem={"m": 3, "n": 64, "k": 16}, emulation=done)
    plain = scores([tiled])[tiled.variant].resources
    assert scores([convolution])[tiled.variant].resources == pytest.approx(plain)


def test_copies_that_fill_a_ring_before_the_loop_grow_as_the_loop_does(tiled):
    """The small problem has no more steps than the ring has stages: its loop asks for no copies."""
    copied = {"global.copy": MemoryCount(requests=10, sectors=40, bytes_used=1280)}
    (step,) = _steps(tiled)
    executed = replace(matrix_loops(1000, 64), memory=copied)
    step = replace(step, small=replace(step.small, executed=executed))
    outside = _launch(tiled, step, 4096.0, 16.0)
    assert step.ptx is not None
    outer, hot = step.ptx.loops
    hot = replace(hot, counts=replace(hot.counts, by_class={**hot.counts.by_class, "cp.async": 2}))
    ring = _launch(tiled, replace(step, ptx=replace(step.ptx, loops=(outer, hot))), 4096.0, 16.0)
    assert [outside.load_sectors, ring.load_sectors] == pytest.approx([40 * 33, 40 * 4096])
    assert ring.instructions == outside.instructions


def test_tiles_that_reach_beyond_the_small_problem_are_filled_at_the_real_size(tiled):
    half = replace(tiled, emulation=replace(tiled.emulation, flops=tiled.emulation.flops // 2))
    (step,) = _steps(half)
    assert _launch(half, step, 4096.0, 16.0).products == {"float16": pytest.approx(64 * 2048 * 2048)}


def test_products_in_several_loops_grow_with_the_work(tiled):
    """Warps that have a loop of their own multiply their part of a tile there; only one of the loops is the hot one."""
    (step,) = _steps(tiled)
    hot = matrix_loops(600, 64)
    assert step.small.hot_loop == hot
    half = {name: n // 2 for name, n in hot.warps_by_class.items()}
    other = replace(step, small=replace(step.small, hot_loop=replace(hot, warps_by_class=half)))
    assert _launch(tiled, other, 4096.0, 16.0).products == {"float16": pytest.approx(64 * 2048 * 4096)}


def test_one_loop_over_all_tiles_grows_with_the_work_where_a_sample_fills_them(tiled):
    """Blocks with two tiles look like blocks with one that the small problem fills in part."""
    flat = replace(tiled, ptx=replace(tiled.ptx, loops=(replace(tiled.ptx.loops[1], depth=1, parent=""),)))
    (step,) = _steps(flat)
    done = flat.emulation
    sampled = replace(done, sample=SampleRecord(done.problem, done.launches, done.bytes_needed, done.flops))
    products = [
        _launch(one, step, 2 * 33.0 * 16, 16.0).products["float16"] for one in (flat, replace(flat, emulation=sampled))
    ]
    assert products == pytest.approx([64 * 2048 * 33 * 16, 2 * 64 * 2048 * 33 * 16])


def test_products_take_the_tensor_cores_as_long_as_their_rate_says(tiled):
    found = scores_of_problem([tiled])[tiled.variant]
    # an H200 was measured to make 0.588 of the documented 2048 multiply-adds a cycle by mma.sync
    assert found.resources["tensor cores"] == pytest.approx(64 * 2048 * 4096 / 132 / (0.588 * 2048) / 1.98e9)


def test_products_of_warpgroups_have_a_rate_of_their_own(tiled):
    wgmma = {"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16": 2}
    executed = replace(matrix_loops(1000, 2), warps_by_opcode=wgmma)
    (step,) = _steps(tiled)
    found = _launch(tiled, replace(step, small=replace(step.small, executed=executed)), 33.0 * 16, 16.0)
    assert found.products == {}
    assert set(found.group_products) == {"float16"}
    seconds = {
        name: score(gpu_for(name), [replace(found, products={}, group_products={"float16": 1e12})], 0)
        for name in ("H200", "B200")
    }
    assert seconds["H200"].resources["tensor cores"] == pytest.approx(1e12 / 132 / (0.898 * 2048) / 1.98e9)
    assert seconds["B200"].resources["tensor cores"] == pytest.approx(1e12 / 132 / 4096 / 1.965e9)


def test_products_of_split_factors_are_no_tiles_beyond_the_data(tiled):
    """Three products for each of the problem's: the registers of a block could not hold the sums of so many."""
    (step,) = _steps(tiled)
    executed = matrix_loops(1000, 64)
    done = replace(tiled.emulation, problem={"m": 16, "n": 16, "k": 16}, flops=2 * 2048 * 64 / 3)
    record = replace(tiled, emulation=done)
    assert step.resources is not None
    few, many = (replace(step, resources=replace(step.resources, registers=n)) for n in (1, 255))
    # 16 deep in 4 blocks of 256 threads, these are products of 2048 sums
    assert 0.8 * 256 * 1 < 64 * 2048 / 16 / 4 < 0.8 * 256 * 255
    assert _beyond(record, few, executed) == pytest.approx(1)
    assert _beyond(record, many, executed) == pytest.approx(3)
    assert _beyond(record, replace(step, resources=None), executed) == pytest.approx(3)


def test_blocks_that_stay_take_whole_tiles(tiled):
    """A loop over tiles is around that along k: 1.5 tiles for each block in the mean are two for some."""
    (step,) = _steps(tiled)
    assert step.ptx is not None
    outer, hot = step.ptx.loops
    text = {"mma": 4, "integer": 8}
    hot = replace(hot, counts=replace(hot.counts, by_class=text))
    outer = replace(outer, counts=replace(outer.counts, by_class={**text, "st.global": 4}))
    step = replace(step, ptx=replace(step.ptx, loops=(outer, hot)))
    found = _launch(tiled, step, 1.5 * 33 * 16, 16.0)
    assert found.uneven == pytest.approx(2 / 1.5)
    assert found.products == {"float16": pytest.approx(64 * 2048 * 1.5 * 33 * 16)}
    assert _launch(tiled, step, 33.0 * 16, 16.0).uneven == 1


@pytest.mark.parametrize(("stages", "longer"), [(2, 704 / 688), (1, 768 / 688), (3, 1.0), (0, 1.0)])
def test_the_last_step_along_k_is_whole(tiled, stages, longer):
    """Of 128 elements along k, copies fill so many stages for a block; the real product has 688."""
    (step,) = _steps(tiled)
    done = tiled.emulation
    record = replace(tiled, problem={"k": 688}, emulation=replace(done, problem={"k": 128}))
    fills = stages * math.prod(step.small.launch.grid)
    assert step.small.executed is not None
    copied = replace(
        step.small.executed,
        warps_by_class={"cp.async.bulk": fills},
        warps_by_opcode={"mbarrier.arrive.expect_tx": fills},
    )
    step = replace(step, small=replace(step.small, executed=copied))
    assert _whole_steps(record, [step]) == pytest.approx(longer)
    assert _whole_steps(record, [step, step]) == 1


def test_blocks_of_products_do_not_stay_where_a_sample_leaves_their_tiles_empty(tiled):
    """The small problem fills three quarters of its tiles, the real one all: 36 tiles where there was one."""
    (step,) = _steps(tiled)
    done = tiled.emulation
    sampled = replace(done, sample=SampleRecord(done.problem, done.launches, done.bytes_needed, 3 * 64 * 1024))
    assert step.ptx is not None
    flat = replace(step.ptx, loops=(replace(step.ptx.loops[-1], parent=None, depth=1),))
    step = replace(step, ptx=flat, launch=replace(step.launch, grid=(36 * math.prod(step.small.launch.grid), 1, 1)))
    found = _launch(replace(tiled, emulation=sampled), step, 36 * 8 / 0.75, 8.0)
    assert found.uneven == 1
    assert found.products == {"float16": pytest.approx(64 * 2048 * 36 * 8)}


@pytest.mark.parametrize(
    ("cache", "merit", "warm"),
    [
        ("warm", Merit.BANDWIDTH, True),
        ("cold", Merit.TFLOPS, False),
        ("", Merit.TFLOPS, True),
        ("", Merit.BANDWIDTH, False),
    ],
)
def test_short_launches_are_estimated_as_they_are_timed(one, make, cache, merit, warm):
    record = one(executed=counted(1000))
    timing = make("sweep").records()[0].measurement if cache else None
    record = replace(record, merit=merit, measurement=timing and replace(timing, cache=cache))
    record = replace(record, emulation=replace(record.emulation, flops=record.flops))
    record = replace(record, prediction=replace(record.prediction, peak_tflops=math.inf, peak_gb_s=None))
    found = scores([record])[record.variant]
    machine = gpu_for("H200").latencies
    assert found.launches_s == (machine.relaunch_s if warm else machine.launch_s)


def test_a_record_without_the_operations_of_the_executed_problem_is_not_scored(one):
    record = replace(one(executed=counted(1000)), merit=Merit.TFLOPS)
    assert record.emulation.flops == 0 < record.flops
    assert scores([record]) == {}
    assert real_work(record) is None
    known = replace(record, emulation=replace(record.emulation, flops=1))
    assert list(scores([known])) == [record.variant]


def test_tiles_of_blocks_that_stay_are_whole(tiled):
    """Four blocks with a tile of 192 x 192 each cover 256 x 256; 22 x 22 of them cover 4096 x 4096."""
    (step,) = _steps(tiled)
    assert step.ptx is not None
    outer, hot = step.ptx.loops
    hot = replace(hot, counts=replace(hot.counts, by_class={"mma": 4}))
    outer = replace(outer, counts=replace(outer.counts, by_class={"mma": 4, "st.global": 4}))
    step = replace(step, ptx=replace(step.ptx, loops=(outer, hot)))
    sizes = {"m": 256, "n": 256, "k": 128}
    # products of tiles that reach beyond the data: 384 x 384 where there are 256 x 256
    made = 2 * 64 * 2048
    done = replace(tiled.emulation, problem=sizes, flops=made / 2.25)
    record = replace(tiled, problem={"m": 4096, "n": 4096, "k": 4096}, emulation=done)
    assert _tiles_grown(record, step, 2.25) == pytest.approx(22 * 22 / 4)
    assert _tiles_grown(replace(record, problem={"rows": 4096}), step, 2.25) is None
    found = _launch(record, step, 8192.0, 32.0)
    assert found.products == {"float16": pytest.approx(64 * 2048 * 22 * 22 / 4 * 32)}
    assert found.uneven == pytest.approx(4 / (22 * 22 / 132))


def test_work_of_a_variant_alone_has_its_score(one):
    record = one(executed=counted(1000, sectors=64), looped=counted(900, sectors=64))
    work = real_work(record)
    assert work is not None
    assert work.score() == scores_of_problem([record])[record.variant]
    assert len(work.launches) == 1
    assert real_work(replace(record, emulation=None)) is None


def with_sass(record, *opcodes):
    """Return the record with a SASS of some opcodes, otherwise like its PTX."""
    counts = replace(record.ptx.counts, by_opcode=dict.fromkeys(opcodes, 1))
    return replace(record, sass=replace(record.ptx, isa="sass", counts=counts))


@pytest.fixture
def moving(one):
    """Return a factory of records that move some data."""
    return lambda **memory: one(executed=replace(counted(64), memory=memory), looped=counted(64))


def updates(record):
    return real_work(record).launches[0].updates


def test_atomics_that_ptxas_adds_up_in_a_warp_are_one_update_per_request(moving):
    contended = moving(**{"global.atomic": MemoryCount(requests=10, sectors=10, bytes_used=1280, updates=320)})
    apart = updates(with_sass(contended, "RED.E.ADD.STRONG.GPU", "POPC"))
    together = updates(with_sass(contended, "RED.E.ADD.STRONG.GPU", "POPC", "VOTEU.ANY"))
    assert apart == pytest.approx(32 * together)
    spread = moving(**{"global.atomic": MemoryCount(requests=10, sectors=20, bytes_used=1280, updates=40)})
    assert updates(with_sass(spread, "POPC", "VOTEU.ANY")) == pytest.approx(4 * together)


def test_arrays_that_are_read_in_part_do_not_pass_through_dram_as_a_whole(moving):
    gathered = moving(**{"global.load": MemoryCount(requests=8, sectors=1, bytes_used=32)})
    assert gathered.emulation.bytes_needed == 1024
    work = real_work(gathered)
    assert work.bytes_moved == pytest.approx(32 * work.launches[0].load_sectors)
    assert work.bytes_moved < gathered.bytes_moved
    whole = moving(**{"global.load": MemoryCount(requests=8, sectors=32, bytes_used=1024)})
    assert real_work(whole).bytes_moved == whole.bytes_moved


def test_a_score_above_the_peak_is_left_out(one):
    record = replace(one(executed=counted(1000)), merit=Merit.TFLOPS)
    record = replace(record, emulation=replace(record.emulation, flops=1))
    predicted = rate(record, scores([record])[record.variant])
    for factor, scored in ((1.01, True), (0.99, False)):
        peak = replace(record.prediction, peak_tflops=factor * predicted, peak_gb_s=None)
        assert bool(scores([replace(record, prediction=peak)])) is scored
