"""Kernels that work, kernels that are wrong, and kernels that take the context with them."""

import re

import pytest
from gpu_jobs import KilledOnce
from gpu_support import CHECK, QUICK, axpy_job

from lab.gpu.process.job import JobStage, Policy
from lab.gpu.process.session import GpuSession
from lab.templates.launches import Workspace

pytestmark = pytest.mark.gpu


def test_the_probe_and_the_worker_describe_the_same_gpu(gpu, session):
    assert session.start() == gpu
    assert re.fullmatch(r"sm_\d{2,3}", gpu.arch)
    assert re.fullmatch(r"\d+\.\d+", gpu.cuda)
    assert re.match(r"\d+\.\d+", gpu.driver), f"driver version {gpu.driver!r}"
    assert gpu.name
    assert gpu.sms >= 1
    assert gpu.memory_bytes > 1 << 30
    assert gpu.l2_bytes >= 1 << 19
    assert 300 < gpu.sm_clock_mhz < 5000


def test_a_right_kernel_passes(gpu, session):
    result = session.run(axpy_job(gpu.arch), CHECK)
    assert result.failure is None, result.failure
    assert result.verification.passed
    assert result.verification.executed_on == gpu.name


def test_more_than_48_kb_of_dynamic_shared_memory_is_granted(gpu, session):
    result = session.run(axpy_job(gpu.arch, "through_shared", shared=60 * 1024), CHECK)
    assert result.failure is None, result.failure


@pytest.mark.parametrize(
    ("kernel", "worst"),
    [
        ("wrong", r"z\[5\]: got "),
        ("forgets_the_last", r"z\[100002\]: got nan"),
        ("overruns", r"z: \d+ bytes written beyond its end"),
    ],
)
def test_a_wrong_kernel_fails_verification_and_the_worker_stays(gpu, session, kernel, worst):
    session.start()
    pid = session.process_id
    result = session.run(axpy_job(gpu.arch, kernel), CHECK)
    assert result.failure is not None
    assert result.failure.stage is JobStage.VERIFY
    assert re.match(worst, result.verification.worst), result.verification
    assert session.process_id == pid


def test_what_one_kernel_wrote_does_not_help_the_next(gpu, session):
    assert session.run(axpy_job(gpu.arch), CHECK).failure is None
    result = session.run(axpy_job(gpu.arch, "forgets_the_last"), CHECK)
    assert result.failure is not None
    assert result.failure.stage is JobStage.VERIFY


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("illegal", "CUDA error: an illegal memory access was encountered"),
        ("misaligned", "CUDA error: misaligned address"),
        ("traps", "CUDA error: "),
        ("overflows", "CUDA error: "),
    ],
)
def test_a_faulting_kernel_costs_only_its_own_job(gpu, session, kernel, words):
    result = session.run(axpy_job(gpu.arch, kernel), CHECK)
    assert result.failure is not None
    assert result.failure.stage is JobStage.LAUNCH, result.failure
    assert result.failure.reason.startswith(words), result.failure
    after = session.run(axpy_job(gpu.arch), CHECK)
    assert after.failure is None, after.failure


def test_two_hundred_gigabytes_are_refused_without_losing_the_worker(gpu, session):
    session.start()
    pid = session.process_id
    result = session.run(axpy_job(gpu.arch, workspace=[Workspace("big", "float32", 50 * 10**9)]), CHECK)
    assert result.failure is not None
    assert result.failure.stage is JobStage.LAUNCH
    assert result.failure.reason.startswith("200000000000 bytes of workspace do not fit"), result.failure
    assert session.run(axpy_job(gpu.arch), CHECK).failure is None
    assert session.process_id == pid


def test_a_worker_killed_from_outside_is_replaced_and_the_job_starts_over(gpu):
    starter = KilledOnce("measurement")
    with GpuSession(starter=starter) as session:
        result = session.run(axpy_job(gpu.arch, "busy", n=1 << 14, rounds=200_000), QUICK)
        assert result.failure is None, result.failure
        assert len(starter.killed) == 1
        assert session.process_id not in starter.killed


def test_an_endless_kernel_times_out_and_the_next_job_succeeds(gpu, session):
    session.start()
    result = session.run(axpy_job(gpu.arch, "endless"), Policy(measure=False, baseline=None, timeout_s=5.0))
    assert result.failure is not None
    assert result.failure.stage is JobStage.TIMEOUT, result.failure
    assert result.failure.reason == "timed out after 5 s (launch)"
    after = session.run(axpy_job(gpu.arch), CHECK)
    assert after.failure is None, after.failure


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"kernel": "through_shared", "shared": 1 << 20},
            r"1048576 bytes of shared memory per block; this GPU has \d+",
        ),
        ({"block": 2048}, r"a block of 2048 threads in x; this GPU supports 1 to 1024"),
    ],
)
def test_a_launch_that_cannot_be_is_refused_without_losing_the_worker(gpu, session, changes, words):
    session.start()
    pid = session.process_id
    result = session.run(axpy_job(gpu.arch, **changes), CHECK)
    assert result.failure is not None
    assert result.failure.stage is JobStage.LAUNCH
    assert re.fullmatch(words, result.failure.reason), result.failure
    assert session.run(axpy_job(gpu.arch), CHECK).failure is None
    assert session.process_id == pid


def test_a_symbol_that_is_not_in_the_cubin_is_this_jobs_failure(gpu, session):
    result = session.run(axpy_job(gpu.arch, "nowhere"), CHECK)
    assert result.failure is not None
    assert "not found" in result.failure.reason, result.failure
    assert session.run(axpy_job(gpu.arch), CHECK).failure is None
