"""Effects of parameters are those of variants which differ in them alone, within the values of what modifies them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from lab.predict.variant_scores import lean
from lab.report.facts.paired import asked, parameter_effects
from lab.store import published
from lab.store.figures import response_of

UNROLL = Path(__file__).parents[3] / "reports" / "h200" / "gemm_unroll"


def effects_of(run, records):
    return {effect.name: effect for effect in parameter_effects(run, records, response_of(records))}


def test_an_effect_is_the_geometric_mean_over_pairs_that_differ_in_nothing_else(grid):
    run, records = grid(lambda u, p: {1: 1.0, 4: 0.8, 8: 1.25}[u] * {0: 1.0, 4: 5.0}[p] * (1.01 if u == p == 4 else 1))
    effects = effects_of(run, records)
    assert [level.ratio for level in effects["unroll"].levels] == pytest.approx([1.25 / math.sqrt(1.01), 0.8])
    assert [len(level.effect.pairs) for level in effects["unroll"].levels] == [2, 2]
    (padding,) = effects["padding"].levels
    assert padding.effect.interval[0] < padding.ratio < padding.effect.interval[1]
    assert effects["unroll"].levels[0].effect.interval is None  # two pairs say nothing of their scatter


def test_where_constraints_leave_no_pairs_the_best_of_each_kernel_are_compared(grid):
    run, records = grid(lambda u, p: 1.0 + u)
    apart = tuple(r for r in records if (r.parameters["unroll"] == 1) == (r.parameters["padding"] == 0))
    unroll = effects_of(run, apart)["unroll"]
    assert [level.level for level in unroll.levels] == [4, 8]
    assert unroll.levels[0].ratio == pytest.approx(2 / 5)


def test_an_effect_with_two_signs_is_given_within_the_values_of_what_turns_it(grid):
    run, records = grid(lambda u, p: 1.0 if u == 1 else {0: 0.8, 4: 1.3}[p])
    level = effects_of(run, records)["unroll"].at(4)
    assert level.modifier.name == "padding"
    assert level.modifier.flips
    assert [(value, found.ratio) for value, found in level.modifier.within] == [
        (0, pytest.approx(1.25)),
        (4, pytest.approx(1 / 1.3)),
    ]
    assert level.matters


@pytest.mark.parametrize("times", [lambda u, p: u * {0: 1.0, 4: 5.0}[p], lambda u, p: u * {0: 1.0, 4: 1.01}[p]])
def test_an_effect_that_is_alike_everywhere_has_no_modifier(grid, times):
    run, records = grid(times)
    assert all(level.modifier is None for effect in effects_of(run, records).values() for level in effect.levels)


def test_differences_within_the_scatter_are_no_modifier(grid):
    run, records = grid(lambda u, p: 1.0 if u == 1 else {0: 0.9, 4: 1.1}[p], scatter=0.2)
    assert effects_of(run, records)["unroll"].at(4).modifier is None


def test_one_pair_a_value_shows_no_modifier_among_several_factors(grid):
    run, records = grid(lambda u, p: 1.0 if u == 1 else {0: 0.8, 4: 1.3}[p])
    other = tuple(replace(r, parameters={**r.parameters, "stages": r.parameters["padding"]}) for r in records)
    run = replace(run, swept=(*run.swept, "stages"))
    assert effects_of(run, other)["unroll"].at(4).modifier is None


def test_unrolling_pays_with_vectors_and_costs_a_block_without_them():
    kept = published.read_records(UNROLL)
    level = effects_of(kept.run, tuple(map(lean, kept.records)))["unroll"].at(4)
    within = dict(level.modifier.within)
    assert (level.modifier.name, level.modifier.flips) == ("vector_width", True)
    assert [within[width].ratio for width in (1, 2, 4)] == pytest.approx([0.9157, 1.0614, 1.114], abs=0.001)
    assert all(found.clear for found in within.values())
    assert [change.fact.name for change in within[1].causes] == ["resident warps"]


def test_a_question_names_a_parameter_by_a_word_of_it():
    assert asked("unroll", "What does unrolling do?")
    assert asked("vector_width", "Do vectors pay?")
    assert asked("pad", "Does padding pay?")
    assert not asked("padding", "What does unrolling do?")
    assert not asked("pad", "Do expanded rows pay? Spades?")
    assert not asked("m", "many")
