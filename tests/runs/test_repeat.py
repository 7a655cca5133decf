"""A run and its repetition: held against each other, each going on where it was, in two processes."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import StoreError, UserError
from lab.cli.progress import run_progress
from lab.measured.timing import CardState, Kind, Measurement, Samples
from lab.recorded.run_records import BuildRecord, RunRecord, Status, VariantRecord
from lab.runs.observer import RunObserver
from lab.runs.pipeline import RunOptions, run
from lab.runs.repeat import FOLDER, repeated, run_in_a_process, run_twice
from lab.store.database import Store
from lab.toolchain.base import Resources

RUN = RunRecord("e", "q", "gemm", {}, "", "", "2026", "0.1", "", "3.11", {}, None, "", {}, ("unroll",), 3)
BUILD = BuildRecord("nvrtc", "13.5", "c", Resources(64, 0, 0, 0, 0, 400, 1), "64", 0.1, cached=False, disassembler="d")
TEMPLATE = """{#---
summary: s
operator: gemm
entry: k
parameters: {first: {type: int, default: 0, help: h}}
grid: [1]
block: [32]
arguments: {m: int32, C: T*}
---#}
extern "C" __global__ void k(int m, {{ T }}* C) { C[threadIdx.x] = m * {{ first }}; }
"""
EXPERIMENT = """question: Does it?
operator: gemm
problem: {m: 64, n: 64, k: 64}
kernels:
  - {template: mine.cu.j2, parameters: {first: [1, 2, 3]}}
archs: [sm_90]
"""


def record(place, ms, *, status=Status.VERIFIED):
    noise = np.random.default_rng(place).normal(1, 0.001, 15)
    timed = Measurement(Samples(tuple(ms * noise)), Samples((1.0,) * 15), "cublas", "cold", CardState(), CardState())
    made = VariantRecord(
        f"v{place}", "k", f"unroll={place}", "t", {"unroll": place}, {"m": 64}, "sm_90", status, "", 10**9, 1,
        build=BUILD,
    )  # fmt: skip
    return made if status.failed else replace(made, measurement=timed)


def pair(*times):
    """Two runs of variants with times (first, second) in ms, beside a baseline of 1 ms."""
    runs = [[record(place, ms[which]) for place, ms in enumerate(times)] for which in (0, 1)]
    return (RUN, runs[0]), (replace(RUN, started="2027"), runs[1])


def test_the_difference_of_every_figure_that_ranks():
    comparison = repeated(*pair((2.0, 1.0), (4.0, 4.0), (8.0, 8.0), (16.0, 20.0)))
    throughput, ratio = comparison.figures
    assert (throughput.name, throughput.kind, throughput.variants) == ("throughput", Kind.MEASURED, 4)
    assert throughput.largest == pytest.approx(1.0, abs=0.01)
    assert throughput.worst == "v0"
    assert throughput.equal == 2
    assert throughput.median == pytest.approx(0.1, abs=0.01)
    assert throughput.shift == pytest.approx(0.0, abs=0.001)
    assert ratio.name == "ratio to the baseline"
    assert ratio.largest == pytest.approx(throughput.largest)
    assert comparison.differences["v3"] == pytest.approx(16 / 20 - 1, abs=0.001)
    assert comparison.rank_correlation == pytest.approx(1.0)
    assert (comparison.winners, comparison.same_winners, comparison.outside) == (1, 1, 2)
    assert (comparison.same_code, comparison.same_status, comparison.variants, comparison.started) == (4, 4, 4, "2027")


def test_another_winner_and_a_variant_that_failed_the_second_time():
    first, second = pair((2.0, 3.0), (2.5, 2.5), (4.0, 4.0))
    second[1][2] = record(2, 4.0, status=Status.NOT_EXECUTED)
    comparison = repeated(first, second)
    assert (comparison.winners, comparison.same_winners, comparison.rank_correlation) == (1, 0, None)
    assert comparison.same_status == 2
    assert comparison.differences.keys() == {"v0", "v1"}


def test_runs_without_a_common_variant_cannot_be_compared():
    with pytest.raises(UserError, check=coded("nothing-left", found="1 and 1 variants")):
        repeated((RUN, [record(1, 2.0)]), (RUN, [record(2, 2.0)]))


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "mine.cu.j2").write_text(TEMPLATE)
    file = tmp_path / "small.yaml"
    file.write_text(EXPERIMENT)
    return file


def test_in_two_processes_without_a_gpu(experiment, tmp_path):
    options = RunOptions(output=tmp_path / "out", jobs=1, measure=False)
    outcome = run_twice(experiment, options, run_progress)
    with Store(outcome.folder) as first, Store(outcome.folder / FOLDER) as second:
        comparison = first.repeat()
        assert first.noted("state")["finished"]
        assert second.noted("state")["finished"]
        one, other = first.records(), second.records()
    assert [r.variant for r in one] == [r.variant for r in other]
    assert all(record.build.cached for record in other)
    assert comparison.not_measured == "Nothing was measured: --no-gpu was given."
    assert comparison.variants == comparison.same_code == comparison.same_status == 3
    assert {figure.kind for figure in comparison.figures} == {Kind.PREDICTED}
    assert all(figure.equal == figure.variants == 3 for figure in comparison.figures)
    page = (outcome.folder / "index.html").read_text(encoding="utf-8")
    assert "is the same for all 3 variants. No times were compared" in page
    assert 'href="repeat/index.html"' in page
    assert (outcome.folder / FOLDER / "index.html").is_file()
    assert "run_to_run" in (outcome.folder / "records.csv").read_text().split("\n", 1)[0]
    derived = json.loads((outcome.folder / "records.json").read_text())["records"][0]["derived"]
    assert derived["run_to_run"] == 0


def here(file, options, watch):
    """The second run in this process, which tests can watch."""
    with watch() as observer:
        return run(file, options, observer).interrupted


class Impatient(RunObserver):
    def recorded(self, record):
        raise KeyboardInterrupt


def test_what_was_interrupted_goes_on_and_is_not_repeated(experiment, tmp_path):
    options = RunOptions(output=tmp_path / "out", jobs=1, measure=False)

    def impatiently(file, opts, watch):
        return here(file, opts, lambda: nullcontext(Impatient()))

    first = run_twice(experiment, options, lambda: nullcontext(RunObserver()), again=impatiently)
    assert first.interrupted
    assert "the same command continues it" in first.run.notes[-1]
    with Store(tmp_path / "out") as store:
        assert store.count() == 3
        assert store.repeat() is None
        assert not store.noted("state")["finished"]
    with Store(tmp_path / "out" / FOLDER) as store:
        assert store.count() == 1

    class Counting(RunObserver):
        built_variants = 0

        def built(self, planned, outcome):
            Counting.built_variants += 1

    second = run_twice(experiment, options, lambda: nullcontext(Counting()), again=here)
    assert not second.interrupted
    assert Counting.built_variants == 2
    assert not any("continues it" in note for note in second.run.notes)
    with Store(tmp_path / "out") as store:
        assert store.repeat().variants == 3


def test_a_new_run_has_a_new_repetition(experiment, tmp_path):
    options = RunOptions(output=tmp_path / "out", jobs=1, measure=False)
    run_twice(experiment, options, lambda: nullcontext(RunObserver()), again=here)
    experiment.write_text(experiment.read_text() + "seed: 3\n")
    outcome = run_twice(experiment, options, lambda: nullcontext(RunObserver()), again=here)
    with Store(outcome.folder / FOLDER) as store:
        assert store.noted("state")["conditions"]["seed"] == 3
        assert store.count() == 3
    run(experiment, options)
    with Store(outcome.folder) as store:
        assert store.repeat() is None  # of a run that is no more


def test_a_second_process_that_is_killed_is_an_error_in_words(experiment, tmp_path):
    with pytest.raises(StoreError, match=r"second run was killed; .* continues the run, with --resume"):
        run_in_a_process(experiment, RunOptions(output=tmp_path / "out"), partial(os._exit, 9))
