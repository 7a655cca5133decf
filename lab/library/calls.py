"""Calls of a library, planned without a GPU: which kernel runs, its launches, and where its scratch lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar
from lab.base.functions import ceil_div
from lab.library.grid import LARGEST
from lab.library.package import ALIGNMENT, POINTERS, Library
from lab.templates.launches import Launch
from lab.templates.sequence import Scope, resolved

_POINTER_ALIGNMENT = 16
"""Bytes: the widest load of a kernel."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A column-major matrix on the device.

    Attributes:
        pointer: Address of its first element.
        rows: Rows of the matrix as it is stored.
        columns: Columns of it.
        leading: Elements from one column to the next.
        stream: Stream that its contents are ready on, by the interface's numbering; None where it does not say.
    """

    pointer: int
    rows: int
    columns: int
    leading: int
    stream: int | None = None


@dataclass(frozen=True, slots=True)
class CallStep:
    """One launch of a call, with everything but the addresses.

    Attributes:
        entry: Symbol.
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        shared_bytes: Dynamic shared memory of a block.
        codes: Its arguments in the notation of `struct`.
        values: For each argument a number, or the name of a matrix or a scratch buffer.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    codes: str
    values: tuple[int | float | str, ...]


@dataclass(frozen=True, slots=True)
class CallBuffer:
    """A scratch buffer of a call.

    Attributes:
        name: What arguments call it.
        offset: Bytes from the start of the workspace.
        bytes: Its size.
        zero: Set to zero before the launches.
    """

    name: str
    offset: int
    bytes: int
    zero: bool


@dataclass(frozen=True, slots=True)
class CallPlan:
    """What computes one product.

    Attributes:
        kernel: Number of the kernel.
        steps: Launches, in order.
        buffers: Scratch, in the order in which it lies in the workspace.
        workspace_bytes: Size of all buffers together.
    """

    kernel: int
    steps: tuple[CallStep, ...]
    buffers: tuple[CallBuffer, ...]
    workspace_bytes: int


def matrix(name: str, value: object, dtype: str) -> Matrix:
    """Return what a launch needs to know of an array on the GPU.

    Args:
        name: For errors: A, B, C.
        value: Anything with ``__cuda_array_interface__`` (version 2 or later).
        dtype: Element type that the library takes.

    Raises:
        UserError: it has no such interface, another element type, another number of dimensions, is not
            column-major, or is not aligned.
    """
    interface: Mapping[str, Any] | None = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        accepted = "an array on the GPU: anything with __cuda_array_interface__"
        raise UserError(f"{name} is not on the GPU", key=name, found=type(value).__name__, accepted=accepted)
    if np.dtype(interface["typestr"]) != np.dtype(dtype):
        raise UserError(f"{name} has the wrong element type", key=name, found=interface["typestr"], accepted=dtype)
    shape = tuple(int(extent) for extent in interface["shape"])
    if len(shape) != 2 or min(shape) < 1:  # noqa: PLR2004 - a matrix
        raise UserError(f"{name} is not a matrix", key=name, found=shape, accepted="two dimensions, both at least 1")
    rows, columns = shape
    pointer, read_only = interface["data"]
    if name == "C" and read_only:
        raise UserError("C is read-only", key=name)
    if int(pointer) % _POINTER_ALIGNMENT:
        accepted = f"a multiple of {_POINTER_ALIGNMENT} bytes"
        raise UserError(f"{name} is not aligned", key=name, found=hex(int(pointer)), accepted=accepted)
    leading = _leading(name, rows, columns, interface.get("strides"), np.dtype(dtype).itemsize)
    return Matrix(int(pointer), rows, columns, leading, interface.get("stream"))


def _leading(name: str, rows: int, columns: int, strides: tuple[int, ...] | None, item: int) -> int:
    """Return the elements from one column to the next. A stride along an extent of 1 does not matter."""
    down, across = strides or (columns * item, item)  # no strides: C order, by the interface's definition
    leading, odd = divmod(int(across), item) if columns > 1 else (rows, 0)
    if (rows > 1 and down != item) or odd or leading < rows:
        raise UserError(
            f"{name} is not column-major",
            key=name,
            found=f"{rows} x {columns}, strides {(down, across)} in bytes",
            accepted=f"strides ({item}, at least {rows * item}), as of an array made with order='F'",
        )
    if leading * columns > LARGEST:
        accepted = f"at most {LARGEST} elements: kernels index with 32-bit integers"
        raise UserError(f"{name} is too large", key=name, found=f"{leading} x {columns}", accepted=accepted)
    return leading


def sizes(a: Matrix, b: Matrix, c: Matrix, layout: str) -> tuple[int, int, int]:
    """Return m, n and k of a product.

    Raises:
        UserError: The shapes of the matrices do not fit together.
    """
    m, k = (a.rows, a.columns) if layout[0] == "n" else (a.columns, a.rows)
    inner, n = (b.rows, b.columns) if layout[1] == "n" else (b.columns, b.rows)
    if inner != k or (c.rows, c.columns) != (m, n):
        shapes = ", ".join(f"{name} {x.rows} x {x.columns}" for name, x in zip(POINTERS, (a, b, c), strict=True))
        wanted = {"nn": "m x k, k x n", "nt": "m x k, n x k", "tn": "k x m, k x n", "tt": "k x m, n x k"}[layout]
        raise UserError(
            "the shapes of the matrices do not fit together",
            found=shapes,
            accepted=f"{wanted}, m x n (layout {layout})",
        )
    return m, n, k


def apart(a: Matrix, b: Matrix, c: Matrix, dtype: str) -> None:
    """Refuse a C that shares elements with A or B: blocks of C are written while others still read these.

    Parts of one larger matrix whose elements differ are apart, though their addresses interleave.

    Raises:
        UserError: They share elements.
    """
    item = np.dtype(dtype).itemsize
    for name, other in zip(POINTERS[:2], (a, b), strict=True):
        if _end(other, item) <= c.pointer or _end(c, item) <= other.pointer:
            continue
        at = c.pointer + item * c.leading * np.arange(c.columns, dtype=np.int64)
        columns = other.pointer + item * other.leading * np.arange(other.columns, dtype=np.int64)
        # the last column of it that begins before each of C's ends
        last = np.searchsorted(columns, at + item * c.rows) - 1
        if ((last >= 0) & (columns[last] + item * other.rows > at)).any():
            raise UserError(
                f"C shares elements with {name}",
                key="C",
                found=f"{name} at {hex(other.pointer)}, C at {hex(c.pointer)}",
                accepted="a C of its own, or another part of the same matrix",
            )


def _end(x: Matrix, item: int) -> int:
    """The address behind the last element of a matrix."""
    return x.pointer + item * (x.leading * (x.columns - 1) + x.rows)


def plan(library: Library, point: Mapping[str, Scalar]) -> CallPlan:
    """Plan the launches for one product, addresses apart. Needs no GPU.

    Args:
        library: The library.
        point: m, n, k, leading dimensions, alpha, beta.

    Raises:
        UserError: An expression of the library fails, or its result is not a legal launch.
    """
    number = library.logic.select(*(int(point[axis]) for axis in ("m", "n", "k")))
    kernel = library.kernels[number]
    at = Location(kernel.name)
    made = resolved(kernel.declared, kernel.buffers, Scope(point, frozenset(point), lambda _: at, library.dtype))
    buffers, end = [], 0
    for buffer in made.workspace:
        buffers.append(CallBuffer(buffer.name, end, buffer.bytes, buffer.zero))
        end += ceil_div(buffer.bytes, ALIGNMENT) * ALIGNMENT
    return CallPlan(number, tuple(_step(launch, point) for launch in made.steps), tuple(buffers), end)


def _step(launch: Launch, point: Mapping[str, Scalar]) -> CallStep:
    kinds = [kind for _, kind in launch.arguments]
    return CallStep(
        launch.entry,
        launch.grid,
        launch.block,
        launch.dynamic_shared_bytes,
        "".join("P" if kind.endswith("*") else np.dtype(kind).char for kind in kinds),
        tuple(name if kind.endswith("*") else _number(point[name], kind) for name, kind in launch.arguments),
    )


def _number(value: Scalar, kind: str) -> int | float:
    return float(value) if np.dtype(kind).kind == "f" else int(value)
