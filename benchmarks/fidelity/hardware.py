"""Run prepared launches on the GPU, one after another: the process that a profiler or a checker watches.

Run ``python benchmarks/fidelity/hardware.py LAUNCHES.pickle``, under ncu or compute-sanitizer.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch with everything it needs.

    Attributes:
        name: For reports.
        cubin: Machine code.
        kernel: Symbol.
        grid: Blocks (x, y, z).
        block: Threads (x, y, z).
        dynamic_shared_bytes: A block's dynamic shared memory.
        arguments: NumPy arrays (each a device buffer of just its size) and NumPy scalars.
    """

    name: str
    cubin: bytes
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    arguments: tuple[Any, ...]


def run(launches: tuple[Prepared, ...]) -> None:
    """Launch each once and wait for it; arrays are copied back in place."""
    import pycuda.driver as cuda  # noqa: PLC0415  other modules import `Prepared` where there is no GPU

    cuda.init()
    context = cuda.Device(0).retain_primary_context()
    context.push()
    try:
        modules: dict[bytes, Any] = {}
        for prepared in launches:
            if prepared.cubin not in modules:
                modules[prepared.cubin] = cuda.module_from_buffer(prepared.cubin)
            function = modules[prepared.cubin].get_function(prepared.kernel)
            if prepared.dynamic_shared_bytes:
                function.set_attribute(
                    cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, prepared.dynamic_shared_bytes
                )
            buffers = [(value, cuda.to_device(value)) for value in prepared.arguments if isinstance(value, np.ndarray)]
            device = iter(buffers)
            values = [next(device)[1] if isinstance(value, np.ndarray) else value for value in prepared.arguments]
            function(*values, grid=prepared.grid, block=prepared.block, shared=prepared.dynamic_shared_bytes)
            context.synchronize()
            for host, allocation in buffers:
                cuda.memcpy_dtoh(host, allocation)
                allocation.free()
    finally:
        context.pop()


def main() -> None:
    """Run the launches of a file."""
    with Path(sys.argv[1]).open("rb") as file:
        launches = pickle.load(file)  # noqa: S301  written by the parent process
    run(launches)


if __name__ == "__main__":
    sys.modules["hardware"] = sys.modules["__main__"]  # the name that the parent pickled `Prepared` under
    main()
