"""The facts of a run as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.experiment.load import load
from lab.experiment.space import expand
from lab.gpu.process.job import BaselineResult, JobResult
from lab.measured.timing import CardState, Measurement, Samples
from lab.stages.run_facts import baseline_fact, facts_of, left_out, shared_fields

TEMPLATE = """{#---
summary: s
operator: gemm
entry: k
parameters: {first: {type: int, default: 0, help: h}}
grid: [1]
block: [32]
arguments: {m: int32, C: T*}
---#}
extern "C" __global__ void k(int m, {{ T }}* C) { C[threadIdx.x] = m; }
"""
EXPERIMENT = """question: Does it?
operator: gemm
problem: {m: [64, 96], n: 64, k: 64}
kernels:
  - {template: mine.cu.j2, parameters: {first: [1, 2, 3, 4]}, constraints: ["first != 3"]}
archs: [sm_90]
"""


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "mine.cu.j2").write_text(TEMPLATE)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return tmp_path / "small.yaml"


def facts(file, **values):
    read = load(file)
    given = {"command": "", "variants": 6, "gpu": None, "not_measured": "no GPU", **values}
    return facts_of(read, expand(read), **given)


def test_what_was_asked_and_what_was_left_out(experiment):
    found = facts(experiment)
    assert (found.experiment, found.question, found.operator) == ("small", "Does it?", "gemm")
    assert found.source == EXPERIMENT
    assert (found.variants, found.swept, found.problem_axes) == (6, ("first",), ("m",))
    assert (found.not_measured, found.gpu, found.search) == ("no GPU", None, None)
    note, executed = found.notes
    assert note.startswith("2 combinations were left out by: ")
    assert "first != 3" in note
    assert executed.startswith("The CPU executes nothing, so no output is verified and no time is estimated")
    assert executed.endswith("Add, for instance, emulate: {m: 64, n: 64, k: 64}.")
    assert facts(experiment, emulate=False).notes == (note,)


def test_the_command_is_the_one_given_or_one_that_repeats_the_run(experiment):
    assert facts(experiment, command="lab run x").command == "lab run x"
    assert facts(experiment).command == f"python -m lab run {experiment}"


def test_a_search_is_described(experiment):
    experiment.write_text(EXPERIMENT + "search: {sample: 2, seed: 5}\n")
    search = facts(experiment, variants=4).search
    assert (search.combinations, search.seed, search.rounds) == (4, 5, (4,))
    assert search.drawn >= 2
    assert (search.strategy, search.candidates) == ("random", 0)


@pytest.mark.parametrize(
    ("rules", "candidates"),
    [("strategy: surrogate", 4), ("strategy: surrogate, candidates: 0", 0), ("strategy: annealing", 0)],
)
def test_a_strategy_that_predicts_its_candidates_counts_them(experiment, rules, candidates):
    experiment.write_text(EXPERIMENT + f"search: {{{rules}, evaluations: 2, seed: 5}}\n")
    read = load(experiment)
    drawn = replace(expand(read), drawn=5)
    found = facts_of(read, drawn, command="", variants=4, gpu=None, not_measured="no GPU")
    assert found.search is not None
    assert (found.search.candidates, found.search.drawn) == (candidates, 5)


def test_fields_that_differ_between_problems_are_not_shared(experiment):
    shared = shared_fields(load(experiment))
    assert "m" not in shared
    assert (shared["n"], shared["k"]) == (64, 64)


def test_a_baseline_is_described_by_what_is_known_of_it():
    assert baseline_fact(BaselineResult("cublas")) == "cublas"
    assert baseline_fact(BaselineResult("cublas", "libcublas 13", "sgemm")) == "cublas (libcublas 13, sgemm)"
    assert baseline_fact(BaselineResult("torch", note="eager")) == "torch (eager)"


def test_baselines_that_are_missing_are_named_with_the_reason():
    card = CardState()
    timed = Measurement(
        Samples((1.0,)), Samples((2.0,)), "copy", "cold", card, card, others={"triton": Samples((1.5,))}
    )
    result = JobResult(
        "v",
        measurement=timed,
        baseline=BaselineResult("copy", "16-byte copy"),
        others=(BaselineResult("torch", note="torch cannot be imported here"), BaselineResult("triton", "triton 3")),
    )
    assert left_out(result) == ("The baseline torch was left out: torch cannot be imported here.",)
    assert left_out(JobResult("v")) == ()
