"""PyTorch's softmax and a fused one in Triton as baselines, on the same device buffers, context and stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from lab.base.warp import WARP_SIZE
from lab.gpu.baselines.torch import flat_tensor, module, torch_with_cuda
from lab.gpu.device.backend import Baseline, BaselineMissingError, Enqueue
from lab.measured.baselines import TORCH_JIT, unfused_softmax_elements
from lab.operators.softmax import SoftmaxProblem

_WHOLE_ROW: Final = 32768
"""Longest row, in columns, that the Triton kernel keeps in registers: 1024 threads of 32 elements."""

_BLOCK: Final = 8192
"""Columns that it handles at a time in longer rows."""

_WARPS: Final = (1, 2, 4, 8, 16, 32)
"""Numbers of warps to choose from."""

_MOST_ELEMENTS: Final = 64
"""Elements a thread may hold; more would spill."""


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
    own = torch.cuda.ExternalStream(stream)

    def launch() -> None:
        with torch.cuda.stream(own):
            torch.softmax(x, -1, out=y)

    try:
        launch()
    except (RuntimeError, TypeError) as error:
        raise BaselineMissingError(f"torch.softmax fails: {error}") from error
    own.synchronize()
    return Baseline("torch", f"torch {torch.__version__}", "torch.softmax", "", launch)


def naive_baseline(problem: SoftmaxProblem, pointers: Mapping[str, int], stream: int) -> Baseline:
    """Compute a float32 softmax by five of PyTorch's operations: maximum, difference, exponential, sum, quotient.

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
    own = torch.cuda.ExternalStream(stream)

    def launch() -> None:
        with torch.cuda.stream(own):
            powers = torch.exp(torch.sub(x, torch.amax(x, 1, keepdim=True)))
            torch.div(powers, torch.sum(powers, 1, keepdim=True), out=y)

    try:
        launch()
    except (RuntimeError, TypeError) as error:
        raise BaselineMissingError(f"torch's operations fail: {error}") from error
    own.synchronize()
    moved = 4 * unfused_softmax_elements(problem.m, problem.n)
    return Baseline(
        "torch-naive", f"torch {torch.__version__}", "", f"five operations, which move {moved} bytes", launch
    )


def compiled_baseline(problem: SoftmaxProblem, pointers: Mapping[str, int], stream: int, name: str) -> Baseline:
    """Compute a float32 softmax by the operations of `naive_baseline`, compiled by PyTorch.

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
    own = torch.cuda.ExternalStream(stream)
    function = _torch_functions().softmax_into
    try:
        if name == TORCH_JIT:
            made = torch.jit.script(function)
        else:
            torch.compiler.reset()  # it gives up compiling a function for more than a few shapes
            made = torch.compile(function, fullgraph=True, dynamic=False)

        def launch() -> None:
            with torch.cuda.stream(own):
                made(x, y)

        for _ in range(_WARM_UP):  # TorchScript watches the first executions before it fuses
            launch()
    except Exception as error:  # whatever its compilers raise, the sweep goes on without it
        raise BaselineMissingError(f"{name} fails: {type(error).__name__}: {error}") from error
    own.synchronize()
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
    m, n = problem.m, problem.n
    x, y = (
        _tensor(torch, pointers[name], problem, stride) for name, stride in (("X", problem.ldx), ("Y", problem.ldy))
    )
    own = torch.cuda.ExternalStream(stream)
    whole = n <= _WHOLE_ROW
    kernel = kernels.whole_row if whole else kernels.two_passes
    block = max(WARP_SIZE, 1 << (n - 1).bit_length()) if whole else _BLOCK
    made: dict[int, tuple[Enqueue, Any]] = {}
    for warps in warp_counts(block):

        def queue(warps: int = warps) -> Any:  # noqa: ANN401 - Triton's compiled kernel
            with torch.cuda.stream(own):
                return kernel[(m,)](x, y, n, problem.ldx, problem.ldy, BLOCK=block, num_warps=warps)

        try:
            compiled = queue()
            own.synchronize()
        except Exception as error:  # whatever Triton raises, the sweep goes on without it
            raise BaselineMissingError(f"the Triton kernel fails: {type(error).__name__}: {error}") from error
        made[warps] = (queue, compiled)
    best = min(made, key=lambda warps: timed(made[warps][0]))
    launch, compiled = made[best]
    name = "whole row in registers" if whole else "row read twice"
    library = f"triton {module('triton').__version__}, BLOCK={block}, num_warps={best}, {name}"
    ptx = str(compiled.asm.get("ptx", "")) if hasattr(compiled, "asm") else ""
    return Baseline("triton", library, kernel.fn.__name__, "", launch, ptx=ptx)


def warp_counts(block: int) -> tuple[int, ...]:
    """Return the numbers of warps to try for `block` columns at a time: a thread holds 1 to 64 of them."""
    return tuple(warps for warps in _WARPS if 1 <= block // (WARP_SIZE * warps) <= _MOST_ELEMENTS)


def _triton_kernels() -> ModuleType:
    module("triton")
    return module("lab.gpu.baselines.softmax_triton")
