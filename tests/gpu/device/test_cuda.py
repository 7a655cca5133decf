"""The backend for real GPUs, on a PyCUDA that is played: jobs go through the same loop as on a card."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_pycuda import view
from gpu_jobs import HERE, QUIET, baseline_of, failure_of, measurement_of, verification_of

from lab.gpu.baselines import cublas as cublas_module
from lab.gpu.device.backend import BaselineMissingError, RefusedError
from lab.gpu.process.job import Job, JobStage
from lab.gpu.process.runner import JobRunner
from lab.measured.timing import CardState, GpuDescription
from lab.operators.base import Expected, Inputs
from lab.templates.launches import Launch, Launches, Workspace

GPU = GpuDescription("NVIDIA Fake", "sm_90", 132, 1980, 1 << 30, 1 << 10, "580.1", "13.0")
CARD = SimpleNamespace(sm_clock=lambda: 1980, state=lambda: CardState(1980))
AXPY = (("n", "int32"), ("rounds", "int32"), ("a", "float32"), *((name, "float32*") for name in "xyz"))


@pytest.fixture
def backend(cuda, monkeypatch):
    from lab.gpu.device import cuda as module  # noqa: PLC0415 - PyCUDA is played by now
    from lab.gpu.timing import timer  # noqa: PLC0415 - as above

    monkeypatch.setattr(module, "describe_device", lambda ordinal: GPU)
    monkeypatch.setattr(module, "pci_bus_id", lambda ordinal: "0000:1b:00.0")
    monkeypatch.setattr(module, "CardSensors", lambda bus_id: CARD)
    monkeypatch.setattr(timer, "LEAST_SCRATCH_BYTES", 4096)
    cuda.kernels |= {"axpy": axpy, "wrong": wrong, "compare_float32": compare}
    made = module.CudaBackend()
    yield made
    made.close()


def axpy(grid, n, rounds, a, x, y, z):
    view(z, np.float32, n)[:] = np.float32(a) * view(x, np.float32, n) + view(y, np.float32, n)


def wrong(grid, n, rounds, a, x, y, z):
    axpy(grid, n, rounds, a, x, y, z)
    view(z, np.float32, n)[5] += 1


def compare(grid, got, values, scale, count, worst):
    error = np.abs(view(got, np.float32, count) - view(values, np.float64, count)) / view(scale, np.float64, count)
    view(worst, np.float64, 1)[0] = error.max()


def job(kernel="axpy", workspace=()):
    step = Launch(kernel, (1, 1, 1), (128, 1, 1), 0, AXPY)
    problem = {"n": 100, "rounds": 0, "a": 1.5}
    return Job(kernel, b"cubin", Launches((step,), workspace), "axpy_operator.py:Axpy", problem, 0, HERE)


def test_a_job_is_checked_and_timed(backend, cuda):
    cuda.kernel_ms = 2.0
    messages: list[Any] = []
    answer = JobRunner(backend, messages.append).answer(job(), QUIET)
    assert answer.result.failure is None, answer.result.failure
    assert verification_of(answer.result).executed_on == "NVIDIA Fake"
    assert measurement_of(answer.result).samples.median == 2.0
    assert measurement_of(answer.result).cache == "cold"
    assert measurement_of(answer.result).before.sm_clock_mhz == 1980
    accepted = "cublas, copy, torch, torch-naive, torch-jit, torch-compile, triton"
    assert baseline_of(answer.result).note == f"there is no baseline 'fake'; accepted: {accepted}"
    assert [message.activity for message in messages][-1] == "measurement"


def writes_its_input(grid, n, rounds, a, x, y, z):
    axpy(grid, n, rounds, a, x, y, z)
    view(y, np.float32, n)[7] = 0


def test_a_kernel_that_writes_an_input_is_found(backend, cuda):
    cuda.kernels["writes_its_input"] = writes_its_input
    answer = JobRunner(backend, lambda message: None).answer(job("writes_its_input"), QUIET)
    assert answer.usable
    assert failure_of(answer.result).reason.startswith("y is not declared as an output, but y[7]")


def test_a_second_launch_finds_variables_as_the_first_one_left_them(backend, cuda):
    launched: list[int] = []

    def counts(grid, n, rounds, a, x, y, z):
        axpy(grid, n, rounds, a, x, y, z)
        view(z, np.float32, n)[9] += len(launched)
        launched.append(1)

    cuda.kernels["counts"] = counts
    answer = JobRunner(backend, lambda message: None).answer(job("counts"), QUIET)
    assert failure_of(answer.result).stage is JobStage.VERIFY_AGAIN
    assert failure_of(answer.result).reason.startswith("when it is launched again: z[9]: got")


def test_a_wrong_kernel_is_found(backend):
    answer = JobRunner(backend, lambda message: None).answer(job("wrong"), QUIET)
    assert answer.usable
    assert failure_of(answer.result).stage is JobStage.VERIFY
    assert failure_of(answer.result).reason.startswith("z[5]: got")


def test_a_symbol_that_is_not_there_costs_the_worker(backend):
    answer = JobRunner(backend, lambda message: None).answer(job("nowhere"), QUIET)
    assert not answer.usable
    assert failure_of(answer.result).reason == "CUDA error: named symbol not found in cuModuleGetFunction (upload)"


def test_a_workspace_that_does_not_fit_is_refused(backend):
    answer = JobRunner(backend, lambda message: None).answer(
        job(workspace=(Workspace("w", "float32", 1 << 30),)), QUIET
    )
    assert answer.usable
    assert failure_of(answer.result).stage is JobStage.LAUNCH
    assert failure_of(answer.result).reason.startswith("4294967296 bytes of workspace do not fit")


def test_before_inputs_are_loaded_nothing_can_be_launched(backend):
    with pytest.raises(RefusedError, match="no inputs are loaded"):
        backend.kernel(b"cubin", job().launches)


def test_expected_values_stay_until_another_problem_is_loaded(backend, cuda):
    inputs = Inputs({}, {"z": np.ones(8, np.float32)}, ("z",))
    expected = {"z": Expected(np.full(8, 3.0), np.full(8, 4.0))}
    backend.load(inputs)
    backend.upload()
    before = cuda.used
    assert backend.largest_error(expected) == 0.5
    assert cuda.used > before + 8
    backend.load(inputs)
    assert cuda.used == before + 8  # the place of the result stays
    assert backend.outputs()["z"].shape == (8,)


def test_the_context_is_taken_off_the_stack_once(backend, cuda):
    backend.close()
    backend.close()
    assert cuda.calls == ["init", "push", "pop"]


def test_a_library_that_is_not_there_is_a_missing_baseline(backend, monkeypatch):
    monkeypatch.setattr(cublas_module, "find_cublas", lambda: "libcublas was not found")
    backend.load(Inputs({}, {}, ()))
    with pytest.raises(BaselineMissingError, match="libcublas was not found"):
        backend.baseline("cublas", "gemm", {})


def test_a_survey_frees_the_last_jobs_buffers_first(backend, cuda, monkeypatch):
    from lab.gpu.device import cuda as module  # noqa: PLC0415 - as above

    made = []
    monkeypatch.setattr(module, "CudaField", lambda *given, **named: made.append((cuda.used, named)))
    empty = cuda.used
    backend.load(Inputs({}, {"z": np.ones(1000, np.float32)}, ("z",)))
    backend.field("float32", (1, 2, 3), 64, 5)
    assert made == [
        (empty, {"dtype": "float32", "elements": (1, 2, 3), "workspace_bytes": 64, "seed": 5}),
    ]
