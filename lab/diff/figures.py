"""Figures of one kernel: resources, occupancy, hot loop, slow instructions, predicted cycles."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lab.base.errors import UserError
from lab.base.warp import WARP_SIZE
from lab.diff.normal import NormalInstruction, NormalKernel
from lab.hardware.gpus import architecture_for
from lab.hardware.latencies import latencies_for
from lab.hardware.occupancy import occupancy
from lab.isa.classes import bytes_per_lane
from lab.isa.mix import ANCHORS, KernelMix, LoopMix, kernel_mix
from lab.isa.model import Instruction, InstructionClass
from lab.predict.chains import chains
from lab.predict.schedulers.loop import Traffic, Unit, main_loop
from lab.predict.schedulers.simulate import SUB_PARTITIONS, simulate

THREADS: Final = 256
"""Threads of a block where the kernel has no launch bounds."""
_MOST_SIMULATED: Final = 2000
"""Most instructions of a loop that is simulated; a longer one has its issue cycles alone."""
_WIDE_FENCES: Final = (".GPU", ".SYS")
_DIVISION: Final = ("div", "rem", "mod", "rcp", "sqrt")
"""Parts of the names of subroutines that divide or take roots: `__cuda_sm20_div_u64`."""


@dataclass(frozen=True, slots=True)
class LoopFigures:
    """The hot loop of a kernel, or its whole code where it has none.

    Attributes:
        label: Its label in the listing.
        instructions: Instructions of one iteration.
        by_class: Number by class.
        fma_per_ld_shared: The ratio; None without shared loads.
        issue: Issue cycles of one iteration on an SM with its resident warps.
        cycles: Simulated cycles of the same; None where the model does not apply.
        latency: Cycles that one warp alone takes.
        lines: Source lines of its body, as file and line.
    """

    label: str
    instructions: int
    by_class: Mapping[str, int]
    fma_per_ld_shared: float | None
    issue: float
    cycles: float | None
    latency: float | None
    lines: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class KernelFigures:
    """Figures of one kernel.

    Attributes:
        registers: Registers per thread.
        spill_bytes: Bytes of spill stores and loads per thread; None where neither a log nor the listing tells.
        stack_bytes: Bytes of stack per thread.
        shared_bytes: Bytes of static shared memory per block.
        constant_bytes: Bytes of constant banks.
        barriers: Named barriers per block.
        code_bytes: Bytes of machine code.
        instructions: Instructions, device functions included.
        threads: Threads of a block that occupancy is for.
        threads_assumed: They are assumed: nothing tells them.
        occupancy: Resident warps over the SM's most, 0 to 1; None for an architecture that is not in the table.
        slow: Slow instructions by kind: local memory, division, FP64, wide fences.
        loop: The hot loop.
    """

    registers: int
    spill_bytes: int | None
    stack_bytes: int
    shared_bytes: int
    constant_bytes: int
    barriers: int
    code_bytes: int
    instructions: int
    threads: int
    threads_assumed: bool
    occupancy: float | None
    slow: Mapping[str, int] = field(default_factory=dict)
    loop: LoopFigures | None = None


def figures_of(kernel: NormalKernel, spills: tuple[int, int] | None, remarks: frozenset[int]) -> KernelFigures:
    """Return the figures of a kernel.

    Args:
        kernel: The kernel.
        spills: Bytes of spill stores and loads from the compiler's log, or None.
        remarks: Offsets of instructions that the listing marks as spills and refills.
    """
    used = kernel.resources
    threads, assumed = _threads(kernel)
    try:
        resident = occupancy(architecture_for(kernel.arch), used, threads)
    except UserError:
        resident = None
    mix = kernel_mix("sass", kernel.function)
    blocks = resident.blocks_per_sm if resident else 1
    return KernelFigures(
        registers=used.registers,
        spill_bytes=sum(spills) if spills is not None else _spill_bytes(kernel, remarks),
        stack_bytes=used.stack_bytes,
        shared_bytes=used.shared_bytes,
        constant_bytes=used.constant_bytes,
        barriers=used.barriers,
        code_bytes=len(kernel.code),
        instructions=len(kernel.instructions),
        threads=threads,
        threads_assumed=assumed,
        occupancy=resident.fraction if resident else None,
        slow=_slow(kernel),
        loop=_loop(kernel, mix, -(-threads // WARP_SIZE), max(1, blocks)),
    )


def _threads(kernel: NormalKernel) -> tuple[int, bool]:
    """Return the threads of a block: those of its launch bounds, or the usual ones."""
    for name in ("REQNTID", "MAX_THREADS"):
        for key, value in kernel.attributes:
            if key == name:
                x, y, z = struct.unpack("<III", bytes.fromhex(value))
                return x * y * z, False
    return THREADS, True


def _spill_bytes(kernel: NormalKernel, remarks: frozenset[int]) -> int | None:
    """Return the bytes of the instructions that the listing marks; None where local memory is used without marks."""
    local = [i for i in kernel.function.instructions if i.cls in (InstructionClass.LD_LOCAL, InstructionClass.ST_LOCAL)]
    if not local:
        return 0
    marked = [i for i in local if i.address in remarks]
    return sum(_bytes(i) for i in marked) if marked or "ANNOTATIONS" in dict(kernel.attributes) else None


def _bytes(instruction: Instruction) -> int:
    narrow = {"U8": 1, "S8": 1, "U16": 2, "S16": 2}
    return next((narrow[m] for m in instruction.opcode.split(".") if m in narrow), bytes_per_lane(instruction.opcode))


def _slow(kernel: NormalKernel) -> dict[str, int]:
    """Count slow instructions by kind, without kinds that do not occur."""
    kinds: Counter[str] = Counter()
    for instruction in kernel.instructions:
        root = instruction.opcode.partition(".")[0]
        if root in ("LDL", "STL"):
            kinds["local memory"] += 1
        elif root in ("DFMA", "DADD", "DMUL", "DSETP", "DMNMX"):
            kinds["FP64"] += 1
        elif root == "MEMBAR" and instruction.opcode.endswith(_WIDE_FENCES):
            kinds["wide fences"] += 1
        elif _divides(root, instruction):
            kinds["division"] += 1
    return dict(kinds)


def _divides(root: str, instruction: NormalInstruction) -> bool:
    """Return whether an instruction begins a division or a root: a call of a subroutine, or its first estimate."""
    if root == "CALL":
        return any(word in operand for operand in instruction.operands for word in _DIVISION)
    return instruction.opcode in ("MUFU.RCP64H", "MUFU.RSQ64H", "I2F.RP", "I2F.U32.RP", "I2F.U64.RP")


def _loop(kernel: NormalKernel, mix: KernelMix, warps: int, blocks: int) -> LoopFigures | None:
    hot = mix.hot_loop
    counts = mix.hot_counts
    if not counts.instructions:
        return None
    machine = latencies_for(kernel.arch) if kernel.arch else None
    cycles = latency = None
    if machine is not None:
        loop = main_loop(kernel.function, kernel.code, mix)
        if len(loop.hot) <= _MOST_SIMULATED and not any(slot.unit in (Unit.TENSOR, Unit.PHASE) for slot in loop.hot):
            cycles = simulate(loop.hot, warps, blocks, machine, Traffic()).total
        if len(loop.hot) <= _MOST_SIMULATED and (
            chain := chains(kernel.function, kernel.code, mix, machine).get(mix.hot_name)
        ):
            latency = (
                chain.stalls
                + chain.global_loads * machine.global_latency
                + chain.atomics * machine.l2_latency
                + chain.local_loads * machine.l1_latency
                + chain.shared_loads * machine.shared_latency
                + chain.barriers * machine.block_barrier
                + chain.others * machine.special_cycles
            )
    return LoopFigures(
        label=mix.hot_name,
        instructions=counts.instructions,
        by_class=dict(counts.by_class),
        fma_per_ld_shared=counts.fma_per_ld_shared,
        issue=counts.instructions * warps * blocks / SUB_PARTITIONS,
        cycles=cycles,
        latency=latency,
        lines=_lines(kernel, hot),
    )


def _lines(kernel: NormalKernel, hot: LoopMix | None) -> tuple[tuple[str, int], ...]:
    inside = hot.numbers if hot else None
    places = Counter(
        (i.source.file, i.source.line)
        for i in kernel.function.instructions
        if i.source is not None and (inside is None or i.line in inside)
    )
    return tuple(place for place, _ in places.most_common(8))


@dataclass(frozen=True, slots=True)
class PredictedChange:
    """The predicted time of the hot loop in HEAD over that in BASE, for equal work.

    Attributes:
        ratio: The likely ratio: above 1, HEAD is slower.
        low: Smallest ratio of the three models: issue slots, the simulated SM, and one warp's latency.
        high: Largest ratio of them.
        work: Work of an iteration of HEAD over that of BASE: the unroll factors' ratio.
    """

    ratio: float
    low: float
    high: float
    work: float


_SAME: Final = 0.02


def predicted_change(base: KernelFigures, head: KernelFigures) -> PredictedChange | None:
    """Return the predicted change of the hot loop's time; None where nothing changes, or the loops do unlike work.

    An iteration's work is counted by the instructions that ptxas neither merges nor adds (`lab.isa.mix.ANCHORS`). Where
    these counts have no common ratio, the loops cannot be compared.
    """
    before, after = base.loop, head.loop
    if before is None or after is None or (before.issue, before.cycles, before.latency, base.occupancy) == (
        after.issue, after.cycles, after.latency, head.occupancy
    ):  # fmt: skip
        return None
    anchors = [cls.value for cls in ANCHORS if cls.value in before.by_class or cls.value in after.by_class]
    pairs = [(before.by_class.get(cls, 0), after.by_class.get(cls, 0)) for cls in anchors]
    if not pairs or any(not a or not b for a, b in pairs):
        work = 1.0 if not pairs else 0.0
    else:
        most = max(pairs)
        work = most[1] / most[0]
        if any(abs(b / a / work - 1) > _SAME for a, b in pairs):
            work = 0.0
    if not work:
        return None
    # iterations of more resident warps do more work at a time
    held = (head.occupancy or 1) / (base.occupancy or 1)
    ratios = [after.issue / before.issue / work / held]
    if before.cycles and after.cycles:
        ratios.insert(0, after.cycles / before.cycles / work / held)
    if before.latency and after.latency:
        ratios.append(after.latency / before.latency / work / held)
    return PredictedChange(ratios[0], min(ratios), max(ratios), work)
