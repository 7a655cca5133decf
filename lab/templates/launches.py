"""The launches that compute one problem, as used by the emulator, the GPU and the reports.

A variant is a sequence of launches on one stream, mostly of one. Launches of a sequence may share scratch buffers, the
workspace. `lab.templates.launch_rules` has the rules by which templates and libraries make these values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, Self

import numpy as np

from lab.base.elements import ELEMENT_BYTES
from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.hardware.clusters import clusters_held
from lab.hardware.gpus import Gpu
from lab.hardware.occupancy import ResourceUse, occupancy
from lab.hardware.tensormaps import TensorMap
from lab.operators.base import STORED_AS, Array, Inputs
from lab.toolchain.base import CompiledLaunch

NULL = "null*"
"""Type of an argument added by the compiler, which gets a null pointer."""


_SCRATCH: Final = "global scratch"
"""Name of the global scratch memory that a compiler needs per block."""

RESIDENT_BLOCKS: Final = "resident_blocks"
"""Name in grid expressions for the kernel's resident blocks."""


class ResidentGrid(Protocol):
    """A grid that depends on the number of resident blocks."""

    def of(self, resident: int) -> tuple[int, int, int]:
        """Return the grid.

        Raises:
            UserError: It is no legal grid.
        """


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch for one problem.

    Attributes:
        entry: Symbol of the entry point.
        grid: Blocks in x, y, z; of one block as long as `resident_grid` waits for the build.
        block: Threads in x, y, z.
        dynamic_shared_bytes: Dynamic shared memory of a block.
        arguments: Names of the operator's scalars and arrays, of workspace buffers and of tensor maps, with their
            types: ``("A", "float32*")``; structures (`lab.base.structures`), whose members have such names; once the
            kernel is built, also what has the type `NULL`.
        bytes_moved: Least bytes that this launch moves through DRAM, as the template declares it; None where it
            does not.
        main: Of a sequence, the launch that does all of the problem's operations.
        resident_grid: The grid, where it depends on the compiled kernel's occupancy; None once that is known.
        carveout: Preferred shared memory of an SM, in percent of its largest; None leaves it to the driver.
        cluster: Blocks of a cluster in x, y, z that the launch asks for; None where the kernel alone decides.
        cooperative: The kernel lets its whole grid meet, which the GPU must then hold at once.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    arguments: tuple[tuple[str, str], ...]
    bytes_moved: int | None = None
    main: bool = False
    resident_grid: ResidentGrid | None = field(default=None, compare=False, repr=False)
    carveout: int | None = None
    cluster: tuple[int, int, int] | None = None
    cooperative: bool = False


@dataclass(frozen=True, slots=True)
class Workspace:
    """A scratch buffer on the device.

    Attributes:
        name: What arguments call it.
        dtype: Element type by NumPy's name.
        elements: How many.
        zero: Set to zero before every sequence.
    """

    name: str
    dtype: str
    elements: int
    zero: bool = False

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.elements * ELEMENT_BYTES[self.dtype]


class _Made(Protocol):
    @property
    def symbols(self) -> Mapping[str, str]: ...

    @property
    def launch(self) -> CompiledLaunch: ...


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A variable in constant memory, set before the launches.

    Attributes:
        name: Of the operator's array or scalar that it holds, and of the variable in the source.
        dtype: Element type; `tensor_map` where it is a map of the array.
        symbol: The variable's symbol in the machine code; empty until the variant is built.
    """

    name: str
    dtype: str
    symbol: str = ""


class ClusterUse(ResourceUse, Protocol):
    """Resources of a kernel, with its cluster size."""

    @property
    def cluster(self) -> int:
        """Blocks per cluster; 1 without clusters."""


@dataclass(frozen=True, slots=True)
class Residency:
    """A GPU and the resource use of a build's kernels.

    Attributes:
        gpu: The GPU.
        resources: What each kernel uses, by its symbol.
        most: Blocks that are counted at most, as if the GPU held no more; whole clusters, at least one.
    """

    gpu: Gpu
    resources: Mapping[str, ClusterUse]
    most: int | None = None

    def blocks(self, launch: Launch, cluster: int = 1) -> int:
        """Return the number of resident blocks of a launch, in whole clusters; 1 if none fits.

        These are SMs x occupancy, and for a kernel in clusters mostly fewer: `lab.hardware.clusters` says why.

        Args:
            launch: As it takes place: with the kernel's symbol, all threads, and all dynamic shared memory.
            cluster: Blocks of a cluster, where the compiler says so; those that the kernel fixes count anyway.
        """
        architecture, use, threads = self.gpu.architecture, self.resources[launch.entry], math.prod(launch.block)
        per_sm = occupancy(architecture, use, threads, launch.dynamic_shared_bytes, launch.carveout).blocks_per_sm
        size = max(cluster, use.cluster, math.prod(launch.cluster or (1,)))
        clusters = clusters_held(self.gpu, per_sm, size)
        return max(1, min(clusters, clusters if self.most is None else max(1, self.most // size)) * size)


@dataclass(frozen=True, slots=True)
class BuiltLaunch:
    """The facts of a variant's launches known after its build.

    Attributes:
        symbols: Entry points whose symbol in the machine code is another, as C++ names are; and variables in constant
            memory.
        fixed: What the compiler fixes.
        residency: For grids that depend on it; None where no grid does.
    """

    symbols: Mapping[str, str] = field(default_factory=dict)
    fixed: CompiledLaunch = field(default_factory=CompiledLaunch)
    residency: Residency | None = None

    @classmethod
    def of(cls, build: _Made | None, residency: Residency | None = None) -> Self:
        """Return the facts of a build or its record; empty without one."""
        return cls() if build is None else cls(dict(build.symbols), build.launch, residency)

    @property
    def hidden(self) -> tuple[tuple[str, str], ...]:
        """Arguments added by the compiler."""
        pointers = [(f"hidden {i}", NULL) for i in range(self.fixed.hidden_pointers)]
        scratch = [(_SCRATCH, "uint8*")] if self.fixed.scratch_bytes else []
        return (*scratch, *pointers[len(scratch) :])

    def passed(self, arguments: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return the arguments of a kernel that a launch passes."""
        absent = self.fixed.absent_arguments
        return tuple(argument for position, argument in enumerate(arguments) if position not in absent)

    def scratch(self, steps: Iterable[Launch]) -> tuple[Workspace, ...]:
        """Return the compiler's scratch memory for the blocks of the actual launches; empty if it needs none."""
        bytes_per_block = self.fixed.scratch_bytes
        blocks = max(math.prod(step.grid) for step in steps)
        return (Workspace(_SCRATCH, "uint8", bytes_per_block * blocks),) if bytes_per_block else ()

    def of_launch(self, launch: Launch) -> Launch:
        """Return the actual launch, with what the compiler has fixed.

        Raises:
            UserError: Its grid depends on the occupancy, and is no legal grid.
        """
        fixed, shared = self.fixed, self.fixed.dynamic_shared_bytes
        built = replace(
            launch,
            entry=self.symbols.get(launch.entry, launch.entry),
            block=launch.block if fixed.threads is None else (fixed.threads, 1, 1),
            dynamic_shared_bytes=launch.dynamic_shared_bytes if shared is None else shared,
            arguments=(*self.passed(launch.arguments), *self.hidden),
        )
        if launch.resident_grid is not None and self.residency is not None:
            # a declared grid counts clusters where the compiler makes them
            grid = launch.resident_grid.of(max(1, self.residency.blocks(built, fixed.cluster) // fixed.cluster))
            built = replace(built, grid=grid, resident_grid=None)
        x, y, z = built.grid
        return replace(built, grid=(x * fixed.cluster, y, z))


@dataclass(frozen=True, slots=True)
class Launches:
    """All launches that compute a problem once, in order.

    Attributes:
        steps: At least one.
        workspace: Scratch buffers that the steps share.
        tensor_maps: The values of their arguments of type `tensor_map`.
        constants: What constant memory holds.
        scalars: Name and value of the scalars among the arguments that are none of the operator's.
    """

    steps: tuple[Launch, ...]
    workspace: tuple[Workspace, ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()
    constants: tuple[ConstantValue, ...] = ()
    scalars: tuple[tuple[str, Scalar], ...] = ()

    def given(self, inputs: Inputs) -> Inputs:
        """Return the operator's inputs with this variant's own scalars added."""
        return replace(inputs, scalars={**inputs.scalars, **dict(self.scalars)}) if self.scalars else inputs

    @property
    def entries(self) -> tuple[str, ...]:
        """Symbols of the launched kernels without repetitions, in order."""
        return tuple(dict.fromkeys(step.entry for step in self.steps))

    def built(self, build: BuiltLaunch) -> Launches:
        """Return the actual launches after the build, which may lack a constant.

        Raises:
            UserError: A grid depends on the occupancy, and is no legal grid.
        """
        steps = tuple(
            replace(build.of_launch(step), cooperative=step.entry in build.fixed.grid_syncs) for step in self.steps
        )
        return replace(
            self,
            steps=steps,
            workspace=(*self.workspace, *build.scratch(steps)),
            constants=tuple(
                replace(constant, symbol=build.symbols[constant.name])
                for constant in self.constants
                if constant.name in build.symbols
            ),
        )

    def built_for_fewer(self, build: BuiltLaunch, turns: int) -> Launches | None:
        """Return the launches on a GPU with so few resident blocks that each takes several turns.

        Args:
            build: What is known once the variant is built.
            turns: How many times as much each block has to do.

        Returns:
            The launches; None where no grid would be smaller, or no such grid is legal.
        """
        if not self.wait_for_occupancy or build.residency is None:
            return None
        actual = self.built(build)
        blocks = [
            math.prod(step.grid)
            for step, declared_step in zip(actual.steps, self.steps, strict=True)
            if declared_step.resident_grid is not None
        ]
        limit = -(-min(blocks) // turns)
        try:
            fewer = self.built(replace(build, residency=replace(build.residency, most=limit)))
        except UserError:
            return None
        return None if [step.grid for step in fewer.steps] == [step.grid for step in actual.steps] else fewer

    @property
    def wait_for_occupancy(self) -> bool:
        """Return whether a grid still depends on the unknown occupancy."""
        return any(step.resident_grid is not None for step in self.steps)

    @property
    def main(self) -> Launch | None:
        """The launch that does all operations of the problem; None if several share them."""
        candidates = self.steps if len(self.steps) == 1 else [step for step in self.steps if step.main]
        return candidates[0] if len(candidates) == 1 else None

    @property
    def bytes_moved(self) -> int | None:
        """Least bytes moved by all launches; None unless every launch declares its own."""
        declared = [step.bytes_moved for step in self.steps]
        return None if None in declared else sum(b for b in declared if b is not None)


def held(inputs: Inputs, constant: ConstantValue) -> Array:
    """Return the content of a variable in constant memory, as stored in bytes."""
    if constant.name in inputs.arrays:
        return inputs.arrays[constant.name]
    value = inputs.scalars[constant.name]
    return np.array([value], np.dtype(STORED_AS.get(constant.dtype, constant.dtype)))
