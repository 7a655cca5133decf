"""Turn a template's launches into calls with packed arguments, checked before the first call.

Every launch that is timed or verified goes through `Launcher.sequence`, in sweeps and in surveys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np
import pycuda.driver as cuda

from lab.base.structures import is_structure
from lab.gpu.device.backend import Enqueue, RefusedError, in_turn
from lab.gpu.device.cooperative import BoundFunction, BoundModule
from lab.gpu.device.encoded_tensormaps import tensor_map_words
from lab.gpu.device.packed_arguments import marshal
from lab.hardware.encodedmaps import Words
from lab.hardware.tensormaps import BYTES, POINTER_BYTES
from lab.operators.base import Inputs
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.launches import Launch, Launches, held
from lab.toolchain.cubin.image import parameter_offsets, parameter_sizes

_CLUSTER: Final = (11, 12, 13)
"""CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, _HEIGHT and _DEPTH."""
_MORE_THAN_PORTABLE: Final = 14
"""CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED."""
_PORTABLE: Final = 8


class Launcher:
    """A factory of launches on one stream of one device."""

    def __init__(
        self,
        device: cuda.Device,
        stream: cuda.Stream,
        bound: Callable[[bytes], BoundModule] = BoundModule,
    ) -> None:
        """Bind the launcher to a device and a stream.

        Args:
            device: The device, for its limits.
            stream: The stream that launches are queued on.
            bound: Loads modules with cooperative launches.
        """
        self._device, self._stream, self._bound = device, stream, bound

    def sequence(
        self, module: cuda.Module, cubin: bytes, launches: Launches, inputs: Inputs, pointers: Mapping[str, int]
    ) -> Enqueue:
        """Resolve a sequence of launches; workspace buffers declared with `zero` are zeroed before it.

        Args:
            module: The loaded cubin. For cooperative launches, which PyCUDA lacks, the image is loaded again.
            cubin: The image that `module` was loaded from.
            launches: The launches, in order, and their workspace.
            inputs: The operator's scalars and host arrays; the arrays only for their element types.
            pointers: Device address of every array and workspace buffer.

        Raises:
            RefusedError: A launch would be refused.
        """
        inputs = launches.given(inputs)
        if any(step.cooperative for step in launches.steps):
            module = self._bound(cubin)
        self._set_constants(module, launches, inputs, pointers)
        zeroed = [buffer for buffer in launches.workspace if buffer.zero]
        queues: list[Enqueue] = [
            partial(cuda.memset_d8_async, pointers[buffer.name], 0, buffer.bytes, self._stream) for buffer in zeroed
        ]
        queues += [
            self._launch(module, cubin, step, launches=launches, inputs=inputs, pointers=pointers)
            for step in launches.steps
        ]
        return in_turn(queues)

    def _set_constants(
        self, module: cuda.Module, launches: Launches, inputs: Inputs, pointers: Mapping[str, int]
    ) -> None:
        """Fill the constant variables once for all launches of a module."""
        types = {buffer.name: buffer.dtype for buffer in launches.workspace}
        map_names = {constant.name for constant in launches.constants if constant.dtype == TENSOR_MAP}
        maps = tensor_map_words((m for m in launches.tensor_maps if m.name in map_names), inputs, pointers, types)
        for constant in launches.constants:
            address, size = module.get_global(constant.symbol)
            array = (
                np.array(maps[constant.name], np.uint64)
                if constant.dtype == TENSOR_MAP
                else np.ascontiguousarray(held(inputs, constant))
            )
            if array.nbytes > size:
                raise RefusedError(
                    f"the variable {constant.name} in constant memory has {size} bytes, not {array.nbytes}"
                )
            cuda.memcpy_htod(address, array)

    def _launch(
        self,
        module: cuda.Module,
        cubin: bytes,
        step: Launch,
        *,
        launches: Launches,
        inputs: Inputs,
        pointers: Mapping[str, int],
    ) -> Enqueue:
        types = {buffer.name: buffer.dtype for buffer in launches.workspace}
        map_names = {name for name, kind in step.arguments if kind == TENSOR_MAP}
        maps = tensor_map_words((m for m in launches.tensor_maps if m.name in map_names), inputs, pointers, types)
        map_memory = self._lay_maps(maps, cubin, step) if maps else []
        is_placed = maps or any(is_structure(kind) for _, kind in step.arguments)
        offsets = parameter_offsets(cubin, step.entry) if is_placed else None
        codes, values = marshal(step.arguments, inputs, pointers, types, maps, offsets=offsets)
        self._check_geometry(step)
        function = module.get_function(step.entry)
        self._check_resources(step, function)
        if step.dynamic_shared_bytes:
            # above 48 KB a kernel must ask for it (CUDA C++ Programming Guide, shared memory)
            function.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, step.dynamic_shared_bytes)
        if step.carveout is not None:
            function.set_attribute(cuda.function_attribute.PREFERRED_SHARED_MEMORY_CARVEOUT, step.carveout)
        if step.cluster is not None:
            self._ask_for_clusters(function, step.cluster)
        if step.cooperative:
            self._check_cooperative(step, function)
            function.prepare_cooperative(codes)
        else:
            function.prepare(codes)
        grid, block = tuple(map(int, step.grid)), tuple(map(int, step.block))  # PyCUDA rejects NumPy integers
        shared, stream = step.dynamic_shared_bytes, self._stream
        call = function.prepared_async_call

        def launch(_module: object = module, _map_memory: object = map_memory) -> None:  # keeps both alive
            call(grid, block, stream, *values, shared_size=shared)

        return launch

    @staticmethod
    def _lay_maps(maps: dict[str, Words], cubin: bytes, step: Launch) -> list[cuda.DeviceAllocation]:
        """Copy the tensor maps that a kernel takes by pointer to the device and replace them by their addresses.

        Returns:
            The memory that holds them.
        """
        allocations: list[cuda.DeviceAllocation] = []
        for (name, kind), size in zip(step.arguments, parameter_sizes(cubin, step.entry), strict=False):
            if kind == TENSOR_MAP and size == POINTER_BYTES:
                allocation = cuda.mem_alloc(BYTES)  # aligned to 256 bytes, more than a map needs
                cuda.memcpy_htod(allocation, np.array(maps[name], np.uint64))
                maps[name] = (int(allocation),)
                allocations.append(allocation)
        return allocations

    @staticmethod
    def _ask_for_clusters(function: cuda.Function, cluster: tuple[int, int, int]) -> None:
        """Set a function's cluster attributes, for which PyCUDA has no names."""
        attributes = dict(zip(_CLUSTER, cluster, strict=True))
        if math.prod(cluster) > _PORTABLE:
            attributes[_MORE_THAN_PORTABLE] = 1
        for attribute, value in attributes.items():
            function.set_attribute(cuda.function_attribute(attribute), value)

    @staticmethod
    def _check_cooperative(step: Launch, function: BoundFunction) -> None:
        blocks = math.prod(map(int, step.grid))
        limit = function.resident_blocks(math.prod(map(int, step.block)), step.dynamic_shared_bytes)
        if blocks > limit:
            raise RefusedError(
                f"too many blocks in cooperative launch: {blocks}, the GPU holds {limit} at once; grid: resident_blocks"
            )

    def _attribute(self, name: str) -> int:
        return int(self._device.get_attribute(getattr(cuda.device_attribute, name)))

    def _check_geometry(self, step: Launch) -> None:
        for axis, blocks in zip("XYZ", step.grid, strict=True):
            limit = self._attribute(f"MAX_GRID_DIM_{axis}")
            if not 1 <= blocks <= limit:
                raise RefusedError(f"a grid of {blocks} blocks in {axis.lower()}; this GPU supports 1 to {limit}")
        for axis, threads in zip("XYZ", step.block, strict=True):
            limit = self._attribute(f"MAX_BLOCK_DIM_{axis}")
            if not 1 <= threads <= limit:
                raise RefusedError(f"a block of {threads} threads in {axis.lower()}; this GPU supports 1 to {limit}")

    def _check_resources(self, step: Launch, function: cuda.Function) -> None:
        attributes = cuda.function_attribute
        threads = math.prod(step.block)
        thread_limit = int(function.get_attribute(attributes.MAX_THREADS_PER_BLOCK))
        if threads > thread_limit:
            registers = int(function.get_attribute(attributes.NUM_REGS))
            raise RefusedError(
                f"a block of {threads} threads; this kernel uses {registers} registers per thread and supports at most "
                f"{thread_limit} threads"
            )
        static = int(function.get_attribute(attributes.SHARED_SIZE_BYTES))
        shared, shared_limit = static + step.dynamic_shared_bytes, self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        if shared > shared_limit:
            raise RefusedError(f"{shared} bytes of shared memory per block; this GPU has {shared_limit}")
