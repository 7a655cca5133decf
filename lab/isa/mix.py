"""Static instruction mix of a kernel and of each of its loops: counts of instructions in the text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lab.isa.cfg import ControlFlow, control_flow
from lab.isa.classes import load_bytes
from lab.isa.loops import Loop, hot_loop, natural_loops, own_instructions
from lab.isa.model import Function, Instruction, InstructionClass, Isa, Module
from lab.isa.prefetch_distance import is_group, passes_ahead
from lab.isa.roles import WarpRole, warp_roles
from lab.isa.sass.asides import asides

BODY: Final = "body"
"""Name of the hot region of a kernel without loops: the whole kernel."""

KEPT: Final = frozenset(InstructionClass) - {
    InstructionClass.INTEGER,
    InstructionClass.COMPARE,
    InstructionClass.MOVE,
    InstructionClass.LD_CONST,
    InstructionClass.BRANCH,
    InstructionClass.OTHER,
}
"""Classes whose instructions ptxas translates one to one, except for merged loads."""

ANCHORS: Final = frozenset(
    {
        InstructionClass.FMA,
        InstructionClass.FLOAT,
        InstructionClass.ST_SHARED,
        InstructionClass.ST_GLOBAL,
        InstructionClass.ATOMIC,
        InstructionClass.SHUFFLE,
        InstructionClass.MMA,
        InstructionClass.CP_ASYNC,
    }
)
"""Classes ptxas neither merges nor adds to: their counts give the unroll factors of PTX and SASS."""

_FROM_GLOBAL: Final = frozenset({InstructionClass.LD_GLOBAL, InstructionClass.CP_ASYNC})

_FETCHING = frozenset({InstructionClass.LD_GLOBAL, InstructionClass.CP_ASYNC, InstructionClass.BULK_COPY})


@dataclass(frozen=True, slots=True)
class Counts:
    """Instruction counts of a code region.

    Attributes:
        instructions: Number of instructions, without padding NOPs after the last exit of SASS.
        by_class: Number by `InstructionClass` value; classes that do not occur are absent.
        by_opcode: Number by full opcode.
        load_bytes_shared: Bytes that one thread loads from shared memory in one pass over the text.
        load_bytes_global: Bytes that one thread loads from global memory in one pass over the text, with `cp.async`.
            Bulk and tensor copies, whose size is not in the text, count as 0.
    """

    instructions: int
    by_class: dict[str, int]
    by_opcode: dict[str, int]
    load_bytes_shared: int
    load_bytes_global: int

    @property
    def fma(self) -> int:
        """Number of instructions of class `fma`; one half2 or f32x2 instruction counts as one."""
        return self.by_class.get(InstructionClass.FMA, 0)

    @property
    def kept(self) -> int:
        """Number of instructions of classes ptxas keeps: floating point, memory, atomics, shuffles, barriers."""
        return sum(self.by_class.get(cls, 0) for cls in KEPT)

    @property
    def ld_shared(self) -> int:
        """Number of instructions of class `ld.shared`."""
        return self.by_class.get(InstructionClass.LD_SHARED, 0)

    @property
    def fma_per_ld_shared(self) -> float | None:
        """The ratio fma : ld.shared; None without shared-memory loads."""
        return _ratio(self.fma, self.ld_shared)

    @property
    def fma_share(self) -> float | None:
        """Fraction of all instructions that are fma; None if there are none."""
        return _ratio(self.fma, self.instructions)

    @property
    def fma_over_fma_plus_ld_shared(self) -> float | None:
        """fma/(fma + ld.shared); None if there is neither."""
        return _ratio(self.fma, self.fma + self.ld_shared)

    @property
    def bytes_per_fma_shared(self) -> float | None:
        """Bytes loaded from shared memory per fma, per thread; None without fma."""
        return _ratio(self.load_bytes_shared, self.fma)

    @property
    def bytes_per_fma_global(self) -> float | None:
        """Bytes loaded from global memory per fma, per thread; None without fma."""
        return _ratio(self.load_bytes_global, self.fma)


@dataclass(frozen=True, slots=True)
class LoopMix:
    """Mix of one natural loop, including nested loops.

    Attributes:
        label: The header's label in the listing (`$L__BB0_3`; SASS: `.L_x_2`, or the header's address `0x1e0`).
        depth: 1 for an outermost loop.
        parent: Label of the loop around it, or None.
        hot: True for exactly one loop of a kernel that has loops: see `lab.isa.loops.hot_loop`.
        counts: Counts of the whole body, including nested loops.
        first_line: First listing line of the header block.
        last_line: Last listing line of the body.
        lines: Listing lines of the body as closed ranges, since a body need not be contiguous.
        live_registers: SASS: peak live general-purpose registers in the body; None in PTX.
        aside: SASS: number of single-warp and spin instructions in the body (`lab.isa.sass.asides`).
        copies_ahead: PTX: iterations between issuing `cp.async` copies and waiting for them
            (`lab.isa.prefetch_distance.passes_ahead`); None without such copies, and in older records.
    """

    label: str
    depth: int
    parent: str | None
    hot: bool
    counts: Counts
    first_line: int
    last_line: int
    lines: tuple[tuple[int, int], ...]
    live_registers: int | None
    aside: int = 0
    copies_ahead: float | None = None

    @property
    def fetches(self) -> bool:
        """Return whether the loop reads global memory, itself or in a nested loop."""
        return bool(_FETCHING & self.counts.by_class.keys())

    @property
    def numbers(self) -> frozenset[int]:
        """Listing lines of the body, one by one."""
        return frozenset(line for first, last in self.lines for line in range(first, last + 1))


@dataclass(frozen=True, slots=True)
class WarpChain:
    """The latencies a single warp waits for while it executes a region of SASS once (`lab.predict.chains`).

    Attributes:
        instructions: Instructions of the region.
        stalls: Issue-to-issue cycles, without variable latencies.
        global_loads: Serialised global-memory latencies.
        atomics: Serialised latencies of global atomics whose result is used.
        local_loads: Serialised local-memory latencies.
        shared_loads: Serialised shared-memory latencies.
        barriers: Block barriers.
        others: Latencies of other instructions of variable latency: special functions, conversions, shuffles.
    """

    instructions: int
    stalls: float
    global_loads: float = 0.0
    atomics: float = 0.0
    local_loads: float = 0.0
    shared_loads: float = 0.0
    barriers: float = 0.0
    others: float = 0.0


@dataclass(frozen=True, slots=True)
class KernelMix:
    """Mix of one kernel.

    Attributes:
        isa: `ptx` or `sass`.
        name: Its symbol.
        counts: Counts of the whole kernel.
        loops: Its loops in listing order, outer loops before inner ones.
        live_registers: SASS: peak live general-purpose registers; None in PTX.
        lines: First and last listing line with an instruction; None in a kernel without instructions.
        chains: SASS: dependency chains by loop label, without nested loops; under `BODY`, those of the code outside of
            loops. Empty if the scheduling bits of the machine code are unknown.
        roles: Roles and register counts of warps that change them (`lab.isa.roles.warp_roles`); empty if none do,
            and in older records.
    """

    isa: Isa
    name: str
    counts: Counts
    loops: tuple[LoopMix, ...]
    live_registers: int | None
    lines: tuple[int, int] | None = None
    chains: Mapping[str, WarpChain] = field(default_factory=dict)
    roles: tuple[WarpRole, ...] = ()

    @property
    def hot_loop(self) -> LoopMix | None:
        """The loop marked hot; None in a kernel without loops."""
        return next((loop for loop in self.loops if loop.hot), None)

    @property
    def hot_counts(self) -> Counts:
        """Counts of the hot region: the hot loop, or the code outside of loops of a kernel without one."""
        hot = self.hot_loop
        return self.straight if hot is None else hot.counts

    @property
    def straight(self) -> Counts:
        """Counts of the code outside of loops, without loaded bytes where there are loops."""
        outermost = [loop.counts for loop in self.loops if loop.depth == 1]
        if not outermost:
            return self.counts
        by_class = {
            cls: n - sum(counts.by_class.get(cls, 0) for counts in outermost) for cls, n in self.counts.by_class.items()
        }
        instructions = self.counts.instructions - sum(counts.instructions for counts in outermost)
        return Counts(instructions, {cls: n for cls, n in by_class.items() if n}, {}, 0, 0)

    @property
    def hot_name(self) -> str:
        """Label of the hot loop; `BODY` for a kernel without loops."""
        hot = self.hot_loop
        return BODY if hot is None else hot.label

    def with_hot(self, label: str, *, unrolled: bool = False) -> KernelMix:
        """Return the mix with another loop marked hot.

        Args:
            label: The loop. If no loop has that label, the mix stays as it is.
            unrolled: An empty label means that none is hot: the hot loop of the PTX became straight-line code.
        """
        if not any(loop.label == label for loop in self.loops) and not (unrolled and not label):
            return self
        return replace(self, loops=tuple(replace(loop, hot=loop.label == label) for loop in self.loops))

    def like(self, reference: LoopMix) -> str:
        """Return the label of the loop whose instructions are most similar to those of a loop of another listing.

        The measure is the cosine similarity of the counts by class, over classes that ptxas keeps: floating-point
        arithmetic, memory, atomics, shuffles and barriers. Ties go to the deeper loop. Empty without loops.
        """
        best = max(self.loops, key=lambda loop: (likeness(loop.counts, reference.counts), loop.depth), default=None)
        return best.label if best is not None else ""

    def around(self, loop: LoopMix) -> LoopMix | None:
        """Return the loop that encloses a loop, or None."""
        return next((outer for outer in self.loops if outer.label == loop.parent), None)

    def own_lines(self, loop: LoopMix) -> frozenset[int]:
        """Return the listing lines of a loop's body without its nested loops."""
        nested = (inner.numbers for inner in self.loops if inner.parent == loop.label)
        return loop.numbers.difference(*nested)


def likeness(first: Counts, second: Counts) -> float:
    """Return the cosine similarity of two regions' counts over classes that ptxas keeps; 0 if one has none."""

    def dot(a: Counts, b: Counts) -> int:
        return sum(a.by_class.get(cls, 0) * b.by_class.get(cls, 0) for cls in KEPT)

    size = math.sqrt(dot(first, first) * dot(second, second))
    return round(dot(first, second) / size, 6) if size else 0.0


def _extent(instructions: tuple[Instruction, ...]) -> tuple[int, int] | None:
    lines = [instruction.line for instruction in instructions]
    return (min(lines), max(lines)) if lines else None


def module_mix(module: Module) -> tuple[KernelMix, ...]:
    """Return the mix of every kernel of a module, in listing order."""
    return tuple(kernel_mix(module.isa, function) for function in module.kernels)


def kernel_mix(isa: Isa, function: Function) -> KernelMix:
    """Count a function's instructions, as a whole and loop by loop.

    Args:
        isa: The module's.
        function: A kernel or a device function.
    """
    flow = control_flow(function)
    loops = natural_loops(flow)
    hot = hot_loop(function, flow, loops)
    labels = _labels(isa, function, flow, loops)
    single_warp = asides(function) if isa == "sass" else frozenset[int]()
    bodies = _loop_bodies(isa, function, flow, loops, single_warp)
    body = _body(isa, function.instructions, single_warp)
    return KernelMix(
        isa=isa,
        name=function.name,
        counts=body.counts(),
        loops=tuple(
            _loop_mix(
                function,
                flow,
                loop,
                bodies[position],
                label=labels[position],
                parent=None if loop.parent is None else labels[loop.parent],
                hot=position == hot,
            )
            for position, loop in enumerate(loops)
        ),
        live_registers=body.live_registers,
        lines=_extent(function.instructions),
        roles=warp_roles(function, flow),
    )


def to_json(file: str, isa: Isa, kernels: Iterable[KernelMix]) -> dict[str, object]:
    """Return the object that `lab inspect --json` prints."""
    return {"file": file, "isa": isa, "kernels": [_kernel_json(kernel) for kernel in kernels]}


def _ratio(numerator: int, denominator: int) -> float | None:
    return numerator / denominator if denominator else None


@dataclass(slots=True)
class _Body:
    """Counts of a kernel or a loop's body; nested loops are added later.

    Attributes:
        opcodes: Number by full opcode.
        classes: Number by class.
        shared: Bytes that one thread loads from shared memory in one pass.
        from_global: The same for global memory.
        live_registers: Peak live registers; None if unknown.
        aside: Single-warp and spin instructions.
        copies: Instructions for `passes_ahead`.
        ranges: Half-open index ranges of the instructions.
    """

    opcodes: Counter[str] = field(default_factory=Counter)
    classes: Counter[InstructionClass] = field(default_factory=Counter)
    shared: int = 0
    from_global: int = 0
    live_registers: int | None = None
    aside: int = 0
    copies: list[Instruction] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, inner: _Body) -> None:
        """Add the counts of a nested loop."""
        self.opcodes.update(inner.opcodes)
        self.classes.update(inner.classes)
        self.shared += inner.shared
        self.from_global += inner.from_global
        self.live_registers = _most(self.live_registers, inner.live_registers)
        self.aside += inner.aside
        self.copies += inner.copies
        self.ranges += inner.ranges

    def counts(self) -> Counts:
        return Counts(
            instructions=self.classes.total(),
            by_class={cls.value: self.classes[cls] for cls in _CLASSES if cls in self.classes},
            by_opcode=dict(sorted(self.opcodes.items(), key=lambda item: (-item[1], item[0]))),
            load_bytes_shared=self.shared,
            load_bytes_global=self.from_global,
        )


_CLASSES: Final = tuple(InstructionClass)


def _most(first: int | None, second: int | None) -> int | None:
    return max((number for number in (first, second) if number is not None), default=None)


def _body(isa: Isa, instructions: Iterable[Instruction], single_warp: frozenset[int]) -> _Body:
    """Count instructions in listing order; `single_warp` holds the indices that not every warp executes."""
    body = _Body()
    for instruction in instructions:
        cls, index = instruction.cls, instruction.index
        body.opcodes[instruction.opcode] += 1
        body.classes[cls] += 1
        if cls is InstructionClass.LD_SHARED:
            body.shared += load_bytes(isa, instruction.opcode, instruction.operands)
        elif cls in _FROM_GLOBAL:
            body.from_global += load_bytes(isa, instruction.opcode, instruction.operands)
        if instruction.live_registers is not None:
            body.live_registers = _most(body.live_registers, instruction.live_registers)
        body.aside += index in single_warp
        if is_group(instruction):
            body.copies.append(instruction)
        if body.ranges and body.ranges[-1][1] == index:
            body.ranges[-1] = (body.ranges[-1][0], index + 1)
        else:
            body.ranges.append((index, index + 1))
    return body


def _loop_bodies(
    isa: Isa, function: Function, flow: ControlFlow, loops: Sequence[Loop], single_warp: frozenset[int]
) -> list[_Body]:
    """Return the counts of each loop, nested loops included."""
    bodies = [_body(isa, own_instructions(function, flow, loop), single_warp) for loop in loops]
    for loop, body in zip(reversed(loops), reversed(bodies), strict=True):  # outer loops come first
        body.ranges = _joined(body.ranges)
        body.copies.sort(key=lambda instruction: instruction.index)
        if loop.parent is not None:
            bodies[loop.parent].add(body)
    return bodies


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges in ascending order, with adjacent ranges merged."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined


def _loop_mix(
    function: Function,
    flow: ControlFlow,
    loop: Loop,
    body: _Body,
    *,
    label: str,
    parent: str | None,
    hot: bool,
) -> LoopMix:
    code = function.instructions
    lines = tuple((code[start].line, code[stop - 1].line) for start, stop in body.ranges)
    return LoopMix(
        label=label,
        depth=loop.depth,
        parent=parent,
        hot=hot,
        counts=body.counts(),
        first_line=code[flow.blocks[loop.header].start].line,
        last_line=lines[-1][1],
        lines=lines,
        live_registers=body.live_registers,
        aside=body.aside,
        copies_ahead=passes_ahead(body.copies),
    )


def _labels(isa: Isa, function: Function, flow: ControlFlow, loops: Iterable[Loop]) -> list[str]:
    """Return each header's label: of several, one a back edge names; without any, the header's address or line."""
    places: dict[int, list[str]] = {}
    for label, place in function.labels.items():
        places.setdefault(place, []).append(label)
    labels: list[str] = []
    for loop in loops:
        header = function.instructions[flow.blocks[loop.header].start]
        latches = [function.instructions[flow.blocks[latch].stop - 1] for latch in loop.latches]
        branch_operands = {operand for latch in latches for operand in latch.operands}
        header_labels = places.get(header.index, [])
        unlabelled = f"{header.address:#x}" if isa == "sass" and header.address is not None else f"line {header.line}"
        labels.append(
            next(
                (label for label in header_labels if label in branch_operands),
                header_labels[0] if header_labels else unlabelled,
            )
        )
    return labels


def _kernel_json(kernel: KernelMix) -> dict[str, object]:
    return {
        "name": kernel.name,
        **_counts_json(kernel.counts),
        "live_registers": kernel.live_registers,
        "roles": [{"role": role.role, "registers": role.registers, "line": role.line} for role in kernel.roles],
        "loops": [_loop_json(loop) for loop in kernel.loops],
    }


def _loop_json(loop: LoopMix) -> dict[str, object]:
    return {
        "label": loop.label,
        "depth": loop.depth,
        "parent": loop.parent,
        "hot": loop.hot,
        **_counts_json(loop.counts),
        "fma_per_ld_shared": loop.counts.fma_per_ld_shared,
        "fma_share": loop.counts.fma_share,
        "fma_over_fma_plus_ld_shared": loop.counts.fma_over_fma_plus_ld_shared,
        "bytes_per_fma_shared": loop.counts.bytes_per_fma_shared,
        "bytes_per_fma_global": loop.counts.bytes_per_fma_global,
        "live_registers": loop.live_registers,
        "lines": [list(lines) for lines in loop.lines],
    }


def _counts_json(counts: Counts) -> dict[str, object]:
    return {
        "by_class": dict(counts.by_class),
        "by_opcode": dict(counts.by_opcode),
        "instructions": counts.instructions,
        "load_bytes_shared": counts.load_bytes_shared,
        "load_bytes_global": counts.load_bytes_global,
    }
