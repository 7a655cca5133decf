"""The page opens with what the asked parameter changed, the winner and the other effects, in few words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lab.predict.variant_scores import lean
from lab.recorded.run_records import Status
from lab.report.facts.lead import MOST_WORDS, kernel_steps, lead
from lab.report.facts.paired import parameter_effects
from lab.store import published
from lab.store.figures import response_of

H200 = Path(__file__).parents[3] / "reports" / "h200"
COMMITTED = sorted(path.parent for path in H200.glob(f"**/{published.RECORDS}"))


def said(run, records):
    response = response_of(records)
    return " ".join(lead(run, records, response, parameter_effects(run, records, response)))


def test_the_winner_is_named_with_its_ratio_to_the_baseline(grid):
    run, records = grid(lambda u, p: 1.0 + u + p)
    text = said(run, records)
    rate, ratio = records[0].throughput, records[0].measurement.ratio_to_baseline
    assert f"k unroll=1 padding=0 is the fastest of 6: {rate:.2f} TFLOP/s, {ratio:.3f} × cublas." in text
    assert text.index("unroll 1 to 8") < text.index("is the fastest")  # the question asks for it


def test_an_effect_that_depends_on_another_parameter_is_given_for_its_values(grid):
    run, records = grid(lambda u, p: 1.0 if u == 1 else {0: 0.8, 4: 1.3}[p])
    text = said(run, records)
    assert text.startswith("unroll 1 to 4 gains at padding 0 (+25 %), loses at 4 (-23 %).")
    run = replace(run, question="How fast?")
    assert "unroll 1 to 4: -1.9 %, from -23 % at padding 4 to +25 % at 0." in said(run, records)


def test_the_reason_of_a_loss_is_that_of_the_value_where_it_occurs(grid):
    run, records = grid(lambda u, p: 1.0 if u == 1 else {0: 0.8, 4: 1.3}[p])

    def spilling(record):
        used = 64 if record.parameters == {"unroll": 4, "padding": 4} else 0
        return replace(
            record, build=replace(record.build, resources=replace(record.build.resources, spill_store_bytes=used))
        )

    text = said(run, tuple(map(spilling, records)))
    assert "loses at 4 (-23 %), because at padding 4 spills go from 0 to 64 B." in text


def test_an_effect_has_its_interval_where_pairs_scatter(grid):
    run, records = grid(lambda u, p: {0: 1.0, 4: 1.25}[p] * (1 + 0.001 * u))
    assert "padding 0 to 4: -20 %." in said(run, records)
    run, records = grid(lambda u, p: {0: 1.0, 4: 1.25 + 0.01 * u}[p])
    logs = np.log([1 / (1.25 + 0.01 * u) for u in (1, 4, 8)])
    low, high = np.exp(stats.t.interval(0.95, 2, logs.mean(), stats.sem(logs))) - 1
    assert f"padding 0 to 4: {np.exp(logs.mean()) - 1:.0%} ({low:.0%} to {high:.0%})".replace("%", " %").replace(
        " % to", " to"
    ) in said(run, records)


def test_the_effect_of_a_parameter_is_that_of_variants_which_differ_in_it_alone(grid):
    run, records = grid(lambda u, p: {1: 1.0, 4: 0.8, 8: 1.25}[u] * {0: 1.0, 4: 5.0}[p])
    effects = {effect.name: effect for effect in parameter_effects(run, records, response_of(records))}
    assert effects["unroll"].asked
    assert not effects["padding"].asked
    assert [level.ratio for level in effects["unroll"].levels] == pytest.approx([1.25, 0.8])
    assert [level.ratio for level in effects["padding"].levels] == pytest.approx([0.2])
    text = said(run, records)
    assert "unroll 1 to 4: +25 %; to 8: -20 %." in text
    assert "padding 0 to 4: × 0.20." in text
    assert text.index("unroll 1") < text.index("padding 0")  # the question asks for it


def test_an_effect_within_the_scatter_is_no_measurable_difference(grid):
    run, records = grid(lambda u, p: 1.0 + 0.01 * u + p, scatter=0.2)
    assert "unroll: no measurable difference." in said(run, records)
    run, records = grid(lambda u, p: 1.0 + 0.01 * u + p)
    assert "unroll 1 to 8 loses" in said(run, records)


def test_variants_within_the_scatter_tie(grid):
    run, records = grid(lambda u, p: 1.0 + 1e-4 * u)
    assert "no measurable difference" in said(run, records)
    assert said(run, records).startswith("All 6 variants reach")
    run, records = grid(lambda u, p: 1.0 if u < 8 else 2.0)
    assert "and 3 others tie for the best of 6" in said(run, records)


def test_a_cause_is_named_where_the_code_has_one(grid):
    run, records = grid(lambda u, p: {1: 1.0, 4: 0.9, 8: 1.2}[u])

    def heavy(record):
        if record.parameters["unroll"] != 8:
            return replace(record, prediction=replace(record.prediction, blocks_per_sm=2))
        used = replace(record.build.resources, registers=255)
        build = replace(record.build, resources=used)
        return replace(record, build=build, prediction=replace(record.prediction, blocks_per_sm=1))

    text = said(run, tuple(map(heavy, records)))
    registers = records[0].build.resources.registers
    assert f"to 8: -17 %, because registers go from {registers} to 255 and blocks per SM from 2 to 1" in text
    assert "because" not in said(run, records)


def test_a_ladder_says_its_largest_steps(make):
    store = make("ladder")
    run, records = replace(store.run(), swept=()), store.records()
    steps = kernel_steps(run, records, response_of(records))
    sizes = [max(level.ratio, 1 / level.ratio) for _, level in steps]
    assert sizes == sorted(sizes, reverse=True)
    assert len(steps) == len({record.kernel for record in records}) - 1
    assert f"{steps[0][0]} to {steps[0][1].level}: " in said(run, records)
    assert kernel_steps(replace(run, swept=("x",)), records, response_of(records)) == ()


def test_equal_ceilings_rank_nothing(make):
    store = make("no_gpu")
    first = store.records()[0]
    records = tuple(replace(record, prediction=first.prediction) for record in store.records())
    text = said(store.run(), records)
    assert text.startswith("The variants cannot be told apart without a GPU: the ceiling of each is")
    assert "peak" not in text


def test_different_ceilings_are_no_prediction(make):
    store = make("no_gpu")
    first, *others = store.records()
    bound = replace(first.prediction.ceiling, tflops=0.5)
    lower = replace(first, prediction=replace(first.prediction, bounds=(bound,)))
    assert "A ceiling is not a prediction of throughput." in said(store.run(), (lower, *others))


def test_nothing_came_far_enough(make):
    store = make("sweep")
    records = tuple(replace(record, status=Status.COMPILE_FAILED) for record in store.records())
    assert said(store.run(), records) == f"No variant can be compared: {len(records)} compile failed."


def test_names_of_any_length_leave_the_lead_short(grid):
    run, records = grid(lambda u, p: 1.0 + u + p)
    records = tuple(replace(r, label=" ".join(f"p{i}=1" for i in range(70))) for r in records)
    text = said(run, records)
    assert len(text.split()) <= MOST_WORDS
    assert "k 1-0 is the fastest" in text


def committed():
    """Every third run, whose leads the same program words as those of the others; all when results are published."""
    for place, folder in enumerate(COMMITTED):
        yield pytest.param(folder, id=folder.name, marks=[pytest.mark.thorough] if place % 3 else [])


@pytest.mark.parametrize("folder", list(committed()))
def test_committed_reports_open_in_few_words(folder):
    kept = published.read_records(folder)
    records = tuple(map(lean, kept.records))
    text = said(kept.run, records)
    assert 5 < len(text.split()) <= MOST_WORDS
    for effect in parameter_effects(kept.run, records, response_of(records)):
        if effect.asked:
            assert effect.name in text


def test_unrolling_pays_with_vectors_alone():
    kept = published.read_records(H200 / "gemm_unroll")
    text = said(kept.run, tuple(map(lean, kept.records)))
    assert text.startswith(
        "unroll 1 to 4 gains at vector_width 4 (+11 %, +1.0 to +23 %) and 2 (+6.1 %, +2.1 to +10 %), "
    )
    assert "loses at 1 (-8.4 %, -13 to -3.3 %), because at vector_width 1 registers go from" in text
    assert "and blocks per SM from 2 to 1" in text
