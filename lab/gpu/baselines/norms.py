"""Layer norm and RMS norm baselines in PyTorch and Triton, on the same buffers, context and stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from lab.gpu.baselines.torch import flat_tensor, module, torch_with_cuda
from lab.gpu.baselines.triton_rows import WHOLE_ROW, RowLaunch, block_of, fastest
from lab.gpu.device.backend import Baseline, BaselineMissingError, Enqueue
from lab.operators.norms import NormProblem

NOTE: Final = "its result stays in PyTorch's memory; the time includes no copy to Y"


def norm_baseline(name: str, problem: NormProblem, pointers: Mapping[str, int], stream: int) -> Baseline:
    """Compute ``torch.nn.functional.layer_norm`` or ``rms_norm``.

    Args:
        name: ``layer_norm`` or ``rms_norm``.
        problem: The norm.
        pointers: Device addresses of X, Y and the weights.
        stream: CUstream as an integer.

    Raises:
        BaselineMissingError: PyTorch is not installed, finds no GPU, or cannot compute it; `rms_norm` came with 2.4.
    """
    torch = torch_with_cuda()
    compute = getattr(torch.nn.functional, name, None)
    if compute is None:
        raise BaselineMissingError(f"torch {torch.__version__} has no torch.nn.functional.{name}")
    n = problem.n
    x, weights, y = _tensors(torch, problem, pointers)
    torch_stream = torch.cuda.ExternalStream(stream)

    def launch() -> None:
        with torch.cuda.stream(torch_stream):
            compute(x, (n,), *weights, eps=problem.epsilon)

    def check() -> None:
        with torch.cuda.stream(torch_stream):
            y.copy_(compute(x, (n,), *weights, eps=problem.epsilon))

    try:
        launch()
    except (RuntimeError, TypeError) as error:
        raise BaselineMissingError(f"torch.nn.functional.{name} fails: {error}") from error
    torch_stream.synchronize()
    return Baseline("torch", f"torch {torch.__version__}", f"torch.nn.functional.{name}", NOTE, launch, check=check)


def triton_norm_baseline(
    name: str,
    problem: NormProblem,
    pointers: Mapping[str, int],
    stream: int,
    timed: Callable[[Enqueue], float],
) -> Baseline:
    """Compute a layer norm or RMS norm in Triton, a row in registers, with the fastest warp count.

    Args:
        name: ``layer_norm`` or ``rms_norm``.
        problem: The norm.
        pointers: Device addresses of X, Y and the weights.
        stream: CUstream as an integer.
        timed: Times a launch with L2 flushed before it, in milliseconds.

    Raises:
        BaselineMissingError: Triton or PyTorch is not installed, a row is too long for registers, or the kernel fails.
    """
    torch = module("torch")
    kernels = _triton_kernels()
    if problem.n > WHOLE_ROW:
        raise BaselineMissingError(f"the Triton kernel supports rows of at most {WHOLE_ROW} columns, not {problem.n}")
    x, weights, y = _tensors(torch, problem, pointers)
    arguments = (x, *weights, y, problem.n, problem.ldx, problem.ldy, problem.epsilon)
    kernel, constants = getattr(kernels, f"{name}_row"), {"BLOCK": block_of(problem.n)}
    return fastest(RowLaunch(kernel, problem.m, arguments, constants, "whole row in registers"), stream, timed)


def _tensors(torch: ModuleType, problem: NormProblem, pointers: Mapping[str, int]) -> tuple[Any, list[Any], Any]:
    """Return X, the weights and Y as tensors: (m, n), (n,) each, and (m, n)."""
    m, n, dtype = problem.m, problem.n, problem.dtype
    x, y = (
        flat_tensor(torch, pointers[array], m * stride, dtype).as_strided((m, n), (stride, 1))
        for array, stride in (("X", problem.ldx), ("Y", problem.ldy))
    )
    return x, [flat_tensor(torch, pointers[key], n, dtype) for key in ("W", "B") if key in pointers], y


def _triton_kernels() -> ModuleType:
    module("triton")
    return module("lab.gpu.baselines.norms_triton")
