from __future__ import annotations

from dataclasses import replace

import pytest

from lab.emulator.results import ExecutedCounts
from lab.measured.timing import Merit
from lab.predict.count_curves import resized_counts
from lab.predict.scaling import Growth, counted, declared, works
from lab.recorded.run_records import EmulatedStep, EmulationRecord, LaunchRecord, SampleRecord


@pytest.fixture
def rows(make):
    """8 times the queries and 32 times the keys of what was executed; queries alone make up the bytes: 8 times."""

    def made(growth, of_block=None, *, name="v", merit=Merit.BANDWIDTH):
        record = make("no_gpu").records()[0]
        steps = (EmulatedStep("k", LaunchRecord((5, 1, 1), (32, 1, 1), 0)),)
        done = EmulationRecord({"queries": 64, "keys": 40}, steps, bytes_needed=1000, flops=10, growth=growth)
        done = replace(done, growth_of_block=of_block or {})
        return replace(
            record, launch=LaunchRecord((40, 1, 1), (32, 1, 1), 0), variant=name,
            problem={"queries": 512, "keys": 1280, "causal": True}, emulation=done,
            bytes_moved=8000, flops=50, merit=merit,
        )  # fmt: skip

    return made


def test_each_size_multiplies_the_work_by_its_whole_power(rows):
    once, squared = rows({"queries": 1.0, "keys": 1.04}), rows({"queries": 0.98, "keys": 1.99})
    assert counted([once]) == {"v": Growth(8 * 32, 8 * 32)}
    assert counted([squared]) == {"v": Growth(8 * 32**2, 8 * 32**2)}
    assert works([once]) == {"v": Growth(256, 256)}


def test_bytes_decide_where_instructions_grow_no_faster(rows):
    assert works([rows({"queries": 1.0, "keys": 0.0})]) == {"v": Growth(8, 8)}
    assert works([rows({"queries": 0.0, "keys": 0.0})]) == {"v": Growth(8, 8)}


def test_growth_that_is_not_regular_widens_the_interval_alone(rows):
    (found,) = works([rows({"queries": 1.0, "keys": 0.5})]).values()
    assert found.likely == 8
    assert found.most == pytest.approx(8 * 32**0.5)


def test_variants_share_what_one_of_them_showed(rows):
    shown, other = rows({"queries": 1.0, "keys": 1.0}, name="a"), rows({}, name="b")
    assert {name: one.likely for name, one in works([other, shown]).items()} == {"a": 256, "b": 256}
    assert counted([other]) == {}
    assert works([other]) == {"b": Growth(8, 8)}


def test_a_size_that_could_not_be_halved_leaves_it_to_bytes(rows):
    assert works([rows({"queries": 1.0})]) == {"v": Growth(8, 8)}


def test_declared_operations_decide_where_throughput_counts_them(rows):
    operations = rows({"queries": 1.0, "keys": 1.0}, merit=Merit.TFLOPS)
    assert counted([operations]) == {}
    assert declared(operations) == 5
    assert works([operations]) == {"v": Growth(5, 5)}


def test_blocks_that_are_not_filled_grow_by_their_number(rows):
    """All threads loop over the keys, those beyond the queries as well: 5 blocks at 150 queries, 3 at 75."""
    small, large = ({"queries": whole, "keys": 1.0} for whole in (0.74, 0.0))
    of_block = {"queries": 0.0, "keys": 1.0}
    found = works([rows(small, of_block, name="a"), rows(large, of_block, name="b")])
    each = Growth(32 * 40 / 5, 32 * 40 / 5, by_blocks=True)
    assert found == {"a": each, "b": each}


def test_wide_blocks_do_not_grow_as_the_data_does(rows):
    """One block of four times the width covers the small problem, and a quarter of the blocks the real one."""
    powers = {"queries": 0.0, "keys": 0.0}
    narrow, wide = (rows({"queries": whole, "keys": 0.0}, powers, name=str(whole)) for whole in (0.7, 0.0))
    narrow = replace(narrow, launch=LaunchRecord((160, 1, 1), (32, 1, 1), 0))
    found = works([narrow, wide])
    assert {name: one.likely for name, one in found.items()} == {"0.7": 160 / 5, "0.0": 40 / 5}


def test_blocks_that_are_hardly_filled_grow_less_than_the_bytes(rows):
    """A block covers four times the queries that were executed: 40 blocks hold 8 times as many as 5 blocks did."""
    record = replace(rows({"queries": 0.4, "keys": 0.0}, {"queries": 0.0, "keys": 0.0}), bytes_moved=32_000)
    assert declared(record) == 32
    assert works([record]) == {"v": Growth(8, 8, by_blocks=True)}


def test_threads_that_leave_at_once_grow_by_the_sizes(rows):
    """Blocks of 256 hold all queries of both problems, blocks of 32 do not: what a block executes follows no power."""
    whole = {"queries": 1.0, "keys": 1.0}
    found = works([rows(whole, {"queries": power, "keys": 1.0}, name=str(power)) for power in (1.0, 0.26)])
    assert {one.likely for one in found.values()} == {256}


def test_a_sample_says_how_the_work_grows_from_its_own_size(rows):
    square = rows({"queries": 1.0, "keys": 1.0})
    sample = SampleRecord(
        {"queries": 128, "keys": 160}, square.emulation.launches, 2000, 20, {"queries": 1.0, "keys": 1.0}
    )
    record = replace(square, emulation=replace(square.emulation, sample=sample))
    assert counted([record]) == {"v": Growth(4 * 8, 4 * 8)}
    assert declared(record) == 4
    assert declared(replace(record, merit=Merit.TFLOPS)) == 2.5
    other = replace(square, variant="other")  # which has none
    assert counted([record, other]) == counted([record]) | {"other": Growth(8 * 32, 8 * 32)}


@pytest.fixture
def product(make):
    """A product of 64 by 64, whose result takes a loop of 500 instructions that the depth does not change."""

    def made(name="v", *, is_shown=True, real=None, blocks=64 * 64):
        def steps(m=64, n=64, k=64):
            tiles = m * n // 64**2
            hot, around, outside = (tiles * one for one in (2 * k, 500, 60))
            counts = [ExecutedCounts(0, one, {}, {}, {}, {}, {}) for one in (hot + around + outside, hot + around)]
            launch = LaunchRecord((tiles, 1, 1), (32, 1, 1), 0)
            return (EmulatedStep("k", launch, counts[0], looped=counts[1], loops={"along k": hot}),)

        sizes = [{"m": 128}, {"m": 256}, {"n": 128}, {"n": 256}, {"k": 32}, {"k": 128}]
        resized = tuple(resized_counts(size, steps(**size)) for size in sizes) if is_shown else ()
        powers = {"m": 1.0, "n": 1.0, "k": 0.27}
        done = EmulationRecord({"m": 64, "n": 64, "k": 64}, steps(), bytes_needed=100, growth=powers, resized=resized)
        return replace(
            make("no_gpu").records()[0], variant=name, problem=real or {"m": 4096, "n": 4096, "k": 4096},
            launch=LaunchRecord((blocks, 1, 1), (32, 1, 1), 0), emulation=done, bytes_moved=200 * 64,
            merit=Merit.BANDWIDTH,
        )  # fmt: skip

    return made


def test_what_is_done_once_for_a_result_does_not_grow_with_its_depth(product):
    """The power of the depth is 0.27: without curves, bytes would say that the work grows 128 times."""
    tiles, grown = 64 * 64, (2 * 4096 + 500) / (2 * 64 + 500)
    (found,) = works([product()], {"v": "along k"}).values()
    assert found.likely == found.most == pytest.approx(tiles * grown)
    assert found.parts.hot == pytest.approx(tiles * 64)
    assert found.parts.around == found.parts.outside == pytest.approx(tiles)
    (whole,) = works([product()]).values()  # of which the hot loop is not known
    assert whole.likely == pytest.approx(tiles * grown)
    assert whole.parts is None


def test_other_variants_of_the_problem_take_the_curves(product):
    found = works([product(), product("other", is_shown=False)], {"v": "along k", "other": "theirs"})
    assert found["other"] == found["v"]
    assert not any(work.parts for work in works([product(is_shown=False)]).values())


def test_a_grid_that_does_not_follow_the_sizes_leaves_it_to_powers(product):
    """Persistent blocks, one full wave on the GPU, process several tiles each."""
    records = [product(), product("stays", blocks=132)]
    assert {work.parts for work in works(records, {"v": "along k"}).values()} == {None}


def test_sizes_that_throughput_counts_have_no_curves(product):
    operations = replace(product(), merit=Merit.TFLOPS, flops=0)
    assert works([operations], {"v": "along k"})["v"].parts is None
