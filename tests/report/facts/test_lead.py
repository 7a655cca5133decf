"""The page opens with the winner and what each parameter changed, in at most sixty words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.measured.timing import Samples
from lab.predict.variant_scores import lean
from lab.recorded.run_records import Status
from lab.report.facts.lead import MOST_WORDS, asked, kernel_steps, lead, parameter_effects
from lab.store import published
from lab.store.figures import response_of

H200 = Path(__file__).parents[3] / "reports" / "h200"
COMMITTED = sorted(path.parent for path in H200.glob(f"**/{published.RECORDS}"))


def said(run, records):
    return lead(run, records, response_of(records))


def timed(record, ms, scatter=0.0):
    samples = Samples((ms * (1 - scatter), ms, ms * (1 + scatter)))
    return replace(record, measurement=replace(record.measurement, samples=samples, remeasured=None))


@pytest.fixture
def grid(make):
    """Variants of two parameters, whose times a test sets: a function of both; scatter is that of the samples."""

    def made(times, scatter=0.0, kernel="k", what="sweep"):
        store = make(what)
        first = store.records()[0]
        records = tuple(
            timed(
                replace(first, variant=f"{u}-{p}", kernel=kernel, label=f"unroll={u} padding={p}",
                        parameters={"unroll": u, "padding": p}, merit=first.merit),
                times(u, p), scatter,
            )
            for u in (1, 4, 8) for p in (0, 4)
        )  # fmt: skip
        return replace(store.run(), swept=("unroll", "padding"), question="Does unrolling pay?"), records

    return made


def test_the_winner_is_named_with_its_ratio_to_the_baseline(grid):
    run, records = grid(lambda u, p: 1.0 + u + p)
    text = said(run, records)
    rate, ratio = records[0].throughput, records[0].measurement.ratio_to_baseline
    assert text.startswith(f"k unroll=1 padding=0 is the fastest of 6: {rate:.2f} TFLOP/s, {ratio:.3f} × cublas.")


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
    assert "unroll 1 to 4: " in said(run, records)


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


def test_where_constraints_leave_no_pairs_the_best_of_each_kernel_are_compared(grid):
    run, records = grid(lambda u, p: 1.0 + u)
    apart = tuple(r for r in records if (r.parameters["unroll"] == 1) == (r.parameters["padding"] == 0))
    (unroll, *_) = parameter_effects(run, apart, response_of(apart))
    assert unroll.name == "unroll"
    assert [level.level for level in unroll.levels] == [4, 8]
    assert unroll.levels[0].ratio == pytest.approx(2 / 5)


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
    assert text.startswith("k 1-0 is the fastest")


def test_a_question_names_a_parameter_by_a_word_of_it():
    assert asked("unroll", "What does unrolling do?")
    assert asked("vector_width", "Do vectors pay?")
    assert not asked("padding", "What does unrolling do?")
    assert not asked("m", "many")


def committed():
    """Every third run, whose leads the same program words as those of the others; all when results are published."""
    for place, folder in enumerate(COMMITTED):
        yield pytest.param(folder, id=folder.name, marks=[pytest.mark.thorough] if place % 3 else [])


@pytest.mark.parametrize("folder", list(committed()))
def test_committed_reports_open_in_at_most_sixty_words(folder):
    kept = published.read_records(folder)
    records = tuple(map(lean, kept.records))
    text = said(kept.run, records)
    assert 5 < len(text.split()) <= MOST_WORDS
    for effect in parameter_effects(kept.run, records, response_of(records)):
        if effect.asked:
            assert effect.name in text


def test_unrolling_pays_up_to_four(make):
    kept = published.read_records(H200 / "gemm_unroll")
    text = said(kept.run, tuple(map(lean, kept.records)))
    assert "unroll 1 to 2: +" in text
    assert "to 8: -" in text
    assert "because registers go from" in text
