"""Kernels in Triton that compute one row a program, launched with the number of warps that is fastest."""

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
"""Numbers of warps to choose from."""

_MOST_ELEMENTS: Final = 64
"""Elements a thread may hold; more would spill."""


def block_of(n: int) -> int:
    """Return the columns of a program that holds a row of n: the next power of two, and a warp's at least."""
    return max(WARP_SIZE, 1 << (n - 1).bit_length())


def warp_counts(block: int) -> tuple[int, ...]:
    """Return the numbers of warps to try for `block` columns at a time: a thread holds 1 to 64 of them."""
    return tuple(warps for warps in _WARPS if 1 <= block // (WARP_SIZE * warps) <= _MOST_ELEMENTS)


@dataclass(frozen=True, slots=True)
class RowLaunch:
    """A launch of a kernel of one row a program.

    Attributes:
        kernel: The function under `triton.jit`.
        rows: Programs.
        arguments: What it is called with, in order.
        constants: Its constant arguments by name; `BLOCK`, the columns that it handles at a time, is one.
        form: The kernel in words.
    """

    kernel: Any
    rows: int
    arguments: tuple[object, ...]
    constants: Mapping[str, int]
    form: str


def fastest(launch: RowLaunch, stream: int, timed: Callable[[Enqueue], float]) -> Baseline:
    """Return the baseline of a kernel with the fastest of a few numbers of warps, as Triton's autotuner would.

    Args:
        launch: The launch.
        stream: CUstream as an integer.
        timed: Times a launch with L2 flushed before it, in milliseconds.

    Raises:
        BaselineMissingError: The kernel fails.
    """
    torch, kernel, block = module("torch"), launch.kernel, launch.constants["BLOCK"]
    own = torch.cuda.ExternalStream(stream)
    made: dict[int, tuple[Enqueue, Any]] = {}
    for warps in warp_counts(block):

        def queue(warps: int = warps) -> Any:  # noqa: ANN401 - Triton's compiled kernel
            with torch.cuda.stream(own):
                return kernel[(launch.rows,)](*launch.arguments, **launch.constants, num_warps=warps)

        try:
            compiled = queue()
            own.synchronize()
        except Exception as error:  # whatever Triton raises, the sweep goes on without it
            raise BaselineMissingError(f"the Triton kernel fails: {type(error).__name__}: {error}") from error
        made[warps] = (queue, compiled)
    best = min(made, key=lambda warps: timed(made[warps][0]))
    queued, compiled = made[best]
    library = f"triton {module('triton').__version__}, BLOCK={block}, num_warps={best}, {launch.form}"
    ptx = str(compiled.asm.get("ptx", "")) if hasattr(compiled, "asm") else ""
    return Baseline("triton", library, kernel.fn.__name__, "", queued, ptx=ptx)
