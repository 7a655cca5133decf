"""Bitwise comparison of device memory, on the device, to find what a launch has changed."""

from __future__ import annotations

from importlib import resources
from typing import Final

import numpy as np
import pycuda.driver as cuda

from lab.base.errors import LabError
from lab.toolchain.own import compiled

_THREADS: Final = 256
_BLOCKS: Final = 2048
_ITEMS: Final = (1, 2, 4, 8, 16)
"""Supported element sizes in bytes."""

_NOTHING: Final = np.iinfo(np.uint64).max


class Untouched:
    """A comparison of two memory ranges of one GPU; its kernels are compiled once."""

    def __init__(self, arch: str) -> None:
        """Compile and load the kernels.

        Args:
            arch: Architecture of the GPU.

        Raises:
            CompileError: NVRTC refuses the source.
            MissingToolError: There is no NVRTC.
        """
        source = (resources.files("lab.gpu.device") / "untouched.cu").read_text(encoding="utf-8")
        module = cuda.module_from_buffer(compiled(source, "untouched.cu", arch))
        self._first = module.get_function("first_difference")
        self._count = {item: module.get_function(f"count_equal_{item}") for item in _ITEMS}
        self._result = cuda.mem_alloc(8)

    def first_difference(self, address: int, before: int, size: int) -> int | None:
        """Return the index of the first byte that differs; None if there is none.

        Args:
            address: Device address of the first range, a multiple of 16.
            before: Device address of the second range, likewise.
            size: Bytes of each.
        """
        index = self._ask(self._first, address, before, size, _NOTHING)
        return None if index == _NOTHING else index

    def has_equal(self, address: int, before: int, elements: int, item: int) -> bool:
        """Return whether any element has the same bits in both ranges; true for unsupported element sizes.

        Args:
            address: Device address of the first range.
            before: Device address of the second range.
            elements: Elements of each.
            item: Bytes of an element.
        """
        return item not in self._count or self._ask(self._count[item], address, before, elements, 0) > 0

    def _ask(self, function: cuda.Function, address: int, before: int, count: int, start: int) -> int:
        result = np.array([start], np.uint64)
        cuda.memcpy_htod(self._result, result)
        blocks = max(1, min(_BLOCKS, -(-count // _THREADS)))
        function(
            np.uintp(address), np.uintp(before), np.uint64(count), self._result,
            grid=(blocks, 1), block=(_THREADS, 1, 1),
        )  # fmt: skip
        cuda.memcpy_dtoh(result, self._result)
        return int(result[0])


def untouched(arch: str) -> Untouched | None:
    """Return a comparer, or None if its kernels cannot be compiled, so that memory is compared on the host."""
    try:
        return Untouched(arch)
    except (LabError, cuda.Error):
        return None
