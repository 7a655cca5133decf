"""Cards that are played, each on its own thread; and one that is real but for the device."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future

import pytest
from fake_device import FakeDevice
from gpu_jobs import QUIET, KilledOnce, job

from lab.base.errors import MissingToolError
from lab.gpu.process.cards import Card, Ran
from lab.gpu.process.job import JobResult, JobStage
from lab.gpu.process.localcards import STRIKES, SWITCH_S, LocalCards
from lab.gpu.process.session import GpuSession
from lab.gpu.timing.survey import Entrant, Ground, Survey, SurveyPoint, SurveyPolicy
from lab.templates.launches import Launches

GPU = FakeDevice().describe()
ORDER = Survey(Ground("float32", (1, 1, 1), 0, 0), {}, (Entrant("a", Launches(())),), False, SurveyPolicy())


def card(name):
    return Card(f"GPU-{name}", "", "", GPU, f"GPU {name}")


class Session(GpuSession):
    """Does what its card's behaviour says: `well`, `absent`, `falls off` (with its second job) or `hangs`."""

    def __init__(self, behaviour="well"):
        super().__init__(FakeDevice)
        self.behaviour, self.ran, self.alive = behaviour, [], False
        self.hold = threading.Event()
        self.hold.set()

    @property
    def process_id(self):
        return 1 if self.alive else None

    def start(self, timeout=0.0):
        if self.behaviour in {"absent", "gone"}:
            raise MissingToolError("all CUDA-capable devices are busy or unavailable")
        self.workers += not self.alive
        self.alive = True
        return GPU

    def restart(self):
        self.alive = False
        return self.start()

    def run(self, job, policy):
        self.hold.wait(60)
        self.start()
        self.ran.append(job.variant)
        if self.behaviour == "falls off" and len(self.ran) > 1:
            self.behaviour, self.alive = "gone", False
            return JobResult(job.variant).failed(JobStage.LAUNCH, "CUDA error: unspecified launch failure")
        if self.behaviour == "hangs" or job.launches.steps[0].entry == "hangs":
            self.alive = False
            return JobResult(job.variant).failed(JobStage.TIMEOUT, "timed out after 30 s (launch)")
        return JobResult(job.variant)

    def survey(self, order, cubins):
        self.ran.append("survey")
        if self.behaviour == "hangs":
            return (SurveyPoint("a", failure="timed out after 60 s", silent=True),)
        return (SurveyPoint("a"),)

    def close(self):
        self.alive = False

    def __exit__(self, kind, error, trace):
        self.hold.set()
        self.alive = False


def playing(**behaviours):
    """Cards by their behaviours, and their sessions."""
    sessions = {f"GPU-{name}": Session(behaviour) for name, behaviour in behaviours.items()}
    return LocalCards([card(name) for name in behaviours], lambda one: sessions[one.id]), sessions


def test_the_threads_of_cards_need_not_wait_for_one_that_computes():
    before = sys.getswitchinterval()
    with LocalCards([card("a")], lambda _: Session()):
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    assert sys.getswitchinterval() == before


def test_jobs_go_to_the_card_with_the_least_to_do_or_to_the_one_that_is_named():
    cards, sessions = playing(a="well", b="well")
    for session in sessions.values():
        session.hold.clear()
    with cards:
        futures = [cards.submit(job(), QUIET) for _ in range(4)]
        named = [cards.submit(job(), QUIET, card="GPU-b") for _ in range(2)]
        for session in sessions.values():
            session.hold.set()
        assert sorted(future.result().card for future in futures) == ["GPU-a", "GPU-a", "GPU-b", "GPU-b"]
        assert {one.result().card for one in named} == {"GPU-b"}


def test_a_job_in_a_fresh_worker_has_the_next_number():
    cards, _ = playing(a="well")
    with cards:
        ran = [cards.submit(job(), QUIET, fresh=fresh).result() for fresh in (False, True, False)]
    assert [(one.worker, one.card) for one in ran] == [(1, "GPU-a"), (2, "GPU-a"), (2, "GPU-a")]


def test_what_a_lost_card_had_not_finished_goes_to_the_others():
    cards, sessions = playing(a="falls off", b="well")
    sessions["GPU-b"].hold.clear()
    with cards:
        futures = [cards.submit(job(), QUIET, card="GPU-a") for _ in range(5)]
        assert futures[0].result().card == "GPU-a"
        sessions["GPU-b"].hold.set()
        ran = [future.result() for future in futures]
        assert [one.result.failure for one in ran] == [None] * 5
        assert [one.card for one in ran] == ["GPU-a"] + ["GPU-b"] * 4
        assert [card.id for card in cards.cards] == ["GPU-b"]
    (note,) = cards.notes
    assert note == (
        "GPU a was lost: all CUDA-capable devices are busy or unavailable. Its unfinished jobs went to the other cards."
    )


def test_a_card_that_never_starts_is_lost_and_the_error_is_told_only_where_no_card_starts():
    cards, _ = playing(a="absent", b="well")
    with cards:
        assert [cards.submit(job(), QUIET).result().card for _ in range(3)] == ["GPU-b"] * 3
    cards, _ = playing(a="absent", b="absent")
    with cards:
        futures = [cards.submit(job(), QUIET) for _ in range(3)]
        for future in futures:
            with pytest.raises(MissingToolError, match="busy or unavailable"):
                future.result()


def test_a_card_on_which_everything_hangs_is_lost_and_a_kernel_that_hangs_is_not_its_fault():
    cards, sessions = playing(a="hangs", b="well")
    with cards:
        ran = [cards.submit(job(), QUIET, card="GPU-a").result() for _ in range(STRIKES + 1)]
        assert [(one.card, one.result.failure) for one in ran] == [("GPU-b", None)] * (STRIKES + 1)
        assert len(sessions["GPU-a"].ran) == STRIKES
        assert "GPU a was lost: 2 kernels that hung there ran on another card" in cards.notes[0]
    cards, _ = playing(a="well", b="well")
    with cards:
        for _ in range(2 * STRIKES):
            assert cards.submit(job("hangs"), QUIET).result().result.failure.stage is JobStage.TIMEOUT
        assert len(cards.cards) == 2


def test_a_kernel_that_hung_on_two_cards_is_not_tried_on_a_second_one_again():
    cards, sessions = playing(a="hangs", b="hangs")
    with cards:
        for _ in range(3):
            (point,) = cards.survey(ORDER, {}, card="GPU-a").result().points
            assert point.silent
        assert (sessions["GPU-a"].ran, sessions["GPU-b"].ran) == (["survey"] * 3, ["survey"])


def test_surveys_name_their_card():
    cards, _ = playing(a="well", b="well")
    with cards:
        assert cards.survey(ORDER, {}, card="GPU-b").result().card == "GPU-b"


def test_released_cards_start_new_workers():
    cards, sessions = playing(a="well", b="well")
    with cards:
        for name in sessions:
            cards.submit(job(), QUIET, card=name).result()
        cards.release()
        assert [session.alive for session in sessions.values()] == [False, False]
        assert cards.submit(job(), QUIET, card="GPU-a").result().worker == 2


def test_an_exception_drops_what_waits_on_every_card():
    cards, sessions = playing(a="well", b="well")
    futures: list[Future[Ran]] = []
    for session in sessions.values():
        session.hold.clear()

    def interrupted():
        with cards:
            futures.extend(cards.submit(job(), QUIET) for _ in range(6))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [future.cancelled() for future in futures[2:]] == [True] * 4
    assert cards.notes == ()


def test_real_workers_run_side_by_side():
    with LocalCards([card("a"), card("b")], lambda _: GpuSession(FakeDevice)) as cards:
        ran = [cards.submit(job(ms=ms), QUIET, card=name) for ms, name in ((4, "GPU-a"), (5, "GPU-b"), (6, "GPU-a"))]
        found = [(one.result().card, one.result().result.measurement.samples.median) for one in ran]
    assert found == [("GPU-a", 4.0), ("GPU-b", 5.0), ("GPU-a", 6.0)]


def test_a_killed_worker_costs_neither_its_job_nor_its_card():
    starters = {"GPU-a": KilledOnce("launch"), "GPU-b": KilledOnce("measurement")}
    with LocalCards([card("a"), card("b")], lambda one: GpuSession(FakeDevice, starters[one.id])) as cards:
        ran = [cards.submit(job(), QUIET, card=name).result() for name in starters]
        assert [(one.card, one.worker, one.result.failure) for one in ran] == [("GPU-a", 2, None), ("GPU-b", 2, None)]
        assert len(cards.cards) == 2
    assert [len(starter.killed) for starter in starters.values()] == [1, 1]
