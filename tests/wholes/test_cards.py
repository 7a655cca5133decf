"""A run on several cards, each of which is played: faults, cards that differ, finals. Nothing here was measured."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from gpu_jobs import measurement_of
from run_support import H200, DecidedSession, all_played, cards_of

from lab.base.errors import MissingToolError
from lab.gpu.process.job import JobResult, JobStage, Policy
from lab.gpu.process.localcards import LocalCards
from lab.measured.timing import Samples
from lab.recorded.run_records import Status, VariantRecord
from lab.report.render import render
from lab.runs.pipeline import RunOptions, run
from lab.store.database import Store
from lab.store.figures import ranked, response_of

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
  - {template: mine.cu.j2, parameters: {first: [1, 2, 3, 4, 5, 6, 7, 8]}}
archs: [sm_90]
toolchains: [nvrtc]
baselines: [cublas]
"""


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "mine.cu.j2").write_text(TEMPLATE)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return tmp_path / "small.yaml"


class Session(DecidedSession):
    """A card: `slower` by a factor, with kernels that are `close` in time, or with a fault.

    It `falls off` with its third job, or every job `hangs`.
    """

    def __init__(self, slower=1.0, fault="", *, close=False):
        self.slower, self.fault, self.close_times, self.jobs, self.alive = slower, fault, close, [], True

    @property
    def process_id(self):  # type: ignore[override]
        return 1 if self.alive else None

    def start(self):
        if self.fault == "gone":
            raise MissingToolError("all CUDA-capable devices are busy or unavailable")
        self.alive = True
        return H200

    def restart(self):
        self.alive = False
        return self.start()

    def run(self, job, policy):
        if self.fault == "gone":
            return JobResult(job.variant).failed(JobStage.CRASH, "a new worker could not start")
        self.start()
        self.jobs.append((job.variant, policy.max_samples))
        if self.fault == "falls off" and len(self.jobs) == 3:
            self.fault, self.alive = "gone", False
            return JobResult(job.variant).failed(JobStage.LAUNCH, "CUDA error: unspecified launch failure")
        if self.fault == "hangs":
            self.alive = False
            return JobResult(job.variant).failed(JobStage.TIMEOUT, "timed out after 30 s (launch)")
        result = super().run(job, policy)
        timed = measurement_of(result)
        if self.close_times:  # within a hundredth of each other
            near = tuple(1 + (ms - 1) / 100 for ms in timed.samples.ms)
            timed = replace(timed, samples=replace(timed.samples, ms=near))
        samples, baseline = (
            Samples(tuple(ms * self.slower for ms in one.ms)) for one in (timed.samples, timed.baseline) if one
        )
        return replace(result, measurement=replace(timed, samples=samples, baseline=baseline))


def on(experiment, folder, *sessions, **options):
    """Run on as many cards as there are sessions."""
    cards = cards_of(len(sessions))
    by_id = {card.id: session for card, session in zip(cards, sessions, strict=True)}

    def found(*, measure, every=False, model=""):
        return cards if every else cards[:1], ""

    services = all_played(find_cards=found, cards=partial(LocalCards, session=lambda card: by_id[card.id]))
    return run(experiment, RunOptions(output=folder, jobs=1, cluster="local", **options), None, services)


def alike(records):
    """Return the fields two runs must agree on: all but times. Each ratio comes from a single card."""
    return [(r.variant, r.status, r.reason, round(r.measurement.ratio_to_baseline, 9)) for r in records]


def winners(outcome):
    """The best variant of each problem."""
    groups: dict[object, list[VariantRecord]] = {}
    for record in outcome.records:
        groups.setdefault(record.problem["m"], []).append(record)
    return {m: ranked(tuple(own), response_of(tuple(own)))[0] for m, own in groups.items()}


@pytest.fixture
def one(experiment, tmp_path):
    """The run on one card."""
    return on(experiment, tmp_path / "one", Session())


def test_two_cards_make_the_records_of_one_and_the_best_meet_on_one_card(experiment, tmp_path, one):
    two = on(experiment, tmp_path / "two", Session(), Session())
    assert alike(two.records) == alike(one.records)
    assert {record.measurement.card for record in one.records} == {"GPU-a"}
    assert one.run.cards == ()
    assert sum(card.variants for card in two.run.cards) == 16
    assert {m: best.variant for m, best in winners(two).items()} == {m: r.variant for m, r in winners(one).items()}
    for record in winners(two).values():
        assert record.measurement.remeasured is not None
    assert not any(record.measurement.doubt for record in two.records)


def test_a_slower_card_is_named_its_rows_are_marked_and_it_wins_nothing_unseen(experiment, tmp_path, one):
    slow = Session(slower=1.05)
    two = on(experiment, tmp_path / "two", Session(), slow)
    a, b = two.run.cards
    assert (a.differs, b.control) == ("", pytest.approx(1.05))
    (note,) = [text for text in two.run.notes if "differs" in text]
    assert "GPU 1 differs from the other cards: the same variants take 5.0% longer there" in note
    for record in two.records:
        timed = record.measurement
        assert bool(timed.doubt) is (timed.card == "GPU-b")
    assert alike(two.records) == alike(one.records)  # ratios are of one card each
    best = winners(two)
    assert {m: record.variant for m, record in best.items()} == {m: r.variant for m, r in winners(one).items()}
    assert {record.measurement.card for record in best.values()} == {"GPU-a"}


def test_finalists_take_turns_on_one_card(experiment, tmp_path):
    experiment.write_text(EXPERIMENT.replace("m: [64, 96]", "m: 64"))
    sessions = (Session(close=True), Session(slower=1.001, close=True))
    two = on(experiment, tmp_path / "two", *sessions)
    finals = [record for record in two.records if record.measurement.sweep]
    assert finals
    for record in finals:
        timed = record.measurement
        assert len(timed.samples.ms) == 9  # three rounds
        assert timed.sweep.samples.n == 3
        assert any("timed again on one card" in note for note in timed.notes)
    (best,) = winners(two).values()
    assert best.measurement.sweep
    assert len({record.measurement.card for record in finals}) == 1
    (order,) = filter(
        None, ([variant for variant, most in session.jobs if most < Policy().max_samples] for session in sessions)
    )
    assert order == order[: len(finals)] * 3
    assert {*order} == {record.variant for record in finals}


def test_a_card_that_falls_off_costs_no_row(experiment, tmp_path, one):
    two = on(experiment, tmp_path / "two", Session(), Session(fault="falls off"))
    assert alike(two.records) == alike(one.records)
    assert any(text.startswith("GPU 1 was lost: all CUDA-capable devices are busy") for text in two.run.notes)
    assert len(two.records) == len({record.variant for record in two.records}) == 16


def test_a_card_that_hangs_costs_no_row(experiment, tmp_path, one):
    two = on(experiment, tmp_path / "two", Session(), Session(fault="hangs"))
    assert alike(two.records) == alike(one.records)
    assert any(text.startswith("GPU 1 was lost: 2 kernels that hung there") for text in two.run.notes)


def test_the_last_card_that_falls_off_leaves_failed_rows_as_a_single_one_does(experiment, tmp_path):
    two = on(experiment, tmp_path / "two", Session(fault="falls off"), Session(fault="falls off"))
    statuses = [record.status for record in two.records]
    assert statuses.count(Status.PARTIAL) >= 3
    assert set(statuses) == {Status.PARTIAL, Status.NOT_EXECUTED}
    assert len(two.records) == 16


def test_a_run_goes_on_with_another_number_of_cards(experiment, tmp_path, one):
    class Stops(Session):
        def run(self, job, policy):
            if len(self.jobs) == 4:
                raise KeyboardInterrupt
            return super().run(job, policy)

    first = on(experiment, tmp_path / "run", Stops(), Session())
    assert first.interrupted
    assert 0 < len(first.records) < 16
    second = on(experiment, tmp_path / "run", Session(), resume=True)
    assert alike(second.records) == alike(one.records)
    assert {m: best.variant for m, best in winners(second).items()} == {m: r.variant for m, r in winners(one).items()}


def test_the_page_names_the_cards(experiment, tmp_path):
    two = on(experiment, tmp_path / "two", Session(), Session(slower=1.05))
    with Store(two.folder) as store:
        render(store)
    text = (two.folder / "index.html").read_text()
    assert "GPU 1 differs from the other cards" in text
    header, *rows = (two.folder / "records.csv").read_text().splitlines()
    assert {"card", "card_differs"} <= set(header.split(","))
    assert len(rows) == 16
