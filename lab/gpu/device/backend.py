"""The seam between the worker's loop and the GPU: what timing and checking need of a device.

`lab.gpu.device.cuda` is the one that ships; tests drive the same loop with a backend that has no GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lab.base.errors import LabError
from lab.base.expressions import Scalar
from lab.gpu.process.job import Job
from lab.measured.timing import CardState, GpuDescription
from lab.operators.base import Array, Expected, Inputs
from lab.templates.launches import Launches

Launch = Callable[[], None]
"""Queues one computation, a launch or a sequence of them, on the backend's stream and returns at once."""


def in_turn(queues: Sequence[Launch]) -> Launch:
    """One computation of several."""
    if len(queues) == 1:
        return queues[0]

    def launch() -> None:
        for queue in queues:
            queue()

    return launch


class RefusedError(LabError):
    """This job cannot be launched; the device was not touched and the worker stays usable."""


class DeviceError(LabError):
    """CUDA or a CUDA library reported an error; the context may be lost and the worker must be replaced."""


class BaselineMissingError(LabError):
    """The baseline is not there, or does not apply to this operator; the message says why."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One timed batch.

    Attributes:
        ms: Device time per launch.
        enqueue_ms: Host time that queueing one launch took.
        starved: The device reached the first event before the host had queued the last launch, so host time may
            be part of `ms`.
        sm_clock_mhz: Read while the device worked; None where it cannot be read.
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
        kernel: Names of the kernels that it launches; empty when they could not be read.
        note: What must be known about it; may be empty.
        launch: Queues one call.
        computes: It computes what the operator does, so that its output can be checked; a plain copy does not.
        ptx: PTX of its kernel where it is known, else empty.
        check: Queues one call that leaves its result in the operator's outputs, where `launch` leaves it elsewhere.
    """

    name: str
    library: str
    kernel: str
    note: str
    launch: Launch
    computes: bool = True
    ptx: str = ""
    check: Launch | None = None


class Field(Protocol):
    """Buffers for products of many sizes, with inputs and a reference that the device makes itself."""

    def kernel(self, name: str, cubin: bytes, launches: Launches, problem: Mapping[str, Scalar]) -> Launch:
        """Resolve a kernel's launches at one size; its cubin is loaded once.

        Raises:
            RefusedError: the launch would be refused.
        """

    def baseline(self, problem: Mapping[str, Scalar]) -> Baseline:
        """CuBLAS at one size.

        Raises:
            BaselineMissingError: it is not there.
        """

    def expect(self, problem: Mapping[str, Scalar]) -> None:
        """Compute what `check` compares with."""

    def check(self, launch: Launch) -> float:
        """Fill the output with NaN, launch, and compare.

        Returns:
            The largest |C - expected| over the norms of the row and the column that made the element; infinity where C
            holds NaN, or something was written past its end.
        """


class Backend(Protocol):
    """One GPU, one context, one stream.

    Attributes:
        errors: What its methods, and the launches that it makes, raise when the device reports an error.
    """

    errors: tuple[type[Exception], ...]

    def describe(self) -> GpuDescription:
        """The GPU."""

    def load(self, inputs: Inputs) -> None:
        """Make room for these arrays, reusing buffers of the same size."""

    def upload(self) -> None:
        """Every array on the device as the operator made it: outputs hold again what they hold before a launch."""

    def refresh(self) -> None:
        """Make anew from the host what stays on the device for several jobs: copies of arrays, expected values."""

    def kernel(self, job: Job) -> Launch:
        """Load the cubin, resolve the arguments, make the workspace. The workspace is poisoned by `upload`.

        Raises:
            RefusedError: the launch would be refused: too many threads, too much shared memory, a bad argument.
        """

    def baseline(self, name: str, operator: str, problem: Mapping[str, Scalar]) -> Baseline:
        """The named baseline on the loaded inputs.

        Raises:
            BaselineMissingError: it is not there or does not apply.
        """

    def outputs(self) -> dict[str, Array]:
        """Copy the outputs to the host."""

    def largest_error(self, expected: Mapping[str, Expected]) -> float | None:
        """The largest |output - values| / scale over all outputs, compared on the device.

        Args:
            expected: As `Operator.elementwise` lays it out; kept on the device while the same mapping is given.

        Returns:
            None where the device cannot compare: outputs are then downloaded.
        """

    def overrun(self) -> str:
        """Which buffer was written past its end since the upload, in words; empty when none was."""

    def run(self, launches: tuple[Launch, ...]) -> None:
        """Queue these, untimed, and wait for them."""

    def evict(self) -> None:
        """Queue reads of more than twice the L2 cache: what it held is written back and gone."""

    def calibrate(self) -> None:
        """Measure what `time` needs to know of the device at its present clocks."""

    def time(self, launch: Launch, *, batch: int, lead_ms: float, rewarm: bool) -> Timing:
        """Time `batch` launches between two events.

        A memset larger than twice the L2 cache, repeated until it takes at least `lead_ms`, goes ahead: it
        evicts the data, and keeps the device busy while the host queues events and launches, so that host
        time stays out of the figure.

        Args:
            launch: What to time.
            batch: Launches between the events.
            lead_ms: Least device time of the memsets.
            rewarm: Queue one more launch, untimed, between the memsets and the first event.
        """

    def field(self, dtype: str, elements: tuple[int, int, int], workspace_bytes: int, seed: int) -> Field:
        """Buffers for a survey (`lab.gpu.timing.survey`) of products.

        Args:
            dtype: Element type.
            elements: Of A, B and C, enough for every size.
            workspace_bytes: Of the largest workspace.
            seed: Of A and B.

        Raises:
            DeviceError: the device's own reference is not what NumPy finds.
        """

    def sm_clock(self) -> int | None:
        """SM clock in MHz, if it can be read."""

    def card_state(self) -> CardState:
        """Clocks, power, temperature and throttle reasons."""

    def close(self) -> None:
        """Release the context."""
