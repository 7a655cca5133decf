"""Softmax baselines in PyTorch and Triton, on the same device buffers, context and stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from lab.gpu.baselines.torch import flat_tensor, module, torch_with_cuda
from lab.gpu.baselines.triton_rows import WHOLE_ROW, RowLaunch, block_of, fastest
from lab.gpu.device.backend import Baseline, BaselineMissingError, Enqueue
from lab.measured.baselines import TORCH_JIT, unfused_softmax_elements
from lab.operators.softmax import SoftmaxProblem

_BLOCK: Final = 8192
"""Columns per iteration of the Triton kernel for rows that are too long for registers."""


def _tensor(torch: ModuleType, address: int, problem: SoftmaxProblem, stride: int) -> Any:  # noqa: ANN401 - a torch.Tensor
    """Return a tensor of shape (m, n) on a buffer whose rows are `stride` elements apart."""
    shape = (problem.m, problem.n)
    return flat_tensor(torch, address, problem.m * stride, problem.dtype).as_strided(shape, (stride, 1))


def torch_baseline(problem: SoftmaxProblem, pointers: Mapping[str, int], stream: int) -> Baseline:
    """Compute ``torch.softmax(X, -1, out=Y)``.

    Args:
        problem: The softmax.
        pointers: Device addresses of X and Y.
        stream: CUstream as an integer.

    Raises:
        BaselineMissingError: PyTorch is not installed, finds no GPU, or cannot compute it.
    """
    torch = torch_with_cuda()
    x, y = (_tensor(torch, pointers[n], problem, stride) for n, stride in (("X", problem.ldx), ("Y", problem.ldy)))
    torch_stream = torch.cuda.ExternalStream(stream)

    def launch() -> None:
        with torch.cuda.stream(torch_stream):
            torch.softmax(x, -1, out=y)

    try:
        launch()
    except (RuntimeError, TypeError) as error:
        raise BaselineMissingError(f"torch.softmax fails: {error}") from error
    torch_stream.synchronize()
    return Baseline("torch", f"torch {torch.__version__}", "torch.softmax", "", launch)


def naive_baseline(problem: SoftmaxProblem, pointers: Mapping[str, int], stream: int) -> Baseline:
    """Compute a float32 softmax with five PyTorch operations: maximum, difference, exponential, sum, quotient.

    Args:
        problem: The softmax.
        pointers: Device addresses of X and Y.
        stream: CUstream as an integer.

    Raises:
        BaselineMissingError: PyTorch is not installed, finds no GPU, or cannot compute it, or elements are of 16 bits,
            to which PyTorch would round every intermediate result.
    """
    torch = torch_with_cuda()
    if problem.dtype != "float32":
        raise BaselineMissingError(f"the baseline torch-naive computes float32, not {problem.dtype}")
    x, y = (_tensor(torch, pointers[n], problem, stride) for n, stride in (("X", problem.ldx), ("Y", problem.ldy)))
    torch_stream = torch.cuda.ExternalStream(stream)

    def launch() -> None:
        with torch.cuda.stream(torch_stream):
            powers = torch.exp(torch.sub(x, torch.amax(x, 1, keepdim=True)))
            torch.div(powers, torch.sum(powers, 1, keepdim=True), out=y)

    try:
        launch()
    except (RuntimeError, TypeError) as error:
        raise BaselineMissingError(f"torch's operations fail: {error}") from error
    torch_stream.synchronize()
    bytes_moved = 4 * unfused_softmax_elements(problem.m, problem.n)
    return Baseline(
        "torch-naive", f"torch {torch.__version__}", "", f"five operations, which move {bytes_moved} bytes", launch
    )


def compiled_baseline(problem: SoftmaxProblem, pointers: Mapping[str, int], stream: int, name: str) -> Baseline:
    """Compute a float32 softmax with the operations of `naive_baseline`, compiled by PyTorch.

    Args:
        problem: The softmax.
        pointers: Device addresses of X and Y.
        stream: CUstream as an integer.
        name: `TORCH_JIT` (torch.jit.script) or `TORCH_COMPILE` (torch.compile, for these very shapes).

    Raises:
        BaselineMissingError: PyTorch is not installed, finds no GPU, or cannot compile it, or elements are of 16 bits.
    """
    torch = torch_with_cuda()
    if problem.dtype != "float32":
        raise BaselineMissingError(f"the baseline {name} computes float32, not {problem.dtype}")
    x, y = (_tensor(torch, pointers[n], problem, stride) for n, stride in (("X", problem.ldx), ("Y", problem.ldy)))
    torch_stream = torch.cuda.ExternalStream(stream)
    function = _torch_functions().softmax_into
    try:
        if name == TORCH_JIT:
            compiled = torch.jit.script(function)
        else:
            torch.compiler.reset()  # it gives up compiling a function for more than a few shapes
            compiled = torch.compile(function, fullgraph=True, dynamic=False)

        def launch() -> None:
            with torch.cuda.stream(torch_stream):
                compiled(x, y)

        for _ in range(_WARM_UP):  # TorchScript watches the first executions before it fuses
            launch()
    except Exception as error:  # whatever its compilers raise, the sweep goes on without it
        raise BaselineMissingError(f"{name} fails: {type(error).__name__}: {error}") from error
    torch_stream.synchronize()
    by = "torch.jit.script" if name == TORCH_JIT else "torch.compile"
    return Baseline(name, f"torch {torch.__version__}", by, "the operations of torch-naive, compiled", launch)


_WARM_UP: Final = 3


def _torch_functions() -> ModuleType:
    return module("lab.gpu.baselines.softmax_torch")


def triton_baseline(
    problem: SoftmaxProblem, pointers: Mapping[str, int], stream: int, timed: Callable[[Enqueue], float]
) -> Baseline:
    """Compute a fused softmax in Triton: rows of up to 32768 columns in registers, longer rows read twice.

    The number of warps is the fastest of a few, as Triton's autotuner would choose it.

    Args:
        problem: The softmax.
        pointers: Device addresses of X and Y.
        stream: CUstream as an integer.
        timed: Times a launch with L2 flushed before it, in milliseconds.

    Raises:
        BaselineMissingError: Triton or PyTorch is not installed, or the kernel fails.
    """
    torch = module("torch")
    kernels = _triton_kernels()
    x, y = (
        _tensor(torch, pointers[name], problem, stride) for name, stride in (("X", problem.ldx), ("Y", problem.ldy))
    )
    fits_registers = problem.n <= WHOLE_ROW
    launch = RowLaunch(
        kernels.whole_row if fits_registers else kernels.two_passes,
        problem.m,
        (x, y, problem.n, problem.ldx, problem.ldy),
        {"BLOCK": block_of(problem.n) if fits_registers else _BLOCK},
        "whole row in registers" if fits_registers else "row read twice",
    )
    return fastest(launch, stream, timed)


def _triton_kernels() -> ModuleType:
    module("triton")
    return module("lab.gpu.baselines.softmax_triton")
