"""Dispatch: `load` a library, `select` a kernel, run `gemm` on the GPU.

::

    library = lab.dispatch.load("reports/mine/sgemm_nn")
    library.select(4096, 4096, 64)           # a name; needs no GPU
    library.gemm(1.0, A, B, 0.0, C)          # PyTorch, CuPy, PyCUDA: anything with __cuda_array_interface__
    library.gemm(1.0, A, B, 0.0, C, stream=torch.cuda.current_stream())
    lab.dispatch.load("h200_sgemm").gemm(1.0, A, B, 0.0, C, layout="tn")  # comes with lab, for all layouts

How streams, threads, contexts and graphs behave is in docs/how-to/dispatch.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

from lab.base.errors import Location, UserError
from lab.base.sizes import Size
from lab.library.archive import StoredLibrary, stored
from lab.library.call_factors import GpuFactors, gpu_factors, host_factors, host_numbers
from lab.library.calls import (
    CallForm,
    CallPlan,
    batch_form,
    call_form,
    check_places,
    plan,
    sized_form,
    workspace_room,
)
from lab.library.combine import combine_ptx, product_form
from lab.library.driver import LEGACY_STREAM
from lab.library.operands import Form, Operand, operand, stream_handle
from lab.library.package import FACTORS, POINTERS, Library
from lab.library.picking import picked
from lab.library.queues import Contexts, Factors, LoadedContext
from lab.library.tree import Logic

_MOST_REMEMBERED = 1 << 16
"""The most sizes with a cached kernel; when it is exceeded, the cache is cleared."""

_MOST_PLANS = 1024
"""The most calls with cached launches, and the most cached array forms."""

_OPERANDS = (*POINTERS, "workspace")


class Picker:
    """Kernel selection with a cache of past selections."""

    def __init__(self, logic: Logic, number: Callable[[int, int, int, int], int] | None = None) -> None:
        """Start with an empty cache.

        Args:
            logic: The logic, for the kernels' names.
            number: What picks a kernel's number; None for the logic alone.
        """
        self._kernels, self._number = logic.kernels, number or logic.select
        self._picked: dict[Size, str] = {}

    def select(self, m: int, n: int, k: int, batch: int = 1) -> str:
        """Return the name of the kernel for a size, for matrices without padding. A repeated query is one dict look-up.

        Args:
            m: Rows of C.
            n: Columns of C.
            k: Length of the sums.
            batch: How many products; a library of single products picks one kernel for any number.

        Raises:
            UserError: It is not a size.
        """
        try:
            return self._picked[m, n, k, batch]
        except KeyError:
            name = self._kernels[self._number(m, n, k, batch)]
        if len(self._picked) >= _MOST_REMEMBERED:
            self._picked.clear()
        self._picked[m, n, k, batch] = name
        return name


class Dispatcher(Picker):
    """A loaded library, for any number of threads, streams, contexts and GPUs."""

    def __init__(self, stored: StoredLibrary) -> None:
        """Keep the library and its machine code. Only the first `gemm` needs a GPU; no file is read after this."""
        library = stored.library
        super().__init__(library.logic, partial(picked, library))
        self.library, self.folder, self._stored = library, stored.place, stored
        self._lock = threading.Lock()
        names = (*library.sizes, *library.factors)
        self._plan = lru_cache(maxsize=_MOST_PLANS)(lambda *point: plan(library, dict(zip(names, point, strict=True))))
        self._takes_pairs = len(library.factors) > len(FACTORS)
        self._products, self._batches = _Forms(library, call_form), _Forms(library, batch_form)

    def gemm(
        self,
        alpha: object,
        A: object,  # noqa: N803 - BLAS's name
        B: object,  # noqa: N803 - BLAS's name
        beta: object,
        C: object,  # noqa: N803 - BLAS's name
        *,
        stream: object = None,
        workspace: object = None,
    ) -> None:
        """Queue ``C ← α op(A) op(B) + β C`` on a stream of the current context.

        Without a current context, that of A's memory is current during the call, which is the primary one for most
        libraries. Nothing is synchronised. The first call of a size on a stream may load a kernel and allocate scratch;
        later ones only queue, so that they can be captured into a graph.

        Args:
            alpha: α, a number of Python's or NumPy's, complex where elements may be; or one element of the library's
                type on the GPU, which a launch reads: nothing waits for it. The product then goes through the workspace
                (`lab.library.combine`).
            A: Column-major matrix on the GPU as it is stored: m x k, or k x m where the library's layout says t.
            B: The same: k x n, or n x k.
            beta: β, the same; with 0, wherever it lies, C is not read.
            C: m x n; overwritten.
            stream: A stream of PyCUDA, PyTorch or CuPy, an object with ``__cuda_stream__``, or a handle; None is the
                default stream, whatever another library's current stream is. It waits for the streams on which CuPy's
                arrays, and others that tell theirs, are being written.
            workspace: Scratch for this call in place of the stream's own: bytes on the GPU, at a multiple of 256, at
                least `workspace_bytes` of them.

        Raises:
            UserError: A matrix or a factor is not what the library takes, or lies on another GPU or in another context,
                or C shares elements with A or B; the message names it. Or the process was forked after its first call,
                or the stream is captured and the call must load or allocate. Nothing is launched then.
            MissingToolError: There is no GPU, or no driver of CUDA 12.0 or newer.
            DriverError: The driver refuses a launch.
        """
        self._run(self._products, (A, B, C), (alpha, beta), stream, workspace)

    def gemm_batched(
        self,
        alpha: object,
        A: object,  # noqa: N803 - BLAS's name
        B: object,  # noqa: N803 - BLAS's name
        beta: object,
        C: object,  # noqa: N803 - BLAS's name
        *,
        stream: object = None,
        workspace: object = None,
    ) -> None:
        """Queue one GEMM per member of strided batches.

        A library of batches, tuned with `NumIndicesC: 3`, picks a kernel by m, n, k and the number of products, and one
        launch of it computes all members. With alpha or beta on the GPU each member is launched for itself.

        The kernels of other libraries compute one product a launch, one after another on the stream, and the kernel is
        chosen for that product alone: a batch of small products leaves most of a GPU idle. What is saved is the rest of
        a call for each member.

        Args:
            alpha: α of every product.
            A: As `gemm` takes it, with a first dimension for the batch: each ``A[i]`` is column-major. All members may
                be one matrix, by a stride of 0.
            B: The same.
            beta: β of every product.
            C: The same; its members share no element.
            stream: As `gemm` takes it.
            workspace: As `gemm` takes it; the members use it in turn.

        Raises:
            UserError: As `gemm`; or the batches differ in length, or a stride is not a multiple of 16 bytes, of a
                library of batches one of whole elements.
            MissingToolError: As `gemm`.
            DriverError: As `gemm`.
        """
        self._run(self._batches, (A, B, C), (alpha, beta), stream, workspace)

    def workspace_bytes(
        self,
        m: int,
        n: int,
        k: int,
        *,
        alpha: complex = 1.0,
        beta: complex = 0.0,
        leading: tuple[int, int, int] | None = None,
        on_gpu: bool = False,
        batch: int = 1,
        strides: tuple[int, int, int] | None = None,
    ) -> int:
        """Return the workspace size of a GEMM in bytes, mostly 0. Needs no GPU.

        Args:
            m: Rows of C.
            n: Columns of C.
            k: Length of the sums.
            alpha: α, on which the launches of some kernels depend.
            beta: β, likewise.
            leading: Leading dimensions of A, B and C; None for matrices without padding.
            on_gpu: α or β lies on the GPU, and the numbers given here do not matter.
            batch: How many products; a library of single products needs no more for many than for one.
            strides: Elements from one member of A, B and C to the next; None where members lie one behind another.

        Raises:
            UserError: It is not a size, or a leading dimension is too small; or the library's type has no factors on
                the GPU.
        """
        form = sized_form(m, n, k, leading, self.library, batch=batch, strides=strides)
        if on_gpu:
            combine_ptx(self.library.dtype)  # refuses types that have none
            product = product_form(form)
            return self._planned(product, (1.0, 0.0)).workspace_bytes + product.spans[2]
        return self._planned(form, host_factors(alpha, beta, self.library.dtype)).workspace_bytes

    def prepare(
        self,
        m: int,
        n: int,
        k: int,
        *,
        alpha: complex = 1.0,
        beta: complex = 0.0,
        leading: tuple[int, int, int] | None = None,
        stream: object = None,
        scratch: bool = True,
        on_gpu: bool = False,
        batch: int = 1,
        strides: tuple[int, int, int] | None = None,
    ) -> None:
        """Load and allocate what a GEMM needs in the current context, so that its first call only queues.

        Args:
            m: Rows of C.
            n: Columns of C.
            k: Length of the sums.
            alpha: α, on which the launches of some kernels depend.
            beta: β, likewise.
            leading: Leading dimensions of A, B and C; None for matrices without padding.
            stream: The stream of the call that is prepared, as `gemm` takes it.
            scratch: Allocate the stream's workspace; not needed where the call brings its own.
            on_gpu: α or β lies on the GPU, and the numbers given here do not matter.
            batch: As `workspace_bytes` takes it.
            strides: As `workspace_bytes` takes them: those of the call that is prepared.

        Raises:
            UserError: It is not a size, a leading dimension is too small, or the stream is captured already.
            MissingToolError: As `gemm`.
            DriverError: As `gemm`.
        """
        form = sized_form(m, n, k, leading, self.library, batch=batch, strides=strides)
        handle = stream_handle(stream)
        factors = None if on_gpu else host_factors(alpha, beta, self.library.dtype)
        current = self._contexts.current()
        with nullcontext(current) if current else self._contexts.pushed(None) as context:
            context.queue(handle).prepare(form, factors, scratch=scratch)

    def _run(
        self,
        forms: _Forms,
        arrays: tuple[object, object, object],
        factors: tuple[object, object],
        stream: object,
        workspace: object,
    ) -> None:
        """Check a call and queue it. The form of the arrays is cached."""
        operands: tuple[Operand, ...]
        operands = a, b, result = operand("A", arrays[0]), operand("B", arrays[1]), operand("C", arrays[2])
        key = a[1], b[1], result[1]
        form = forms.known.get(key) or forms.new(key)
        pointers = at_a, at_b, at_c = a[0], b[0], result[0]
        a_span, b_span, c_span = form.spans
        if (
            (at_a | at_b | at_c) % 16
            or at_a - c_span < at_c < at_a + a_span  # some address lies between those of both, maybe of no element
            or at_b - c_span < at_c < at_b + b_span
            or form.count > 1
        ):
            check_places(form, pointers)
        handle = 0 if stream is None else stream_handle(stream)
        room = None
        if workspace is not None:
            scratch = operand("workspace", workspace)
            room = scratch[0], workspace_room(scratch, form, pointers)
            operands = (*operands, scratch)
        alpha, beta = factors
        numbers: Factors | None
        if type(alpha) is float and type(beta) is float and not self._takes_pairs:
            numbers = alpha, beta
        else:
            numbers = host_numbers(alpha, beta, self.library.dtype)
            if numbers is None:
                scalars = gpu_factors(factors, self.library.dtype, form, pointers, room)
                self._entered(
                    at_a, lambda context: _queue_combined(context, handle, form, operands, scalars, room=room)
                )
                return
        context = self._contexts.current()
        if context is not None:
            _queue(context, handle, form, operands, numbers, room=room)
            return
        with self._contexts.pushed(at_a) as context:
            _queue(context, handle, form, operands, numbers, room=room)

    def _entered(self, pointer: int, call: Callable[[LoadedContext], None]) -> None:
        """Run a call in the current context, or in the context of a pointer if none is current."""
        current = self._contexts.current()
        with nullcontext(current) if current else self._contexts.pushed(pointer) as context:
            call(context)

    def _planned(self, form: CallForm, factors: Factors) -> CallPlan:
        return self._plan(*form.point, *factors)

    @cached_property
    def _contexts(self) -> Contexts:
        with self._lock:
            return self.__dict__.get("_contexts") or Contexts(self._stored, self._planned)


def _queue(
    context: LoadedContext,
    handle: int,
    form: CallForm,
    operands: tuple[Operand, ...],
    factors: Factors,
    *,
    room: tuple[int, int] | None,
) -> None:
    """Queue a call in the current context, after checking that it can access all arrays."""
    a, b, c = operands[:3]
    if not a[3] == b[3] == c[3] == context.trusted or room:
        context.check_reach(_OPERANDS, operands)
    queue = context.queue(handle)
    if not a[2] is b[2] is c[2] is None or room:
        own = handle or LEGACY_STREAM
        other_streams = {array[2] or LEGACY_STREAM for array in operands if array[2] is not None} - {own}
        if other_streams:
            queue.wait_for(sorted(other_streams))
    queue.run(form, (a[0], b[0], c[0]), factors, room)


def _queue_combined(
    context: LoadedContext,
    handle: int,
    form: CallForm,
    operands: tuple[Operand, ...],
    factors: GpuFactors,
    *,
    room: tuple[int, int] | None,
) -> None:
    """Queue a call with alpha or beta on the GPU, after checking that all arrays and factors are accessible."""
    operands_by_name: Mapping[str, Operand] = {**dict(zip(_OPERANDS, operands, strict=False)), **factors.operands}
    context.check_reach(tuple(operands_by_name), tuple(operands_by_name.values()))
    queue = context.queue(handle)
    other_streams = {array[2] or LEGACY_STREAM for array in operands_by_name.values() if array[2] is not None} - {
        handle or LEGACY_STREAM
    }
    if other_streams:
        queue.wait_for(sorted(other_streams))
    a, b, c = (array[0] for array in operands[:3])
    queue.run_combined(form, (a, b, c), factors.places, room)


class _Forms:
    """A cache of call forms, keyed by the forms of the three arrays."""

    def __init__(self, library: Library, reader: Callable[[tuple[Form, Form, Form], Library], CallForm]) -> None:
        self.known: dict[tuple[Form, Form, Form], CallForm] = {}
        self._library, self._reader = library, reader

    def new(self, forms: tuple[Form, Form, Form]) -> CallForm:
        """Check three array forms and cache the result."""
        form = self._reader(forms, self._library)
        if len(self.known) >= _MOST_PLANS:
            self.known.clear()
        self.known[forms] = form
        return form


class LayoutDispatcher:
    """Libraries of one element type for several layouts. It has `Dispatcher`'s methods with an extra `layout` argument.

    ``layout`` holds the BLAS letters of A and B: where the first is t, A is stored k x m; where the second is, B n x k.
    A method raises a UserError where there is no library for the layout.
    """

    def __init__(self, dispatchers: Iterable[Dispatcher]) -> None:
        """Store the dispatchers by layout.

        Raises:
            UserError: Two have the same layout, or their element types differ.
        """
        self.layouts: dict[str, Dispatcher] = {}
        for dispatcher in dispatchers:
            first = next(iter(self.layouts.values()), dispatcher)
            if dispatcher.library.layout in self.layouts or dispatcher.library.dtype != first.library.dtype:
                raise UserError(
                    "the place holds libraries that do not belong together",
                    code="conflict",
                    at=Location(dispatcher.folder),
                    found=f"{dispatcher.library.name} beside {first.library.name}",
                    accepted="libraries of one element type, one for each layout",
                )
            self.layouts[dispatcher.library.layout] = dispatcher

    def select(self, m: int, n: int, k: int, layout: str = "nn", *, batch: int = 1) -> str:
        """Return the name of the kernel for a size; see `Picker.select`."""
        return self._of(layout).select(m, n, k, batch)

    def gemm(
        self,
        alpha: object,
        A: object,  # noqa: N803 - BLAS's name
        B: object,  # noqa: N803 - BLAS's name
        beta: object,
        C: object,  # noqa: N803 - BLAS's name
        *,
        layout: str = "nn",
        stream: object = None,
        workspace: object = None,
    ) -> None:
        """Queue ``C ← α op(A) op(B) + β C``; see `Dispatcher.gemm`."""
        self._of(layout).gemm(alpha, A, B, beta, C, stream=stream, workspace=workspace)

    def gemm_batched(
        self,
        alpha: object,
        A: object,  # noqa: N803 - BLAS's name
        B: object,  # noqa: N803 - BLAS's name
        beta: object,
        C: object,  # noqa: N803 - BLAS's name
        *,
        layout: str = "nn",
        stream: object = None,
        workspace: object = None,
    ) -> None:
        """Queue one GEMM per member of strided batches; see `Dispatcher.gemm_batched`."""
        self._of(layout).gemm_batched(alpha, A, B, beta, C, stream=stream, workspace=workspace)

    def workspace_bytes(self, m: int, n: int, k: int, *, layout: str = "nn", **options: Any) -> int:  # noqa: ANN401 - several
        """Return the workspace size of a GEMM in bytes; see `Dispatcher.workspace_bytes`."""
        return self._of(layout).workspace_bytes(m, n, k, **options)

    def prepare(self, m: int, n: int, k: int, *, layout: str = "nn", **options: Any) -> None:  # noqa: ANN401 - several
        """Load and allocate what a GEMM needs; see `Dispatcher.prepare`."""
        self._of(layout).prepare(m, n, k, **options)

    def _of(self, layout: str) -> Dispatcher:
        if layout not in self.layouts:
            raise UserError(
                "there is no library for this layout",
                code="unknown-name",
                key="layout",
                found=layout,
                accepted=[*self.layouts],
            )
        return self.layouts[layout]


def load(path: Path | str) -> Dispatcher | LayoutDispatcher:
    """Load a library, or several that differ only in layout.

    Args:
        path: A library's JSON or archive; a folder that holds either, or several; or the name of a library that comes
            with lab.

    Raises:
        UserError: There is no library, or the file is not one.
    """
    dispatchers = [Dispatcher(stored_library) for stored_library in stored(path)]
    return dispatchers[0] if len(dispatchers) == 1 else LayoutDispatcher(dispatchers)
