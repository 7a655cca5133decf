from __future__ import annotations

from dataclasses import replace

import planted_tuning
import pytest

from lab.measured.timing import Kind, Samples
from lab.store.tuning_model import Census, Cut, CutKind, KernelFacts, ProblemType, Timed, baseline_id, block_tile


def test_the_efficiencies_are_the_papers():
    # section V: 512 MACs, 8 other vector instructions, 5 scalar, 2 global memory, 37 LDS: 98 %, 97 %, 90 % (rounded)
    counted = Census("gemm", fma=512, vector=8, control=5, global_memory=2, shared_memory=37)
    assert counted.efficiency("all") == pytest.approx(512 / 520)
    assert counted.efficiency("memory") == pytest.approx(512 / 525)
    assert counted.efficiency("none") == pytest.approx(512 / 564)


def test_times_of_the_baseline_stand_apart_for_each_problem_type():
    assert baseline_id("float32_nn") != baseline_id("float32_nt")


def test_only_a_first_sample_leaves_a_time():
    assert [kind for kind in CutKind if not kind.not_run] == [CutKind.FIRST_SAMPLE]


def test_what_failed_has_no_time():
    assert Timed(None, Kind.MEASURED, failure="hung").ms is None
    assert Timed(Samples((1.0, 5.0, 2.0)), Kind.MEASURED).ms == 2.0


def test_a_loop_without_instructions_has_no_efficiency():
    assert Census("k", 0, 0, 0, 0, 0).efficiency("none") == 0


def test_times_are_measured_where_there_is_a_gpu():
    assert planted_tuning.facts(planted_tuning.GPU).kind is Kind.MEASURED
    assert planted_tuning.facts(None).kind is Kind.PREDICTED


def test_what_is_not_known_of_a_kernel_or_a_rule_is_zero():
    kernel = KernelFacts("id", "name", "group", "type", "template", {}, "sm_90")
    assert (kernel.registers, kernel.spill_bytes, kernel.shared_bytes, kernel.threads, kernel.blocks_per_sm) == (0,) * 5
    cut = Cut(CutKind.PREDICTION, 3, 2.0)
    assert (cut.nearest, cut.coarse, cut.sizes) == (0, 0, 0)


@pytest.mark.parametrize(
    ("names", "tile"),
    [
        ({"work_group_0": 12, "work_group_1": 16, "thread_tile_0": 3, "thread_tile_1": 3}, (36, 48)),
        ({"macro_tile_0": 64, "macro_tile_1": 32, "work_group_0": 1, "thread_tile_0": 1}, (64, 32)),
        ({"block_m": 256, "block_n": 128}, (256, 128)),
        ({"block_m": 256}, None),
        ({"threads": 256}, None),
    ],
)
def test_a_tile_has_its_templates_names(names, tile):
    assert block_tile(names) == tile


def test_a_peak_is_that_of_the_type():
    types = {"float64_nn": ProblemType("float64", "nn"), "float32_nn": ProblemType("float32", "nn")}
    facts = replace(planted_tuning.facts(None), types=types, peaks={"float64": 33.5, "float32": 67.0})
    assert (facts.peak("float64_nn"), facts.peak("float32_nn")) == (33.5, 67.0)
