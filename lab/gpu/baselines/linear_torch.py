"""PyTorch's linear layer with GELU as the baseline of a GEMM with an epilogue, on the same buffers and stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lab.gpu.baselines.torch import flat_tensor, torch_with_cuda
from lab.gpu.device.backend import Baseline, BaselineMissingError
from lab.operators.base import Inputs
from lab.operators.gemm import GemmProblem

_CALLED: Final[Mapping[str, str]] = {
    "bias": "torch.addmm",
    "bias_gelu": "torch.addmm, torch.gelu",
    "bias_gelu_tanh": "torch._addmm_activation",
}

_TWICE: Final = (
    "rounded twice, before and after GELU: the result is not checked, since the tolerance is that of one rounding"
)


def linear_baseline(problem: GemmProblem, inputs: Inputs, pointers: Mapping[str, int], stream: int) -> Baseline:
    """Compute ``gelu(linear(x, weight, bias))`` with PyTorch's fastest operations.

    `torch.addmm` fuses a bias alone (cuBLASLt adds it). `torch._addmm_activation` also fuses the tanh GELU, as
    cuBLASLt's epilogue, and is the only way to call it. For the erf GELU, PyTorch launches a separate kernel, which
    here writes to C's memory.

    C is the layer's output transposed, as `lab.operators.epilogues` explains: x is op(B) transposed, n x k, and the
    weight op(A) transposed, m x k, so that PyTorch's product reads and writes the buffers as they lie.

    Args:
        problem: A GEMM with an epilogue.
        inputs: Its arrays, for their lengths.
        pointers: Device addresses of A, B, C and bias.
        stream: CUstream as an integer.

    Raises:
        BaselineMissingError: There is no epilogue, PyTorch is not installed or finds no GPU, or a linear layer does not
            compute the problem.
    """
    if problem.epilogue is None:
        raise BaselineMissingError("the baseline torch computes GEMMs with an epilogue; cublas computes the others")
    if (problem.alpha, problem.beta) != (1, 0) or problem.out_dtype != problem.dtype:
        raise BaselineMissingError("a linear layer has alpha = 1, beta = 0 and a result of its operands' type")
    torch = torch_with_cuda()

    def transposed(name: str, *, stored: bool) -> Any:  # noqa: ANN401 - a torch.Tensor
        """Return a matrix transposed; `stored` means that it is so already, as column-major read row-major."""
        rows, columns, leading = problem.shapes[name]
        flat = flat_tensor(torch, pointers[name], len(inputs.arrays[name]), problem.dtypes[name])
        as_rows = flat.as_strided((columns, rows), (leading, 1))
        return as_rows if stored else as_rows.t()

    x = transposed("B", stored=problem.layout[1] == "n")
    weight = transposed("A", stored=problem.layout[0] == "n")  # k x m: the layer's weight transposed
    out = transposed("C", stored=True)
    bias = flat_tensor(torch, pointers["bias"], problem.m, problem.dtype)
    torch_stream = torch.cuda.ExternalStream(stream)
    called = _CALLED[problem.epilogue]

    def launch() -> None:
        with torch.cuda.stream(torch_stream):
            if problem.epilogue == "bias_gelu_tanh":
                torch._addmm_activation(bias, x, weight, use_gelu=True, out=out)  # noqa: SLF001 - the only name it has
                return
            torch.addmm(bias, x, weight, out=out)
            if problem.epilogue == "bias_gelu":
                torch.ops.aten.gelu_(out)

    try:
        launch()
    except RuntimeError as error:  # includes running out of memory
        raise BaselineMissingError(f"{called} fails: {error}") from error
    torch_stream.synchronize()
    twice = problem.epilogue == "bias_gelu"
    return Baseline("torch", f"torch {torch.__version__}", called, _TWICE if twice else "", launch, computes=not twice)
