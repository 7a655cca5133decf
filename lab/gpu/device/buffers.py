"""The operator's arrays and the variant's workspace on the device; a guard behind each detects stray writes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pycuda.driver as cuda
from numpy.typing import NDArray

from lab.gpu.device.backend import RefusedError
from lab.operators.base import Inputs
from lab.templates.launches import Workspace

GUARD_BYTES: Final = 4096
"""Size of the guard behind every buffer."""

POISON: Final = 0xFF
"""Byte that guards and workspaces are filled with; four or eight of them read as NaN."""


@dataclass(frozen=True, slots=True)
class GuardedBuffer:
    """One device array.

    Attributes:
        allocation: Device memory for the data and the guard.
        bytes: Size of the data.
    """

    allocation: cuda.DeviceAllocation
    bytes: int

    @property
    def address(self) -> int:
        """Device address of the data."""
        return int(self.allocation)

    @property
    def guard(self) -> int:
        """Device address of the guard."""
        return self.address + self.bytes


class DeviceBuffers:
    """The buffers of one problem, on one stream."""

    def __init__(self, stream: cuda.Stream) -> None:
        """Start without buffers.

        Args:
            stream: The stream that copies and memsets are queued on.
        """
        self._stream = stream
        self._arrays: dict[str, GuardedBuffer] = {}
        self._workspace: dict[str, GuardedBuffer] = {}
        self._pristine: dict[str, cuda.DeviceAllocation] = {}
        self._inputs: Inputs | None = None

    @property
    def inputs(self) -> Inputs:
        """The loaded inputs.

        Raises:
            RefusedError: There are none.
        """
        if self._inputs is None:
            raise RefusedError("no inputs are loaded")
        return self._inputs

    @property
    def pointers(self) -> dict[str, int]:
        """Device address of every array and workspace buffer, by name."""
        return {name: buffer.address for name, buffer in self._all()}

    def load(self, inputs: Inputs) -> None:
        """Make room for these arrays; buffers of the same name and size are reused."""
        self._pristine = {}
        wanted = {name: array.nbytes for name, array in inputs.arrays.items()}
        kept = {name: buffer for name, buffer in self._arrays.items() if wanted.get(name) == buffer.bytes}
        self._arrays = kept  # the others are freed here, before anything new is allocated
        for name, size in wanted.items():
            if name not in kept:
                self._arrays[name] = _allocated(size)
        self._inputs = inputs
        self.refresh()

    def refresh(self) -> None:
        """Copy the arrays from the host again, into pristine copies on the device."""
        self._pristine = {}
        with contextlib.suppress(cuda.MemoryError):  # without room for the copies, `upload` copies from the host
            for name, array in self.inputs.arrays.items():
                if array.nbytes:
                    self._pristine[name] = cuda.to_device(np.ascontiguousarray(array))

    def upload(self) -> None:
        """Restore every array and every guard, and poison the workspace."""
        for name, array in self.inputs.arrays.items():
            buffer = self._arrays[name]
            if name in self._pristine:
                cuda.memcpy_dtod_async(buffer.address, self._pristine[name], buffer.bytes, self._stream)
            elif buffer.bytes:
                cuda.memcpy_htod(buffer.address, np.ascontiguousarray(array))
            cuda.memset_d8_async(buffer.guard, POISON, GUARD_BYTES, self._stream)
        for buffer in self._workspace.values():
            cuda.memset_d8_async(buffer.address, POISON, buffer.bytes + GUARD_BYTES, self._stream)
        cuda.Context.synchronize()

    def make_workspace(self, wanted: Iterable[Workspace]) -> None:
        """Replace the workspace of the last variant.

        Raises:
            RefusedError: It does not fit.
        """
        self._workspace = {}  # the last variant's is freed before anything new is allocated
        buffers = tuple(wanted)
        try:
            self._workspace = {buffer.name: _allocated(buffer.bytes) for buffer in buffers}
        except cuda.MemoryError as error:
            needed = sum(buffer.bytes for buffer in buffers)
            free, _ = cuda.mem_get_info()
            raise RefusedError(f"{needed} bytes of workspace do not fit; {free} bytes are free") from error

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        """Copy the outputs to the host: arrays of the shapes and dtypes of the inputs' own."""
        downloaded: dict[str, NDArray[np.generic]] = {}
        for name in self.inputs.outputs:
            host = np.empty_like(self.inputs.arrays[name], order="C")
            if host.nbytes:
                cuda.memcpy_dtoh(host, self._arrays[name].address)
            downloaded[name] = host
        return downloaded

    def overrun(self) -> str:
        """Describe the first buffer whose guard has changed since the upload; empty if there is none."""
        for name, buffer in self._all():
            guard = np.empty(GUARD_BYTES, np.uint8)
            cuda.memcpy_dtoh(guard, buffer.guard)
            written = np.flatnonzero(guard != POISON)
            if len(written):
                return f"{name}: written {int(written[0])} bytes past its end of {buffer.bytes} bytes"
        return ""

    def free(self) -> None:
        """Free all device memory and forget the inputs."""
        self._arrays, self._workspace, self._pristine, self._inputs = {}, {}, {}, None

    def _all(self) -> tuple[tuple[str, GuardedBuffer], ...]:
        return (*self._arrays.items(), *self._workspace.items())


def _allocated(size: int) -> GuardedBuffer:
    return GuardedBuffer(cuda.mem_alloc(size + GUARD_BYTES), size)
