"""The interface between the worker's loop and the GPU: the operations that timing and checking need.

`lab.gpu.device.cuda` implements it with PyCUDA; tests drive the same loop with a backend that has no GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import LabError
from lab.base.expressions import Scalar
from lab.measured.timing import CardState, GpuDescription
from lab.operators.base import Expected, Inputs
from lab.templates.launches import Launches

Enqueue = Callable[[], None]
"""A function that queues a launch or a sequence of launches on the backend's stream and returns at once."""


def in_turn(queues: Sequence[Enqueue]) -> Enqueue:
    """Combine several queued computations into one, in order."""
    if len(queues) == 1:
        return queues[0]

    def launch() -> None:
        for queue in queues:
            queue()

    return launch


class RefusedError(LabError):
    """This job cannot be launched. The device was not touched, and the worker stays usable."""


class DeviceError(LabError):
    """CUDA or a CUDA library reported an error. The context may be lost, and the worker must be replaced."""


class BaselineMissingError(LabError):
    """The baseline is not available or does not apply to this operator; the message says why."""


@dataclass(frozen=True, slots=True)
class BatchTiming:
    """The time of one batch.

    Attributes:
        ms: Device time per launch, in milliseconds.
        enqueue_ms: Host time to queue one launch, in milliseconds.
        starved: The device reached the first event before the host had queued the last launch, so `ms` may include
            host time.
        sm_clock_mhz: SM clock, read while the device worked; None if it cannot be read.
    """

    ms: float
    enqueue_ms: float
    starved: bool
    sm_clock_mhz: int | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """A routine to compare with, on the same device buffers.

    Attributes:
        name: ``cublas``.
        library: File, version and folder.
        kernel: Names of the kernels that it launches; empty if they could not be read.
        note: Remark for the reader; may be empty.
        launch: Queues one call.
        computes: Whether it computes the operator's result, so that its output can be checked; False for a plain copy.
        ptx: PTX of its kernel if it is known, else empty.
        check: Queues one call that writes its result to the operator's outputs, if `launch` writes it elsewhere.
    """

    name: str
    library: str
    kernel: str
    note: str
    launch: Enqueue
    computes: bool = True
    ptx: str = ""
    check: Enqueue | None = None


class Field(Protocol):
    """Buffers for GEMMs of many sizes, with inputs and a reference generated on the device."""

    def kernel(self, name: str, cubin: bytes, launches: Launches, problem: Mapping[str, Scalar]) -> Enqueue:
        """Resolve a kernel's launches at one size; its cubin is loaded once.

        Raises:
            RefusedError: The launch would be refused.
        """

    def baseline(self, problem: Mapping[str, Scalar]) -> Baseline:
        """Return cuBLAS at one size.

        Raises:
            BaselineMissingError: It is not available.
        """

    def expect(self, problem: Mapping[str, Scalar]) -> None:
        """Compute the reference that `check` compares with."""

    def check(self, launch: Enqueue) -> float:
        """Fill the output with NaN, launch, and compare.

        Returns:
            The largest |C - expected| divided by the norms of the row of A and the column of B that made the element;
            infinity if C holds NaN or was written out of bounds.
        """


class Backend(Protocol):
    """One GPU, one context, one stream.

    Attributes:
        errors: Exceptions that its methods and launches raise if the device reports an error.
    """

    errors: tuple[type[Exception], ...]

    def describe(self) -> GpuDescription:
        """Describe the GPU."""

    def load(self, inputs: Inputs) -> None:
        """Allocate buffers for these arrays and keep a pristine copy of each; buffers of the same size are reused."""

    def upload(self) -> None:
        """Restore every array on the device, outputs included, to its state before a launch."""

    def renew_outputs(self) -> None:
        """Restore only the outputs; those in `Inputs.required` get a different poison than `upload` uses.

        Other arrays, the workspace and module variables keep what launches wrote to them.
        """

    def refresh(self) -> None:
        """Copy the data shared by several jobs from the host again: pristine arrays and expected values."""

    def kernel(self, cubin: bytes, launches: Launches) -> Enqueue:
        """Load a cubin, resolve the arguments, and allocate the workspace, which `upload` poisons.

        Raises:
            RefusedError: The launch would be refused: too many threads, too much shared memory, a bad argument.
        """

    def baseline(self, name: str, operator: str, problem: Mapping[str, Scalar]) -> Baseline:
        """Return the named baseline on the loaded inputs.

        Raises:
            BaselineMissingError: It is not available or does not apply.
        """

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        """Copy the outputs to the host, in the shapes and dtypes of the loaded arrays."""

    def largest_error(self, expected: Mapping[str, Expected]) -> float | None:
        """Compare on the device: the largest |output - values| / scale over all outputs.

        Args:
            expected: As `Operator.elementwise` lays it out; kept on the device while the same mapping is given.

        Returns:
            The largest error; None if the device cannot compare, so that outputs must be downloaded.
        """

    def overrun(self) -> str:
        """Describe a buffer written out of bounds since the upload; empty if there is none."""

    def written_input(self) -> str:
        """Describe a non-output array that has changed since the upload; empty if there is none."""

    def unwritten(self, *, again: bool = False) -> Mapping[str, NDArray[np.bool_]]:
        """Mark the elements of required outputs that still hold their value from before the launch.

        A written element may hold that value by chance. An unwritten one still holds it after two launches that started
        from different values.

        Args:
            again: The launch came after `renew_outputs`, not after `upload`.

        Returns:
            By output name, one mark per element, shape (elements,).
        """

    def run(self, launches: tuple[Enqueue, ...]) -> None:
        """Run these launches, untimed, and wait for them."""

    def evict(self) -> None:
        """Queue reads of more than twice the L2 cache, so that its contents are written back and replaced."""

    def calibrate(self) -> None:
        """Measure the device properties that `time` needs, at the current clocks."""

    def time(self, launch: Enqueue, *, batch: int, lead_ms: float, rewarm: bool) -> BatchTiming:
        """Time `batch` launches between two events.

        A memset of more than twice the L2 cache comes first, repeated until it takes at least `lead_ms`. It evicts the
        data, and it keeps the device busy while the host queues events and launches, so that host time stays out
        of the result.

        Args:
            launch: The launch to time.
            batch: Launches between the events.
            lead_ms: Minimum device time of the memsets, in milliseconds.
            rewarm: Queue one more launch, untimed, between the memsets and the first event.
        """

    def field(self, dtype: str, elements: tuple[int, int, int], workspace_bytes: int, seed: int) -> Field:
        """Allocate the buffers for a GEMM survey (`lab.gpu.timing.survey`).

        Args:
            dtype: Element type.
            elements: Elements of A, B and C, enough for every size.
            workspace_bytes: Size of the largest workspace.
            seed: Seed of A and B.

        Raises:
            DeviceError: The device's own reference differs from NumPy's.
        """

    def sm_clock(self) -> int | None:
        """Read the SM clock, in MHz; None if it cannot be read."""

    def card_state(self) -> CardState:
        """Read clocks, power, temperature and throttle reasons."""

    def close(self) -> None:
        """Release the context."""
