"""A library at work: `load` a folder, `select` a kernel, run `gemm` on the GPU.

::

    library = lab.dispatch.load("shipped/sgemm.json")
    library.select(4096, 4096, 64)           # a name; needs no GPU
    library.gemm(1.0, A, B, 0.0, C)          # PyCUDA, CuPy, PyTorch: anything with __cuda_array_interface__
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lab.base.errors import Location, MissingToolError, UserError
from lab.base.expressions import Scalar, ceil_div
from lab.base.sizes import Size
from lab.library.grid import LARGEST
from lab.library.package import ALIGNMENT, POINTERS, SIZES, Library, LibraryKernel, from_json
from lab.library.tree import Logic
from lab.templates.launches import Launch
from lab.templates.sequence import Scope, resolved

_POINTER_ALIGNMENT = 16
"""Bytes: the widest load of a kernel."""

_MOST_REMEMBERED = 1 << 16
"""Sizes whose kernel is remembered; a program that asks for more starts over."""

_LEGACY_STREAM = 1
"""The default stream's number in __cuda_array_interface__, version 3."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A column-major matrix on the device.

    Attributes:
        pointer: Address of its first element.
        rows: Of the matrix as it is stored.
        columns: The same.
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


class Picker:
    """A logic that remembers what it picked."""

    def __init__(self, logic: Logic) -> None:
        """Nothing is remembered yet."""
        self._logic = logic
        self._picked: dict[Size, str] = {}

    def select(self, m: int, n: int, k: int) -> str:
        """Name of the kernel for a size. A size that was asked for before costs one look-up.

        Raises:
            UserError: it is no size.
        """
        try:
            return self._picked[m, n, k]
        except KeyError:
            name = self._logic.kernels[self._logic.select(m, n, k)]
        if len(self._picked) >= _MOST_REMEMBERED:
            self._picked.clear()
        self._picked[m, n, k] = name
        return name


class Dispatcher(Picker):
    """A loaded library."""

    def __init__(self, library: Library, folder: Path) -> None:
        """Keep the library; the GPU is touched by the first `gemm`."""
        super().__init__(library.logic)
        self.library, self.folder = library, folder
        self._plan = lru_cache(maxsize=1024)(lambda *point: plan(library, dict(zip(_POINT, point, strict=True))))

    def gemm(
        self,
        alpha: float,
        A: object,  # noqa: N803 - BLAS's name
        B: object,  # noqa: N803 - BLAS's name
        beta: float,
        C: object,  # noqa: N803 - BLAS's name
        *,
        stream: Any = None,  # noqa: ANN401 - PyCUDA has no types
    ) -> None:
        """``C ← α op(A) op(B) + β C``, queued on a stream of the current context.

        Without a current context of PyCUDA's that is the primary one of the first GPU, which other libraries use too.

        Args:
            alpha: α.
            A: Column-major matrix on the GPU as it is stored: m x k, or k x m where the library's layout says t.
            B: The same: k x n, or n x k.
            beta: β; with 0, C is not read.
            C: m x n; overwritten.
            stream: A `pycuda.driver.Stream`; None is the default stream. Calls that run at the same time on several
                streams need a dispatcher each, since they share its workspace.

        Raises:
            UserError: a matrix is not what the library takes; the message names it.
            MissingToolError: there is no PyCUDA or no GPU.
        """
        dtype, layout = self.library.dtype, self.library.layout
        a, b, c = (matrix(name, value, dtype) for name, value in zip(POINTERS, (A, B, C), strict=True))
        m, n, k = sizes(a, b, c, layout)
        made = self._plan(m, n, k, a.leading, b.leading, c.leading, float(alpha), float(beta))
        device = self._device
        device.wait((a, b, c), stream)
        device.run(made, {"A": a.pointer, "B": b.pointer, "C": c.pointer}, stream)

    @cached_property
    def _device(self) -> _Device:
        return _Device(self.library, self.folder)


_POINT = (*SIZES, "alpha", "beta")


def load(path: Path | str) -> Dispatcher:
    """A library from its JSON, or from the folder that holds it.

    Raises:
        UserError: there is none, or it is no library.
    """
    file = Path(path)
    if file.is_dir():
        found = sorted(file.glob("*.json"))
        if len(found) != 1:
            names = [f.name for f in found]
            raise UserError(
                "which library?", at=Location(file), found=names, accepted="a folder with one JSON, or its file"
            )
        file = found[0]
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the library cannot be read: {error}", at=Location(file)) from error
    return Dispatcher(from_json(text, file), file.parent)


def matrix(name: str, value: object, dtype: str) -> Matrix:
    """What a launch needs of an array on the GPU.

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
        raise UserError(f"{name} has another element type", key=name, found=interface["typestr"], accepted=dtype)
    shape = tuple(int(extent) for extent in interface["shape"])
    if len(shape) != 2 or min(shape) < 1:  # noqa: PLR2004 - a matrix
        raise UserError(f"{name} is no matrix", key=name, found=shape, accepted="two dimensions, neither of them 0")
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
    """Elements from one column to the next. A stride along an extent of 1 says nothing and is not looked at."""
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
    """m, n and k of a product.

    Raises:
        UserError: the matrices do not fit.
    """
    m, k = (a.rows, a.columns) if layout[0] == "n" else (a.columns, a.rows)
    inner, n = (b.rows, b.columns) if layout[1] == "n" else (b.columns, b.rows)
    if inner != k or (c.rows, c.columns) != (m, n):
        shapes = ", ".join(f"{name} {x.rows} x {x.columns}" for name, x in zip(POINTERS, (a, b, c), strict=True))
        wanted = {"nn": "m x k, k x n", "nt": "m x k, n x k", "tn": "k x m, k x n", "tt": "k x m, n x k"}[layout]
        raise UserError("the matrices do not fit", found=shapes, accepted=f"{wanted}, m x n (layout {layout})")
    return m, n, k


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


class _Device:
    """Modules, functions and workspace in the context that is current when it is made, else the primary one."""

    def __init__(self, library: Library, folder: Path) -> None:
        """Find PyCUDA and a context.

        Raises:
            MissingToolError: there is none.
        """
        try:
            cuda: Any = importlib.import_module("pycuda.driver")
            cuda.init()
            if cuda.Context.get_current() is None:
                cuda.Device(0).retain_primary_context().push()
        except ImportError as error:
            raise MissingToolError("gemm needs PyCUDA: python -m pip install 'lab[gpu]'") from error
        except cuda.Error as error:
            raise MissingToolError(f"gemm needs an NVIDIA GPU: {error}") from error
        self._cuda, self._library, self._folder = cuda, library, folder
        self._modules: dict[int, Any] = {}
        self._functions: dict[tuple[int, str, str], Any] = {}
        self._workspace: Any = None
        self._room = 0

    def wait(self, matrices: Iterable[Matrix], stream: Any) -> None:  # noqa: ANN401 - PyCUDA has no types
        """Wait for contents that are still being made on another stream, as the interface asks of who reads them."""
        own = stream.handle if stream is not None else _LEGACY_STREAM
        if any(x.stream not in (None, own) for x in matrices):
            self._cuda.Context.synchronize()

    def run(self, made: CallPlan, pointers: Mapping[str, int], stream: Any) -> None:  # noqa: ANN401 - PyCUDA has no types
        """Queue a plan."""
        base = self._scratch(made.workspace_bytes)
        addresses = {**pointers, **{buffer.name: base + buffer.offset for buffer in made.buffers}}
        for buffer in made.buffers:
            if buffer.zero:
                self._cuda.memset_d8_async(addresses[buffer.name], 0, buffer.bytes, stream)
        for step in made.steps:
            values = [addresses[v] if isinstance(v, str) else v for v in step.values]
            function = self._function(made.kernel, step)
            function.prepared_async_call(step.grid, step.block, stream, *values, shared_size=step.shared_bytes)

    def _scratch(self, size: int) -> int:
        """Grows, and only then; freeing what was there waits until the GPU has done with it."""
        if size > self._room:
            self._workspace = self._cuda.mem_alloc(size)
            self._room = size
        return int(self._workspace) if self._workspace is not None else 0

    def _function(self, number: int, step: CallStep) -> Any:  # noqa: ANN401 - PyCUDA has no types
        key = (number, step.entry, step.codes)
        if key not in self._functions:
            function = self._module(number, self._library.kernels[number]).get_function(step.entry)
            function.prepare(step.codes)
            self._functions[key] = function
        found = self._functions[key]
        if step.shared_bytes:  # above 48 KiB, static memory included, a kernel must ask for it
            found.set_attribute(self._cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, step.shared_bytes)
        return found

    def _module(self, number: int, kernel: LibraryKernel) -> Any:  # noqa: ANN401 - PyCUDA has no types
        if number not in self._modules:
            file = self._folder / kernel.cubin
            if not file.is_file():
                raise UserError("the library lacks a cubin", at=Location(file), key=kernel.name)
            self._modules[number] = self._cuda.module_from_file(str(file))
        return self._modules[number]
