"""The backend that ships: PyCUDA on the first visible GPU. Only the worker process imports this module."""

from __future__ import annotations

import atexit
import contextlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pycuda.driver as cuda

from lab.base.expressions import Scalar
from lab.gpu.baselines.copy import copy_baseline
from lab.gpu.baselines.cublas import Cublas
from lab.gpu.baselines.einsum import einsum_baseline
from lab.gpu.baselines.softmax import torch_baseline, triton_baseline
from lab.gpu.device.arguments import marshal
from lab.gpu.device.backend import Baseline, BaselineMissingError, DeviceError, Launch, RefusedError, Timing, in_turn
from lab.gpu.device.compare import Comparer, comparer
from lab.gpu.device.describe import Card, describe_device, pci_bus_id
from lab.gpu.device.driver import kernel_names
from lab.gpu.device.evict import reader
from lab.gpu.device.field import CudaField
from lab.gpu.device.tensormaps import tensor_map_words
from lab.gpu.process.job import Job
from lab.measured.timing import CardState, GpuDescription
from lab.operators.base import Array, Expected, Inputs
from lab.operators.contraction import ContractionProblem
from lab.operators.softmax import SoftmaxProblem
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.launches import Launch as Step
from lab.templates.launches import Launches
from lab.toolchain.cubin.image import parameter_offsets

GUARD_BYTES = 4096
"""Room behind every buffer that no kernel may write; its bytes are 0xFF, which reads as NaN."""
_GUARD = 0xFF
LEAST_SCRATCH_BYTES = 64 << 20
"""On a card with a small L2 the memset must still last longer than the host takes to queue a launch."""


@dataclass(frozen=True, slots=True)
class _Buffer:
    """One device array: `bytes` of data, then the guard."""

    allocation: Any
    bytes: int

    @property
    def address(self) -> int:
        return int(self.allocation)

    @property
    def guard(self) -> int:
        return self.address + self.bytes


class CudaBackend:
    """One GPU through PyCUDA, in the primary context, which CUDA's libraries use too."""

    errors: tuple[type[Exception], ...] = (cuda.Error, DeviceError)

    def __init__(self) -> None:
        """Take the first visible GPU.

        Raises:
            RuntimeError: there is none.
        """
        self._description = describe_device(0)
        self._card = Card(pci_bus_id(0))
        cuda.init()
        self._device = cuda.Device(0)
        self._context = self._device.retain_primary_context()
        self._context.push()
        self._open = True
        atexit.register(self.close)
        self._stream = cuda.Stream()
        self._events = (cuda.Event(), cuda.Event())
        self._scratch_bytes = max(2 * self._description.l2_bytes + (1 << 20), LEAST_SCRATCH_BYTES)
        self._scratch = cuda.mem_alloc(self._scratch_bytes)
        self._memset_ms = 0.0
        self._buffers: dict[str, _Buffer] = {}
        self._workspace: dict[str, _Buffer] = {}
        self._pristine: dict[str, Any] = {}
        self._inputs: Inputs | None = None
        self._comparer: Comparer | None = None
        self._compare: tuple[object, Callable[[Mapping[str, int]], float] | None] = (None, None)
        self._cublas: Cublas | None = None
        self._read: Launch | None = None
        self.calibrate()

    def describe(self) -> GpuDescription:
        """The GPU."""
        return self._description

    def load(self, inputs: Inputs) -> None:
        """Make room for these arrays, with a copy that stays as it is; buffers of the same size are kept."""
        self._pristine, self._compare = {}, (None, None)
        wanted = {name: array.nbytes for name, array in inputs.arrays.items()}
        kept = {name: buffer for name, buffer in self._buffers.items() if wanted.get(name) == buffer.bytes}
        self._buffers = kept  # the others are freed here, before anything new is allocated
        for name, size in wanted.items():
            if name not in kept:
                self._buffers[name] = _Buffer(cuda.mem_alloc(size + GUARD_BYTES), size)
        self._inputs = inputs
        self.refresh()

    def refresh(self) -> None:
        """Copy the arrays again; expected values follow when they are next needed."""
        self._pristine, self._compare = {}, (None, None)
        with contextlib.suppress(cuda.MemoryError):  # without room for them, `upload` copies from the host
            for name, array in self._loaded.arrays.items():
                if array.nbytes:
                    self._pristine[name] = cuda.to_device(np.ascontiguousarray(array))

    def upload(self) -> None:
        """Every array as the operator made it, and fresh guards behind them."""
        for name, array in self._loaded.arrays.items():
            buffer = self._buffers[name]
            if name in self._pristine:
                cuda.memcpy_dtod_async(buffer.address, self._pristine[name], buffer.bytes, self._stream)
            elif buffer.bytes:
                cuda.memcpy_htod(buffer.address, np.ascontiguousarray(array))
            cuda.memset_d8_async(buffer.guard, _GUARD, GUARD_BYTES, self._stream)
        for buffer in self._workspace.values():
            cuda.memset_d8_async(buffer.address, _GUARD, buffer.bytes + GUARD_BYTES, self._stream)
        cuda.Context.synchronize()

    def kernel(self, job: Job) -> Launch:
        """Load the cubin, check that the launches are ones this GPU can do, resolve the arguments."""
        self._workspace = {}  # the last job's is freed before anything new is allocated
        try:
            self._workspace = {
                wanted.name: _Buffer(cuda.mem_alloc(wanted.bytes + GUARD_BYTES), wanted.bytes)
                for wanted in job.launches.workspace
            }
        except cuda.MemoryError as error:
            needed = sum(wanted.bytes for wanted in job.launches.workspace)
            free, _ = cuda.mem_get_info()
            raise RefusedError(f"{needed} bytes of workspace do not fit; {free} are free") from error
        module = cuda.module_from_buffer(job.cubin)
        queues = [self._zeroing(self._workspace[wanted.name]) for wanted in job.launches.workspace if wanted.zero] + [
            self.queue(module, step, job.launches, self._loaded, self._pointers, cubin=job.cubin)
            for step in job.launches.steps
        ]
        return in_turn(queues)

    def queue(
        self,
        module: Any,  # noqa: ANN401 - PyCUDA is untyped
        step: Step,
        launches: Launches,
        inputs: Inputs,
        pointers: Mapping[str, int],
        *,
        cubin: bytes,
    ) -> Launch:
        """One launch of a sequence, with everything resolved; `cubin` is what `module` was loaded from.

        Raises:
            RefusedError: it would be refused.
        """
        types = {wanted.name: wanted.dtype for wanted in launches.workspace}
        named = {name for name, kind in step.arguments if kind == TENSOR_MAP}
        maps = tensor_map_words((m for m in launches.tensor_maps if m.name in named), inputs, pointers, types)
        offsets = parameter_offsets(cubin, step.entry) if maps else None
        codes, values = marshal(step.arguments, inputs, pointers, types, maps, offsets=offsets)
        self._check_grid(step)
        function = module.get_function(step.entry)
        self._check_block(step, function)
        if step.dynamic_shared_bytes:
            # above 48 KB a kernel must ask for it (CUDA C++ Programming Guide, shared memory)
            function.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, step.dynamic_shared_bytes)
        function.prepare(codes)
        grid, block = tuple(map(int, step.grid)), tuple(map(int, step.block))  # PyCUDA takes no NumPy integers
        shared, stream = step.dynamic_shared_bytes, self._stream
        call = function.prepared_async_call

        def launch(_module: object = module) -> None:  # the default keeps the module loaded
            call(grid, block, stream, *values, shared_size=shared)

        return launch

    def _zeroing(self, buffer: _Buffer) -> Launch:
        """The memset of a workspace buffer that every sequence finds zeroed."""

        def launch() -> None:
            cuda.memset_d8_async(buffer.address, 0, buffer.bytes, self._stream)

        return launch

    def baseline(self, name: str, operator: str, problem: Mapping[str, Scalar]) -> Baseline:
        """CuBLAS for gemm; PyTorch for softmax and contraction; Triton for softmax; a copy for one input and output."""
        if name == "copy":
            return copy_baseline(self._loaded, self._pointers, self._stream, self._description.arch, self._quick)
        computed = {"cublas": ("gemm",), "torch": ("softmax", "contraction"), "triton": ("softmax",)}
        if name not in computed:
            raise BaselineMissingError(f"there is no baseline {name!r}; accepted: copy, {', '.join(computed)}")
        if operator not in computed[name]:
            raise BaselineMissingError(f"the baseline {name} computes {' and '.join(computed[name])}, not {operator}")
        if operator == "contraction":
            return einsum_baseline(ContractionProblem.restored(problem), self._pointers, self._stream.handle)
        if name == "torch":
            return torch_baseline(SoftmaxProblem.restored(problem), self._pointers, self._stream.handle)
        if name == "triton":
            return triton_baseline(SoftmaxProblem.restored(problem), self._pointers, self._stream.handle, self._quick)
        return self._cublas_gemm(problem)

    def _quick(self, launch: Launch) -> float:
        """Median of a few timings, in ms: good enough to choose by."""
        timings = [self.time(launch, batch=1, lead_ms=0.1, rewarm=False).ms for _ in range(5)]
        return float(np.median(timings))

    def field(self, dtype: str, elements: tuple[int, int, int], workspace_bytes: int, seed: int) -> CudaField:
        """Buffers for a survey; those of the last job are freed first."""
        self._buffers, self._workspace, self._pristine, self._inputs = {}, {}, {}, None
        return CudaField(self, dtype, elements, workspace_bytes, seed)

    @property
    def stream(self) -> cuda.Stream:
        """The stream that everything is queued on."""
        return self._stream

    def cublas(self) -> Cublas:
        """CuBLAS on this stream.

        Raises:
            BaselineMissingError: it is not there.
        """
        self._cublas = self._cublas or Cublas(self._stream.handle)
        return self._cublas

    def _cublas_gemm(self, problem: Mapping[str, Scalar]) -> Baseline:
        cublas = self.cublas()
        launch = cublas.gemm(problem, self._loaded, self._pointers)
        launch()  # loads the kernels, which a capture must not
        self._stream.synchronize()
        kernel, note = self._baseline_kernels(cublas, launch)
        return Baseline("cublas", cublas.description, kernel, note, launch)

    def outputs(self) -> dict[str, Array]:
        """The outputs, downloaded."""
        downloaded: dict[str, Array] = {}
        for name in self._loaded.outputs:
            host = np.empty_like(self._loaded.arrays[name], order="C")
            if host.nbytes:
                cuda.memcpy_dtoh(host, self._buffers[name].address)
            downloaded[name] = host
        return downloaded

    def largest_error(self, expected: Mapping[str, Expected]) -> float | None:
        """Compare on the device; the expected values stay there until another problem is loaded."""
        bound, compare = self._compare
        if bound is not expected:
            self._comparer = self._comparer or comparer(self._description.arch)
            outputs = {name: self._loaded.arrays[name] for name in self._loaded.outputs}
            try:
                compare = self._comparer.bind(expected, outputs) if self._comparer else None
            except cuda.MemoryError:
                compare = None
            self._compare = (expected, compare)
        return compare(self._pointers) if compare else None

    def overrun(self) -> str:
        """Compare the guards with what `upload` put there."""
        for name, buffer in (*self._buffers.items(), *self._workspace.items()):
            guard = np.empty(GUARD_BYTES, np.uint8)
            cuda.memcpy_dtoh(guard, buffer.guard)
            written = np.flatnonzero(guard != _GUARD)
            if len(written):
                return f"{name}: written {int(written[0])} bytes past its end of {buffer.bytes} bytes"
        return ""

    def run(self, launches: tuple[Launch, ...]) -> None:
        """Queue and wait."""
        for launch in launches:
            launch()
        self._stream.synchronize()

    def evict(self) -> None:
        """Read the scratch buffer."""
        if self._read is None:
            self._read = reader(self._description.arch, int(self._scratch), self._scratch_bytes, self._stream)
        self._read()

    def calibrate(self) -> None:
        """Time the memset."""
        durations = []
        start, stop = self._events
        for _ in range(5):
            self._memset()
            start.record(self._stream)
            self._memset()
            stop.record(self._stream)
            stop.synchronize()
            durations.append(float(stop.time_since(start)))
        self._memset_ms = max(min(durations), 1e-3)

    def time(self, launch: Launch, *, batch: int, lead_ms: float, rewarm: bool) -> Timing:
        """Memsets, perhaps an untimed launch, an event, the launches, an event."""
        start, stop = self._events
        for _ in range(math.ceil(max(lead_ms, 1e-3) / self._memset_ms)):
            self._memset()
        if rewarm:
            launch()
        start.record(self._stream)
        began = time.perf_counter()
        for _ in range(batch):
            launch()
        enqueue = time.perf_counter() - began
        stop.record(self._stream)
        starved = bool(start.query())
        clock = self._card.sm_clock()  # while the device works: a read afterwards may find it idling
        stop.synchronize()
        return Timing(float(stop.time_since(start)) / batch, enqueue * 1e3 / batch, starved, clock)

    def sm_clock(self) -> int | None:
        """SM clock, MHz."""
        return self._card.sm_clock()

    def card_state(self) -> CardState:
        """The card as NVML sees it."""
        return self._card.state()

    def close(self) -> None:
        """Take the context off the stack; PyCUDA complains at exit about one that is left."""
        if self._open:
            self._open = False
            self._buffers, self._workspace = {}, {}
            self._context.pop()

    @property
    def _loaded(self) -> Inputs:
        if self._inputs is None:
            raise RefusedError("no inputs are loaded")
        return self._inputs

    @property
    def _pointers(self) -> dict[str, int]:
        return {name: buffer.address for name, buffer in (*self._buffers.items(), *self._workspace.items())}

    def _memset(self) -> None:
        cuda.memset_d32_async(self._scratch, 0x7FC00000, self._scratch_bytes // 4, self._stream)

    def _attribute(self, name: str) -> int:
        return int(self._device.get_attribute(getattr(cuda.device_attribute, name)))

    def _check_grid(self, step: Step) -> None:
        for axis, blocks in zip("XYZ", step.grid, strict=True):
            most = self._attribute(f"MAX_GRID_DIM_{axis}")
            if not 1 <= blocks <= most:
                raise RefusedError(f"a grid of {blocks} blocks in {axis.lower()}; this GPU takes 1 to {most}")
        for axis, threads in zip("XYZ", step.block, strict=True):
            most = self._attribute(f"MAX_BLOCK_DIM_{axis}")
            if not 1 <= threads <= most:
                raise RefusedError(f"a block of {threads} threads in {axis.lower()}; this GPU takes 1 to {most}")

    def _check_block(self, step: Step, function: cuda.Function) -> None:
        of = cuda.function_attribute
        threads = math.prod(step.block)
        most = int(function.get_attribute(of.MAX_THREADS_PER_BLOCK))
        if threads > most:
            registers = int(function.get_attribute(of.NUM_REGS))
            raise RefusedError(
                f"a block of {threads} threads; with its {registers} registers a thread this kernel takes "
                f"at most {most}"
            )
        static = int(function.get_attribute(of.SHARED_SIZE_BYTES))
        shared, room = static + step.dynamic_shared_bytes, self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        if shared > room:
            raise RefusedError(f"{shared} bytes of shared memory per block; this GPU has {room}")

    def _baseline_kernels(self, cublas: Cublas, launch: Launch) -> tuple[str, str]:
        """The kernels' names; where they cannot be had, an empty name and the reason."""

        def queue(stream: int) -> None:
            cublas.use_stream(stream)
            launch()

        try:
            return kernel_names(queue), ""
        except (RuntimeError, AttributeError, TypeError, DeviceError) as error:
            return "", f"the names of cuBLAS's kernels could not be read: {error}"
        finally:
            cublas.use_stream(self._stream.handle)
