"""Arrays and streams of other libraries, read in well under a microsecond.

Arrays of PyTorch, CuPy and PyCUDA are read by their own attributes, since making ``__cuda_array_interface__`` costs
microseconds. None of these libraries is imported: whoever passes its arrays has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias

from lab.base.errors import UserError

Form: TypeAlias = tuple[tuple[int, ...], tuple[int, ...] | None, object, bool]
"""The form of an array, without its address: shape; strides, None for C order; element type; writability.

Strides are in bytes, where the element type is PyTorch's in elements. A form can be the key of a dictionary.
"""

Operand: TypeAlias = tuple[int, Form, int | None, int | None]
"""An array on the GPU: address, form, stream, GPU.

Address of its first element; form; stream that its contents are ready on, by the numbering of the interface, and number
of its GPU, each None where the array does not say. A tuple and no class: making an object of a class costs as much as
all the rest of the reading.
"""

_Reader: TypeAlias = Callable[[str, Any], Operand]

_STREAM_ATTRIBUTES = ("cuda_stream", "handle", "ptr")
"""Attributes of PyTorch's, PyCUDA's and CuPy's streams that hold the handle."""


def operand(name: str, array: object) -> Operand:
    """Read an array.

    Args:
        name: For errors: A, B, C.
        array: An array of PyTorch, CuPy or PyCUDA, or anything with ``__cuda_array_interface__``, version 2 or later.

    Raises:
        UserError: It is not on the GPU, or autograd would have to record what is computed of it.
    """
    kind = type(array)
    reader = _readers.get(kind)
    if reader is None:
        reader = _readers[kind] = _reader_of(kind)
    return reader(name, array)


def stream_handle(stream: object) -> int:
    """Return the driver's handle of a stream: 0 for the default stream.

    Args:
        stream: A stream of PyCUDA, PyTorch or CuPy, an object with ``__cuda_stream__``, a handle, or None.

    Raises:
        UserError: It is none of these.
    """
    if stream is None:
        return 0
    kind = type(stream)
    reader = _stream_readers.get(kind)
    if reader is None:
        reader = _stream_readers[kind] = _stream_reader_of(stream)
    try:
        handle = int(reader(stream))
    except (TypeError, ValueError):
        handle = -1
    if handle < 0:
        accepted = "a stream of PyCUDA, PyTorch or CuPy, an object with __cuda_stream__, a handle, or None"
        raise UserError("not a stream", code="wrong-type", key="stream", found=stream, accepted=accepted)
    return 0 if handle == 1 else handle  # both are the legacy default stream


_stream_readers: dict[type, Callable[[Any], int]] = {}
"""Stream readers by the stream's type."""


def _stream_reader_of(example: object) -> Callable[[Any], int]:
    if isinstance(example, int) and not isinstance(example, bool):
        return int
    if "stream" in type(example).__name__.lower():  # arrays have a `ptr`, too
        for name in _STREAM_ATTRIBUTES:
            if hasattr(example, name):
                return attrgetter(name)
    if hasattr(example, "__cuda_stream__"):
        return lambda stream: int(stream.__cuda_stream__()[1])
    return lambda _: -1


def _by_interface(name: str, array: Any) -> Operand:  # noqa: ANN401 - anything
    try:
        interface = getattr(array, "__cuda_array_interface__", None)
    except (RuntimeError, TypeError) as error:  # as a tensor's that cannot be exported
        raise UserError(
            f"{name} cannot be read: {error}", code="unreadable", key=name, found=type(array).__name__
        ) from error
    if interface is None:
        raise _not_on_gpu(name, array)
    pointer, read_only = interface["data"]
    strides = interface.get("strides")
    form = (tuple(interface["shape"]), tuple(strides) if strides else None, interface["typestr"], not read_only)
    return int(pointer), form, interface.get("stream"), None


def _by_pycuda(_: str, array: Any) -> Operand:  # noqa: ANN401 - a GPUArray
    return array.ptr, (array.shape, array.strides, array.dtype, True), None, None


def _torch_reader(torch: Any) -> _Reader:  # noqa: ANN401 - a module
    recording = torch.is_grad_enabled

    def read_tensor(name: str, array: Any) -> Operand:  # noqa: ANN401 - a tensor
        device = array.get_device()
        if device < 0:
            raise _not_on_gpu(name, array)
        if array.requires_grad and recording():
            message = f"{name} requires a gradient, and autograd does not see what a library computes"
            accepted = "a call under torch.no_grad(), or in the forward and backward of a torch.autograd.Function"
            raise UserError(message, code="wrong-type", key=name, accepted=accepted)
        try:
            return array.data_ptr(), (array.shape, array.stride(), array.dtype, True), None, device
        except RuntimeError as error:  # as a sparse tensor, which has no strides
            raise UserError(f"{name} cannot be read: {error}", code="unreadable", key=name) from error

    return read_tensor


def _cupy_reader(cupy: Any) -> _Reader:  # noqa: ANN401 - a module
    current_stream = cupy.cuda.get_current_stream

    def read_array(_: str, array: Any) -> Operand:  # noqa: ANN401 - an array
        memory = array.data
        form = (array.shape, array.strides, array.dtype, True)
        return memory.ptr, form, current_stream().ptr or 1, memory.device_id

    return read_array


_readers: dict[type, _Reader] = {}
"""Array readers by the array's type."""


def _reader_of(kind: type) -> _Reader:
    """Choose a reader. Subclasses of tensors are excluded because they may redefine attributes."""
    if (kind.__module__, kind.__name__) in (("torch", "Tensor"), ("torch.nn.parameter", "Parameter")):
        return _torch_reader(sys.modules["torch"])
    if kind.__name__ == "ndarray" and kind.__module__.partition(".")[0] == "cupy":
        return _cupy_reader(sys.modules["cupy"])
    if (kind.__module__, kind.__name__) == ("pycuda.gpuarray", "GPUArray"):
        return _by_pycuda
    return _by_interface


def _not_on_gpu(name: str, array: object) -> UserError:
    accepted = "an array on the GPU: anything with __cuda_array_interface__"
    return UserError(
        f"{name} is not on the GPU", code="wrong-type", key=name, found=type(array).__name__, accepted=accepted
    )
