"""PyTorch's layer norm and RMS norm as baselines, on the same device buffers, context and stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lab.gpu.baselines.torch import flat_tensor, torch_with_cuda
from lab.gpu.device.backend import Baseline, BaselineMissingError
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
    m, n, dtype = problem.m, problem.n, problem.dtype

    def rows(array: str, stride: int) -> Any:  # noqa: ANN401 - a torch.Tensor
        return flat_tensor(torch, pointers[array], m * stride, dtype).as_strided((m, n), (stride, 1))

    x, y = rows("X", problem.ldx), rows("Y", problem.ldy)
    weights = [flat_tensor(torch, pointers[key], n, dtype) for key in ("W", "B") if key in pointers]
    own = torch.cuda.ExternalStream(stream)

    def launch() -> None:
        with torch.cuda.stream(own):
            compute(x, (n,), *weights, eps=problem.epsilon)

    def check() -> None:
        with torch.cuda.stream(own):
            y.copy_(compute(x, (n,), *weights, eps=problem.epsilon))

    try:
        launch()
    except (RuntimeError, TypeError) as error:
        raise BaselineMissingError(f"torch.nn.functional.{name} fails: {error}") from error
    own.synchronize()
    return Baseline("torch", f"torch {torch.__version__}", f"torch.nn.functional.{name}", NOTE, launch, check=check)
