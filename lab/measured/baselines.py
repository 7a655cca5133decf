"""Names of the baselines and the operators each computes.

An experiment names baselines and `lab.gpu.baselines.registry` makes them. Both read this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from lab.base.expressions import Scalar

CUBLAS: Final = "cublas"
"""NVIDIA's library: SGEMM, DGEMM, GemmEx and, for FP8, cublasLtMatmul."""

COPY: Final = "copy"
"""A plain copy of the operator's input to its output."""

TORCH: Final = "torch"
"""PyTorch's own function for the operator."""

TORCH_NAIVE: Final = "torch-naive"
"""PyTorch's elementary operations, one after another, with every intermediate result in device memory."""

TORCH_JIT: Final = "torch-jit"
"""The same operations, compiled by torch.jit.script."""

TORCH_COMPILE: Final = "torch-compile"
"""The same operations, compiled by torch.compile."""

TRITON: Final = "triton"
"""A kernel written in Triton."""

BASELINES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        CUBLAS: ("gemm",),
        COPY: (),
        TORCH: ("softmax", "contraction", "layer_norm", "rms_norm", "masked_softmax", "gemm"),
        TORCH_NAIVE: ("softmax",),
        TORCH_JIT: ("softmax",),
        TORCH_COMPILE: ("softmax",),
        TRITON: ("softmax", "layer_norm", "rms_norm", "masked_softmax"),
    }
)
"""The operators each baseline computes; `copy` computes none: it moves as many bytes."""


def unfused_softmax_elements(m: int, n: int) -> int:
    """Count the elements that five operations on m rows of n read and write: 8mn + 4m.

    Maximum: mn read, m written. Difference: mn + m, mn. Exponential: mn, mn. Sum: mn, m. Quotient: mn + m, mn.
    """
    return 8 * m * n + 4 * m


def declared_bytes(name: str, operator: str, problem: Mapping[str, Scalar]) -> int | None:
    """Return the DRAM bytes moved by a baseline's operations.

    Args:
        name: The baseline.
        operator: The operator's name.
        problem: Its problem, complete.

    Returns:
        Bytes read and written; None if the baseline's kernels are unknown.
    """
    counted = _BYTES.get((name, operator))
    return counted(problem) if counted else None


_BYTES: Final[Mapping[tuple[str, str], Callable[[Mapping[str, Scalar]], int]]] = MappingProxyType(
    {
        (TORCH_NAIVE, "softmax"): lambda problem: (
            4 * unfused_softmax_elements(int(problem["m"]), int(problem["n"]))  # float32, whatever the problem's type
        ),
    }
)
