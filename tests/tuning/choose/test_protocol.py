"""The steps on invented times whose best answer is known."""

from __future__ import annotations

import pytest
from mistakes import coded
from tuning_support import Bench, invented, tuning

from lab.base.errors import UserError
from lab.base.sizes import Size
from lab.store.tuning_model import Timed
from lab.tuning.choose.protocol import score, select

SIZES = "benchmark: [{exact: [64, 64, 64]}, {exact: [512, 512, 64]}]\n"
FORK = "ForkParameters: {ThreadTile: [[8, 8], [4, 4], [2, 2]], WorkGroup: [[16, 16, 1], [8, 8, 4]]}\n"


def walked(folder, steps, ms=lambda parameters, size: 1.0):
    bench = Bench(ms)
    (group,) = tuning(folder, SIZES + steps).groups
    kernels, step_records = select(group, bench)
    return kernels, step_records, bench


def test_without_steps_the_defaults_are_the_kernel(tmp_path):
    kernels, step_records, bench = walked(tmp_path, "")
    assert [kernel.name for kernel in kernels] == ["MT128x128_DU8_GSU1_TT8x8_VW4_WG16x16x1_PGR1_PLR1_WGM8"]
    assert [step.number for step in step_records] == [1, 2, 3, 4, 5, 6]
    assert not bench.asked


def test_step_1_overrides_the_defaults(tmp_path):
    ((kernel,), _, _) = walked(tmp_path, "InitialSolutionParameters: {DepthU: 16, WorkGroupMapping: 1}")
    assert kernel.parameters["loop_unroll"] == 16
    assert kernel.parameters["work_group_mapping"] == 1


def test_step_2_determines_one_combination_for_all(tmp_path):
    steps = (
        "BenchmarkCommonParameters: {parameters: {WorkGroupMapping: [1, 4, 8], PrefetchLocalRead: [true, false]}}\n"
        + FORK
    )
    kernels, step_records, bench = walked(
        tmp_path, steps, lambda p, s: 1.0 if p["work_group_mapping"] == 4 and not p["prefetch_local_read"] else 2.0
    )
    assert len(kernels) == 6
    assert all(kernel.parameters["work_group_mapping"] == 4 for kernel in kernels)
    assert not any(kernel.parameters["prefetch_local_read"] for kernel in kernels)
    assert [row.wins for row in step_records[1].rows] == [False, False, False, True, False, False]
    assert len(bench.asked) == 1
    assert len(bench.asked[0][0]) == 6


def test_step_3_keeps_every_combination(tmp_path):
    kernels, step_records, bench = walked(tmp_path, FORK)
    assert len(kernels) == len(step_records[2].rows) == 6
    assert not bench.asked


def test_step_4_keeps_the_fastest_of_each_fork(tmp_path):
    # a small tile is fastest when k is split, a large one when it is not
    def ms(p, size):
        return 1.0 if (p["thread_tile_0"] < 8) == (p["global_split_u"] == 4) else 2.0

    steps = FORK + "BenchmarkForkParameters: {parameters: {GlobalSplitU: [1, 4]}}"
    kernels, step_records, _ = walked(tmp_path, steps, ms)
    assert len(kernels) == 6
    for kernel in kernels:
        assert kernel.parameters["global_split_u"] == (4 if kernel.parameters["thread_tile_0"] < 8 else 1)
    assert sum(row.wins for row in step_records[3].rows) == 6
    assert len(step_records[3].rows) == 12


def test_step_5_keeps_the_fastest_of_those_that_are_equal(tmp_path):
    def ms(p, size):
        return float(p["local_split_u"] + p["thread_tile_0"])

    kernels, step_records, _ = walked(tmp_path, FORK + "JoinParameters: {parameters: [MacroTile]}", ms)
    # 128x128; 64x64 twice: 16x16 of 4x4, 8x8x4 of 8x8; 32x32 twice: 16x16 of 2x2, 8x8x4 of 4x4; 16x16
    assert [kernel.name.partition("_")[0] for kernel in kernels] == ["MT128x128", "MT64x64", "MT32x32", "MT16x16"]
    assert [kernel.parameters["local_split_u"] for kernel in kernels] == [1, 1, 1, 4]
    assert {row.competes for row in step_records[4].rows} == {"128x128", "64x64", "32x32", "16x16"}


def test_step_6_goes_on_from_what_was_joined(tmp_path):
    def ms(p, size):
        return p["work_group_mapping"] + (10.0 if p["local_split_u"] > 1 else 0.0)

    steps = (
        FORK
        + "BenchmarkForkParameters: {parameters: {PrefetchGlobalRead: [true, false]}}\n"
        + "JoinParameters: {parameters: [MacroTile]}\n"
        + "BenchmarkJoinParameters: {parameters: {WorkGroupMapping: [1, 8]}}"
    )
    kernels, step_records, _ = walked(tmp_path, steps, ms)
    assert len(kernels) == 4
    assert all(kernel.parameters["work_group_mapping"] == 1 for kernel in kernels)
    assert len(step_records[5].rows) == 8


def test_a_kernel_that_fails_at_one_size_does_not_win(tmp_path):
    def ms(p, size):
        return None if p["global_split_u"] == 1 and size[0] == 512 else float(p["global_split_u"])

    steps = "ForkParameters: {ThreadTile: [[4, 4]]}\nBenchmarkForkParameters: {parameters: {GlobalSplitU: [1, 2, 4]}}"
    kernels, step_records, _ = walked(tmp_path, steps, ms)
    assert [kernel.parameters["global_split_u"] for kernel in kernels] == [2]
    assert step_records[3].rows[0].failure == "it failed"


def test_where_everything_fails_the_step_is_named(tmp_path):
    steps = "BenchmarkForkParameters: {parameters: {GlobalSplitU: [1, 2]}}"
    with pytest.raises(UserError, check=coded("nothing-left", found="it failed: 2")):
        walked(tmp_path, steps, lambda p, size: None)


def test_what_is_no_kernel_is_left_out_with_its_reason(tmp_path):
    steps = (
        "constraints: ['threads < 256']\nForkParameters: {WorkGroup: [[16, 16, 1], [8, 8, 1], [4, 4, 1]], DepthU: [8]}"
    )
    kernels, step_records, _ = walked(tmp_path, steps)
    assert len(kernels) == 1
    assert sorted(step_records[2].excluded.values()) == [1, 1]
    assert "threads < 256" in step_records[2].excluded


def test_the_score_is_the_geometric_mean():
    times: dict[Size, Timed] = {(1, 1, 1): invented(1.0), (2, 2, 2): invented(4.0)}
    assert score(times, list(times)) == pytest.approx(2.0)
    assert score(times, [*times, (3, 3, 3)]) is None
