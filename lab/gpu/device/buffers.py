"""Device buffers for the operator's arrays and the variant's workspace, with guards that detect stray writes."""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
import pycuda.driver as cuda
from numpy.typing import NDArray

from lab.base.elements import ELEMENT_BYTES
from lab.gpu.device.backend import RefusedError
from lab.gpu.device.untouched import Untouched
from lab.operators.base import Inputs
from lab.templates.launches import Workspace

GUARD_BYTES: Final = 4096
"""Size of a guard; every buffer has one before and one after it."""

LARGE_PAGE: Final = 2 << 20
"""Alignment of the driver's large allocations; large arrays keep it, since it may affect their speed."""

POISON: Final = 0xFF
"""Byte that workspaces are filled with; two, four or eight of them read as NaN."""

_POISONS: Final = (0xFF, 0x5A)
"""Poison bytes for outputs before a second launch; the first that differs from the original fill is used."""

_CHUNK: Final = 64 << 20
"""Bytes per download if the device cannot compare."""


@dataclass(frozen=True, slots=True)
class GuardedBuffer:
    """One device array.

    Attributes:
        allocation: Device memory for the data and its guards.
        bytes: Size of the data.
        item: Size of an element in bytes.
    """

    allocation: cuda.DeviceAllocation
    bytes: int
    item: int

    @property
    def address(self) -> int:
        """Device address of the data."""
        return int(self.allocation) + _lead(self.bytes)

    @property
    def guards(self) -> tuple[int, int]:
        """Device addresses of the guards before and after the data."""
        return self.address - GUARD_BYTES, self.address + self.bytes


class DeviceBuffers:
    """The buffers of one problem, on one stream."""

    def __init__(self, stream: cuda.Stream, compare: Callable[[], Untouched | None] = lambda: None) -> None:
        """Create an empty set of buffers.

        Args:
            stream: The stream that copies and memsets are queued on.
            compare: Returns the device comparer, or None if the host compares.
        """
        self._stream, self._compare = stream, compare
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
        """Allocate buffers for these arrays; buffers of the same name and size are reused."""
        self._pristine = {}
        sizes = {name: (array.nbytes, array.itemsize) for name, array in inputs.arrays.items()}
        reused = {
            name: replace(self._arrays[name], item=item)
            for name, (size, item) in sizes.items()
            if name in self._arrays and self._arrays[name].bytes == size
        }
        self._arrays = reused  # the others are freed here, before anything new is allocated
        for name, (size, item) in sizes.items():
            if name not in reused:
                self._arrays[name] = _allocated(size, item)
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
        for name in self.inputs.arrays:
            self._restore(name)
        for buffer in self._workspace.values():
            cuda.memset_d8_async(buffer.address, POISON, buffer.bytes, self._stream)
        for name, buffer in self._all():
            for guard, pattern in zip(buffer.guards, guard_patterns(name), strict=True):
                cuda.memcpy_htod(guard, pattern)
        cuda.Context.synchronize()

    def renew_outputs(self) -> None:
        """Restore only the outputs; required ones are filled with a different poison than `upload` uses.

        Other arrays, the workspace and module variables keep what launches wrote to them.
        """
        for name in self.inputs.outputs:
            buffer = self._arrays[name]
            if name in self.inputs.required:
                cuda.memset_d8_async(buffer.address, self._other_poison(name), buffer.bytes, self._stream)
            else:
                self._restore(name)
        cuda.Context.synchronize()

    def make_workspace(self, workspace: Iterable[Workspace]) -> None:
        """Replace the workspace of the last variant.

        Raises:
            RefusedError: It does not fit.
        """
        self._workspace = {}  # frees the last variant's workspace first
        buffers = tuple(workspace)
        try:
            self._workspace = {buffer.name: _allocated(buffer.bytes, ELEMENT_BYTES[buffer.dtype]) for buffer in buffers}
        except cuda.MemoryError as error:
            total_bytes = sum(buffer.bytes for buffer in buffers)
            free, _ = cuda.mem_get_info()
            raise RefusedError(f"{total_bytes} bytes of workspace do not fit; {free} bytes are free") from error

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        """Copy the outputs to the host, in the shapes and dtypes of the loaded arrays."""
        return {name: self._downloaded(name) for name in self.inputs.outputs}

    def overrun(self) -> str:
        """Describe the first buffer whose guards have changed since the upload; empty if there is none."""
        for name, buffer in self._all():
            guard = np.empty(GUARD_BYTES, np.uint8)
            for guard_address, pattern, words in zip(
                buffer.guards, guard_patterns(name), ("before its start", "beyond its end"), strict=True
            ):
                cuda.memcpy_dtoh(guard, guard_address)
                changed = np.flatnonzero(guard != pattern) + (guard_address - buffer.address)
                if len(changed):  # whole elements: some of their bytes may be the guard's by chance
                    first, last = (int(place) // buffer.item * buffer.item for place in changed[[0, -1]])
                    count = last + buffer.item - first
                    unit = "byte" if count == 1 else "bytes"
                    return f"{name}: {count} {unit} written {words}, at byte {first} of {buffer.bytes}"
        return ""

    def written_input(self) -> str:
        """Describe the first non-output array that differs from its upload; empty if there is none."""
        for name, array in self.inputs.arrays.items():
            if name not in self.inputs.outputs and array.size:
                place = self._first_difference(name)
                if place is not None:
                    return f"{name} is not declared as an output, but {name}[{place // array.itemsize}] was written"
        return ""

    def unwritten(self, *, again: bool = False) -> dict[str, NDArray[np.bool_]]:
        """Mark the elements of required outputs that still hold their value from before the launch.

        Args:
            again: The launch came after `renew_outputs`, not after `upload`.

        Returns:
            For each output with such elements, one mark per element; shape (elements,).
        """
        marks_by_output = {}
        for name in self.inputs.required:
            array = self.inputs.arrays[name]
            if not array.size or (not again and not self._may_be_unwritten(name)):
                continue
            poison = np.full(array.itemsize, self._other_poison(name), np.uint8) if again else array
            marks = (_words(self._downloaded(name), array.itemsize) == _words(poison, array.itemsize)).all(axis=1)
            if marks.any():
                marks_by_output[name] = marks
        return marks_by_output

    def free(self) -> None:
        """Free all device memory and forget the inputs."""
        self._arrays, self._workspace, self._pristine, self._inputs = {}, {}, {}, None

    def _all(self) -> tuple[tuple[str, GuardedBuffer], ...]:
        return (*self._arrays.items(), *self._workspace.items())

    def _restore(self, name: str) -> None:
        buffer = self._arrays[name]
        if name in self._pristine:
            cuda.memcpy_dtod_async(buffer.address, self._pristine[name], buffer.bytes, self._stream)
        elif buffer.bytes:
            cuda.memcpy_htod(buffer.address, np.ascontiguousarray(self.inputs.arrays[name]))

    def _downloaded(self, name: str) -> NDArray[np.generic]:
        host = np.empty_like(self.inputs.arrays[name], order="C")
        if host.nbytes:
            cuda.memcpy_dtoh(host, self._arrays[name].address)
        return host

    def _first_difference(self, name: str) -> int | None:
        """Return the first byte at which an array differs from its upload; None if there is none."""
        buffer, compare = self._arrays[name], self._compare()
        if compare is not None and name in self._pristine:
            return compare.first_difference(buffer.address, int(self._pristine[name]), buffer.bytes)
        uploaded = _bytes(self.inputs.arrays[name])
        for start, chunk in self._chunks(buffer):
            differs = chunk != uploaded[start : start + len(chunk)]
            if differs.any():
                return start + int(np.argmax(differs))
        return None

    @staticmethod
    def _chunks(buffer: GuardedBuffer) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        for start in range(0, buffer.bytes, _CHUNK):
            chunk = np.empty(min(_CHUNK, buffer.bytes - start), np.uint8)
            cuda.memcpy_dtoh(chunk, buffer.address + start)
            yield start, chunk

    def _may_be_unwritten(self, name: str) -> bool:
        array, compare = self.inputs.arrays[name], self._compare()
        if compare is None or name not in self._pristine:
            return True
        return compare.has_equal(self._arrays[name].address, int(self._pristine[name]), array.size, array.itemsize)

    def _other_poison(self, name: str) -> int:
        original_bytes = set(_bytes(self.inputs.arrays[name][:1]).tolist())
        return next(byte for byte in _POISONS if original_bytes != {byte})


@lru_cache(maxsize=256)
def guard_patterns(name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the fill patterns of the guards before and after an array.

    Every two, four or eight bytes read as NaN. Each array has its own patterns, so that a copy
    from one guard to another is detected.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    words = rng.integers(0xFFF1, 0xFFFF, (2, GUARD_BYTES // 2), np.uint16)
    before, behind = words.view(np.uint8)
    return before, behind


def _lead(size: int) -> int:
    """Return the bytes of an allocation before its data; the last of them are the guard."""
    return LARGE_PAGE if size >= LARGE_PAGE else GUARD_BYTES


def _allocated(size: int, item: int) -> GuardedBuffer:
    return GuardedBuffer(cuda.mem_alloc(_lead(size) + size + GUARD_BYTES), size, item)


def _bytes(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _words(array: NDArray[np.generic], item: int) -> NDArray[np.unsignedinteger]:
    """Return an array's bits in the widest words possible, shape (elements, words per element)."""
    width = math.gcd(item, 8)
    return _bytes(array).view(f"u{width}").reshape(-1, item // width)
