"""The page's table of effects."""

from __future__ import annotations

from lab.report.facts.effect_rows import effect_rows, largest_gains
from lab.report.facts.paired import parameter_effects
from lab.store.figures import ranked, response_of


def test_a_change_has_a_row_and_one_per_value_of_what_it_depends_on(grid):
    run, records = grid(lambda u, p: 1.0 if u == 1 else {0: 0.8, 4: 1.3}[p])
    response = response_of(records)
    effects = parameter_effects(run, records, response)
    rows = [row for row in effect_rows(effects) if row.change == "1 to 4" or row.within]
    assert [(row.parameter, row.where, row.effect, row.tone, row.pairs) for row in rows[:3]] == [
        ("unroll", "all", "-1.9 %", "", 2),
        ("", "padding 0", "+25 %", "gain", 1),
        ("", "padding 4", "-23 %", "loss", 1),
    ]


def test_the_largest_gains_are_those_of_the_best_variants_values(grid):
    run, records = grid(lambda u, p: {1: 1.0, 4: 0.5, 8: 0.8}[u] * {0: 1.0, 4: 1.5}[p])
    response = response_of(records)
    best = ranked(records, response)[0]
    assert (best.parameters["unroll"], best.parameters["padding"]) == (4, 0)
    assert largest_gains(parameter_effects(run, records, response), best) == ("unroll 1 to 4 (× 2.00)",)
