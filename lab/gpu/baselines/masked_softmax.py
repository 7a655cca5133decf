"""Masked softmax baselines in PyTorch and Triton, on the same device buffers, context and stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from lab.gpu.baselines.torch import flat_tensor, module, torch_with_cuda
from lab.gpu.baselines.triton_rows import WHOLE_ROW, RowLaunch, block_of, fastest
from lab.gpu.device.backend import Baseline, BaselineMissingError, Enqueue
from lab.operators.masked_softmax import MaskedSoftmaxProblem

_HALF: Final = 0.5
"""Mantissa of a power of two, as `math.frexp` returns it."""

_NOTES: Final = {
    "none": "two operations: the product and torch.softmax",
    "causal": "three operations: the product, masked_fill and torch.softmax",
    "additive": "two operations: torch.add with the scale as its alpha, and torch.softmax",
}


def masked_torch_baseline(problem: MaskedSoftmaxProblem, pointers: Mapping[str, int], stream: int) -> Baseline:
    """Scale, mask and normalise with PyTorch operations, as users write them.

    Args:
        problem: The masked softmax; its rows are whole matrices of queries.
        pointers: Device addresses of X, Y and, of an additive mask, M.
        stream: CUstream as an integer.

    Raises:
        BaselineMissingError: PyTorch is not installed, finds no GPU, or cannot compute it, the last matrix of queries
            lacks rows, or scores would be rounded to 16 bits in between.
    """
    torch = torch_with_cuda()
    m, n, queries = problem.m, problem.n, problem.queries
    if problem.dtype != "float32" and (problem.mask == "additive" or abs(math.frexp(problem.scale)[0]) != _HALF):
        raise BaselineMissingError(f"PyTorch would round scores to {problem.dtype}: only a power of two scales exactly")
    if m % queries:
        raise BaselineMissingError(
            f"the torch baseline needs whole matrices of {queries} queries, and {m} rows are not a multiple"
        )
    shape = (m // queries, queries, n)
    x, y = (
        flat_tensor(torch, pointers[name], m * stride, problem.dtype).as_strided(shape, (queries * stride, stride, 1))
        for name, stride in (("X", problem.ldx), ("Y", problem.ldy))
    )
    torch_stream = torch.cuda.ExternalStream(stream)
    operations = _operations(torch, problem, pointers)

    def launch() -> None:
        with torch.cuda.stream(torch_stream):
            torch.softmax(operations(x), -1, out=y)

    try:
        launch()
    except (RuntimeError, TypeError) as error:
        raise BaselineMissingError(f"torch's operations fail: {error}") from error
    torch_stream.synchronize()
    return Baseline("torch", f"torch {torch.__version__}", "torch.softmax", _NOTES[problem.mask], launch)


def _operations(torch: ModuleType, problem: MaskedSoftmaxProblem, pointers: Mapping[str, int]) -> Callable[[Any], Any]:
    """Return the function from X to the scores."""
    n, queries, scale = problem.n, problem.queries, problem.scale
    if problem.mask == "none":
        return lambda x: x * scale
    if problem.mask == "causal":
        columns, rows = torch.arange(n, device="cuda"), torch.arange(queries, device="cuda")
        hidden = columns[None, :] > rows[:, None] + (n - queries)
        return lambda x: (x * scale).masked_fill(hidden, float("-inf"))
    mask = flat_tensor(torch, pointers["M"], queries * problem.ldm, problem.dtype)
    added = mask.as_strided((queries, n), (problem.ldm, 1))
    return lambda x: torch.add(added, x, alpha=scale)


def masked_triton_baseline(
    problem: MaskedSoftmaxProblem, pointers: Mapping[str, int], stream: int, timed: Callable[[Enqueue], float]
) -> Baseline:
    """Compute the masked softmax in one fused Triton kernel, a row in registers, with the fastest warp count.

    Args:
        problem: The masked softmax.
        pointers: Device addresses of X, Y and, of an additive mask, M.
        stream: CUstream as an integer.
        timed: Times a launch with L2 flushed before it, in milliseconds.

    Raises:
        BaselineMissingError: Triton or PyTorch is not installed, a row is too long for registers, or the kernel fails.
    """
    torch = module("torch")
    kernels = _triton_kernels()
    m, n, queries = problem.m, problem.n, problem.queries
    if n > WHOLE_ROW:
        raise BaselineMissingError(f"the Triton kernel supports rows of at most {WHOLE_ROW} columns, not {n}")
    x, y = (
        flat_tensor(torch, pointers[name], m * stride, problem.dtype)
        for name, stride in (("X", problem.ldx), ("Y", problem.ldy))
    )
    additive = problem.mask == "additive"
    added = flat_tensor(torch, pointers["M"], queries * problem.ldm, problem.dtype) if additive else x
    arguments = (x, added, y, n, queries, problem.scale, problem.ldx, problem.ldm, problem.ldy)
    constants = {"CAUSAL": problem.mask == "causal", "ADDED": additive, "BLOCK": block_of(n)}
    launch = RowLaunch(kernels.masked_row, m, arguments, constants, "whole row in registers")
    return fastest(launch, stream, timed)


def _triton_kernels() -> ModuleType:
    module("triton")
    return module("lab.gpu.baselines.masked_softmax_triton")
