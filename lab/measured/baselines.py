"""The names of the baselines and the operators that each computes.

An experiment names baselines and `lab.gpu.baselines.registry` makes them. Both read this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

CUBLAS: Final = "cublas"
"""SGEMM and DGEMM of NVIDIA's library."""

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
        TORCH: ("softmax", "contraction", "layer_norm", "rms_norm"),
        TORCH_NAIVE: ("softmax",),
        TORCH_JIT: ("softmax",),
        TORCH_COMPILE: ("softmax",),
        TRITON: ("softmax",),
    }
)
"""Name of each baseline to the operators that it computes. `copy` computes none: it moves as many bytes."""
