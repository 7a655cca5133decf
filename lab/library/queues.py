"""A loaded library: its modules per context and a queue per stream.

A context has modules and functions of its own, and a stream a workspace of its own, so that calls on two streams never
share scratch. What is loaded or allocated stays until its context ends, since a captured graph may hold it.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

from lab.base.errors import Location, UserError
from lab.library.archive import StoredLibrary
from lab.library.callmaps import MapArgument, place_all
from lab.library.calls import MAP, CallForm, CallPlan, CallStep
from lab.library.combine import ENTRY, Combination, combine_ptx, product_form
from lab.library.driver import FORKS, LEGACY_STREAM, OUT_OF_MEMORY, CudaDriver, DriverError, LaunchConfig, cuda_driver
from lab.library.operands import Operand
from lab.library.package import FACTORS, IMAGINARY, POINTERS, LibraryLaunch

_MOST_PREPARED = 1024
"""The most calls of a stream with cached launches; when it is exceeded, the cache is cleared."""

_INVALID_HANDLE = 400

_COMBINING = -1
"""Key of the module that combines a GEMM with C, in place of a kernel's number."""

_PLAIN = (1.0, 0.0)
"""alpha and beta of a GEMM that is combined with C afterwards."""

Factor: TypeAlias = tuple[int, float]
"""alpha or beta: its address on the GPU or 0, and its value if the address is 0."""

_NUMBERS = (*FACTORS, *IMAGINARY)

Factors: TypeAlias = tuple[float, ...]
"""alpha and beta on the host; for complex elements both real parts, then both imaginary parts."""

Planner: TypeAlias = Callable[[CallForm, Factors], CallPlan]
"""A function that plans a call of given matrices, alpha and beta."""


class Contexts:
    """A library in all contexts of a process."""

    def __init__(self, stored: StoredLibrary, planner: Planner) -> None:
        """Load the driver. No context is created.

        Args:
            stored: The library.
            planner: Plans a call.

        Raises:
            MissingToolError: There is no driver, it is too old, or it finds no GPU.
        """
        self.stored, self.planner, self.driver = stored, planner, cuda_driver()
        self._forks, self._lock = FORKS[0], threading.Lock()
        self._loaded: dict[int, LoadedContext] = {}
        self._primary: dict[int, int] = {}

    def current(self) -> LoadedContext | None:
        """Return the library in the current context; None without a current context.

        Raises:
            UserError: The process was forked since the library's first call.
        """
        if FORKS[0] != self._forks:
            raise UserError(
                "the process was forked after the library's first call, and contexts of CUDA do not survive that",
                code="unsupported",
                at=Location(self.stored.place),
                accepted="a process that is spawned, or a library that is loaded and called in the new process alone",
            )
        number = self.driver.current()
        return (self._loaded.get(number) or self._entered(number)) if number else None

    @contextmanager
    def pushed(self, pointer: int | None) -> Iterator[LoadedContext]:
        """Make the context of an address current within the `with` block.

        Args:
            pointer: Where memory belongs to none, it is the primary context of the memory's GPU; for None, that of the
                first GPU.
        """
        facts = None if pointer is None else self.driver.facts(pointer)
        handle = (facts.context if facts else 0) or self._primary_of(facts.ordinal if facts else 0)
        with self.driver.pushed(handle):
            loaded = self.current()
            assert loaded is not None  # noqa: S101 - it was just pushed
            yield loaded

    def _primary_of(self, ordinal: int) -> int:
        with self._lock:
            if ordinal not in self._primary:
                self._primary[ordinal] = self.driver.primary(ordinal)
            return self._primary[ordinal]

    def _entered(self, number: int) -> LoadedContext:
        with self._lock:
            if number not in self._loaded:
                self._loaded[number] = LoadedContext(self.stored, self.planner, self.driver)
            return self._loaded[number]


class LoadedContext:
    """A library in one context, which must be current when a method is called.

    Attributes:
        driver: The driver.
        planner: Plans a call.
        ordinal: Number of the context's GPU.
        trusted: The GPU of which arrays can be reached that say that they lie there; -1 for none. Those that do are
            PyTorch's and CuPy's, which live in its primary context, so that the driver need not be asked where that is
            the current one.
    """

    def __init__(self, stored: StoredLibrary, planner: Planner, driver: CudaDriver) -> None:
        """Start without loaded modules."""
        self.driver, self.planner, self._stored = driver, planner, stored
        self.ordinal, self._context = driver.ordinal(), driver.context()
        primary = driver.is_primary(self._context, self.ordinal)
        self.trusted = self.ordinal if primary else -1
        self._lock = threading.Lock()
        self._queues: dict[int, StreamQueue] = {}
        self._latest: dict[int, StreamQueue] = {}
        self._modules: dict[int, int] = {}
        self._functions: dict[tuple[int, str], int] = {}
        self._allowed: dict[int, int] = {}

    def queue(self, stream: int) -> StreamQueue:
        """Return the queue of a stream, by its handle.

        Handles are used again when a stream is destroyed, numbers are not. But the driver tells no number of a captured
        stream, so of such a stream it is the queue that the handle meant last.
        """
        number = self.driver.stream_id(stream) if stream else 0
        if number is None:
            stream_queue = self._latest.get(stream)
            return stream_queue or self._latest.setdefault(stream, StreamQueue(self, stream))
        stream_queue = self._queues.get(number)
        if stream_queue is None:
            with self._lock:
                stream_queue = self._queues.setdefault(number, StreamQueue(self, stream))
                self._latest[stream] = stream_queue
        return stream_queue

    def check_reach(self, names: Sequence[str], operands: Sequence[Operand]) -> None:
        """Check that kernels of this context can access all arrays.

        Args:
            names: Of at least as many arrays.
            operands: The arrays.

        Raises:
            UserError: The message names the array.
        """
        pointer = self.driver.unreached(operands, self.trusted, self.ordinal, self._context)
        if pointer is None:
            return
        name = next(name for name, operand in zip(names, operands, strict=False) if operand[0] == pointer)
        facts = self.driver.facts(pointer)
        reachable_memory = f"memory of GPU {self.ordinal}, whose context is current"
        if not facts.known:
            message = f"{name} is not memory that CUDA knows"
            raise UserError(message, code="mismatch", key=name, found=hex(pointer), accepted=reachable_memory)
        if facts.on_device and facts.ordinal != self.ordinal:
            raise UserError(
                f"{name} lies on another GPU",
                code="mismatch",
                key=name,
                found=f"GPU {facts.ordinal}",
                accepted=reachable_memory,
            )
        message = f"{name} belongs to another context"
        raise UserError(
            message, code="mismatch", key=name, found=f"an address of GPU {facts.ordinal}", accepted=reachable_memory
        )

    def launches(self, number: int) -> tuple[LibraryLaunch, ...]:
        """Return all launches of a kernel, including conditional ones."""
        return self._stored.library.kernels[number].launches

    def loaded(self, number: int, entry: str) -> int | None:
        """Return a kernel's function by its symbol; None if it is not loaded."""
        return self._functions.get((number, entry))

    def load(self, number: int, entry: str) -> int:
        """Return a kernel's function by its symbol, loading it if needed.

        Raises:
            UserError: The library lacks its machine code.
        """
        with self._lock:
            if number not in self._modules:
                kernel, cubins = self._stored.library.kernels[number], self._stored.cubins
                if kernel.cubin not in cubins:
                    at = Location(self._stored.place / kernel.cubin)
                    raise UserError("the library lacks a cubin", code="missing-file", at=at, key=kernel.name)
                self._modules[number] = self.driver.module(cubins[kernel.cubin])
            key = (number, entry)
            if key not in self._functions:
                self._functions[key] = self.driver.function(self._modules[number], entry)
            return self._functions[key]

    def combining(self) -> int | None:
        """Return the function of `lab.library.combine`; None if it is not loaded."""
        return self._functions.get((_COMBINING, ENTRY))

    def load_combining(self) -> int:
        """Return the function of `lab.library.combine`, loading its PTX if needed."""
        with self._lock:
            key = (_COMBINING, ENTRY)
            if key not in self._functions:
                module = self.driver.module(combine_ptx(self._stored.library.dtype).encode())
                self._functions[key] = self.driver.function(module, ENTRY)
            return self._functions[key]

    @property
    def dtype(self) -> str:
        """Element type of the library."""
        return self._stored.library.dtype

    def allow_shared(self, function: int, count: int) -> None:
        """Raise a function's limit of dynamic shared memory."""
        with self._lock:
            if count > self._allowed.get(function, 0):
                self.driver.allow_shared(function, count)
                self._allowed[function] = count

    def resident(self, function: int, step: CallStep) -> CallStep:
        """Return a launch with its grid resolved for the number of resident blocks."""
        if step.resident_grid is None:
            return step
        count = self.driver.resident_blocks(function, step.block, step.shared_bytes, self.ordinal)
        return replace(step, grid=step.resident_grid.of(max(1, count)), resident_grid=None)


class StreamQueue:
    """Calls on one stream. A lock keeps a call's launches together, since they share the workspace."""

    def __init__(self, context: LoadedContext, stream: int) -> None:
        """Start without a workspace."""
        self._context, self._driver, self._stream = context, context.driver, stream
        self._lock = threading.Lock()
        self._prepared: dict[tuple[object, ...], _Prepared] = {}
        self._combinations: dict[CallForm, Combination] = {}
        self._workspace, self._room = 0, 0
        self._event = 0

    def prepare(self, form: CallForm, factors: Factors | None, *, scratch: bool) -> None:
        """Load and allocate what a call needs.

        Args:
            form: Its matrices.
            factors: alpha and beta; None where they lie on the GPU.
            scratch: Allocate its workspace, too.

        Raises:
            UserError: The stream is captured and something must be loaded or allocated.
        """
        with self._lock:
            prepared = self._of(form, factors) if factors else self._of(product_form(form), _PLAIN)
            for launch in self._context.launches(prepared.kernel):  # for other factors, others may take place
                self._function(prepared.kernel, launch.entry)
            if factors is None:
                self._combination(form)
            if scratch:
                self._scratch(prepared.scratch_bytes + (0 if factors else product_form(form).spans[2]))

    def run(
        self,
        form: CallForm,
        pointers: tuple[int, int, int],
        factors: Factors,
        workspace: tuple[int, int] | None,
    ) -> None:
        """Queue the launches of a call, once per batch member unless they compute the whole batch.

        Args:
            form: Its matrices.
            pointers: Addresses of A, B and C.
            factors: alpha and beta.
            workspace: Address and bytes of the caller's; None for the queue's own.

        Raises:
            UserError: The workspace is too small, or the stream is captured and something must be loaded or allocated.
            DriverError: A launch failed.
        """
        with self._lock:
            prepared = self._prepared.get(form.point) or self._of(form, factors)
            if factors != prepared.factors:
                prepared.set_factors(factors)
            if prepared.scratch_bytes:
                prepared.place(self._base(prepared.scratch_bytes, workspace))
            self._launch(prepared, pointers)
            if form.count > 1 and not form.together:
                for at_a, at_b, at_c in form.places(pointers)[1:]:
                    self._launch(prepared, (at_a, at_b, at_c))

    def run_combined(
        self,
        form: CallForm,
        pointers: tuple[int, int, int],
        scalars: tuple[Factor, Factor],
        workspace: tuple[int, int] | None,
    ) -> None:
        """Queue a call with alpha or beta on the GPU: per batch member the GEMM, then the combination with C.

        Args:
            form: Its matrices.
            pointers: Addresses of A, B and C.
            scalars: alpha and beta.
            workspace: As `run` takes it; the product lies behind the scratch of its launches.

        Raises:
            UserError: As `run`.
            DriverError: A launch failed.
        """
        with self._lock:
            product, combination = product_form(form), self._combination(form)
            prepared = self._of(product, _PLAIN)
            if prepared.factors != _PLAIN:
                prepared.set_factors(_PLAIN)
            base = self._base(prepared.scratch_bytes + product.spans[2], workspace)
            if prepared.scratch_bytes:
                prepared.place(base)
            w = base + prepared.scratch_bytes
            for at_a, at_b, at_c in form.places(pointers):
                self._launch(prepared, (at_a, at_b, w))
                status = self._driver.launch(*combination.launch(scalars[0], w, scalars[1], at_c), None)
                if status:
                    raise self._launch_error(status)

    def _combination(self, form: CallForm) -> Combination:
        combination = self._combinations.get(form)
        if combination is None:
            function = self._context.combining()
            if function is None:
                self._refuse_in_capture("loads a kernel")
                function = self._context.load_combining()
            if len(self._combinations) >= _MOST_PREPARED:
                self._combinations.clear()
            combination = self._combinations[form] = Combination(form, self._context.dtype, function, self._stream)
        return combination

    def wait_for(self, streams: Iterable[int]) -> None:
        """Make the stream wait for the work queued so far on others.

        Args:
            streams: By the numbering of ``__cuda_array_interface__``.

        Raises:
            UserError: The stream is captured and another one is not.
        """
        with self._lock:
            for stream in streams:
                if self._driver.capturing(self._stream) and (
                    stream == LEGACY_STREAM or not self._driver.capturing(stream)
                ):
                    message = "the stream is captured, and a matrix is still being written on another one, which is not"
                    accepted = "matrices that are written on the captured stream, or before the capture"
                    raise UserError(message, code="unsupported", key="stream", found=hex(stream), accepted=accepted)
                self._event = self._event or self._driver.event()
                self._driver.wait(self._stream, self._event, stream)

    def _launch(self, prepared: _Prepared, pointers: tuple[int, int, int]) -> None:
        launch, words = self._driver.launch, prepared.words
        words[0], words[1], words[2] = pointers
        if prepared.maps:
            place_all(prepared.maps, words, self._driver.encode)
        for at, count in prepared.zeroed:
            self._driver.clear(words[at], count, self._stream)
        for configuration, function, arguments in prepared.launches:
            status = launch(configuration, function, arguments, None)
            if status:
                raise self._launch_error(status)

    def _of(self, form: CallForm, factors: Factors) -> _Prepared:
        """Return the prepared launches of a form, shared by all factors that do not change the plan."""
        key = (form.point, *(factors[i] for i in form.named)) if form.named else form.point
        return self._prepared.get(key) or self._new(key, self._context.planner(form, factors))

    def _new(self, key: tuple[object, ...], plan: CallPlan) -> _Prepared:
        functions = [self._function(plan.kernel, step.entry) for step in plan.steps]
        for function, step in zip(functions, plan.steps, strict=True):
            if step.shared_bytes:
                self._context.allow_shared(function, step.shared_bytes)
        plan = replace(plan, steps=tuple(map(self._context.resident, functions, plan.steps)))
        if len(self._prepared) >= _MOST_PREPARED:
            self._prepared.clear()
        prepared = self._prepared[key] = _Prepared(plan, functions, self._stream)
        return prepared

    def _function(self, kernel: int, entry: str) -> int:
        function = self._context.loaded(kernel, entry)
        if function is None:
            self._refuse_in_capture("loads a kernel")
            function = self._context.load(kernel, entry)
        return function

    def _base(self, required_bytes: int, workspace: tuple[int, int] | None) -> int:
        if workspace is None:
            return self._scratch(required_bytes)
        address, room = workspace
        if room < required_bytes:
            raise UserError(
                "the workspace is too small",
                code="out-of-range",
                key="workspace",
                found=room,
                accepted=f"{required_bytes} bytes",
            )
        return address

    def _scratch(self, required_bytes: int) -> int:
        """Return the queue's own workspace, growing it if needed. Replaced workspaces are not freed."""
        if required_bytes > self._room:
            self._refuse_in_capture("allocates its workspace")
            room = max(required_bytes, 2 * self._room)
            try:
                self._workspace = self._driver.allocate(room)
            except DriverError as error:
                if error.status != OUT_OF_MEMORY:
                    raise
                accepted = "a `workspace=` of your own, or less memory in use"
                raise UserError(
                    "the GPU has no room for the workspace",
                    code="out-of-range",
                    key="workspace",
                    found=room,
                    accepted=accepted,
                ) from error
            self._room = room
        return self._workspace

    def _refuse_in_capture(self, action: str) -> None:
        if self._driver.capturing(self._stream):
            accepted = "a size that was called, or prepared by `prepare(m, n, k, stream=...)`, on this stream before"
            raise UserError(
                f"the stream is captured, and this call {action}", code="unsupported", key="stream", accepted=accepted
            )

    def _launch_error(self, status: int) -> Exception:
        if status == _INVALID_HANDLE:
            accepted = "a stream of the current context that was not destroyed"
            return UserError(
                "the stream cannot be used",
                code="unsupported",
                key="stream",
                found=hex(self._stream),
                accepted=accepted,
            )
        return self._driver.error("cuLaunchKernelEx", status)


class _Prepared:
    """A call's launches on one stream, in the driver's format; addresses and factors are updated in place.

    Every argument is a word of its own, which all launches share: first A, B and C, then scratch buffers, then numbers.
    """

    __slots__ = (
        "_base", "_factor_words", "_kept", "_offsets", "factors", "kernel", "launches", "maps", "scratch_bytes",
        "words", "zeroed",
    )  # fmt: skip

    def __init__(self, plan: CallPlan, functions: Iterable[int], stream: int) -> None:
        self.kernel, self.scratch_bytes = plan.kernel, plan.workspace_bytes
        self.factors: Factors | None = None
        self._base = -1
        place = {name: i for i, name in enumerate((*POINTERS, *(buffer.name for buffer in plan.buffers)))}
        numbers = sum(not isinstance(value, str) for step in plan.steps for value in step.values)
        self.words = (ctypes.c_uint64 * (len(place) + numbers))()
        self._offsets = [(place[buffer.name], buffer.offset) for buffer in plan.buffers]
        self.zeroed = [(place[buffer.name], buffer.bytes) for buffer in plan.buffers if buffer.zero]
        self.maps = tuple(MapArgument(tensor_map, place[tensor_map.of]) for tensor_map in plan.tensor_maps)
        self._factor_words: list[tuple[int, str, int, type[int | float]]] = []
        self.launches: list[tuple[int, int, int]] = []
        self._kept: list[object] = []
        free = len(place)
        for step, function in zip(plan.steps, functions, strict=True):
            arguments, free = self._arguments(step, place, free)
            grid, block = (ctypes.c_uint * 3)(*step.grid), (ctypes.c_uint * 3)(*step.block)
            configuration = LaunchConfig(grid, block, step.shared_bytes, stream, None, 0)
            self._kept += (arguments, configuration)
            self.launches.append((ctypes.addressof(configuration), function, ctypes.addressof(arguments)))

    def _arguments(
        self, step: CallStep, place: Mapping[str, int], free: int
    ) -> tuple[ctypes.Array[ctypes.c_void_p], int]:
        at: list[int] = []
        mapped = [(i, str(step.values[i])) for i, kind in enumerate(step.codes) if kind == MAP]
        for name, kind, value in zip(step.names, step.codes, step.values, strict=True):
            if isinstance(value, str):
                at.append(place.get(value, 0))  # of a tensor map, until it is placed
                continue
            if name in _NUMBERS:
                code = f"={kind}" if kind in "fd" else f"@{kind}"  # the native one would make infinity of 1e300
                self._factor_words.append((8 * free, code, _NUMBERS.index(name), type(value)))
            else:
                struct.pack_into(f"@{kind}", self.words, 8 * free, value)
            at.append(free)
            free += 1
        start = ctypes.addressof(self.words)
        array = (ctypes.c_void_p * len(at))(*(start + 8 * i for i in at))
        for i, name in mapped:
            next(argument for argument in self.maps if argument.described.name == name).places.append((array, i))
        return array, free

    def place(self, base: int) -> None:
        """Set the base address of the scratch buffers."""
        if base != self._base:
            for at, offset in self._offsets:
                self.words[at] = base + offset
            self._base = base

    def set_factors(self, factors: Factors) -> None:
        """Set alpha and beta for the following launches."""
        self.factors = None
        for at, code, which, kind in self._factor_words:
            try:
                struct.pack_into(code, self.words, at, kind(factors[which]))
            except OverflowError as error:
                accepted = "a number of the library's element type"
                raise UserError(
                    f"{_NUMBERS[which]} is too large",
                    code="out-of-range",
                    key=_NUMBERS[which],
                    found=factors[which],
                    accepted=accepted,
                ) from error
        self.factors = factors
