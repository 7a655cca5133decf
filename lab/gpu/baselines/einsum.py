"""PyTorch's einsum as a baseline, on the same device buffers, context and stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lab.base.elements import PARTS
from lab.gpu.baselines.torch import flat_tensor, torch_with_cuda
from lab.gpu.device.backend import Baseline, BaselineMissingError
from lab.operators.contraction import ContractionProblem, layouts
from lab.operators.tensors import Layout

NOTE: Final = "its result stays in PyTorch's memory; the time includes no copy to C"


def einsum_baseline(problem: ContractionProblem, pointers: Mapping[str, int], stream: int) -> Baseline:
    """Compute ``torch.einsum(equation, A, B)`` without TF32, with α and β applied.

    Args:
        problem: The contraction.
        pointers: Device addresses of A, B and C.
        stream: CUstream as an integer.

    Raises:
        BaselineMissingError: PyTorch is not installed, finds no GPU, or cannot compute the contraction.
    """
    torch = torch_with_cuda()
    torch.set_float32_matmul_precision("highest")
    dtype, equation = problem.dtype, problem.einsum
    alpha, beta = problem.factors if dtype in PARTS else (problem.alpha, problem.beta)

    def tensor(name: str, layout: Layout) -> Any:  # noqa: ANN401 - a torch.Tensor
        return flat_tensor(torch, pointers[name], layout.elements, dtype).as_strided(layout.sizes, layout.strides)

    a, b, c = (tensor(name, layout) for name, layout in layouts(problem).items())
    torch_stream = torch.cuda.ExternalStream(stream)

    def result() -> Any:  # noqa: ANN401 - a torch.Tensor
        if alpha == 0:
            return beta * c if beta else torch.zeros_like(c)
        product = torch.einsum(equation, a, b)
        if beta:
            return torch.add(beta * c, product, alpha=alpha)
        return product if alpha == 1 else alpha * product

    def launch() -> None:
        with torch.cuda.stream(torch_stream):
            result()

    def check() -> None:
        with torch.cuda.stream(torch_stream):
            c.copy_(result())

    try:
        launch()
    except RuntimeError as error:  # includes running out of memory
        raise BaselineMissingError(f"torch.einsum fails: {error}") from error
    torch_stream.synchronize()
    return Baseline("torch", f"torch {torch.__version__}", "torch.einsum", NOTE, launch, check=check)
