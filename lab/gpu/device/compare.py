"""Comparing outputs on the device: the largest error of millions of elements without a download.

It yields the same figure as the operator's own comparison in NumPy, whose steps it repeats in float64; where that
figure is beyond the tolerance, the operator looks again, on the host, and finds the words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources

import numpy as np
import pycuda.driver as cuda

from lab.base.errors import LabError
from lab.operators.base import Array, Expected
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

_THREADS = 256
_BLOCKS = 2048
"""Enough of both to fill any GPU; each thread takes every 524288th element."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One output's expected values on the device."""

    values: cuda.DeviceAllocation
    scale: cuda.DeviceAllocation
    elements: int
    function: cuda.Function


class Comparer:
    """Compares on one GPU; compiled once."""

    def __init__(self, arch: str) -> None:
        """Compile and load the kernels.

        Raises:
            LabError: there is no NVRTC, or it refuses.
        """
        source = (resources.files("lab.gpu.device") / "compare.cu").read_text(encoding="utf-8")
        request = CompileRequest(source, "compare.cu", arch)
        self._module = cuda.module_from_buffer(toolchain("nvrtc").compile(request).cubin)
        self._worst = cuda.mem_alloc(8)

    def bind(
        self, expected: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> Callable[[Mapping[str, int]], float] | None:
        """Put expected values on the device.

        Args:
            expected: Of every output, an element for each of its buffer, in the buffer's order.
            outputs: The outputs, for their element types.

        Returns:
            A function from the outputs' device addresses to the largest error; None where a type has no kernel.
        """
        if any(f"{array.dtype}" not in ("float16", "float32", "float64") for array in outputs.values()):
            return None
        sides = {
            name: _Side(
                cuda.to_device(np.ascontiguousarray(expected[name].values, np.float64)),
                cuda.to_device(np.ascontiguousarray(expected[name].scale, np.float64)),
                array.size,
                self._module.get_function(f"compare_{array.dtype}"),
            )
            for name, array in outputs.items()
            if array.size
        }

        def largest(addresses: Mapping[str, int]) -> float:
            cuda.memset_d8(self._worst, 0, 8)
            for name, side in sides.items():
                blocks = min(_BLOCKS, -(-side.elements // _THREADS))
                side.function(
                    np.uintp(addresses[name]), side.values, side.scale, np.int64(side.elements), self._worst,
                    grid=(blocks, 1), block=(_THREADS, 1, 1),
                )  # fmt: skip
            bits = np.empty(1, np.uint64)
            cuda.memcpy_dtoh(bits, self._worst)
            return float(bits.view(np.float64)[0])

        return largest


def comparer(arch: str) -> Comparer | None:
    """A comparer, or None where none can be had: then outputs are compared on the host."""
    try:
        return Comparer(arch)
    except (LabError, cuda.Error):
        return None
