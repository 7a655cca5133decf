"""Emulated device memory, which persists across a variant's launches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from lab.base.errors import UserError
from lab.base.structures import is_structure, members_of
from lab.emulator.results import Buffer, BufferSource, IndexedBuffer, StructureArgument, TensorMapArgument
from lab.hardware.tensormaps import find
from lab.operators.base import STORED_AS, Array, Inputs
from lab.operators.indexed import ConstantArray, IndexedInputs
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.launches import NULL, Launches, Workspace, held


class DeviceMemory:
    """Read-only inputs, copies of the outputs, and the workspace.

    Attributes:
        outputs: The outputs as the launches leave them.
    """

    def __init__(self, inputs: Inputs, launches: Launches, *, traced: bool = False) -> None:
        """Initialise the memory for the first launch.

        Args:
            inputs: The inputs. Their arrays are not modified.
            launches: All launches.
            traced: Log the stores to the outputs instead of modifying them.
        """
        self._inputs, self._launches, self._traced = launches.given(inputs), launches, traced
        self.outputs: dict[str, Array] = {}
        self._scratch = {name: self._inputs.arrays[name].copy() for name in self._inputs.scratch}
        self._workspace = {buffer.name: _poisoned(buffer) for buffer in launches.workspace}
        self._untouched: set[str] = set()
        self._single = len(launches.steps) == 1
        self.reset()

    @property
    def keeps_scratch(self) -> bool:
        """Return whether arrays keep their contents from launch to launch."""
        return bool(self._scratch)

    def fresh(self) -> DeviceMemory:
        """Return this memory in its state before the first launch."""
        return DeviceMemory(self._inputs, self._launches, traced=self._traced)

    def with_inputs(self, inputs: Inputs) -> DeviceMemory:
        """Return a memory with other inputs and the current scratch arrays and workspace."""
        memory = DeviceMemory(inputs, self._launches, traced=self._traced)
        memory._scratch, memory._workspace = self._scratch, self._workspace
        memory.reset()
        return memory

    def reset(self) -> None:
        """Reset the outputs, and the workspace that is zeroed before every sequence."""
        arrays = self._inputs.arrays
        self.outputs.update(
            {name: arrays[name] if self._traced else arrays[name].copy() for name in self._inputs.outputs}
        )
        for buffer in self._launches.workspace:
            if buffer.zero:
                self._workspace[buffer.name][:] = 0
        self._untouched = {buffer.name for buffer in self._launches.workspace if not buffer.zero}
        self._untouched |= set(self._inputs.required)
        self._untouched |= {name for name, filled in self._inputs.scratch.items() if not filled}

    @property
    def constants(self) -> Mapping[str, Array | TensorMapArgument]:
        """The contents of constant memory, by symbol."""
        return {
            constant.symbol: self._tensor_map(constant.name)
            if constant.dtype == TENSOR_MAP
            else held(self._inputs, constant)
            for constant in self._launches.constants
        }

    def argument(self, name: str, kind: str) -> object:
        """Return the emulator's value for one argument.

        The first launch that receives a workspace buffer, or a write-only output, must write elements before it reads
        them. In later launches, elements never written read as NaN.
        """
        if kind == TENSOR_MAP:
            return self._tensor_map(name)
        if kind == NULL:
            return np.uint64(0)
        if is_structure(kind):
            return StructureArgument(tuple(self.argument(*member) for member in members_of(kind)))
        arrays = {**self._workspace, **self._inputs.arrays}
        available: Mapping[str, object] = arrays if kind.endswith("*") else self._inputs.scalars
        if name not in available:
            raise UserError(
                "the operator has no argument of this name",
                code="unknown-name",
                key="arguments",
                found=name,
                accepted=list(available),
            )
        return self._buffer(name) if kind.endswith("*") else np.dtype(kind).type(self._inputs.scalars[name])

    def _buffer(self, name: str) -> Buffer:
        initialised = name not in self._untouched
        self._untouched.discard(name)
        if name in self._workspace:
            return Buffer(self._workspace[name], initialised=initialised, name=name)
        if name in self._scratch:
            return Buffer(self._scratch[name], initialised=initialised, name=name)
        if name not in self.outputs:
            return Buffer(self._inputs.arrays[name], name=name, readonly=True)
        # sampled blocks, whose stores are traced, write only a part of an output
        required = self._single and name in self._inputs.required and not self._traced
        return Buffer(self.outputs[name], initialised=initialised, output=required, name=name, traced=self._traced)

    def _tensor_map(self, name: str) -> TensorMapArgument:
        spec = find(self._launches.tensor_maps, name)
        if spec is None:
            raise UserError(
                "the launches have no tensor map of this name", code="unknown-name", key="arguments", found=name
            )
        target = self.argument(spec.of, f"{spec.dtype}*")
        buffer = target if isinstance(target, Buffer) else Buffer(np.asarray(target))
        if buffer.array.dtype != np.dtype(STORED_AS.get(spec.dtype, spec.dtype)):
            message = f"the tensor map {name} describes {spec.dtype} elements, but {spec.of} holds {buffer.array.dtype}"
            raise UserError(message, code="out-of-range", key="tensor_maps")
        element = "bf16" if spec.dtype == "bfloat16" else ""
        sizes = (spec.extents, spec.leading, spec.box, spec.swizzle, spec.outer)
        return TensorMapArgument(buffer, *sizes, element, spec.pixels)


def _poisoned(buffer: Workspace) -> Array:
    dtype = np.dtype(STORED_AS.get(buffer.dtype, buffer.dtype))
    return np.full(buffer.bytes, 0 if buffer.zero else 0xFF, np.uint8).view(dtype)


class _Same:
    """A workspace buffer with the same byte everywhere."""

    def __init__(self, buffer: Workspace) -> None:
        self.dtype: np.dtype[Any] = np.dtype(STORED_AS.get(buffer.dtype, buffer.dtype))
        self.size = buffer.bytes // self.dtype.itemsize
        self._byte = 0 if buffer.zero else 0xFF

    def read(self, start: int, stop: int) -> Array:
        """Return the elements from `start` to `stop`."""
        return np.full((stop - start) * self.dtype.itemsize, self._byte, np.uint8).view(self.dtype)


class IndexedMemory:
    """Device memory for sampled blocks of launches of any size: contents are functions of the index."""

    def __init__(
        self, inputs: IndexedInputs, launches: Launches, written: Collection[str] = (), element: int = 0
    ) -> None:
        """Describe the memory.

        Args:
            inputs: The inputs.
            launches: All launches.
            written: Arrays with contents from earlier launches, which are unknown.
            element: What each element of these arrays reads as.
        """
        self._inputs, self._launches, self._written, self._element = inputs, launches, written, element
        self._scalars = {**inputs.scalars, **dict(launches.scalars)}
        self._workspace = {buffer.name: _Same(buffer) for buffer in launches.workspace}
        self._zeroed = {buffer.name for buffer in launches.workspace if buffer.zero}

    @property
    def constants(self) -> Mapping[str, Array]:
        """The contents of constant memory, by symbol."""
        held_arrays = {
            constant.name: self._inputs.arrays[constant.name].read(0, self._inputs.arrays[constant.name].size)
            for constant in self._launches.constants
            if constant.name in self._inputs.arrays
        }
        inputs = Inputs(self._scalars, held_arrays, ())
        return {constant.symbol: held(inputs, constant) for constant in self._launches.constants}

    def argument(self, name: str, kind: str) -> object:
        """Return the emulator's value for one argument, as `DeviceMemory` does; tensor maps are not supported."""
        if kind == NULL:
            return np.uint64(0)
        if is_structure(kind):
            return StructureArgument(tuple(self.argument(*member) for member in members_of(kind)))
        if not kind.endswith("*"):
            return np.dtype(kind).type(self._scalars[name])
        if name in self._written:
            array: BufferSource = self._workspace.get(name) or self._inputs.arrays[name]
            stand_in = np.array([self._element]).astype(array.dtype)
            return IndexedBuffer(ConstantArray(stand_in, array.size), name)
        if name in self._workspace:
            return IndexedBuffer(self._workspace[name], name, initialised=name in self._zeroed)
        source: BufferSource = self._inputs.arrays[name]
        scratch = self._inputs.scratch
        initialised = name not in self._inputs.required and scratch.get(name, True)
        writable = name in self._inputs.outputs or name in scratch
        return IndexedBuffer(source, name, initialised=initialised, readonly=not writable)
