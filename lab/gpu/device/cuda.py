"""The backend for real GPUs: PyCUDA on the first visible GPU. Only the worker process imports this module."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from functools import cache, partial

import numpy as np
import pycuda.driver as cuda
from numpy.typing import NDArray

from lab.base.expressions import Scalar
from lab.gpu.baselines.cublas import Cublas
from lab.gpu.baselines.registry import BaselineSite, make
from lab.gpu.device.backend import Baseline, BatchTiming, DeviceError, Enqueue
from lab.gpu.device.buffers import DeviceBuffers
from lab.gpu.device.card import CardSensors
from lab.gpu.device.compare import DeviceComparison
from lab.gpu.device.describe import describe_device, pci_bus_id
from lab.gpu.device.field import CudaField
from lab.gpu.device.launching import Launcher
from lab.gpu.device.untouched import untouched
from lab.gpu.timing.timer import LaunchTimer
from lab.measured.timing import CardState, GpuDescription
from lab.operators.base import Expected, Inputs
from lab.templates.launches import Launches


class CudaBackend:
    """One GPU through PyCUDA, in the primary context, which CUDA's libraries use too."""

    errors: tuple[type[Exception], ...] = (cuda.Error, DeviceError)

    def __init__(self) -> None:
        """Open the first visible GPU.

        Raises:
            RuntimeError: There is none.
        """
        self._description = describe_device(0)
        self._card = CardSensors(pci_bus_id(0))
        cuda.init()
        device = cuda.Device(0)
        self._context = device.retain_primary_context()
        self._context.push()
        self._open = True
        atexit.register(self.close)
        self._stream = cuda.Stream()
        self._timer = LaunchTimer(self._description, self._stream, self._card.sm_clock)
        self._launcher = Launcher(device, self._stream)
        self._buffers = DeviceBuffers(self._stream, cache(partial(untouched, self._description.arch)))
        self._comparison = DeviceComparison(self._description.arch)
        self._cublas: Cublas | None = None

    def describe(self) -> GpuDescription:
        """Describe the GPU."""
        return self._description

    def load(self, inputs: Inputs) -> None:
        """Allocate buffers for these arrays and keep a pristine copy; buffers of the same size are reused."""
        self._comparison.forget()
        self._buffers.load(inputs)

    def refresh(self) -> None:
        """Copy the arrays again; expected values are copied when next needed."""
        self._comparison.forget()
        self._buffers.refresh()

    def upload(self) -> None:
        """Restore every array and its guards, and poison the workspace."""
        self._buffers.upload()

    def renew_outputs(self) -> None:
        """Restore only the outputs to their state before a launch."""
        self._buffers.renew_outputs()

    def kernel(self, cubin: bytes, launches: Launches) -> Enqueue:
        """Allocate the workspace, load the cubin, and resolve the launches."""
        self._buffers.make_workspace(launches.workspace)
        module = cuda.module_from_buffer(cubin)
        return self._launcher.sequence(module, cubin, launches, self._buffers.inputs, self._buffers.pointers)

    def baseline(self, name: str, operator: str, problem: Mapping[str, Scalar]) -> Baseline:
        """Make a baseline on the loaded inputs (`lab.gpu.baselines.registry`)."""
        site = BaselineSite(
            self._buffers.inputs,
            self._buffers.pointers,
            self._stream,
            self._description.arch,
            self._timer.quick,
            self.cublas,
        )
        return make(name, operator, problem, site)

    def cublas(self) -> Cublas:
        """Return cuBLAS on this stream.

        Raises:
            BaselineMissingError: It is not available.
        """
        self._cublas = self._cublas or Cublas(self._stream.handle)
        return self._cublas

    def field(self, dtype: str, elements: tuple[int, int, int], workspace_bytes: int, seed: int) -> CudaField:
        """Allocate the buffers for a survey; those of the last job are freed first."""
        self._comparison.forget()
        self._buffers.free()
        return CudaField(
            self._description.arch,
            self._stream,
            self._launcher,
            self.cublas,
            dtype=dtype,
            elements=elements,
            workspace_bytes=workspace_bytes,
            seed=seed,
        )

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        """Copy the outputs to the host."""
        return self._buffers.outputs()

    def largest_error(self, expected: Mapping[str, Expected]) -> float | None:
        """Compare on the device; the expected values stay there until another problem is loaded."""
        return self._comparison.largest_error(expected, self._buffers.inputs, self._buffers.pointers)

    def overrun(self) -> str:
        """Compare the guards with the patterns that `upload` wrote."""
        return self._buffers.overrun()

    def written_input(self) -> str:
        """Compare the non-output arrays with what `upload` wrote."""
        return self._buffers.written_input()

    def unwritten(self, *, again: bool = False) -> Mapping[str, NDArray[np.bool_]]:
        """Mark the elements of required outputs that still hold their value from before the launch."""
        return self._buffers.unwritten(again=again)

    def run(self, launches: tuple[Enqueue, ...]) -> None:
        """Run these launches and wait for them."""
        for launch in launches:
            launch()
        self._stream.synchronize()

    def evict(self) -> None:
        """Queue reads of a buffer that is more than twice as large as L2."""
        self._timer.evict()

    def calibrate(self) -> None:
        """Time the memset that precedes timed launches."""
        self._timer.calibrate()

    def time(self, launch: Enqueue, *, batch: int, lead_ms: float, rewarm: bool) -> BatchTiming:
        """Time launches between two events; see `Backend.time`."""
        return self._timer.time(launch, batch=batch, lead_ms=lead_ms, rewarm=rewarm)

    def sm_clock(self) -> int | None:
        """Read the SM clock, in MHz."""
        return self._card.sm_clock()

    def card_state(self) -> CardState:
        """Read the card's state through NVML."""
        return self._card.state()

    def close(self) -> None:
        """Pop the context; PyCUDA complains at exit about a context left on its stack."""
        if self._open:
            self._open = False
            self._buffers.free()
            self._context.pop()
