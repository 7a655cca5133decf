"""Searches by a strategy, on a GPU that is played: what is measured, what is only predicted, and where they end."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from run_support import DecidedSession, all_played, no_gpu, played_by

from lab.base.errors import UserError
from lab.experiment.load import from_text
from lab.recorded.run_records import PruneRule, Status
from lab.runs.pipeline import RunOptions, run
from lab.search.problem_searches import Searching, cost_of
from lab.store.tuned import write_tuned

TEMPLATE = """{#---
summary: s
operator: gemm
entry: k
parameters: {a: {type: int, default: 1, help: h}, b: {type: int, default: 1, help: h}}
grid: ["ceil_div(m, 32)"]
block: [32]
arguments: {m: int32, A: T*, C: T*}
---#}
extern "C" __global__ void k(int m, const {{ T }}* A, {{ T }}* C)
{
    C[threadIdx.x] = A[{{ a }}] * {{ b }} + m;
}
"""
EXPERIMENT = """question: Does it?
operator: gemm
problem: {m: 64, n: 64, k: 64}
kernels:
  - template: mine.cu.j2
    parameters: {a: [1, 2, 3, 4], b: [1, 2, 3, 4, 5]}
    constraints: [a + b <= 7]
archs: [sm_90]
toolchains: [nvrtc]
search: {%s, prune: {below_prediction: 0, below_measured: false}}
"""
POINTS = 4 * 5 - 3


class Counting(DecidedSession):
    """Counts the jobs of each variant."""

    jobs: list[str] = []

    def run(self, job, policy):
        Counting.jobs.append(job.variant)
        return super().run(job, policy)


@pytest.fixture
def made(tmp_path):
    (tmp_path / "mine.cu.j2").write_text(TEMPLATE)
    Counting.jobs.clear()

    def once(search, folder="out", text=EXPERIMENT, **options):
        file = tmp_path / "e.yaml"
        file.write_text(text % search)
        services = all_played(**{"cards": played_by(Counting), **options})
        return run(file, RunOptions(output=tmp_path / folder, jobs=1), services=services)

    return once


@pytest.mark.parametrize("strategy", ["annealing", "genetic", "differential_evolution", "tabu_greywolf", "exhaustive"])
def test_a_strategy_measures_as_many_variants_as_it_may(made, strategy):
    outcome = made(f"strategy: {strategy}, evaluations: 6, stop: null")
    assert sum(record.measurement is not None for record in outcome.records) == 6 == len(outcome.records)
    assert set(outcome.run.search.order) == {record.variant for record in outcome.records}
    assert outcome.run.search.strategy == strategy
    assert outcome.run.search.endings == ("The search ended: 6 variants were measured, the limit of the experiment.",)
    assert all(record.parameters["a"] + record.parameters["b"] <= 7 for record in outcome.records)


def test_candidates_are_all_recorded_and_few_are_measured(made):
    outcome = made("strategy: surrogate, evaluations: 5, stop: null")
    measured = {record.variant for record in outcome.records if record.measurement}
    assert len(outcome.records) == POINTS == outcome.run.search.candidates
    assert len(measured) == 5
    assert set(outcome.run.search.order) == measured
    assert {record.round for record in outcome.records if record.measurement is None} == {0}
    assert [r.round for v in outcome.run.search.order for r in outcome.records if r.variant == v] == [1, 2, 3, 4, 5]
    assert {r.status for r in outcome.records if not r.measurement} == {Status.INSPECTED}


def test_without_candidates_only_what_is_asked_for_is_built(made):
    outcome = made("strategy: surrogate, candidates: 0, evaluations: 10, batch: 5, stop: null")
    assert len(outcome.records) == 10 == len(outcome.run.search.order)
    assert outcome.run.search.candidates == 0


@pytest.mark.parametrize("strategy", ["surrogate, evaluations: 6", "genetic, evaluations: 15"])
def test_an_interrupted_search_goes_on_where_it_was(made, tmp_path, strategy):
    class Breaking(Counting):
        def run(self, job, policy):
            if len(Counting.jobs) == 3:
                raise KeyboardInterrupt
            return super().run(job, policy)

    whole = made(f"strategy: {strategy}, stop: null", "whole")
    Counting.jobs.clear()
    cut = RunOptions(output=tmp_path / "cut", jobs=1)
    assert run(tmp_path / "e.yaml", cut, services=all_played(cards=played_by(Breaking))).interrupted
    begun = len(Counting.jobs)
    again = run(tmp_path / "e.yaml", cut, services=all_played(cards=played_by(Counting)))
    assert again.run.search.order == whole.run.search.order
    assert begun == 3
    assert len(Counting.jobs) <= len(whole.run.search.order) + 1  # one was lost, and the winner is measured twice
    assert not again.interrupted


def test_a_variant_far_behind_the_best_is_sampled_once(made):
    policies = []

    class Watching(Counting):
        def run(self, job, policy):
            result = super().run(job, policy)
            policies.append((policy.beaten_ms, result.measurement.samples.median))
            return result

    made("strategy: annealing, evaluations: 8, batch: 1, stop: null", cards=played_by(Watching))
    during = policies[:8]
    assert during[0][0] is None
    for i, (beaten, _) in enumerate(during[1:], 1):
        assert beaten == pytest.approx(1.1 * min(ms for _, ms in during[:i]))
    policies.clear()
    made("sample: 8", "sampled", cards=played_by(Watching))
    assert {beaten for beaten, _ in policies} == {None}


def test_a_search_ends_where_nothing_better_is_likely(made):
    outcome = made("strategy: surrogate, evaluations: 1000, candidates: 0, batch: 1, stop: {odds: 0.9, better: 0.5}")
    (ending,) = outcome.run.search.endings
    assert "the odds that one of the" in ending
    assert len(outcome.run.search.order) < POINTS


def test_time_is_a_budget_too(made):
    outcome = made("strategy: annealing, seconds: 1e-9, stop: null")
    (ending,) = outcome.run.search.endings
    assert "s had passed" in ending
    assert len(outcome.run.search.order) >= 1


def test_without_a_gpu_candidates_are_predicted_and_nothing_is_searched(made):
    outcome = made("strategy: prior, evaluations: 4", find_cards=no_gpu)
    assert len(outcome.records) == POINTS
    assert outcome.run.search.order == ()
    assert "only predicted" in outcome.run.search.endings[0]


def test_times_from_elsewhere_are_a_prior(made, tmp_path):
    whole = made("strategy: exhaustive", "whole")
    slowest = max(whole.records, key=lambda record: record.measurement.samples.median)
    for name in ("times.json", "times.t4.json"):
        records = [replace(r, measurement=timed(r, 0.1)) if r is slowest else r for r in whole.records]
        write_tuned(tmp_path / name, whole.run, records)
        outcome = made(f"strategy: prior, evaluations: 2, known: {name}, stop: null", f"run {name}")
        first = next(r for r in outcome.records if r.variant == outcome.run.search.order[0])
        assert first.parameters == slowest.parameters
        assert len(outcome.records) == 2


def timed(record, ms):
    return replace(record.measurement, samples=replace(record.measurement.samples, ms=(ms,) * 3))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"cache": {"1": {"a": 1, "time": 1.0}}, "tune_params_keys": ["a"]}', "lacks parameters of the experiment"),
        ('{"cache": {"7": {"a": 7, "b": 7, "time": 1.0}}, "tune_params_keys": ["a", "b"]}', "has no point"),
        ("what", "not JSON"),
    ],
)
def test_times_of_another_space_are_refused(made, tmp_path, text, why):
    (tmp_path / "times.json").write_text(text)
    with pytest.raises(UserError, match=why):
        made("strategy: prior, evaluations: 2, known: times.json")


def test_options_are_an_axis(made):
    text = EXPERIMENT + "options: [[], [--maxrregcount=32], [-Xptxas=-O1]]\n"
    outcome = made("strategy: genetic, evaluations: 6, stop: null", text=text)
    assert len({record.options for record in outcome.records}) > 1
    assert len(outcome.records) == 6


def test_several_problems_are_searched_each(made):
    text = EXPERIMENT.replace("{m: 64,", "{m: [64, 96],")
    outcome = made("strategy: surrogate, evaluations: 3, stop: null", text=text)
    measured = [record.problem["m"] for record in outcome.records if record.measurement]
    assert (measured.count(64), measured.count(96), len(outcome.records)) == (3, 3, 2 * POINTS)
    assert len(outcome.run.search.endings) == 2


@pytest.mark.parametrize(
    ("search", "key"),
    [
        ("strategy: surrogate", "search.evaluations"),
        ("seed: 1", "search.sample"),
        ("sample: 5, evaluations: 3", "search.evaluations"),
        ("strategy: genetic, evaluations: 3, candidates: 4", "search.candidates"),
        ("strategy: genetic, evaluations: 3, sample: 4", "search.sample"),
        ("strategy: prior, evaluations: 3, candidates: 0", "search.candidates"),
    ],
)
def test_keys_of_another_strategy_are_refused(made, search, key):
    with pytest.raises(UserError) as error:
        made(search)
    assert key in str(error.value)


def test_what_is_pruned_costs_at_least_its_bound(made):
    records = made("strategy: exhaustive, evaluations: 1").records
    record = replace(records[0], status=Status.PRUNED, pruned_by=PruneRule.MEASUREMENT)
    assert cost_of(record, measuring=True) == pytest.approx(math.log(record.rate(1.0) / record.ceiling))
    assert cost_of(replace(record, pruned_by=PruneRule.SPILLS), measuring=True) == math.inf
    assert cost_of(records[0], measuring=True) == pytest.approx(math.log(records[0].measurement.samples.median))


def test_a_large_space_is_not_listed(tmp_path):
    (tmp_path / "mine.cu.j2").write_text(TEMPLATE)
    text = EXPERIMENT.replace("[1, 2, 3, 4]", "{range: [1, 1000, 1]}").replace(
        "[1, 2, 3, 4, 5]", "{range: [1, 900, 1]}"
    )
    text = text.replace("a + b <= 7", "a // 2 * 2 == a")
    experiment = from_text(text % "strategy: surrogate, evaluations: 9, candidates: 0", tmp_path / "e.yaml")
    assert experiment.search is not None
    searching = Searching(experiment, experiment.search)
    asked = searching.ask()
    assert len(asked) == 4
    assert all(searching.problem(i).point(place).parameters["a"] % 2 == 0 for i, place in asked)
