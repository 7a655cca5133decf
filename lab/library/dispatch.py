"""A library at work: `load` a folder, `select` a kernel, run `gemm` on the GPU.

::

    library = lab.dispatch.load("shipped/sgemm.json")
    library.select(4096, 4096, 64)           # a name; needs no GPU
    library.gemm(1.0, A, B, 0.0, C)          # PyCUDA, CuPy, PyTorch: anything with __cuda_array_interface__
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from lab.base.errors import Location, MissingToolError, UserError
from lab.base.sizes import Size
from lab.library.calls import CallPlan, CallStep, Matrix, apart, matrix, plan, sizes
from lab.library.package import FACTORS, POINTERS, SIZES, Library, LibraryKernel, from_json
from lab.library.tree import Logic

_MOST_REMEMBERED = 1 << 16
"""The most sizes whose kernel is remembered; beyond, the memory is cleared."""

_MOST_PLANS = 1024
"""The most calls whose launches are remembered."""

_LEGACY_STREAM = 1
"""The default stream's number in __cuda_array_interface__, version 3."""


class Picker:
    """Logic that remembers what it picked."""

    def __init__(self, logic: Logic) -> None:
        """Nothing is remembered yet."""
        self._logic = logic
        self._picked: dict[Size, str] = {}

    def select(self, m: int, n: int, k: int) -> str:
        """Return the name of the kernel for a size. Asking for a size again costs one look-up.

        Raises:
            UserError: It is not a size.
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
        """Keep the library and its machine code; the first `gemm` is what needs a GPU.

        Args:
            library: The library.
            folder: Where its cubins are. They are read now, and no file later; `select` needs none.
        """
        super().__init__(library.logic)
        self.library, self.folder = library, folder
        files = {kernel.cubin: folder / kernel.cubin for kernel in library.kernels}
        self._cubins = {name: file.read_bytes() for name, file in files.items() if file.is_file()}
        self._plan = lru_cache(maxsize=_MOST_PLANS)(lambda *point: plan(library, dict(zip(_POINT, point, strict=True))))

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
        """Queue ``C ← α op(A) op(B) + β C`` on a stream of the current context.

        Without a current PyCUDA context, the primary context of the first GPU is used, which other libraries share. It
        is current during the call alone: PyCUDA's stack of contexts is then as it was.

        Args:
            alpha: α.
            A: Column-major matrix on the GPU as it is stored: m x k, or k x m where the library's layout says t.
            B: The same: k x n, or n x k.
            beta: β; with 0, C is not read.
            C: m x n; overwritten.
            stream: A `pycuda.driver.Stream`; None is the default stream. Calls that run at the same time on several
                streams need a dispatcher each, since they share its workspace.

        Raises:
            UserError: A matrix is not what the library takes, or C shares elements with A or B; the message names it.
                Or the process was forked after its first call. Nothing is launched then.
            MissingToolError: PyCUDA or a GPU is missing.
        """
        dtype, layout = self.library.dtype, self.library.layout
        a, b, c = (matrix(name, value, dtype) for name, value in zip(POINTERS, (A, B, C), strict=True))
        m, n, k = sizes(a, b, c, layout)
        apart(a, b, c, dtype)
        made = self._plan(m, n, k, a.leading, b.leading, c.leading, float(alpha), float(beta))
        device = self._device
        with device.current():
            device.wait((a, b, c), stream)
            device.run(made, {"A": a.pointer, "B": b.pointer, "C": c.pointer}, stream)

    @cached_property
    def _device(self) -> _Device:
        return _Device(self.library, self.folder, self._cubins)


_POINT = (*SIZES, *FACTORS)


def load(path: Path | str) -> Dispatcher:
    """Load a library from its JSON, or from the folder that holds it.

    Raises:
        UserError: There is no library, or the file is not one.
    """
    file = Path(path)
    if file.is_dir():
        found = sorted(file.glob("*.json"))
        if len(found) != 1:
            names = [f.name for f in found]
            raise UserError(
                "the folder does not hold exactly one library",
                at=Location(file),
                found=names,
                accepted="a folder with one JSON file, or that file",
            )
        file = found[0]
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the library cannot be read: {error}", at=Location(file)) from error
    return Dispatcher(from_json(text, file), file.parent)


class _Device:
    """Modules, functions and workspace, in the context that is current at first use, else the primary one."""

    def __init__(self, library: Library, folder: Path, cubins: Mapping[str, bytes]) -> None:
        """Find PyCUDA and a context.

        Raises:
            MissingToolError: One of them is missing.
        """
        try:
            cuda: Any = importlib.import_module("pycuda.driver")
            cuda.init()
            self._context: Any = cuda.Context.get_current() or cuda.Device(0).retain_primary_context()
        except ImportError as error:
            raise MissingToolError("gemm needs PyCUDA: python -m pip install 'lab[gpu]'") from error
        except cuda.Error as error:
            raise MissingToolError(f"gemm needs an NVIDIA GPU: {error}") from error
        self._cuda, self._library, self._folder, self._cubins = cuda, library, folder, cubins
        self._process = os.getpid()
        self._allowed: dict[tuple[int, str, str], int] = {}
        self._modules: dict[int, Any] = {}
        self._functions: dict[tuple[int, str, str], Any] = {}
        self._workspace: Any = None
        self._room = 0

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make a context current where none is, and take it off PyCUDA's stack again.

        PyCUDA aborts the process that ends with a context on its stack.
        """
        if os.getpid() != self._process:
            raise UserError(
                "the process was forked after the library's first call, and contexts of CUDA do not survive that",
                at=Location(self._folder),
                accepted="a process that is spawned, or a library that is loaded and called in the new process alone",
            )
        if self._cuda.Context.get_current() is not None:
            yield
            return
        self._context.push()
        try:
            yield
        finally:
            self._cuda.Context.pop()

    def wait(self, matrices: Iterable[Matrix], stream: Any) -> None:  # noqa: ANN401 - PyCUDA has no types
        """Wait for contents that are still being written on another stream, as the interface demands."""
        own = stream.handle if stream is not None else _LEGACY_STREAM
        if any(x.stream not in (None, own) for x in matrices):
            self._cuda.Context.synchronize()

    def run(self, made: CallPlan, pointers: Mapping[str, int], stream: Any) -> None:  # noqa: ANN401 - PyCUDA has no types
        """Queue the launches of a plan."""
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
        """Return the workspace, grown if need be; freeing the old one waits until the GPU no longer uses it."""
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
        if step.shared_bytes > self._allowed.get(key, 0):  # above 48 KiB, static memory included, a kernel must ask
            found.set_attribute(self._cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, step.shared_bytes)
            self._allowed[key] = step.shared_bytes
        return found

    def _module(self, number: int, kernel: LibraryKernel) -> Any:  # noqa: ANN401 - PyCUDA has no types
        if number not in self._modules:
            if kernel.cubin not in self._cubins:
                raise UserError("the library lacks a cubin", at=Location(self._folder / kernel.cubin), key=kernel.name)
            self._modules[number] = self._cuda.module_from_buffer(self._cubins[kernel.cubin])
        return self._modules[number]
