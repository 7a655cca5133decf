"""Execute one kernel launch on the CPU."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.base import structures
from lab.base.errors import UserError
from lab.emulator import operands
from lab.emulator.allowance import CACHED, Allowance, Budget, Outgrown, work_to_make
from lab.emulator.approximations import Rounding
from lab.emulator.arrays import Bytes, Indices
from lab.emulator.batch import ALONE, make_batch, padded_threads
from lab.emulator.compiled.decoding import NotCompiled
from lab.emulator.compiled.execution import SUSPICIOUS, Geometry, execute
from lab.emulator.compiled.kept import KernelMaker
from lab.emulator.compiled.shadows import Watched
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.findings import Findings
from lab.emulator.floats import exact_arithmetic
from lab.emulator.machine import Interpreter, LaunchState, StepBudgetSpent
from lab.emulator.memory import tensormaps
from lab.emulator.memory.cells import Cells
from lab.emulator.memory.clocks import LaunchClocks
from lab.emulator.memory.memory import PARAM_SEGMENT, PARAM_WINDOW, WIDEST_ACCESS, AddressSpace, Region
from lab.emulator.memory.paged import PagedRegion
from lab.emulator.memory.provenance import Provenance, Sources
from lab.emulator.memory.reuse import THREADS, AccessTrace, TraceFull
from lab.emulator.memory.shadow import Shadow
from lab.emulator.memory.stores import StoreLog
from lab.emulator.monitor import LaunchMonitor
from lab.emulator.opcodes import DTYPES
from lab.emulator.printing import MOST_CHARACTERS, Printed
from lab.emulator.program import MAX_SHARED_BYTES, Place, Program, align_of, program_of, size_of
from lab.emulator.residency import find_block_waits, may_wait
from lab.emulator.results import (
    NEVER_SET,
    AccessPattern,
    BlockWait,
    Buffer,
    Emulation,
    Engine,
    EngineChoice,
    IndexedBuffer,
    LineCount,
    LoopCounts,
    MemoryCount,
    ReuseCount,
    Stored,
    StructureArgument,
    TensorMapArgument,
)
from lab.emulator.schedule import run_batches
from lab.emulator.sources import own_line
from lab.emulator.special import StepClock
from lab.emulator.state import DeviceState, LoadedVariables
from lab.emulator.tally import Counters, summary
from lab.emulator.waiting.clusters import cluster_shape
from lab.hardware.tensormaps import ALIGNMENT, BYTES, POINTER_BYTES
from lab.isa.model import Module, SourceLocation, Variable
from lab.toolchain.cache import default_folder

BATCH_THREADS = 8192
"""Threads executed together: a register then is 32 KiB (64 KiB in double precision), so that the operands and
temporaries of an operation stay in a core's second-level cache. Larger batches are slower, smaller ones pay
NumPy's overhead for each call more often. A batch of this size takes about 4 MiB for a kernel of 128 registers."""

DEFAULT_MAX_STEPS = 20_000_000
"""Steps without a memory change before a launch counts as endless: minutes of work."""

_WORKSPACE_BYTES = 64
_POINTERS: Final = ("u64", "b64", "s64")
"""Parameter types that can hold a pointer."""
_MOST_THREADS = 1024
_BITS_64 = 2**64 - 1
_LIMITS = (1024, 1024, 64)
_GRID_LIMITS = (2**31 - 1, 65535, 65535)


def launch(
    ptx: str | Module,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    dynamic_shared_bytes: int = 0,
    check: bool = True,
    count: bool = True,
    max_steps: int | None = None,
    engine: EngineChoice = "interpreted",
    threads: int | None = None,
    constants: Mapping[str, NDArray[Any] | TensorMapArgument] | None = None,
    schedule: int | None = None,
    trace: bool = False,
    traced: Sequence[int] | None = None,
    tables: Collection[str] = (),
    cluster: tuple[int, int, int] | None = None,
    blocks: Sequence[int] | None = None,
    work: int | None = None,
    wraps: bool = False,
    state: DeviceState | None = None,
    machine: int | None = None,
    rounding: int | None = None,
    displaced: Collection[int] | None = None,
    monitor: LaunchMonitor | None = None,
) -> Emulation:
    """Execute one kernel launch on the CPU.

    Args:
        ptx: PTX text, or a module already read.
        kernel: The kernel's symbol.
        grid: Blocks along x, y, z; missing axes are 1.
        block: Threads along x, y, z; missing axes are 1.
        args: One value per parameter: contiguous arrays (device buffers, read and written in place), `Buffer`s,
            NumPy or Python scalars, `TensorMapArgument`s, and for structures passed by value
            `StructureArgument`s, structured scalars or bytes.
        dynamic_shared_bytes: Dynamic shared memory per block.
        check: Watch for races, missing waits and uninitialised reads. Bounds and alignment are always watched.
        count: Tally executed instructions and traffic.
        max_steps: Steps in which no memory changes before the launch is given up; None for `DEFAULT_MAX_STEPS`.
        engine: `compiled` runs the launch as machine code where that gives the same result: all instructions are
            supported and nothing is suspicious. Otherwise the interpreter runs it. `auto` starts with the interpreter
            and switches to machine code for large launches.
        threads: Cores that the compiled engine uses; None for all.
        constants: Contents of variables in constant memory, by symbol.
        schedule: Seed of another fair order of warps and blocks; None for the order of the program. A kernel without
            races gives the same results in every order, but for the rounding of atomic sums.
        trace: Also say what the first blocks read again, and with which addresses. The interpreter executes these for
            it, whatever the engine.
        traced: The blocks of the trace in place of the first ones, which are then traced to their end or not at all.
        tables: Names of the buffers whose size is the same for all problems, which the trace counts apart.
        cluster: Cluster shape (blocks along x, y, z) the launch requests; None for the kernel's own.
        blocks: The blocks to execute, numbered as in `lab.emulator.batch.Batch`, whole clusters; None for all.
        work: Work of a `Budget` after which the interpreter stops: the result then covers the blocks that ended. None:
            it does not stop.
        wraps: Also report 32-bit products that wrap around. The interpreter then executes the launch.
        state: What earlier launches left in `__device__` variables; this launch's writes are added to it. None for the
            contents of a module just loaded.
        machine: Seed of values the hardware chooses: %smid, %nsmid, %warpid, %gridid and where the clocks start
            (`Program.machine_registers`). None for one SM, with warps in order.
        rounding: Seed with which results of approximate instructions are off by the largest documented error, up or
            down (`lab.emulator.approximations`). None for results as exact as their type allows.
        displaced: The instructions that `rounding` is for, by their positions (`Program.approximate`); None for all.
        monitor: Stops the launch at a time limit, with an `unfinished` finding; None for no limit.

    Returns:
        Counts, findings and steps.

    Raises:
        UserError: no such kernel, or arguments or a geometry that do not fit it.
        ReaderError: text that is not PTX.
        UnsupportedInstruction: the emulator does not support an instruction.
    """
    program = program_of(ptx, kernel) if isinstance(ptx, str) else Program(ptx, kernel)
    shape_grid, shape_block = _three(grid, "grid"), _three(block, "block")
    _check_geometry(program, shape_grid, shape_block)
    shared = program.static_shared_bytes
    if dynamic_shared_bytes or program.dynamic_shared:
        shared = program.dynamic_offset + dynamic_shared_bytes
    if shared > MAX_SHARED_BYTES:
        raise UserError(
            "the block has too much shared memory",
            code="out-of-range",
            key="dynamic_shared_bytes" if dynamic_shared_bytes else None,
            found=f"{shared} bytes",
            accepted=f"at most {MAX_SHARED_BYTES} bytes, static and dynamic together",
        )
    clusters = cluster_shape(program, shape_grid, cluster)
    chosen = None if blocks is None else _chosen(blocks, shape_grid, clusters)
    geometry = Geometry(shape_grid, shape_block, shared, dynamic_shared_bytes, clusters, chosen)
    error = None if rounding is None else Rounding(rounding, None if displaced is None else frozenset(displaced))
    request = _Request(
        program,
        geometry,
        args,
        check,
        count,
        max_steps,
        threads,
        constants or {},
        schedule,
        work,
        wraps,
        state,
        machine,
        error,
        monitor,
    )
    reuse, patterns = _traced(request, tables, traced) if trace else (None, ())
    waits = _block_waits(request)  # before the launch changes the caller's buffers
    if monitor is not None:
        monitor.begin(geometry.blocks)
    result = _with_constant_passes(_launched(request, engine), program, patterns)
    return replace(result, reuse=reuse, patterns=patterns, waits_for_blocks=waits)


def _launched(request: _Request, engine: EngineChoice) -> Emulation:
    """Execute a launch with an engine."""
    why_not = ""
    if engine != "interpreted":
        why_not = _cannot_compile(request)
    if engine == "interpreted" or why_not:
        return _interpret(request, why_not)
    if engine == "auto":
        try:
            return _interpret(request, "", allowance=True)
        except Outgrown:
            pass  # the caller's buffers are as they were
    try:
        return _compile(request)
    except NotCompiled as reason:
        return _interpret(request, str(reason))


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """A launch request, with the arguments of `launch`."""

    program: Program
    geometry: Geometry
    args: Sequence[Any]
    check: bool
    count: bool
    max_steps: int | None
    threads: int | None
    constants: Mapping[str, NDArray[Any] | TensorMapArgument]
    schedule: int | None
    work: int | None = None
    wraps: bool = False
    state: DeviceState | None = None
    machine: int | None = None
    rounding: Rounding | None = None
    monitor: LaunchMonitor | None = None


class _Started:
    """The state a launch works on and collects; the caller's buffers change only at the end.

    Attributes:
        space: Buffers, module variables and parameters.
        buffers: The kernel's arguments.
        symbols: Addresses of module variables.
        findings: Faults.
        counters: Tallies, or None.
        written: The buffers that the kernel may write.
        ambiguous: A buffer the kernel may write is loaded by `ld.global.nc`, which assumes read-only data.
        extents: The shared or local variable each instruction's address derives from, by position.
    """

    def __init__(self, request: _Request) -> None:
        program = request.program
        provenance = _provenance_of(program)
        names = provenance.written_names
        self.space = AddressSpace()
        self.findings = Findings(program)
        self.buffers = _Arguments(program, self.space, request.args, check=request.check, written_names=names)
        self.counters = Counters(program) if request.count else None
        constants = {
            symbol: self.buffers.constant(symbol, constant) if isinstance(constant, TensorMapArgument) else constant
            for symbol, constant in request.constants.items()
        }
        self.symbols = _module_variables(program, self.space, constants)
        self._variables: LoadedVariables | None = None
        if request.state is not None:
            of_module = [(name, self.space.at(start)) for name, start in self.symbols.items()]
            global_variables = [
                (name, region) for name, region in of_module if region is not None and region.space == "global"
            ]
            self._variables = LoadedVariables(request.state, global_variables)
        regions = dict(self.buffers.names)
        for name, start in self.symbols.items():
            regions[name] = [*regions.get(name, ()), self.space.at(start)]
        self.written = self._buffers_of(names, regions)
        read_only = self._buffers_of(provenance.read_only_names, regions) if request.check else []
        self.ambiguous = any(region in self.written for region in read_only)
        self.extents: Mapping[int, Place] = {}
        if request.check:
            self.extents = provenance.inner_places

    def _buffers_of(self, names: Sources | None, regions: Mapping[str, Sequence[Region | None]]) -> list[Region]:
        """Return the global-memory buffers with these names; None selects all of them."""
        every = list(self.space.regions.values())
        chosen = every if names is None else [region for name in names for region in regions.get(name, ())]
        return [region for region in chosen if region is not None and region.space == "global"]

    def maker(self, request: _Request) -> KernelMaker:
        """Return the maker of the kernel's machine code.

        Raises:
            NotCompiled: compiled code cannot do the checks the launch needs.
        """
        if self.ambiguous:
            raise NotCompiled(_AMBIGUOUS)
        program, watched = request.program, None
        if request.check:
            copies = any(instruction.opcode.startswith("cp.async") for _, instruction in program.code)
            watched = Watched(program.shared_granule, program.global_granule, copies, self.extents)
        quick = request.geometry.chosen is not None
        return KernelMaker(program, self.symbols, request.count, watched, default_folder(), quick)

    def result(
        self, request: _Request, steps: int, engine: Engine, not_compiled: str, plan: LaunchState | None = None
    ) -> Emulation:
        """Return the launch's result, after copying written data to the caller's buffers."""
        self.buffers.copy_back()
        if self._variables is not None:
            self._variables.commit()
        self.buffers.find_unwritten(self.findings)
        lines = self.counters.lines() if self.counters else ()
        loops = _loops(request.program, lines) if self.counters else ()
        counts = summary(lines) if self.counters else None
        notes = () if plan is None else tuple(plan.notes) + _notes_on_output(plan.printed)
        notes += (*_notes_on_clusters(request), *_notes_on_constants(request))
        printed = "" if plan is None else plan.printed.text
        name, findings = request.program.kernel.name, self.findings.all()
        fetched = tuple(self.counters.fetched[base] for base in self.buffers.mapped) if self.counters else ()
        ended = (
            range(request.geometry.blocks)
            if plan is None
            else [block_number for batch in plan.finished for block_number in batch]
        )
        return Emulation(
            name,
            counts,
            loops,
            lines,
            findings,
            steps,
            notes,
            engine,
            not_compiled,
            printed,
            fetched_by_map=fetched,
            finished=len(ended),
            stored=self.buffers.stored(request.geometry, np.array(ended, np.int64)),
            wraps=() if plan is None or plan.wraps is None else _lines_of(request.program, plan.wraps),
        )


_AMBIGUOUS = "a buffer that the kernel may write is loaded by ld.global.nc"
_TRACED = 3_000_000
"""The `Budget` of a reuse trace: some hundredths of a second."""


_WAITS = 40_000_000
"""The `Budget` of a search for blocks that wait for others: some tenths of a second."""


def _unwatched(request: _Request, work: int, trace: AccessTrace | None = None) -> LaunchState:
    """Return a launch on buffer copies, without checks or counts, that stops once a `Budget` is spent."""
    program, geometry = request.program, request.geometry
    started = _Started(replace(request, check=False, count=False))
    return LaunchState(
        program,
        started.space,
        geometry.grid,
        geometry.block,
        geometry.shared_bytes,
        geometry.dynamic_bytes,
        started.symbols,
        None,
        started.findings,
        None,
        DEFAULT_MAX_STEPS,
        {},
        geometry.cluster,
        workspace=_grid_workspace(started.space) if program.has_grid_sync else 0,
        allowance=Budget([(work, lambda: True)]),
        trace=trace,
    )


def _block_waits(request: _Request) -> BlockWait | None:
    """Return the waits between blocks; None for seeded launches and for chosen blocks, where they add no cost."""
    seeds = (request.schedule, request.machine, request.rounding, request.geometry.chosen)
    if any(seed is not None for seed in seeds):
        return None
    if request.geometry.blocks == math.prod(request.geometry.cluster) or not may_wait(request.program):
        return BlockWait.NONE
    return find_block_waits(lambda: _unwatched(request, _WAITS))


def _traced(
    request: _Request, tables: Collection[str], traced: Sequence[int] | None
) -> tuple[ReuseCount | None, tuple[AccessPattern, ...]]:
    """Return the data reuse of the first or the `traced` blocks, interpreted on copies of the buffers.

    That of `traced` blocks is None if their trace did not reach their end.
    """
    geometry, cluster = request.geometry, request.geometry.cluster
    whole, size = traced is not None, math.prod(cluster)
    trace = AccessTrace(tables, scale=_WHOLE_TRACE if whole else 1)
    plan = _unwatched(request, _TRACED * (_WHOLE_TRACE if whole else 1), trace)
    block_count = max(1, THREADS // (padded_threads(geometry.block) * size)) * size
    chosen = geometry.chosen
    if traced is not None:
        chosen, block_count = _chosen(traced, geometry.grid, cluster), len(traced)
    batch = make_batch(
        geometry.grid,
        geometry.block,
        0,
        block_count if whole else min(block_count, geometry.blocks),
        cluster=cluster,
        chosen=chosen,
    )
    reached = False
    # a trace may be incomplete where blocks wait for others or the budget is spent
    with exact_arithmetic(), suppress(TraceFull, Outgrown, StepBudgetSpent):
        Interpreter(plan, batch, StepClock()).turn()
        reached = True
    patterns = trace.samples.patterns(lambda position: request.program.code[position][1].line)
    return trace.counted() if reached or not whole else None, patterns


_WHOLE_TRACE: Final = 8
"""Factor of a trace's limits for blocks of the real problem: some tenths of a second."""


def _interpret(request: _Request, why_not: str, *, allowance: bool = False) -> Emulation:
    """Execute a launch in the interpreter.

    Args:
        request: The launch.
        why_not: Why compiled code does not execute it.
        allowance: Stop where compiled code is the better choice.

    Raises:
        Outgrown: compiled code is.
    """
    program, geometry = request.program, request.geometry
    started, cluster = _Started(request), geometry.cluster
    clocks = None
    if request.check:
        padded = padded_threads(geometry.block)
        clocks = LaunchClocks(geometry.blocks, padded, math.prod(cluster), narrow=program.has_narrow_order)
        for region in started.written:
            region.cells = Cells(region.stride, 1, program.global_granule)
    takeover = _Asked(request, started) if allowance else None
    limit = None if request.work is None else Budget([(request.work, lambda: True)])
    plan = LaunchState(
        program,
        started.space,
        geometry.grid,
        geometry.block,
        geometry.shared_bytes,
        geometry.dynamic_bytes,
        started.symbols,
        started.counters,
        started.findings,
        clocks,
        DEFAULT_MAX_STEPS if request.max_steps is None else request.max_steps,
        {},
        cluster,
        extents=started.extents,
        workspace=_grid_workspace(started.space) if program.has_grid_sync else 0,
        dice=None if request.schedule is None else np.random.default_rng(request.schedule),
        allowance=limit if takeover is None else takeover.allowance(),
        chosen=geometry.chosen,
        wraps=set() if request.wraps else None,
        machine=request.machine,
        rounding=request.rounding,
        monitor=request.monitor,
    )
    if request.monitor is not None:
        request.monitor.hand_over("interpreter", started.findings.all)
    steps = _run(plan, limited=limit is not None)
    return started.result(request, steps, "interpreted", why_not if takeover is None else takeover.why_not, plan)


class _Asked:
    """Decides whether compiled code can take over a launch.

    Attributes:
        why_not: Why it cannot; empty where it can or was not checked.
    """

    def __init__(self, request: _Request, started: _Started) -> None:
        self._request, self._started = request, started
        self.why_not = ""

    def allowance(self) -> Allowance:
        """Return the amounts of work after which to check for a takeover."""
        compile_work = work_to_make(len(self._request.program.code))
        return Allowance([(CACHED, self.ready), (compile_work, self.possible)])

    def ready(self) -> bool:
        """Return whether the compiled code is in the cache."""
        return not (self._faults or self._started.ambiguous) and self._started.maker(self._request).ready

    def possible(self) -> bool:
        """Return whether the kernel can be compiled."""
        if self._faults:
            return False
        try:
            self._started.maker(self._request).write()
        except NotCompiled as reason:
            self.why_not = str(reason)
        return not self.why_not

    @property
    def _faults(self) -> bool:
        """Return whether there are findings already; only the interpreter can report them."""
        return bool(self._started.findings.all())


def _compile(request: _Request) -> Emulation:
    """Execute a launch as machine code.

    Raises:
        NotCompiled: that is not possible, or the interpreter must find the cause of a fault.
    """
    started = _Started(request)
    maker = started.maker(request)
    writable = started.written if request.check else []
    if started.buffers.indexed:
        raise NotCompiled("buffers defined by a function of the index")
    steps = execute(
        maker,
        started.space,
        request.geometry,
        started.counters,
        writable=writable,
        threads=request.threads,
        monitor=request.monitor,
    )
    if any(region.readonly and region.shadow is not None and region.shadow.written.any() for region in writable):
        raise NotCompiled(SUSPICIOUS)
    return started.result(request, steps, "compiled", "")


@lru_cache(maxsize=4)
def _provenance_of(program: Program) -> Provenance:
    """Return the provenance of a program's addresses, from a small cache."""
    return Provenance(program)


def _notes_on_output(printed: Printed) -> tuple[str, ...]:
    if not printed.lost:
        return ()
    return (f"{printed.lost} calls of printf are omitted: a launch prints at most {MOST_CHARACTERS} characters",)


def _notes_on_clusters(request: _Request) -> tuple[str, ...]:
    """Return a note where a kernel reads cluster registers but no cluster size is set."""
    if _in_clusters(request) or not request.program.asks_for_cluster:
        return ()
    return ("the kernel reads cluster registers, but neither __cluster_dims__ nor the launch sets a cluster size",)


def _notes_on_constants(request: _Request) -> tuple[str, ...]:
    """Return a note on constant-memory variables that the kernel reads and nothing sets."""
    program = request.program
    unset = [
        variable.name
        for _, _, variable in program.memory_variables()
        if variable.space == "const"
        and not (variable.initial or variable.external or variable.name in request.constants)
    ]
    names = ", ".join(name for name in unset if name in program.names_used)
    return (f"{NEVER_SET} {names}, which the kernel reads: zeros",) if names else ()


def _in_clusters(request: _Request) -> bool:
    return request.geometry.cluster != ALONE or request.program.declares_clusters


def _element_of(dtype: np.dtype[Any]) -> str:
    """Return the tensor-map element type of an array: unsigned for integers below 32 bits and for pairs."""
    if dtype.kind == "f":
        return f"f{8 * dtype.itemsize}"
    signed = dtype.kind == "i" and dtype.itemsize >= _SIGNED_BYTES
    return f"{'s' if signed else 'u'}{8 * dtype.itemsize}"


_SIGNED_BYTES: Final = 4
"""The smallest size at which the driver has signed integer types."""


def _cannot_compile(request: _Request) -> str:
    """Return why a launch needs the interpreter whatever its instructions; empty where it does not."""
    program, check = request.program, request.check
    reasons = (
        (request.max_steps is not None, "the steps are limited"),
        (request.wraps, "wrap-around detection is on"),
        (request.schedule is not None, "a schedule seed is set"),
        (request.machine is not None and program.asks_machine, "a machine seed is set for special registers"),
        (request.rounding is not None and bool(program.approximate), "a rounding seed is set"),
        (check and len(program.variables_in("local")) > 1, "bounds of several local-memory variables are checked"),
        (_in_clusters(request), "clusters of blocks"),
    )
    why = next((reason for holds, reason in reasons if holds), "")
    if not why and check and program.definedness.unwritten:
        return "registers may be read before they are written"
    return why


def _run(plan: LaunchState, *, limited: bool) -> int:
    with exact_arithmetic():
        try:
            return run_batches(plan, BATCH_THREADS)
        except StepBudgetSpent as spent:
            return spent.steps
        except Outgrown:
            if not limited:
                raise
            return 0


def _lines_of(program: Program, positions: Iterable[int]) -> tuple[SourceLocation, ...]:
    lines = (own_line(program.code[position][1]) for position in sorted(positions))
    return tuple(dict.fromkeys(line for line in lines if line is not None))


def _chosen(blocks: Sequence[int], grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> Indices:
    """Return the block numbers to execute as an array.

    Raises:
        UserError: the list is empty, or a block is outside the grid, repeated, or not in a whole cluster.
    """
    numbers, size = np.array(blocks, np.int64), math.prod(cluster)
    accepted = f"different numbers from 0 to {math.prod(grid) - 1}, in whole clusters of {size}"
    inside = len(numbers) and numbers.min() >= 0 and numbers.max() < math.prod(grid)
    if not inside or len(np.unique(numbers)) < len(numbers) or len(numbers) % size:
        raise UserError(
            "these blocks cannot be executed", code="unsupported", key="blocks", found=list(blocks), accepted=accepted
        )
    clusters = numbers.reshape(-1, size)
    if (clusters != clusters[:, :1] // size * size + np.arange(size)).any():
        raise UserError(
            "these blocks cannot be executed", code="unsupported", key="blocks", found=list(blocks), accepted=accepted
        )
    return numbers


def _grid_workspace(space: AddressSpace) -> int:
    """Allocate the workspace for cooperative grid sync: its size and a zeroed barrier."""
    region = space.allocate("grid workspace", "global", _WORKSPACE_BYTES)
    region.data[:4] = np.frombuffer(np.uint32(_WORKSPACE_BYTES).tobytes(), np.uint8)
    return region.base


def _with_constant_passes(result: Emulation, program: Program, patterns: Iterable[AccessPattern]) -> Emulation:
    """Add the passes of constant loads to the counts, as many per request as in the traced ones.

    Neither engine counts them in every launch: lanes of a warp nearly always read the same word.
    """
    traced = {pattern.line: pattern for pattern in patterns if pattern.key == "const.load" and pattern.requests}
    if result.counts is None or not traced:
        return result
    lines = tuple(
        replace(line, memory={**line.memory, "const.load": _constant_traffic(line, traced[line.line])})
        if line.line in traced
        else line
        for line in result.lines
    )
    return replace(result, lines=lines, counts=summary(lines), loops=_loops(program, lines))


def _constant_traffic(line: LineCount, pattern: AccessPattern) -> MemoryCount:
    passes = round(line.warps * pattern.cost / pattern.requests) if pattern.cost > pattern.requests else 0
    return MemoryCount(requests=line.warps, bytes_used=line.threads * pattern.width, passes=passes)


def _loops(program: Program, lines: tuple[LineCount, ...]) -> tuple[LoopCounts, ...]:
    return tuple(
        LoopCounts(loop.label, loop.depth, summary(lines, loop.numbers.__contains__)) for loop in program.loops
    )


def _three(size: int | Sequence[int], name: str) -> tuple[int, int, int]:
    values = [int(size)] if isinstance(size, (int, np.integer)) else [int(value) for value in size]
    if not 1 <= len(values) <= 3 or min(values) < 1:  # noqa: PLR2004  three axes
        raise UserError(f"the {name} must be one to three positive numbers", code="wrong-value", key=name, found=size)
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _check_geometry(program: Program, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    """Check a launch's grid and block against the limits.

    Raises:
        UserError: the driver would reject the launch.
    """
    if any(n > limit for n, limit in zip(grid, _GRID_LIMITS, strict=True)):
        accepted = "at most {:,} blocks along x, {:,} along y and z".format(*_GRID_LIMITS)
        raise UserError("the grid is too large", code="out-of-range", key="grid", found=grid, accepted=accepted)
    total = block[0] * block[1] * block[2]
    if total > _MOST_THREADS or any(n > limit for n, limit in zip(block, _LIMITS, strict=True)):
        raise UserError(
            "the block is too large",
            code="out-of-range",
            key="block",
            found=block,
            accepted=f"at most {_MOST_THREADS} threads, each axis at most {_LIMITS}",
        )
    required = program.kernel.directives.get("reqntid")
    if required and block != required:
        raise UserError(
            "the block has a different size than the kernel requires (.reqntid)",
            code="mismatch",
            key="block",
            found=block,
            accepted=required,
        )
    bounds = program.kernel.directives.get("maxntid")
    if bounds and total > math.prod(bounds):
        raise UserError(
            "the block is larger than the kernel's __launch_bounds__",
            code="mismatch",
            key="block",
            found=f"{block}, {total} threads",
            accepted=f"at most {math.prod(bounds)} threads",
        )


class _Arguments:
    """The kernel's parameters, and the buffers behind them."""

    def __init__(
        self, program: Program, space: AddressSpace, args: Sequence[Any], *, check: bool, written_names: Sources | None
    ) -> None:
        parameters = program.kernel.parameters
        if len(args) != len(parameters):
            raise UserError(
                "the number of arguments differs from the number of kernel parameters",
                code="mismatch",
                key="args",
                found=len(args),
                accepted=", ".join(f".{p.type} {p.name}" for p in parameters),
            )
        self._space, self._check, self._written = space, check, written_names
        self._buffers: list[tuple[Buffer, Region, str]] = []
        self.indexed: list[tuple[IndexedBuffer, Region]] = []
        self.names: dict[str, list[Region | None]] = {}  # parameters that hold pointers, and what these point to
        self.mapped: list[int] = []  # addresses of the tensors that tensor maps describe
        memory = Region("kernel parameters", "param", PARAM_WINDOW, program.param_bytes)
        for i, (parameter, value) in enumerate(zip(parameters, args, strict=True)):
            place = program.places[0, parameter.name]
            raw = self._bytes_of(i, parameter, value)
            memory.data[place.offset : place.offset + len(raw)] = np.frombuffer(raw, np.uint8)
        space.place(PARAM_SEGMENT, memory)

    def _bytes_of(self, index: int, parameter: Variable, value: Any) -> bytes:  # noqa: ANN401  any scalar, array or Buffer
        if isinstance(value, np.ndarray) and value.ndim > 0:
            value = Buffer(value)
        if isinstance(value, Buffer | IndexedBuffer):
            return self._pointer(index, parameter, value)
        if isinstance(value, TensorMapArgument):
            return self._tensor_map(index, parameter, value)
        size = size_of(parameter)
        if isinstance(value, StructureArgument):
            raw = self._structure(index, parameter, value)
        elif isinstance(value, bytes):
            raw = value
        elif parameter.count != 1 or parameter.vector != 1:
            raw = np.asarray(value).tobytes()
        else:
            raw = _scalar(index, parameter, value)
        if len(raw) != size:
            raise UserError(
                f"argument {index} does not match the size of its parameter",
                code="mismatch",
                key=f"args[{index}]",
                found=f"{len(raw)} bytes",
                accepted=f"{size} bytes (.{parameter.type} {parameter.name})",
            )
        return raw

    def _pointer(self, index: int, parameter: Variable, buffer: Buffer | IndexedBuffer) -> bytes:
        if size_of(parameter) != POINTER_BYTES or parameter.type not in _POINTERS:
            dtype = buffer.source.dtype if isinstance(buffer, IndexedBuffer) else buffer.array.dtype
            raise UserError(
                f"argument {index} is an array, but the parameter is not a pointer",
                code="mismatch",
                key=f"args[{index}]",
                found=f"array of {dtype}",
                accepted=f".{parameter.type} {parameter.name}",
            )
        return self._address(index, parameter, buffer)

    def _address(self, index: int, parameter: Variable, buffer: Buffer | IndexedBuffer) -> bytes:
        key = f"args[{index}]"
        base = self._indexed(buffer) if isinstance(buffer, IndexedBuffer) else self._base(key, parameter.name, buffer)
        self.names.setdefault(parameter.name, []).append(self._space.at(base))
        return base.to_bytes(8, "little")

    def _structure(self, index: int, parameter: Variable, structure: StructureArgument) -> bytes:
        members = list[bytes]()
        for value in structure.members:
            is_array = isinstance(value, np.ndarray) and value.ndim > 0
            argument = Buffer(value) if is_array else value
            members.append(
                self._address(index, parameter, argument)
                if isinstance(argument, Buffer | IndexedBuffer)
                else np.asarray(argument).tobytes()
            )
        places, size, _ = structures.offsets([len(member) for member in members])
        raw = bytearray(size)
        for place, member in zip(places, members, strict=True):
            raw[place : place + len(member)] = member
        return bytes(raw)

    def _tensor_map(self, index: int, parameter: Variable, tensor_map: TensorMapArgument) -> bytes:
        """Return a tensor map passed by value, or the address of one in global memory."""
        size = size_of(parameter)
        if size == POINTER_BYTES and parameter.type in _POINTERS:
            region = self._space.allocate(f"args[{index}] ({parameter.name}, a tensor map)", "global", BYTES)
            region.data[:BYTES] = np.frombuffer(self._passed(index, parameter, tensor_map), np.uint8)
            self.names[parameter.name].append(region)
            return region.base.to_bytes(POINTER_BYTES, "little")
        if size != BYTES or align_of(parameter) % ALIGNMENT:
            raise UserError(
                f"argument {index} is a tensor map, but the parameter cannot hold one",
                code="unsupported",
                key=f"args[{index}]",
                found=f"{size} bytes, aligned to {align_of(parameter)}",
                accepted=f"{BYTES} bytes, aligned to {ALIGNMENT}, or a pointer to them",
            )
        return self._passed(index, parameter, tensor_map)

    def _passed(self, index: int, parameter: Variable, tensor_map: TensorMapArgument) -> bytes:
        encoded = self._encoded(f"args[{index}]", parameter.name, tensor_map)
        self.mapped.append(self._base(f"args[{index}]", parameter.name, tensor_map.of))
        return encoded

    def constant(self, symbol: str, tensor_map: TensorMapArgument) -> Bytes:
        """Return the bytes of a tensor map held in a constant-memory variable."""
        return np.frombuffer(self._encoded(f"constants.{symbol}", symbol, tensor_map), np.uint8)

    def _encoded(self, key: str, name: str, tensor_map: TensorMapArgument) -> bytes:
        """Return the encoded bytes of a tensor map."""
        width = tensor_map.of.array.itemsize
        base = self._base(key, name, tensor_map.of)
        self.names.setdefault(name, []).append(self._space.at(base))
        strides = (tensor_map.leading, *tensor_map.outer)[: len(tensor_map.extents) - 1]
        sizes = len(tensor_map.extents) if tensor_map.pixels is None else 2
        if len(strides) != len(tensor_map.extents) - 1 or len(tensor_map.box) != sizes:
            raise UserError(
                "the parts of the tensor map have different numbers of dimensions",
                code="mismatch",
                key=key,
                found=f"extents {tensor_map.extents}, box {tensor_map.box}, {1 + len(tensor_map.outer)} strides",
                accepted="as many sizes of the box as extents, and one stride fewer",
            )
        in_bytes = tuple(stride * width for stride in strides)
        element = tensor_map.element or _element_of(tensor_map.of.array.dtype)
        of, box, swizzle = tensor_map.extents, tensor_map.box, tensor_map.swizzle
        return tensormaps.Descriptor(base, element, of, in_bytes, box, swizzle, tensor_map.pixels).encode()

    def _base(self, key: str, name: str, buffer: Buffer) -> int:
        """Return a buffer's address; allocate the buffer on first use.

        Raises:
            UserError: the array is not contiguous, or overlaps another one.
        """
        array = buffer.array
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise UserError(
                "the array is not contiguous",
                code="mismatch",
                key=key,
                found=array.strides,
                accepted="a C- or Fortran-contiguous array",
            )
        for earlier, region, _ in self._buffers:
            if earlier.array is array:
                if np.may_share_memory(region.data, array):
                    self._fill(region, buffer, name)
                return region.base
            if np.may_share_memory(earlier.array, array):
                raise UserError(
                    "the array overlaps an earlier one: pass the same array, or a copy", code="duplicate", key=key
                )
        region = self._space.allocate(buffer.name or f"{key} ({name})", "global", array.nbytes)
        self._fill(region, buffer, name)
        readonly = buffer.readonly and self._may_write(name)
        if self._check and (buffer.output or not buffer.initialised or buffer.traced or readonly):
            region.shadow = Shadow(array.nbytes, initialised=False, readable=buffer.initialised)
        region.readonly = readonly
        region.log = StoreLog() if buffer.traced else None
        self._buffers.append((buffer, region, buffer.name or key))
        return region.base

    def _may_write(self, name: str) -> bool:
        return self._written is None or name in self._written

    def _indexed(self, buffer: IndexedBuffer) -> int:
        """Return an indexed buffer's address; add the buffer on first use."""
        for earlier, region in self.indexed:
            if earlier.source is buffer.source:
                return region.base
        region = self._space.add(PagedRegion(buffer.name, self._space.next_base, buffer.source))
        if self._check and not buffer.initialised:
            region.shadow = Shadow(region.stride, initialised=False)
        region.readonly, region.log = buffer.readonly, StoreLog()
        self.indexed.append((buffer, region))
        return region.base

    def stored(self, geometry: Geometry, ended: Indices) -> tuple[Stored, ...]:
        """Return the elements that finished blocks stored, at sampled positions."""
        of_indexed = [(buffer.name, buffer.source.dtype, region) for buffer, region in self.indexed]
        of_arrays = [(name, buffer.array.dtype, region) for buffer, region, name in self._buffers if buffer.traced]
        results = []
        for name, dtype, region in (*of_indexed, *of_arrays):
            if region.log is None:
                continue
            blocks, elements = region.log.elements(dtype.itemsize)
            finished = np.isin(blocks, ended)
            blocks, elements = blocks[finished], elements[finished]
            places = region.places(elements * dtype.itemsize, slice(None)) // dtype.itemsize
            contents = region.data[: len(region.data) // dtype.itemsize * dtype.itemsize]
            numbers = blocks if geometry.chosen is None else geometry.chosen[blocks]
            results.append(Stored(name, numbers, elements, contents.view(dtype)[places], region.log.updated))
        return tuple(results)

    def _fill(self, region: Region, buffer: Buffer, name: str) -> None:
        """Set a buffer's bytes: the array's own memory if the kernel cannot write them, else a copy."""
        array = buffer.array
        shareable = array.nbytes == region.stride and array.ctypes.data % WIDEST_ACCESS == 0
        if shareable and not self._may_write(name):
            region.data = _bytes(array)
        else:
            region.data = np.zeros(region.stride // 8, np.uint64).view(np.uint8)
            if buffer.initialised or not buffer.traced:
                region.data[: array.nbytes] = _bytes(array)

    def copy_back(self) -> None:
        """Copy the buffers' bytes into the caller's arrays."""
        for buffer, region, _ in self._buffers:
            writable = buffer.array.flags.writeable and not (buffer.readonly or buffer.traced)
            if writable and not np.may_share_memory(buffer.array, region.data):
                _bytes(buffer.array)[:] = region.data[: buffer.array.nbytes]

    def find_unwritten(self, findings: Findings) -> None:
        """Report output elements that no thread wrote."""
        for buffer, region, name in self._buffers:
            if not buffer.output or region.shadow is None:
                continue
            missing = np.flatnonzero(~region.shadow.written.reshape(-1, buffer.array.itemsize).all(axis=1))
            if len(missing):
                findings.add(
                    "never-written",
                    None,
                    f"{name}: {len(missing)} of {buffer.array.size} elements were never written, "
                    f"first element {missing[0]} in memory order",
                    address=region.base + int(missing[0]) * buffer.array.itemsize,
                    count=len(missing),
                )


def _bytes(array: NDArray[Any]) -> Bytes:
    """Return a contiguous array's bytes in memory order, without a copy."""
    flat = array.reshape(-1, order="C" if array.flags.c_contiguous else "F")
    return flat.view(np.uint8)


def _scalar(index: int, parameter: Variable, value: Any) -> bytes:  # noqa: ANN401  any scalar, array or Buffer
    """Convert a scalar to bytes of the parameter's type.

    Raises:
        UserError: a float for an integer, another width, or a value out of range.
    """
    dtype = DTYPES[parameter.type]
    key, accepted = f"args[{index}]", f".{parameter.type} {parameter.name}"
    if isinstance(value, (np.generic, np.ndarray)):
        bits = parameter.type[0] == "b"
        integer = dtype.kind in "iu" and value.dtype.kind in "iub"
        half = dtype.itemsize == 2 and dtype.kind == "u"  # noqa: PLR2004  nvcc passes __half as .b16 or .u16
        fits = bits or integer or half or value.dtype.kind == dtype.kind
        if value.dtype.itemsize != dtype.itemsize or not fits:
            raise UserError(
                f"argument {index} does not fit its parameter",
                code="mismatch",
                key=key,
                found=f"{value.dtype} {value}",
                accepted=accepted,
            )
        return value.tobytes()
    if (isinstance(value, float) and dtype.kind != "f") or not isinstance(value, (int, float, bool)):
        raise UserError(
            f"argument {index} does not fit its parameter", code="mismatch", key=key, found=value, accepted=accepted
        )
    try:
        return np.array(value, dtype).tobytes()
    except OverflowError:
        raise UserError(
            f"argument {index} is out of range", code="out-of-range", key=key, found=value, accepted=accepted
        ) from None


def _module_variables(program: Program, space: AddressSpace, constants: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Allocate and initialise module-scope variables; return their addresses."""
    addresses: dict[str, int] = {}
    pending: list[tuple[Variable, int, Region]] = []
    for name, number, variable in program.memory_variables():
        if not (variable.external and variable.count is None):
            region = space.allocate(f".{variable.space} {variable.name}", variable.space, max(size_of(variable), 1))
            addresses[name] = region.base
            pending.append((variable, number, region))
    for variable, number, region in pending:
        dtype = DTYPES[variable.type]
        for i, text in enumerate(variable.initial):
            region.data[i * dtype.itemsize : (i + 1) * dtype.itemsize] = np.frombuffer(
                _initial(program, number, variable, text, addresses), np.uint8
            )
    by_symbol = {variable.name: (variable, region) for variable, _, region in pending if variable.space == "const"}
    for symbol, array in constants.items():
        if symbol not in by_symbol:
            raise UserError(
                "no such variable in constant memory",
                code="unknown-name",
                key=f"constants.{symbol}",
                accepted=list(by_symbol),
            )
        variable, region = by_symbol[symbol]
        if array.nbytes > size_of(variable):
            raise UserError(
                f"the variable {symbol} in constant memory has {size_of(variable)} bytes",
                code="out-of-range",
                key=f"constants.{symbol}",
                found=f"{array.nbytes} bytes",
                accepted=f"at most {size_of(variable)} bytes",
            )
        region.data[: array.nbytes] = _bytes(np.ascontiguousarray(array))
    return addresses


def _initial(program: Program, number: int, variable: Variable, text: str, addresses: dict[str, int]) -> bytes:
    """Return the bytes of one initialiser element; the function number is -1 for module variables."""
    dtype = DTYPES[variable.type]
    value = operands.literal(text)
    if isinstance(value, operands.FloatBits):
        if value.width == 8 * dtype.itemsize:
            return value.bits.to_bytes(dtype.itemsize, "little")
        return np.array(value.value, dtype).tobytes()
    if value is not None:
        if dtype.kind == "f":
            return np.array(value, dtype).tobytes()
        result: bytes = (value & (2 ** (8 * dtype.itemsize) - 1)).to_bytes(dtype.itemsize, "little")
        return result
    parts = operands.symbol(text)
    name = parts[0] if parts else ""
    start = addresses.get(name if number < 0 else program.symbol(number, name))
    if start is None:
        start = program.calls.address(name)
    if parts is None or start is None:
        raise UnsupportedInstruction(0, f"{variable.name} = {{ … {text} … }}", "this initialiser")
    return ((start + parts[1]) & _BITS_64).to_bytes(8, "little")[: dtype.itemsize]
