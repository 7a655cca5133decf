"""The device's memory across a variant's launches on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lab.base.errors import UserError
from lab.base.structures import is_structure, members_of
from lab.emulator.results import Buffer, BufferSource, IndexedBuffer, StructureArgument, TensorMapArgument
from lab.hardware.tensormaps import find
from lab.operators.base import STORED_AS, Array, Inputs
from lab.operators.indexed import IndexedInputs
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.launches import NULL, Launches, Workspace, held


class DeviceMemory:
    """Inputs, which no launch changes, copies of the outputs, and the workspace.

    Attributes:
        outputs: The outputs as the launches leave them.
    """

    def __init__(self, inputs: Inputs, launches: Launches, *, traced: bool = False) -> None:
        """Begin with what the operator says of the outputs.

        Args:
            inputs: What the launches get. The arrays stay as they are.
            launches: All of them.
            traced: Log the stores to the outputs, which then stay as they are.
        """
        self._inputs, self._launches, self._traced = launches.given(inputs), launches, traced
        self.outputs: dict[str, Array] = {}
        self._scratch = {name: self._inputs.arrays[name].copy() for name in self._inputs.scratch}
        self._workspace = {wanted.name: _poisoned(wanted) for wanted in launches.workspace}
        self._untouched: set[str] = set()
        self._single = len(launches.steps) == 1
        self.reset()

    @property
    def keeps_scratch(self) -> bool:
        """Return whether arrays keep their contents from launch to launch."""
        return bool(self._scratch)

    def fresh(self) -> DeviceMemory:
        """Return the same as it was before the first launch."""
        return DeviceMemory(self._inputs, self._launches, traced=self._traced)

    def with_inputs(self, inputs: Inputs) -> DeviceMemory:
        """Return the same with other inputs: scratch arrays and the workspace keep what launches left there."""
        other = DeviceMemory(inputs, self._launches, traced=self._traced)
        other._scratch, other._workspace = self._scratch, self._workspace
        other.reset()
        return other

    def reset(self) -> None:
        """Set the outputs, and the workspace that is zeroed before every sequence, as before the first launch."""
        arrays = self._inputs.arrays
        self.outputs.update(
            {name: arrays[name] if self._traced else arrays[name].copy() for name in self._inputs.outputs}
        )
        for wanted in self._launches.workspace:
            if wanted.zero:
                self._workspace[wanted.name][:] = 0
        self._untouched = {wanted.name for wanted in self._launches.workspace if not wanted.zero}
        self._untouched |= set(self._inputs.required)
        self._untouched |= {name for name, filled in self._inputs.scratch.items() if not filled}

    @property
    def constants(self) -> Mapping[str, Array | TensorMapArgument]:
        """The contents of constant memory, by symbol."""
        return {
            one.symbol: self._tensor_map(one.name) if one.dtype == TENSOR_MAP else held(self._inputs, one)
            for one in self._launches.constants
        }

    def argument(self, name: str, kind: str) -> object:
        """Return the value that the emulator takes for one argument.

        The first launch that gets a workspace buffer, or an output that is only written, must write what it reads of
        it. In later launches, what no launch wrote reads as NaN.
        """
        if kind == TENSOR_MAP:
            return self._tensor_map(name)
        if kind == NULL:
            return np.uint64(0)
        if is_structure(kind):
            return StructureArgument(tuple(self.argument(*member) for member in members_of(kind)))
        arrays = {**self._workspace, **self._inputs.arrays}
        known: Mapping[str, object] = arrays if kind.endswith("*") else self._inputs.scalars
        if name not in known:
            raise UserError(
                "the operator has no argument of this name",
                code="unknown-name",
                key="arguments",
                found=name,
                accepted=list(known),
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
        # sampled blocks, whose stores are traced, write a part of an output
        required = self._single and name in self._inputs.required and not self._traced
        return Buffer(self.outputs[name], initialised=initialised, output=required, name=name, traced=self._traced)

    def _tensor_map(self, name: str) -> TensorMapArgument:
        found = find(self._launches.tensor_maps, name)
        if found is None:
            raise UserError(
                "the launches have no tensor map of this name", code="unknown-name", key="arguments", found=name
            )
        of = self.argument(found.of, f"{found.dtype}*")
        buffer = of if isinstance(of, Buffer) else Buffer(np.asarray(of))
        if buffer.array.dtype != np.dtype(STORED_AS.get(found.dtype, found.dtype)):
            message = (
                f"the tensor map {name} describes {found.dtype} elements, but {found.of} holds {buffer.array.dtype}"
            )
            raise UserError(message, code="out-of-range", key="tensor_maps")
        element = "bf16" if found.dtype == "bfloat16" else ""
        sizes = (found.extents, found.leading, found.box, found.swizzle, found.outer)
        return TensorMapArgument(buffer, *sizes, element, found.pixels)


def _poisoned(wanted: Workspace) -> Array:
    dtype = np.dtype(STORED_AS.get(wanted.dtype, wanted.dtype))
    return np.full(wanted.bytes, 0 if wanted.zero else 0xFF, np.uint8).view(dtype)


class _Same:
    """A workspace buffer that holds one byte everywhere."""

    def __init__(self, wanted: Workspace) -> None:
        self.dtype: np.dtype[Any] = np.dtype(STORED_AS.get(wanted.dtype, wanted.dtype))
        self.size = wanted.bytes // self.dtype.itemsize
        self._byte = 0 if wanted.zero else 0xFF

    def read(self, start: int, stop: int) -> Array:
        """Return the elements from `start` to `stop`."""
        return np.full((stop - start) * self.dtype.itemsize, self._byte, np.uint8).view(self.dtype)


class IndexedMemory:
    """The same for sampled blocks of a launch of any size: contents are functions of the index."""

    def __init__(self, inputs: IndexedInputs, launches: Launches) -> None:
        self._inputs, self._launches = inputs, launches
        self._scalars = {**inputs.scalars, **dict(launches.scalars)}
        self._workspace = {wanted.name: _Same(wanted) for wanted in launches.workspace}
        self._zeroed = {wanted.name for wanted in launches.workspace if wanted.zero}

    @property
    def constants(self) -> Mapping[str, Array]:
        """The contents of constant memory, by symbol."""
        held_arrays = {
            one.name: self._inputs.arrays[one.name].read(0, self._inputs.arrays[one.name].size)
            for one in self._launches.constants
            if one.name in self._inputs.arrays
        }
        whole = Inputs(self._scalars, held_arrays, ())
        return {one.symbol: held(whole, one) for one in self._launches.constants}

    def argument(self, name: str, kind: str) -> object:
        """Return the value that the emulator takes for one argument; as of `DeviceMemory`, without tensor maps."""
        if kind == NULL:
            return np.uint64(0)
        if is_structure(kind):
            return StructureArgument(tuple(self.argument(*member) for member in members_of(kind)))
        if not kind.endswith("*"):
            return np.dtype(kind).type(self._scalars[name])
        if name in self._workspace:
            return IndexedBuffer(self._workspace[name], name, initialised=name in self._zeroed)
        source: BufferSource = self._inputs.arrays[name]
        scratch = self._inputs.scratch
        initialised = name not in self._inputs.required and scratch.get(name, True)
        writable = name in self._inputs.outputs or name in scratch
        return IndexedBuffer(source, name, initialised=initialised, readonly=not writable)
