"""Softmax for PyTorch's autograd, built from the forward and backward templates of `kernel_src`.

::

    from lab.gpu.autograd import softmax

    softmax(x).backward(dy)      # x: a tensor on the GPU; along the last dimension, as torch.softmax(x, -1)

PyTorch and PyCUDA share the device's primary context. A kernel runs on its own stream, after the work queued on
PyTorch's current stream and before later work there. Each call prepares its launch again, so its host overhead exceeds
PyTorch's. The kernel is compiled once per element type and row size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.base.functions import ceil_div
from lab.base.warp import SECTOR_BYTES
from lab.gpu.baselines.torch import torch_with_cuda
from lab.operators.base import STORED_AS, Inputs
from lab.operators.builtin import operator
from lab.templates.front_matter import load, search_path
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

DTYPES: Final = ("float32", "float16", "bfloat16")

_WIDTH: Final = 4
"""Elements per vector access."""

_ITEMS: Final = 8
"""Maximum vectors of a row per thread: 64 registers for two rows in float32."""

_THREADS: Final = (32, 64, 128, 256, 512, 1024)

LONGEST: Final = _THREADS[-1] * _ITEMS * _WIDTH
"""Longest row, in elements."""


def instance(name: str, rows: int, columns: int, dtype: str) -> Instance:
    """Return the kernel for contiguous rows, with the fewest threads per row that hold it in `_ITEMS` vectors each.

    Args:
        name: ``softmax`` or ``softmax_backward``.
        rows: Rows of the matrix.
        columns: Elements of a row.
        dtype: Element type.

    Raises:
        UserError: The rows are too long, or their element type is not supported.
    """
    if dtype not in DTYPES:
        raise UserError(
            "this element type is not supported",
            code="nothing-left",
            key="dtype",
            found=dtype,
            accepted=", ".join(DTYPES),
        )
    if columns > LONGEST:
        raise UserError(
            "the rows are too long",
            code="out-of-range",
            key="columns",
            found=columns,
            accepted=f"at most {LONGEST} elements",
        )
    threads = next(count for count in _THREADS if count * _ITEMS * _WIDTH >= columns)
    parameters: dict[str, Scalar] = {
        "threads": threads,
        "rows_per_block": max(1, 128 // threads),
        "items": ceil_div(columns, threads * _WIDTH),
        "vector_width": _WIDTH,
        "shifted": True,
    }
    problem = operator(name).problem({"m": rows, "n": columns, "dtype": dtype})
    return Instance.of(load(f"{name}/fused.cu.j2", search_path()), parameters, problem)


def softmax(x: Any) -> Any:  # noqa: ANN401 - a torch.Tensor
    """Return the softmax of a tensor along its last dimension, differentiable by autograd.

    Args:
        x: A tensor on the GPU, of float32, float16 or bfloat16, with at most `LONGEST` elements along its last
            dimension.

    Raises:
        BaselineMissingError: PyTorch is not installed or finds no GPU.
        UserError: There is no kernel for the tensor.
    """
    return _function().apply(x)


@cache
def _function() -> Any:  # noqa: ANN401 - a torch.autograd.Function
    torch: Any = torch_with_cuda()

    class RowSoftmax(torch.autograd.Function):  # type: ignore[misc]
        """Softmax along the last dimension."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:  # noqa: ANN401
            """Compute Y from X."""
            x = _aligned(x)
            y = torch.empty_like(x)
            _run(torch, "softmax", {"X": x, "Y": y})
            ctx.save_for_backward(y)
            return y

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, dy: Any) -> Any:  # noqa: ANN401
            """Compute dX from Y and dY."""
            (y,) = ctx.saved_tensors
            dx = torch.empty_like(y)
            _run(torch, "softmax_backward", {"Y": y, "dY": _aligned(dy), "dX": dx})
            return dx

    return RowSoftmax


def _aligned(tensor: Any) -> Any:  # noqa: ANN401
    """Return a contiguous tensor aligned to a sector, as the kernels assume."""
    contiguous = tensor.contiguous()
    return contiguous.clone() if contiguous.data_ptr() % SECTOR_BYTES else contiguous


def _run(torch: Any, name: str, tensors: Mapping[str, Any]) -> None:  # noqa: ANN401
    """Launch a kernel on contiguous tensors of one shape."""
    first = next(iter(tensors.values()))
    if not first.is_cuda or first.dim() == 0:
        raise UserError(
            "x must be a tensor of rows on the GPU",
            code="wrong-type",
            key="x",
            found=f"{tuple(first.shape)} on {first.device}",
        )
    if first.numel() == 0:
        return
    columns = int(first.shape[-1])
    kernel = instance(name, first.numel() // columns, columns, str(first.dtype).removeprefix("torch."))
    pointers = {key: int(tensor.data_ptr()) for key, tensor in tensors.items()}
    major, minor = torch.cuda.get_device_capability(first.device)
    with _on(first.device.index) as (launcher, modules, stream):
        cubin = _cubin(kernel.source, f"sm_{major}{minor}")
        module = modules(cubin)
        dtype = STORED_AS.get(str(kernel.problem["dtype"]), str(kernel.problem["dtype"]))
        scalars = {key: value for key, value in kernel.problem.items() if isinstance(value, int)}
        inputs = Inputs(scalars, {key: np.empty(0, dtype) for key in pointers}, ())
        launch = launcher.sequence(module, cubin, kernel.launches, inputs, pointers)
        kernel_stream, current = (
            torch.cuda.ExternalStream(stream.handle, first.device),
            torch.cuda.current_stream(first.device),
        )
        kernel_stream.wait_stream(current)
        launch()
        current.wait_stream(kernel_stream)  # later frees and writes of the tensors are queued after the kernel


@lru_cache(maxsize=256)
def _cubin(source: str, arch: str) -> bytes:
    return toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", arch)).cubin


@contextmanager
def _on(device: int) -> Iterator[tuple[Any, Any, Any]]:
    """Make a device's primary context current; yield its launcher, module loader and stream."""
    context, launcher, modules, stream = _device(device)
    context.push()
    try:
        yield launcher, modules, stream
    finally:
        context.pop()


@cache
def _device(number: int) -> tuple[Any, Any, Any, Any]:
    import pycuda.driver as cuda  # noqa: PLC0415 - needs the driver: not at import

    from lab.gpu.device.launching import Launcher  # noqa: PLC0415 - imports PyCUDA

    cuda.init()
    device = cuda.Device(number)
    context = device.retain_primary_context()
    context.push()
    try:
        stream = cuda.Stream()
    finally:
        cuda.Context.pop()
    return context, Launcher(device, stream), lru_cache(maxsize=256)(cuda.module_from_buffer), stream
