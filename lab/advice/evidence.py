"""The evidence that rules read: listings, counts by line, addresses, resources, and the work that is scored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from lab.advice.finding import CodePlace
from lab.base.warp import WARP_SIZE
from lab.emulator.results import AccessPattern, Emulation, MemoryCount
from lab.hardware.gpus import Gpu
from lab.isa.cfg import control_flow
from lab.isa.loops import natural_loops
from lab.isa.model import Function, Instruction, Module, SourceLocation
from lab.predict.variant_scores import RealWork, real_work
from lab.predict.work import LaunchWork
from lab.recorded.run_records import LaunchRecord, VariantRecord
from lab.toolchain.base import Resources


class Need(StrEnum):
    """A part of the evidence that a rule cannot do without."""

    PTX = "PTX"
    SASS = "SASS"
    COUNTS = "an execution on the CPU"
    PATTERNS = "addresses of an execution on the CPU"
    LAUNCH = "the launch's size"
    GPU = "a GPU of the table"
    RESOURCES = "the compiled kernel"
    WORK = "a predicted time"


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Executions of a PTX line.

    Attributes:
        warps: Warp instructions.
        threads: Thread instructions whose guard was true.
        memory: Traffic by the keys of `ExecutedCounts.memory`.
    """

    warps: int
    threads: int
    memory: Mapping[str, MemoryCount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """Memory instructions of one source line and one kind, with their traffic.

    Attributes:
        key: As of `ExecutedCounts.memory`, or `const.load`.
        count: Their traffic together.
        instructions: PTX instructions, the one with the most waste first.
        pattern: Addresses of the costliest one; None where none are known.
    """

    key: str
    count: MemoryCount
    instructions: tuple[Instruction, ...]
    pattern: AccessPattern | None


@dataclass(frozen=True)
class Evidence:
    """Everything known of a variant's kernels.

    Attributes:
        ptx: The PTX module.
        sass: The SASS module, with source lines where the cubin has a line table.
        counts: Executions by PTX line; None where nothing was executed.
        patterns: Addresses of costly accesses; None where none were taken down.
        launch: The launch at the real size, of several the largest; None where it is not known.
        resources: Of its kernel.
        gpu: The GPU of the predictions.
        work: What the time model scores; None where no time can be predicted.
        blocks_per_sm: Resident blocks; 0 where that is not known.
        entries: Kernels that are launched; empty for all of the module.
        sizes: Sizes of the problem, each with that of the executed one.
    """

    ptx: Module | None = None
    sass: Module | None = None
    counts: Mapping[int, LineCounts] | None = None
    patterns: tuple[AccessPattern, ...] | None = None
    launch: LaunchRecord | None = None
    resources: Resources | None = None
    gpu: Gpu | None = None
    work: RealWork | None = None
    blocks_per_sm: int = 0
    entries: frozenset[str] = frozenset()
    sizes: tuple[tuple[int, int], ...] = ()

    def lacks(self, needs: Iterable[Need]) -> Need | None:
        """Return the first of some needs that is not met."""
        parts = {
            Need.PTX: self.ptx,
            Need.SASS: self.sass,
            Need.COUNTS: self.counts,
            Need.PATTERNS: self.patterns,
            Need.LAUNCH: self.launch,
            Need.GPU: self.gpu,
            Need.RESOURCES: self.resources,
            Need.WORK: self.work,
        }
        return next((need for need in needs if parts[need] is None), None)

    @cached_property
    def ptx_functions(self) -> tuple[Function, ...]:
        """PTX kernels that are launched, and device functions."""
        return _chosen(self.ptx, self.entries)

    @cached_property
    def sass_functions(self) -> tuple[Function, ...]:
        """SASS kernels that are launched, and device functions."""
        return _chosen(self.sass, self.entries)

    @cached_property
    def ptx_loops(self) -> frozenset[int]:
        """PTX lines within loops."""
        return _loop_lines(self.ptx_functions)

    @cached_property
    def sass_loops(self) -> frozenset[int]:
        """SASS lines within loops."""
        return _loop_lines(self.sass_functions)

    def warps(self, instruction: Instruction) -> int:
        """Return the executions of a PTX instruction; 0 without counts."""
        one = (self.counts or {}).get(instruction.line)
        return one.warps if one is not None else 0

    @cached_property
    def executed_warps(self) -> int:
        """Warp instructions of all lines."""
        return sum(one.warps for one in (self.counts or {}).values())

    def total(self, key: str) -> MemoryCount:
        """Return the traffic of a kind of access over all lines."""
        found = (one.memory.get(key, MemoryCount()) for one in (self.counts or {}).values())
        return sum(found, MemoryCount())

    def accesses(self, *keys: str) -> tuple[SourceAccess, ...]:
        """Return the memory instructions of some kinds, those of a source line together."""
        groups: dict[tuple[str, SourceLocation | int], list[tuple[Instruction, MemoryCount]]] = {}
        for function in self.ptx_functions:
            for instruction in function.instructions:
                counted = (self.counts or {}).get(instruction.line)
                for key in keys if counted is not None else ():
                    if counted is not None and (count := counted.memory.get(key)) is not None and count.requests:
                        groups.setdefault((key, instruction.source or instruction.line), []).append(
                            (instruction, count)
                        )
        accesses = []
        for (key, _), members in groups.items():
            members.sort(key=lambda pair: -_waste(pair[1]))
            total = sum((count for _, count in members), MemoryCount())
            patterns = [self.pattern(one.line, key) for one, _ in members]
            known = next((pattern for pattern in patterns if pattern is not None), None)
            accesses.append(SourceAccess(key, total, tuple(one for one, _ in members), known))
        return tuple(accesses)

    def pattern(self, line: int, key: str) -> AccessPattern | None:
        """Return the addresses of a PTX line's access of a kind; None where they are not known."""
        return next((one for one in self.patterns or () if one.line == line and one.key == key), None)

    def place(self, instruction: Instruction, *roots: str) -> CodePlace:
        """Return the place of a PTX instruction.

        Args:
            instruction: The PTX instruction.
            roots: Opcodes of SASS instructions that it may have become; none: no SASS line is sought.
        """
        source = self._source_of(instruction)
        sass = next(iter(self.sass_at(source, *roots)), None) if roots else None
        text = f"{instruction.opcode} {', '.join(instruction.operands)}"
        return CodePlace(source, instruction.line, sass.line if sass is not None else 0, text)

    def _source_of(self, instruction: Instruction) -> SourceLocation | None:
        """Return the source line of a PTX instruction; of one that the compiler put in, that of the one before it."""
        if instruction.source is not None:
            return instruction.source
        for function in self.ptx_functions:
            before = function.instructions[: instruction.index]
            if (
                instruction.index < len(function.instructions)
                and function.instructions[instruction.index] is instruction
            ):
                return next((one.source for one in reversed(before) if one.source is not None), None)
        return None

    def sass_at(self, source: SourceLocation | None, *roots: str) -> list[Instruction]:
        """Return SASS instructions of a source line, by the roots of their opcodes."""
        if source is None:
            return []
        return [
            instruction
            for function in self.sass_functions
            for instruction in function.instructions
            if instruction.source is not None
            and instruction.source.line == source.line
            and _name(instruction.source) == _name(source)
            and instruction.opcode.partition(".")[0] in roots
        ]

    def gain(self, change: Callable[[LaunchWork], LaunchWork], dram: float = 1.0) -> float | None:
        """Return the predicted time over that of changed work; None where no time is predicted.

        Args:
            change: Removes a cost from the work of a launch.
            dram: Factor of the bytes that come from DRAM.
        """
        if self.work is None:
            return None
        launches = tuple(map(change, self.work.launches))
        changed = replace(self.work, launches=launches, bytes_moved=round(self.work.bytes_moved * dram))
        return self.seconds / changed.score().seconds

    @cached_property
    def seconds(self) -> float:
        """The predicted time; 0 where none is predicted."""
        return self.work.score().seconds if self.work is not None else 0.0

    @cached_property
    def bound(self) -> str:
        """The resource that takes longest; empty where no time is predicted."""
        return self.work.score().bound if self.work is not None else ""


def _name(source: SourceLocation) -> str:
    return source.file.rpartition("/")[2]


def _waste(count: MemoryCount) -> float:
    return count.bank_conflicts + count.sectors - count.bytes_used / 32


def _chosen(module: Module | None, entries: frozenset[str]) -> tuple[Function, ...]:
    if module is None:
        return ()
    return tuple(
        function for function in module.functions if not function.entry or not entries or function.name in entries
    )


def _loop_lines(functions: Iterable[Function]) -> frozenset[int]:
    lines = set[int]()
    for function in functions:
        flow = control_flow(function)
        for loop in natural_loops(flow):
            for block in loop.blocks:
                start, stop = flow.blocks[block].start, flow.blocks[block].stop
                lines.update(one.line for one in function.instructions[start:stop])
    return frozenset(lines)


def of_variant(record: VariantRecord, ptx: Module | None, sass: Module | None) -> Evidence:
    """Return the evidence on a variant from its complete record and its listings."""
    emulation = record.emulation
    counts = None
    if emulation is not None and emulation.lines:
        counts = {
            line: LineCounts(group.warps, group.threads, group.memory)
            for group in emulation.lines
            for line in group.lines
        }
    launches = [record.launch] if record.launch is not None else [step.launch for step in record.steps]
    work = real_work(record)
    return Evidence(
        ptx,
        sass,
        counts,
        emulation.patterns if emulation is not None and counts is not None else None,
        max(launches, key=lambda one: math.prod(one.grid), default=None),
        record.build.resources if record.build is not None else None,
        work.gpu if work is not None else None,
        work,
        record.prediction.blocks_per_sm if record.prediction is not None else 0,
        frozenset(mix.name for mix in record.mixes("ptx")),
        _sizes(record),
    )


def _sizes(record: VariantRecord) -> tuple[tuple[int, int], ...]:
    executed = record.emulation.problem if record.emulation is not None else {}
    pairs = ((value, executed.get(name)) for name, value in record.problem.items())
    return tuple((real, small) for real, small in pairs if isinstance(real, int) and isinstance(small, int))


def of_emulation(
    emulation: Emulation,
    ptx: Module,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    *,
    sass: Module | None = None,
    resources: Resources | None = None,
) -> Evidence:
    """Return the evidence on a launch on the CPU.

    Args:
        emulation: The launch, with addresses taken down.
        ptx: The module that was executed.
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        sass: Machine code of the same source.
        resources: Of the kernel.
    """
    counts = {line.line: LineCounts(line.warps, line.threads, line.memory) for line in emulation.lines}
    entries = frozenset({emulation.kernel})
    return Evidence(
        ptx, sass, counts or None, emulation.patterns, LaunchRecord(grid, block, 0), resources, entries=entries
    )


def threads(launch: LaunchRecord) -> int:
    """Return the threads of a block."""
    return math.prod(launch.block)


def warps_of_block(launch: LaunchRecord) -> int:
    """Return the warps of a block."""
    return -(-threads(launch) // WARP_SIZE)
