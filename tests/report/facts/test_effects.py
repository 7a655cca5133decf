"""Main effects and interactions against responses whose structure is known."""

from __future__ import annotations

import pytest

from lab.report.facts.effects import MOST_LEVELS, Factor, factors, main_effects, strongest_interaction

A, B = Factor("unroll", parameter=True), Factor("vector_width", parameter=True)


def observed(make, response):
    return [(record, response(record.parameters)) for record in make("sweep").records()]


def test_a_response_of_one_parameter_is_explained_by_it_alone(make):
    effects = main_effects([B, A], observed(make, lambda p: 10.0 * p["unroll"]))
    assert [effect.factor for effect in effects] == ["unroll", "vector_width"]
    assert effects[0].share == pytest.approx(1.0)
    assert effects[1].share == pytest.approx(0.0)
    assert [(level.value, level.n, level.mean) for level in effects[0].levels] == [
        (1, 6, 10.0), (2, 6, 20.0), (4, 6, 40.0), (8, 6, 80.0)
    ]  # fmt: skip
    assert effects[0].range == 70.0


def test_shares_of_an_additive_response_sum_to_one_without_interaction(make):
    rows = observed(make, lambda p: 3.0 * p["unroll"] + 7.0 * p["vector_width"])
    effects = main_effects([A, B], rows)
    assert sum(effect.share for effect in effects) == pytest.approx(1.0)
    assert strongest_interaction([A, B], rows).share == pytest.approx(0.0, abs=1e-9)


def test_a_crossed_response_is_all_interaction(make):
    factor = Factor("double_buffer", parameter=True)
    rows = [
        (record, 1.0 if (p["unroll"] > 2) == p["double_buffer"] else -1.0)
        for record in make("sweep").records()
        for p in (record.parameters,)
    ]
    assert all(effect.share == pytest.approx(0.0) for effect in main_effects([A, factor], rows))
    found = strongest_interaction([A, factor, B], rows)
    assert {found.first, found.second} == {"unroll", "double_buffer"}
    assert found.share == pytest.approx(1.0)
    assert len(found.cells) == 8


def test_a_constant_response_has_no_effect(make):
    rows = observed(make, lambda _: 0.1 + 0.2)
    assert all(effect.share == 0.0 for effect in main_effects([A, B], rows))


def test_pairs_with_one_variant_a_cell_are_no_interaction(make):
    rows = [row for row in observed(make, lambda p: float(p["unroll"])) if not row[0].parameters["double_buffer"]]
    assert strongest_interaction([A, B], rows) is None


def test_factors_are_what_varies(make):
    store = make("sweep")
    assert [f.name for f in factors(store.run(), store.records())] == ["unroll", "double_buffer", "vector_width"]
    assert factors(store.run(), store.records()[:1]) == ()
    assert MOST_LEVELS >= 8
