"""Compare outputs on the device: the largest error of millions of elements, without a download.

The kernels repeat the operator's own NumPy comparison in float64. If the error exceeds the tolerance, the operator
compares again on the host and reports which element is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

import numpy as np
import pycuda.driver as cuda
from numpy.typing import NDArray

from lab.base.errors import LabError
from lab.operators.base import STORED_AS, Expected, Inputs
from lab.operators.stored import parts
from lab.toolchain.own import compiled

_THREADS: Final = 256
_BLOCKS: Final = 2048
"""Launch size that fills any GPU; each thread takes every 524288th element."""

_KERNELS: Final = {name: f"compare_{name}" for name in ("float16", "float32", "float64", "int32")} | {
    STORED_AS["bfloat16"]: "compare_bfloat16"
}
"""The kernel for each host array type; `lab.operators.base.Operator.elementwise` defines the comparison."""

LargestError = Callable[[Mapping[str, int]], float]
"""A function from the outputs' device addresses to the largest error."""


@dataclass(frozen=True, slots=True)
class _ExpectedOnDevice:
    """One output's expected values."""

    values: cuda.DeviceAllocation
    scale: cuda.DeviceAllocation
    elements: int
    function: cuda.Function


class Comparer:
    """Comparison kernels for one GPU, compiled once."""

    def __init__(self, arch: str) -> None:
        """Compile and load the kernels.

        Raises:
            CompileError: NVRTC refuses the source.
            MissingToolError: There is no NVRTC.
        """
        source = (resources.files("lab.gpu.device") / "compare.cu").read_text(encoding="utf-8")
        self._module = cuda.module_from_buffer(compiled(source, "compare.cu", arch))
        self._worst = cuda.mem_alloc(8)

    def bind(self, expected: Mapping[str, Expected], outputs: Mapping[str, NDArray[np.generic]]) -> LargestError | None:
        """Copy expected values to the device.

        Args:
            expected: For every output, one float64 value per element of its buffer, in the buffer's order.
            outputs: The outputs, for their element types and sizes.

        Returns:
            A function that compares; None if there is no kernel for an element type.
        """
        outputs = {name: parts(array) for name, array in outputs.items()}
        if any(array.dtype.name not in _KERNELS for array in outputs.values()):
            return None
        sides = {
            name: _ExpectedOnDevice(
                cuda.to_device(np.ascontiguousarray(expected[name].values, np.float64)),
                cuda.to_device(np.ascontiguousarray(expected[name].scale, np.float64)),
                array.size,
                self._module.get_function(_KERNELS[array.dtype.name]),
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


class DeviceComparison:
    """A comparison of outputs with expected values, which are kept on the device until forgotten."""

    def __init__(self, arch: str) -> None:
        """Store the GPU's architecture; nothing is compiled yet."""
        self._arch = arch
        self._comparer: Comparer | None = None
        self._expected: Mapping[str, Expected] | None = None
        self._compare: LargestError | None = None

    def forget(self) -> None:
        """Free the expected values."""
        self._expected = self._compare = None

    def largest_error(
        self, expected: Mapping[str, Expected], inputs: Inputs, pointers: Mapping[str, int]
    ) -> float | None:
        """Return the largest |output - values| / scale over all outputs; None if the device cannot compare.

        Args:
            expected: As `Operator.elementwise` lays it out; copied to the device unless it is there already.
            inputs: For the outputs' names and element types.
            pointers: Device addresses of the outputs.
        """
        if self._expected is not expected:
            self._expected, self._compare = expected, self._bound(expected, inputs)
        return self._compare(pointers) if self._compare else None

    def _bound(self, expected: Mapping[str, Expected], inputs: Inputs) -> LargestError | None:
        self._comparer = self._comparer or comparer(self._arch)
        if self._comparer is None:
            return None
        try:
            return self._comparer.bind(expected, {name: inputs.arrays[name] for name in inputs.outputs})
        except cuda.MemoryError:
            return None


def comparer(arch: str) -> Comparer | None:
    """Return a comparer, or None if its kernels cannot be compiled, so that outputs are compared on the host."""
    try:
        return Comparer(arch)
    except (LabError, cuda.Error):
        return None
