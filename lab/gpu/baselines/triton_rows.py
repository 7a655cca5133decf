"""Triton kernels that compute one row per program, launched with the fastest warp count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lab.base.warp import WARP_SIZE
from lab.gpu.baselines.torch import module
from lab.gpu.device.backend import Baseline, BaselineMissingError, Enqueue

WHOLE_ROW: Final = 32768
"""Longest row, in columns, that a program keeps in registers: 1024 threads of 32 elements."""

_WARPS: Final = (1, 2, 4, 8, 16, 32)
"""Warp counts to choose from."""

_MOST_ELEMENTS: Final = 64
"""Maximum elements per thread; more would spill."""


def block_of(n: int) -> int:
    """Return the block size for a row of n columns: the next power of two, at least a warp's width."""
    return max(WARP_SIZE, 1 << (n - 1).bit_length())


def warp_counts(block: int) -> tuple[int, ...]:
    """Return the warp counts to try for `block` columns, with 1 to 64 columns per thread."""
    return tuple(warps for warps in _WARPS if 1 <= block // (WARP_SIZE * warps) <= _MOST_ELEMENTS)


@dataclass(frozen=True, slots=True)
class RowLaunch:
    """A launch of a kernel with one row per program.

    Attributes:
        kernel: The function under `triton.jit`.
        rows: Programs.
        arguments: Its arguments, in order.
        constants: Its constant arguments by name; `BLOCK`, the columns that it handles at a time, is one.
        form: The kernel in words.
    """

    kernel: Any
    rows: int
    arguments: tuple[object, ...]
    constants: Mapping[str, int]
    form: str


def fastest(launch: RowLaunch, stream: int, timed: Callable[[Enqueue], float]) -> Baseline:
    """Return the baseline with the fastest of a few warp counts, as Triton's autotuner would choose it.

    Args:
        launch: The launch.
        stream: CUstream as an integer.
        timed: Times a launch with L2 flushed before it, in milliseconds.

    Raises:
        BaselineMissingError: The kernel fails.
    """
    torch, kernel, block = module("torch"), launch.kernel, launch.constants["BLOCK"]
    torch_stream = torch.cuda.ExternalStream(stream)
    launches: dict[int, tuple[Enqueue, Any]] = {}
    for warps in warp_counts(block):

        def queue(warps: int = warps) -> Any:  # noqa: ANN401 - Triton's compiled kernel
            with torch.cuda.stream(torch_stream):
                return kernel[(launch.rows,)](*launch.arguments, **launch.constants, num_warps=warps)

        try:
            compiled = queue()
            torch_stream.synchronize()
        except Exception as error:  # whatever Triton raises, the sweep goes on without it
            raise BaselineMissingError(f"the Triton kernel fails: {type(error).__name__}: {error}") from error
        launches[warps] = (queue, compiled)
    best = min(launches, key=lambda warps: timed(launches[warps][0]))
    queued, compiled = launches[best]
    library = f"triton {module('triton').__version__}, BLOCK={block}, num_warps={best}, {launch.form}"
    ptx = str(compiled.asm.get("ptx", "")) if hasattr(compiled, "asm") else ""
    return Baseline("triton", library, kernel.fn.__name__, "", queued, ptx=ptx)
