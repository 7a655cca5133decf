"""The session and its worker process, with a device that is none. Time-outs here are limits, not measurements."""

import os
import signal
import threading
from pathlib import Path

import pytest
from fake_device import AbsentDevice, FakeDevice, SlowToOpen

from lab.base.errors import MissingToolError
from lab.gpu.process.job import Job, Policy, Stage
from lab.gpu.process.session import GpuSession, remeasure
from lab.templates.launches import Launch, Launches

POLICY = Policy(warmup_ms=0.0, rewarm_ms=0.0, warmup_limit_ms=0.0, baseline="fake", timeout_s=60.0)
IMPATIENT = Policy(baseline=None, timeout_s=0.3)
HERE = Path(__file__).parents[2] / "support"


def job(kernel="double"):
    launches = Launches((Launch(kernel, (1, 1, 1), (32, 1, 1), 0, ()),))
    return Job(
        "v1",
        b"4",
        launches,
        "fake_operator.py:Double",
        {"n": 16},
        0,
        HERE,
    )


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def session():
    with GpuSession(FakeDevice) as shared:
        shared.start()
        yield shared


def test_start_describes_the_gpu_and_starts_one_worker(session):
    session.start()
    pid = session.process_id
    assert session.start().name == "Fake"
    assert session.process_id == pid


@pytest.mark.parametrize(
    ("kernel", "policy", "stage", "reason"),
    [
        ("hangs", IMPATIENT, Stage.TIMEOUT, "timed out after 0.3 s (launch)"),
        ("aborts", POLICY, Stage.CRASH, "worker ended by signal 11 (SIGSEGV) (launch)"),
        ("exits", POLICY, Stage.CRASH, "worker ended with exit code 7 (launch)"),
        ("illegal", POLICY, Stage.LAUNCH, "CUDA error: an illegal memory access was encountered"),
    ],
)
def test_what_costs_the_worker_costs_only_its_own_job(session, kernel, policy, stage, reason):
    session.start()
    lost = session.process_id
    result = session.run(job(kernel), policy)
    assert result.failure.stage is stage
    assert result.failure.reason.startswith(reason)
    assert not is_running(lost)
    after = session.run(job(), POLICY)
    assert after.failure is None
    assert after.measurement.ratio_to_baseline == 0.5
    assert session.process_id != lost


def test_a_worker_that_someone_kills_is_replaced_and_the_job_starts_over(session):
    session.start()
    lost = session.process_id
    result = session.run(job("killed_once"), POLICY)
    assert result.failure is None
    assert session.process_id != lost
    again = session.run(job("killed"), POLICY)
    assert again.failure.reason == "worker ended by signal 9 (SIGKILL) (launch)"


def test_a_failed_verification_keeps_the_worker(session):
    session.start()
    pid = session.process_id
    assert session.run(job("wrong"), POLICY).failure.stage is Stage.VERIFY
    assert session.process_id == pid


def test_what_a_kernel_prints_stays_out_of_stdout(session, capfd):
    session.close()  # the worker inherits this test's stderr, not an earlier one's
    assert session.run(job("prints"), POLICY).failure is None
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "printed by the kernel" in captured.err


def test_the_winner_is_measured_again_in_another_process(session):
    first = session.run(job(), POLICY)
    pid = session.process_id
    again = remeasure(session, job(), first, POLICY)
    assert session.process_id != pid
    assert again.measurement.samples == first.measurement.samples
    assert again.measurement.remeasured.median == 4.0
    assert again.measurement.notes[-1] == "in a fresh process: median 4 ms (+0.0%), 0.500 of fake's throughput there"


def test_a_failed_repetition_is_a_note_on_the_first_measurement(session):
    first = session.run(job(), POLICY)
    again = remeasure(session, job("exits"), first, POLICY)
    assert again.measurement.remeasured is None
    assert again.measurement.notes[-1].endswith("failed: worker ended with exit code 7 (launch)")


def test_interrupting_the_parent_ends_the_worker_promptly():
    def interrupt_both():  # as a terminal does
        os.kill(session.process_id, signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with GpuSession(FakeDevice) as session:
        session.start()
        pid = session.process_id
        timer = threading.Timer(0.2, interrupt_both)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            session.run(job("hangs"), POLICY)
        timer.join()
        assert not is_running(pid)


def test_the_worker_ignores_the_terminals_interrupt(session):
    session.start()
    os.kill(session.process_id, signal.SIGINT)
    assert session.run(job(), POLICY).failure is None


def test_no_device_is_a_missing_tool():
    with pytest.raises(MissingToolError, match="RuntimeError: no device"), GpuSession(AbsentDevice) as session:
        session.run(job(), POLICY)


def test_a_device_that_does_not_open_in_time_is_a_missing_tool():
    with (
        pytest.raises(MissingToolError, match=r"did not start: timed out after 0.5 s \(starting\)"),
        GpuSession(SlowToOpen) as session,
    ):
        session.start(timeout=0.5)
