"""Pruning and ranking of variants in a search."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from narrowing import known

from lab.experiment.schema import PruneModel
from lab.measured.metrics import DeclaredRate
from lab.measured.timing import CardState, Measurement, Merit, Samples
from lab.recorded.predictions import Bound, Prediction
from lab.recorded.run_records import BuildRecord, PruneRule, Status, VariantRecord
from lab.search.pruning import Pruner, Pruning, Rank, leaders, score
from lab.toolchain.base import Resources

BELOW = "a ceiling of 19.00 TFLOP/s is below 50% of the best one, 40.00"
RULES = PruneModel.model_validate({"below_prediction": 0.5})


def record(ceiling, *, spills=0, occupancy=0.5, tflops=None, m=64, status=Status.INSPECTED):
    resources = Resources(64, spills, 0, 0, 0, 400, 1)
    prediction = Prediction("H200", occupancy, 2, "registers", 66.9, (Bound("issue slots", ceiling, "x"),))
    variant = VariantRecord("v", "k", "l", "t", {}, {"m": m}, "sm_90", status, "", 10**12, 1)
    variant = replace(
        variant, build=BuildRecord("nvrtc", "1", "c", resources, "0", 0.1, cached=False, disassembler="d"),
        prediction=prediction,
    )  # fmt: skip
    if tflops is None:
        return variant
    samples = Samples((10**12 / tflops / 1e9,))
    return replace(
        variant, status=Status.VERIFIED, measurement=Measurement(samples, None, None, "cold", CardState(), CardState())
    )


def test_a_suspect_variant_has_no_score_and_one_verified_in_part_has_its_rate():
    fast = record(40, tflops=30)
    assert known(score(replace(fast, status=Status.PARTIAL), 0)).rate == pytest.approx(30)
    assert score(replace(fast, status=Status.SUSPECT), 0) is None


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (record(30), None),
        (record(30, spills=8), Pruning(PruneRule.SPILLS, "8 bytes of spill stores and loads per thread")),
        (record(30, occupancy=0.0), Pruning(PruneRule.OCCUPANCY, "no block fits on an SM, limited by registers")),
        (record(19), Pruning(PruneRule.PREDICTION, BELOW)),
        (record(19, m=32), None),
    ],
)
def test_what_is_pruned_and_why(one, why):
    pruner = Pruner(RULES)
    assert pruner.judge(record(40)) is None
    assert pruner.judge(one) == why


def test_rules_can_be_switched_off():
    pruner = Pruner(PruneModel(spills=False, below_prediction=0, below_measured=False))
    pruner.judge(record(40))
    pruner.learn(known(score(record(40, tflops=39), 0)))
    assert pruner.judge(record(1, spills=8)) is None
    assert pruner.overtaken(record(1)) is None


def test_a_ceiling_below_what_was_measured_is_overtaken():
    pruner = Pruner(RULES)
    assert pruner.overtaken(record(30)) is None
    pruner.learn(known(score(record(40, tflops=35), 0)))
    found = pruner.overtaken(record(30))
    assert found == Pruning(PruneRule.MEASUREMENT, "a ceiling of 30.00 TFLOP/s is below the 35.00 of another one")
    assert pruner.overtaken(record(36)) is None
    assert pruner.overtaken(record(30, m=32)) is None


def test_a_ceiling_at_a_limit_is_not_below_it():
    pruner = Pruner(RULES)
    assert pruner.judge(record(40)) is None
    assert pruner.judge(record(20)) is None  # exactly half of the best
    pruner.learn(Rank((("m", 64),), 0, 40.0, 35.0))
    assert pruner.overtaken(record(35)) is None  # exactly what was reached
    assert pruner.overtaken(record(34.9)) is not None


def test_the_best_of_each_group_counts_not_the_last():
    pruner = Pruner(RULES)
    for rate in (35.0, 20.0):
        pruner.learn(Rank((("m", 64),), 0, 40.0, rate))
    assert pruner.overtaken(record(30)) is not None
    assert pruner.judge(record(40)) is pruner.judge(record(21)) is None
    assert pruner.judge(record(19)) is not None


def test_failed_and_pruned_variants_have_no_score():
    assert score(record(30, status=Status.COMPILE_FAILED), 0) is None
    assert score(record(30, status=Status.PRUNED), 0) is None
    assert score(record(30, tflops=20), 3) == Rank((("m", 64),), 3, 30, cast("float", pytest.approx(20)))


def test_a_variant_of_a_slow_card_leads_by_what_it_would_reach_on_the_others_and_one_in_doubt_comes_last():
    scores = [
        Rank((), 0, None, 10.0, "GPU-a"),
        Rank((), 1, None, 9.8, "GPU-b", doubt=True),
        Rank((), 2, None, 10.4, "GPU-b", doubt=True),
    ]
    assert [leader.position for leader in leaders(scores, 3)] == [0, 2, 1]
    assert [leader.position for leader in leaders(scores, 3, {"GPU-a": 1.0, "GPU-b": 1.05})] == [2, 1, 0]


def test_variants_with_one_baseline_beside_them_lead_by_their_ratio_whatever_card_had_them():
    scores = [
        Rank((), 0, None, 10.0, "GPU-a", baseline="cublas", baseline_ms=1.0),
        Rank((), 1, None, 9.0, "GPU-b", baseline="cublas", baseline_ms=1.2),
        Rank((), 2, None, 9.5, "GPU-a", baseline="cublas", baseline_ms=1.1),
    ]
    assert [leader.position for leader in leaders(scores, 3, {"GPU-b": 1.5})] == [1, 2, 0]
    assert [leader.position for leader in leaders([*scores, Rank((), 3, None, 9.8)], 4)] == [0, 3, 2, 1]


def test_leaders_are_the_measured_ones_where_anything_was_measured():
    a, b = ("a",), ("b",)
    scores = [
        Rank(a, 0, 50, 10),
        Rank(a, 1, 40, 20),
        Rank(a, 2, 60, None),
        Rank(b, 3, 7, None),
        Rank(b, 4, 9, None),
    ]
    assert [leader.position for leader in leaders(scores, 1)] == [1, 4]
    assert [leader.position for leader in leaders(scores, 5)] == [1, 0, 4, 3]


def test_a_ceiling_is_compared_in_the_unit_of_the_file():
    """A launch moves 1 MB and counts 0.5 Gkeys: 30 GB/s are 15000 Gkeys/s."""
    keys = DeclaredRate("Gkeys/s", 0.5)
    prediction = Prediction("H200", 1.0, 1, "warps", 66.9, (Bound("DRAM", 1.0, "x", 30.0),), 4800.0)
    plain = replace(record(40, tflops=1), merit=Merit.BANDWIDTH, bytes_moved=10**6, declared_rate=keys)
    plain = replace(plain, prediction=prediction)
    fast = replace(plain.measurement, samples=Samples((0.02,)))
    pruner = Pruner(RULES)
    pruner.learn(known(score(replace(plain, measurement=fast), 0)))
    found = pruner.overtaken(plain)
    assert found == Pruning(PruneRule.MEASUREMENT, "a ceiling of 1.5e+04 Gkeys/s is below the 2.5e+04 of another one")
    pruner = Pruner(RULES)
    pruner.learn(known(score(replace(plain, measurement=replace(fast, samples=Samples((1.0,)))), 0)))
    assert pruner.overtaken(plain) is None
