"""Variants on their way through played stages: no process, no GPU, no compiler."""

from __future__ import annotations

import itertools
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, cast

import pytest
from run_support import H200, DecidedSession, InProcess, Later, cards_of

from lab.base.errors import LabError, MissingToolError
from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.gpu.process.cards import Cards, Ran
from lab.recorded.run_records import Status
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.runs.observer import RunObserver
from lab.runs.recorder import Recorder
from lab.runs.sweep import Sweep
from lab.stages.build import BuildFailure
from lab.stages.executed import execution
from lab.store.database import Store
from lab.toolchain.base import Toolchain
from lab.toolchain.select import toolchain

TEMPLATE = """{#---
summary: s
operator: gemm
entry: k
parameters: {first: {type: int, default: 0, help: h}}
grid: [1]
block: [32]
arguments: {m: int32, C: T*}
---#}
extern "C" __global__ void k(int m, {{ T }}* C) { C[threadIdx.x] = m + {{ first }}; }
"""
EXPERIMENT = """question: Does it?
operator: gemm
problem: {m: [64, 96], n: 64, k: 64}
kernels:
  - {template: mine.cu.j2, parameters: {first: [1, 2, 3]}}
archs: [sm_90]
"""


class Compiler:
    name, version = "played", "1"

    def supports(self, arch):
        return True


def refuse(tasks):
    return [BuildFailure("refused") for _ in tasks]


@pytest.fixture
def context(tmp_path):
    (tmp_path / "mine.cu.j2").write_text(TEMPLATE)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return FlowContext(load(tmp_path / "small.yaml"), None, emulate=True)


@pytest.fixture
def planned(context):
    return plan(context.experiment, expand(context.experiment).points, [cast("Toolchain", Compiler())], ["sm_90"])


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "out", create=True) as opened:
        yield opened


def test_problems_with_the_same_code_are_built_once_and_every_variant_has_a_record(context, planned, store):
    executor = InProcess()
    with Recorder(store, RunObserver()) as recorder:
        Sweep(context, recorder, executor, None, function=refuse).work(planned, {})
    assert sum(len(args[0]) for _, args, _ in executor.submitted) in {3, 6}  # in flight together, or one by one
    assert [(r.variant, r.status, r.reason) for r in store.records()] == [
        (one.variant, Status.COMPILE_FAILED, "refused") for one in planned
    ]
    assert store.read_file(planned[0].variant, "build.log") == b"refused"


def test_a_few_builds_run_ahead_and_no_more(context, planned, store):
    class FullError(LabError):
        pass

    class Stops(Later):
        def submit(self, function, *args, timeout_s):
            future = super().submit(function, *args, timeout_s=timeout_s)
            if len(self.futures) == 2:
                future.set_exception(FullError())
            return future

    executor = Stops(jobs=1)
    with Recorder(store, RunObserver()) as recorder, pytest.raises(FullError):
        Sweep(context, recorder, executor, None).work(planned, {})
    assert len(executor.futures) == 2


def test_records_of_an_earlier_run_are_taken_as_they_are(context, planned, store):
    with Recorder(store, RunObserver()) as recorder:
        Sweep(context, recorder, InProcess(), None, function=refuse).work(planned, {})
    done = {one.variant: replace(one, reason="as it was") for one in store.records()[:4]}
    executor = InProcess()
    with Recorder(store, RunObserver()) as recorder:
        Sweep(context, recorder, executor, None, function=refuse).work(planned, done)
    built = {task.request.source for _, args, _ in executor.submitted for task in args[0]}
    assert len(built) == 2


def test_the_round_of_a_search_is_recorded(context, planned, store):
    with Recorder(store, RunObserver()) as recorder:
        sweep = Sweep(context, recorder, InProcess(), None, function=refuse)
        sweep.work(planned[:2], {}, searched=0)
        sweep.work(planned[2:], {}, searched=1)
    assert [record.round for record in store.records()] == [0, 0, 1, 1, 1, 1]


def test_a_missing_compiler_ends_the_run(context, planned, store):
    def missing(tasks):
        raise MissingToolError("there is no nvdisasm")

    with Recorder(store, RunObserver()) as recorder, pytest.raises(MissingToolError):
        Sweep(context, recorder, InProcess(), None, function=missing).work(planned, {})


class PlayedCards:
    """A GPU that answers at once."""

    cards = cards_of(1)

    def __init__(self, error=None):
        self.error, self.jobs, self.session = error, [], DecidedSession()

    def submit(self, job, policy, *, card):
        self.jobs.append(job)
        future: Future[Any] = Future()
        if self.error:
            future.set_exception(self.error)
        else:
            future.set_result(Ran(self.session.run(job, policy), card, 1))
        return future


def inspected_only(monkeypatch):
    """Variants whose builds failed go on as if they had not: no stage here looks at their code."""
    inspect = flow.inspect

    def as_if_built(*args):
        made = inspect(*args)
        return replace(made, record=replace(made.record, status=Status.INSPECTED, reason=""), cubin=b"cubin")

    monkeypatch.setattr(flow, "inspect", as_if_built)


def test_the_gpu_takes_one_problem_after_another(context, planned, store, monkeypatch):
    inspected_only(monkeypatch)
    cards = PlayedCards()
    with Recorder(store, RunObserver()) as recorder:
        sweep = Sweep(replace(context, gpu=H200), recorder, InProcess(), cast("Cards", cards), function=refuse)
        sweep.work(planned, {})
    assert [record.status for record in store.records()] == [Status.PARTIAL] * 6
    order = [job.problem["m"] for job in cards.jobs]
    assert sorted(order) == [64, 64, 64, 96, 96, 96]
    assert sum(one != other for one, other in itertools.pairwise(order)) <= 2  # the first two come before the others
    assert store.noted("baselines") == dict.fromkeys(["m=64", "m=96"], "cublas (libcublas 13)")


def test_a_gpu_worker_that_cannot_start_leaves_inspected_records(context, planned, store, monkeypatch):
    inspected_only(monkeypatch)
    cards = PlayedCards(MissingToolError("PyCUDA is broken"))
    with Recorder(store, RunObserver()) as recorder:
        sweep = Sweep(replace(context, gpu=H200), recorder, InProcess(), cast("Cards", cards), function=refuse)
        sweep.work(planned, {})
    assert sweep.not_measured == "Nothing was measured: PyCUDA is broken"
    assert [record.status for record in store.records()] == [Status.INSPECTED] * 6


def test_problems_with_equal_emulations_are_executed_once(context, tmp_path, store):
    """Two problems, one emulated size: the second problem's variants take the first one's executions.

    Of so many variants, the first alone is executed at the size of its own problem, too.
    """
    (tmp_path / "small.yaml").write_text(EXPERIMENT + "emulate: {m: 32, n: 1, k: 1}\n")
    context = replace(context, experiment=load(tmp_path / "small.yaml"), variants=10_000)
    planned = plan(context.experiment, expand(context.experiment).points, [toolchain("nvrtc")], ["sm_90"])
    executor, observer = InProcess(), Listing()
    with Recorder(store, observer) as recorder:
        sweep = Sweep(context, recorder, executor, None)
        sweep.work(planned[:3], {})
        sweep.work(planned[3:], {})  # when those of the first problem are done
    assert sum(function is execution for function, _, _ in executor.submitted) == 4
    assert len(planned) == len(store.records()) == 6
    assert all(record.emulation is not None for record in store.records())
    assert sorted(observer.executions) == sorted(one.variant for one in planned)


class Listing(RunObserver):
    def __init__(self):
        self.executions = []

    def executed(self, record):
        assert record.emulation is not None
        self.executions.append(record.variant)
