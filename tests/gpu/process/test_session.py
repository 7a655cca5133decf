"""The session: with scripted workers, and with real worker processes on the fake device. No test waits for time."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest
from fake_device import AbsentDevice, FakeDevice, SlowToOpen
from gpu_jobs import QUIET, KilledOnce, job

from lab.base.errors import MissingToolError
from lab.gpu.process.job import JobResult, JobStage
from lab.gpu.process.messages import Progress, Ready, Reply, SurveyReply, Unusable
from lab.gpu.process.session import GpuSession
from lab.gpu.process.worker_link import WorkerEndedError, WorkerSilentError
from lab.gpu.timing.survey import BASELINE, Entrant, Ground, Survey, SurveyPoint, SurveyPolicy
from lab.templates.launches import Launches

GPU = FakeDevice().describe()
DONE = Reply(JobResult("v1"), usable=True)


class Worker:
    """Says what it is told to say, one item for each `receive`; exceptions are raised, callables are called."""

    process_id = 1

    def __init__(self, *script):
        self.script, self.sent, self.waited, self.ends = [Ready(GPU), *script], [], [], []

    def is_alive(self):
        return not self.ends

    def send(self, message, activity=""):
        self.sent.append(message)

    def receive(self, limit, activity):
        self.waited.append((limit, activity))
        says = self.script.pop(0)
        if isinstance(says, BaseException):
            raise says
        return says() if callable(says) else says

    def stop(self):
        self.ends.append("stopped")

    def kill(self):
        self.ends.append("killed")


def scripted(*workers):
    """A session whose workers follow scripts."""
    waiting = iter(workers)
    return GpuSession(FakeDevice, lambda backend: next(waiting))


def killed():
    return WorkerEndedError("worker ended by signal 9 (SIGKILL) (launch)", killed=True)


def test_a_worker_is_started_once_and_stopped_in_the_end():
    worker = Worker()
    with scripted(worker) as session:
        before = session.process_id
        assert before is None
        assert session.start() == session.start() == GPU
        assert (session.workers, session.process_id) == (1, 1)
    assert worker.ends == ["stopped"]


def test_the_limit_is_that_of_the_stage():
    policy = replace(QUIET, timeout_s=30.0, host_timeout_s=900.0)
    worker = Worker(Progress("reference", on_host=True), Progress("launch", on_host=False), DONE)
    with scripted(worker) as session:
        assert session.run(job(), policy) == DONE.result
    assert worker.waited == [(120.0, "starting"), (900.0, "inputs"), (900.0, "reference"), (30.0, "launch")]


def test_a_silent_worker_is_killed_and_replaced():
    silent = Worker(Progress("launch", on_host=False), WorkerSilentError("timed out after 30 s (launch)"))
    with scripted(silent, Worker(DONE)) as session:
        failure = session.run(job(), QUIET).failure
        assert (failure.stage, failure.reason) == (JobStage.TIMEOUT, "timed out after 30 s (launch)")
        assert session.run(job(), QUIET).failure is None
        assert session.workers == 2
    assert silent.ends == ["killed"]


def test_a_worker_that_another_process_kills_is_replaced_and_the_job_starts_again():
    with scripted(Worker(killed()), Worker(DONE)) as session:
        assert session.run(job(), QUIET).failure is None


def test_a_job_over_which_two_workers_are_killed_fails():
    launching = Progress("launch", on_host=False)
    with scripted(Worker(launching, killed()), Worker(launching, killed())) as session:
        failure = session.run(job(), QUIET).failure
    assert (failure.stage, failure.reason) == (JobStage.CRASH, "worker ended by signal 9 (SIGKILL) (launch)")


def test_a_worker_that_answers_that_it_is_unusable_is_killed():
    spent = Worker(Reply(JobResult("v1"), usable=False))
    with scripted(spent) as session:
        session.run(job(), QUIET)
    assert spent.ends == ["killed"]


@pytest.mark.parametrize("ask", ["run", "survey"])
def test_an_interrupt_kills_the_worker(ask):
    worker = Worker(KeyboardInterrupt())
    with scripted(worker) as session, pytest.raises(KeyboardInterrupt):
        session.run(job(), QUIET) if ask == "run" else session.survey(survey("a"), {"a": b"1"})
    assert worker.ends == ["killed"]


def test_if_the_first_worker_cannot_start_the_tool_is_missing():
    worker = Worker()
    worker.script = [Unusable("there is no GPU")]
    with scripted(worker) as session, pytest.raises(MissingToolError, match=r"^there is no GPU$"):
        session.run(job(), QUIET)
    assert worker.ends == ["killed"]


def test_if_a_later_worker_cannot_start_it_costs_one_job():
    absent = Worker()
    absent.script = [WorkerEndedError("worker ended with exit code 1 (starting)", killed=False)]
    with scripted(Worker(killed()), absent, Worker(DONE)) as session:
        failure = session.run(job(), QUIET).failure
        assert failure.stage is JobStage.CRASH
        assert failure.reason == (
            "a new worker could not start: the GPU worker did not start: worker ended with exit code 1 (starting)"
        )
        assert session.run(job(), QUIET).failure is None


def survey(*kernels, baseline=False):
    entrants = tuple(Entrant(name, Launches(())) for name in kernels)
    ground = Ground("float32", (64, 64, 64), 0, 0)
    return Survey(ground, {"m": 8, "n": 8, "k": 8}, entrants, baseline, SurveyPolicy(warmup_ms=0.0))


def points(*kernels):
    return SurveyReply(tuple(SurveyPoint(name) for name in kernels), usable=True)


def test_machine_code_is_sent_to_a_worker_once():
    first = Worker(points("a"), points("a", "b"), killed())
    second = Worker(points("a"))
    with scripted(first, second) as session:
        for names in (["a"], ["a", "b"]):
            session.survey(survey(*names), dict.fromkeys(names, b"code"))
        assert [dict(order.cubins) for order in first.sent] == [{"a": b"code"}, {"b": b"code"}]
        (point,) = session.survey(survey("a"), {"a": b"code"})
    assert "SIGKILL" in point.failure
    assert second.sent == []


def test_a_new_worker_is_sent_all_machine_code_again():
    bad = Progress("launch", on_host=False, subject="bad")
    workers = [Worker(points("a"), bad, killed()), Worker(points("a"))]
    with scripted(*workers) as session:
        session.survey(survey("a"), {"a": b"code"})
        session.survey(survey("a", "bad"), {"a": b"code", "bad": b"code"})
    assert [dict(order.cubins) for order in workers[1].sent] == [{"a": b"code"}]


@pytest.mark.parametrize(
    "error", [WorkerSilentError("timed out after 60 s (launch)"), WorkerEndedError("worker ended", killed=False)]
)
def test_a_kernel_that_costs_the_worker_gets_the_blame(error):
    first = Worker(Progress("launch", on_host=False, subject="bad"), error)
    with scripted(first, Worker(points("good", BASELINE))) as session:
        found = session.survey(survey("good", "bad", baseline=True), dict.fromkeys(("good", "bad"), b""))
    assert [(point.kernel, point.failure) for point in found] == [("bad", str(error)), ("good", ""), (BASELINE, "")]
    assert first.ends == ["killed"]


def test_a_baseline_that_costs_the_worker_is_left_out_the_next_time():
    first = Worker(Progress("launch of the baseline", on_host=False, subject=BASELINE), killed())
    second = Worker(points("a"))
    with scripted(first, second) as session:
        found = session.survey(survey("a", baseline=True), {"a": b""})
    assert [point.kernel for point in found] == [BASELINE, "a"]
    assert second.sent[0].baseline is False


def test_a_fault_of_no_kernel_in_particular_ends_the_survey():
    first = Worker(Progress("reference", on_host=False), killed())
    with scripted(first) as session:
        found = session.survey(survey("a", "b", baseline=True), {"a": b"", "b": b""})
    assert {point.kernel for point in found} == {"a", "b", BASELINE}
    assert all("SIGKILL" in point.failure for point in found)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def session():
    """A real worker process that a module's tests share."""
    with GpuSession(FakeDevice) as shared:
        shared.start()
        yield shared


@pytest.mark.parametrize(
    ("kernel", "policy", "stage", "reason"),
    [
        # nothing that waits for the device has any time: the kernel that hangs, or a stage before it, times out
        ("hangs", replace(QUIET, timeout_s=0.0), JobStage.TIMEOUT, "timed out after 0 s ("),
        ("aborts", QUIET, JobStage.CRASH, "worker ended by signal 11 (SIGSEGV) (launch)"),
        ("exits", QUIET, JobStage.CRASH, "worker ended with exit code 7 (launch)"),
        ("illegal", QUIET, JobStage.LAUNCH, "CUDA error: an illegal memory access was encountered"),
    ],
)
def test_what_costs_the_worker_costs_only_its_own_job(session, kernel, policy, stage, reason):
    session.start()
    lost = session.process_id
    result = session.run(job(kernel), policy)
    assert result.failure.stage is stage
    assert result.failure.reason.startswith(reason)
    assert not is_running(lost)
    after = session.run(job(), QUIET)
    assert after.failure is None
    assert after.measurement.ratio_to_baseline == 0.5
    assert session.process_id != lost


def test_an_operator_that_ends_the_worker_is_named(session):
    result = session.run(job(n=11), QUIET)
    assert result.failure.stage is JobStage.CRASH
    named = "fake_operator.py:Double ran there and may have ended it"
    assert result.failure.reason == f"worker ended with exit code 0 (inputs); {named}"
    assert session.run(job(), QUIET).failure is None


def test_a_killed_worker_process_is_replaced_and_the_job_starts_again():
    starter = KilledOnce("launch")
    with GpuSession(FakeDevice, starter) as session:
        session.start()
        lost = [session.process_id]
        assert session.run(job(), QUIET).failure is None
        assert (starter.killed, session.workers) == (lost, 2)


def test_a_failed_verification_keeps_the_worker(session):
    session.start()
    pid = session.process_id
    assert session.run(job("wrong"), QUIET).failure.stage is JobStage.VERIFY
    assert session.process_id == pid


def test_what_a_kernel_prints_stays_out_of_stdout(session, capfd):
    session.close()  # the worker inherits this test's stderr, not an earlier one's
    assert session.run(job("prints"), QUIET).failure is None
    session.close()  # the worker ends once its relay has written everything
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "printed by the kernel" in captured.err


def test_interrupting_the_parent_ends_the_worker_promptly():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    try:
        with GpuSession(FakeDevice) as session:
            session.start()
            pid = session.process_id
            with pytest.raises(KeyboardInterrupt):
                session.run(job("interrupts"), QUIET)
            assert not is_running(pid)
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_device_is_a_missing_tool():
    with pytest.raises(MissingToolError, match="RuntimeError: no device"), GpuSession(AbsentDevice) as session:
        session.run(job(), QUIET)


def test_a_device_that_does_not_open_in_time_is_a_missing_tool():
    with (
        pytest.raises(MissingToolError, match=r"did not start: timed out after 0 s \(starting\)"),
        GpuSession(SlowToOpen) as session,
    ):
        session.start(timeout=0.0)
