"""Device buffers as PyTorch tensors, in the same context. PyTorch is imported only if an experiment asks for it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from lab.gpu.device.backend import BaselineMissingError

_FORMATS: Final = {
    "float32": "<f4",
    "float64": "<f8",
    "float16": "<f2",
    "bfloat16": "<i2",
    "complex64": "<c8",
    "complex128": "<c16",
}
"""The array interface has no bfloat16: its bits are passed as integers."""


def module(name: str) -> ModuleType:
    """Import a Python module.

    Raises:
        BaselineMissingError: It is not installed or cannot be loaded.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BaselineMissingError(f"{name} cannot be imported here: {error}") from error


def torch_with_cuda() -> ModuleType:
    """Import PyTorch.

    Raises:
        BaselineMissingError: It is not installed or cannot use the GPU.
    """
    torch = module("torch")
    if not torch.cuda.is_available():
        raise BaselineMissingError("torch was built without CUDA, or finds no GPU")
    return torch


@dataclass(frozen=True)
class _DeviceArray:
    """A device buffer with the CUDA array interface (v3), which other libraries read."""

    __cuda_array_interface__: dict[str, object]


def flat_tensor(torch: ModuleType, address: int, elements: int, dtype: str) -> Any:  # noqa: ANN401 - a torch.Tensor
    """Return a tensor of shape (elements,) on a buffer; `as_strided` gives it another shape."""
    data = {"shape": (elements,), "typestr": _FORMATS[dtype], "data": (address, False), "version": 3}
    tensor = torch.as_tensor(_DeviceArray(data), device="cuda")
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
