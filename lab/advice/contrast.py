"""Two variants side by side: the cause of their difference, and the facts that differ.

The cause is a performance finding of the slower variant that the faster one lacks, or has to a smaller degree, where
the time model lets it account for a part of the difference. Else it is the resource whose time differs most, with the
source line that uses it most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lab.advice.evidence import Evidence
from lab.advice.finding import HIDDEN, Advice, CodePlace, PerformanceFinding
from lab.base.amounts import significant, time_text
from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.isa.model import Instruction, SourceLocation
from lab.isa.model import InstructionClass as C
from lab.predict.time_estimates import TimeEstimate
from lab.recorded.run_records import VariantRecord

_ACCOUNTS: Final = 0.25
"""Least share of a difference, as the logarithm of a ratio, that a cause must account for."""
_TELLING: Final = 0.05
"""Least difference of two shares of a time, of two mixes, or of the waste of two findings that is told."""


@dataclass(frozen=True, slots=True)
class ContrastSide:
    """One of the two variants.

    Attributes:
        record: Its complete record.
        evidence: The evidence on it.
        advice: Its performance findings.
        estimate: Its predicted time, by the same model as that of the other; None where there is none.
        source: Its CUDA source; empty where that is not known.
    """

    record: VariantRecord
    evidence: Evidence
    advice: Advice
    estimate: TimeEstimate | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class DifferenceCause:
    """The fact that explains most of a difference.

    Attributes:
        name: The rule of a finding, or a resource of the GPU: `bank conflict`, `DRAM`.
        place: The code that it is about.
        holder: The variant that it slows down: `A`, `B`, or `both` where they are alike.
        detail: One clause with the figures.
        hidden: The time model finds it hidden behind other costs.
        remedy: The change that removes it; empty where none is known.
    """

    name: str
    place: CodePlace
    holder: str
    detail: str
    hidden: bool = False
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class DifferentFact:
    """A fact that differs.

    Attributes:
        name: Its name, with the unit.
        a: The fact of the first variant; empty where it has none.
        b: The fact of the second.
    """

    name: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Contrast:
    """The difference between two variants, and its cause.

    Attributes:
        cause: The fact that explains most of the difference; None where nothing is known.
        facts: Facts that differ, in order of weight.
        bound: The resource that takes most of both predicted times; empty where it differs or is not known.
    """

    cause: DifferenceCause | None
    facts: tuple[DifferentFact, ...]
    bound: str = ""


def contrast(a: ContrastSide, b: ContrastSide, ratio: float | None, tolerance: float = 1.0) -> Contrast:
    """Contrast two variants.

    Args:
        a: The first.
        b: The second.
        ratio: Throughput of the second over that of the first; None where it is not known.
        tolerance: Ratios up to this factor mean nothing.
    """
    bounds = [next(iter(side.estimate.shares), "") if side.estimate is not None else "" for side in (a, b)]
    return Contrast(_cause(a, b, ratio, tolerance), tuple(_facts(a, b)), bounds[0] if bounds[0] == bounds[1] else "")


def _cause(a: ContrastSide, b: ContrastSide, ratio: float | None, tolerance: float) -> DifferenceCause | None:
    """Return the cause of a difference; of variants that are equally fast, what differs most all the same."""
    if ratio is None or 1 / tolerance <= ratio <= tolerance:
        excesses = [excess for sides in (("A", a, b), ("B", b, a)) for excess in _excesses(*sides)]
        return max(excesses, key=lambda excess: (excess.alone, excess.waste)).cause if excesses else None
    name, slow, fast = ("A", a, b) if ratio > 1 else ("B", b, a)
    excesses = sorted(_excesses(name, slow, fast), key=lambda excess: (-round(excess.gain, 2), -excess.waste))
    needed = abs(math.log(ratio)) * _ACCOUNTS
    for excess in excesses:
        if excess.gain >= HIDDEN and math.log(excess.gain) >= needed:
            return excess.cause
    return _resource(name, slow, fast) or (excesses[0].cause if excesses else None)


@dataclass(frozen=True, slots=True)
class _Excess:
    """A finding, by how much it is worse than that of the other variant, and whether the other has none like it."""

    gain: float
    waste: float
    alone: bool
    cause: DifferenceCause


def _excesses(name: str, slow: ContrastSide, fast: ContrastSide) -> Iterator[_Excess]:
    """Yield the findings of a variant that are absent, or less costly, in the other one."""
    others = list(fast.advice.findings)
    for finding in slow.advice.findings:
        other = _counterpart(finding, others, same_source=slow.source == fast.source)
        if other is not None:
            others.remove(other)
        gain = (finding.gain or 1.0) / ((other.gain if other else None) or 1.0)
        waste = finding.waste - (other.waste if other else 0.0)
        hidden = finding.gain is not None and finding.gain < HIDDEN
        detail = finding.cause if other is None else f"{finding.cause}; the other: {other.cause}"
        if other is None or gain >= HIDDEN or waste > _TELLING:
            yield _Excess(
                gain,
                waste,
                other is None,
                DifferenceCause(finding.rule, finding.place, name, detail, hidden, finding.remedy),
            )


def _counterpart(
    finding: PerformanceFinding, others: list[PerformanceFinding], *, same_source: bool
) -> PerformanceFinding | None:
    """Return the finding of the other variant that is about the same code.

    Lines are only comparable within one source; elsewhere, findings of a rule match in their order.
    """
    alike = [other for other in others if other.rule is finding.rule]
    if not same_source:
        return next(iter(alike), None)
    return next((other for other in alike if other.place.line == finding.place.line), None)


def _resource(name: str, slow: ContrastSide, fast: ContrastSide) -> DifferenceCause | None:
    """Return the resource that takes the slower variant longer, by the most, with the line that uses it most."""
    if slow.estimate is None or fast.estimate is None:
        return None
    longer = {
        resource: share * slow.estimate.ms - fast.estimate.shares.get(resource, 0.0) * fast.estimate.ms
        for resource, share in slow.estimate.shares.items()
    }
    resource = max(longer, key=lambda one: longer[one], default="")
    if not resource or longer[resource] <= 0:
        return None
    times = [side.estimate.shares.get(resource, 0.0) * side.estimate.ms for side in (slow, fast) if side.estimate]
    place = _line_of(resource, slow, fast)
    return DifferenceCause(
        resource, place, name, f"{time_text(times[0], 2)} instead of {time_text(times[1], 2)} of {resource}"
    )


_ARITHMETIC: Final[Mapping[str, frozenset[C]]] = {
    "floating point": frozenset({C.FMA, C.FLOAT}),
    "fma": frozenset({C.FMA}),
    "tensor cores": frozenset({C.MMA}),
    "integer": frozenset({C.INTEGER, C.COMPARE}),
    "special functions": frozenset({C.SPECIAL}),
    "conversions": frozenset({C.CONVERT}),
    "shuffles": frozenset({C.SHUFFLE}),
    "block barrier": frozenset({C.BARRIER}),
}
"""Classes of the instructions that a resource of the time model executes."""
_MEMORY: Final[Mapping[str, Callable[[MemoryCount], float]]] = {
    "shared memory": lambda count: count.wavefronts,
    "constant cache": lambda count: count.passes,
    "L1": lambda count: count.sectors,
    "L2 reads": lambda count: count.sectors,
    "L2 writes": lambda count: count.sectors,
    "DRAM": lambda count: count.sectors,
    "global memory": lambda count: count.sectors,
    "load/store units": lambda count: count.requests,
    "atomics": lambda count: count.updates,
}
"""Figures of a memory access that a resource's time grows with."""

_OF_THE_LAUNCH: Final = frozenset({"starts of blocks", "ends of blocks", "launch", "power"})
"""Resources that no line of the source uses."""


def _line_of(resource: str, slow: ContrastSide, fast: ContrastSide) -> CodePlace:
    """Return the source line by which a variant uses a resource more than the other, or simply most."""
    if resource in _OF_THE_LAUNCH:
        return CodePlace()
    costs = _line_costs(slow.evidence, resource)
    if slow.source == fast.source and slow.source:
        less = _line_costs(fast.evidence, resource)
        costs = {line: cost - less.get(line, 0.0) for line, cost in costs.items()}
    line = max(costs, key=lambda one: costs[one], default=None)
    return CodePlace(line) if line is not None and costs[line] > 0 else CodePlace()


def _line_costs(evidence: Evidence, resource: str) -> dict[SourceLocation, float]:
    """Return what each source line needs of a resource, as executed."""
    costs: dict[SourceLocation, float] = {}
    for function in evidence.ptx_functions:
        for instruction in function.instructions:
            if instruction.source is not None:
                cost = _cost(evidence, instruction, resource)
                costs[instruction.source] = costs.get(instruction.source, 0.0) + cost
    return costs


def _cost(evidence: Evidence, instruction: Instruction, resource: str) -> float:
    counts = (evidence.counts or {}).get(instruction.line)
    if counts is None:
        return 0.0
    if resource in _MEMORY:
        return sum(map(_MEMORY[resource], counts.memory.values()))
    classes = _ARITHMETIC.get(resource)
    return float(counts.warps) if classes is None or instruction.cls in classes else 0.0


def _facts(a: ContrastSide, b: ContrastSide) -> Iterator[DifferentFact]:
    """Yield the facts that differ: costs, counts, resources, then findings."""
    yield from _costs(a, b)
    yield from _memory(a.record, b.record)
    yield from _resources(a.record, b.record)
    yield from _mix(a.record, b.record)
    yield from _hot_loop(a.record, b.record)
    yield from _findings(a, b)


def _different(name: str, a: str, b: str) -> Iterator[DifferentFact]:
    if a != b:
        yield DifferentFact(name, a, b)


def _costs(a: ContrastSide, b: ContrastSide) -> Iterator[DifferentFact]:
    """Yield the times by cause that differ by a share of the longer time, the largest difference first."""
    if a.estimate is None or b.estimate is None:
        return
    longest = max(a.estimate.ms, b.estimate.ms)
    pairs = {
        name: tuple(side.estimate.shares.get(name, 0.0) * side.estimate.ms for side in (a, b) if side.estimate)
        for name in {**a.estimate.shares, **b.estimate.shares}
    }
    for name, (first, second) in sorted(pairs.items(), key=lambda item: -abs(item[1][0] - item[1][1])):
        if abs(first - second) > _TELLING * longest:
            texts = [time_text(ms, 2) if ms else "" for ms in (first, second)]
            yield from _different(f"time of {name}", *texts)


_SPACES: Final = ("shared.load", "shared.store", "shared.atomic", "shared.copy")
_GLOBAL: Final = ("global.load", "global.store", "global.atomic", "global.copy")


def _memory(a: VariantRecord, b: VariantRecord) -> Iterator[DifferentFact]:
    """Yield bank conflicts and sectors per request, and the share of the moved bytes that is used."""
    counts = [record.emulation.executed if record.emulation else None for record in (a, b)]
    if counts[0] is None or counts[1] is None:
        return
    first, second = counts[0].memory, counts[1].memory
    for key in _SPACES:
        yield from _different(f"{_access(key)}: conflicts per request", *_per_request(key, first, second, _conflicts))
    for key in _GLOBAL:
        yield from _different(f"{_access(key)}: sectors per request", *_per_request(key, first, second, _sectors))
        yield from _different(f"{_access(key)}: bytes used", *(_used(side.get(key)) for side in (first, second)))


def _access(key: str) -> str:
    space, _, direction = key.partition(".")
    return f"{space} {direction}s" if not direction.endswith("y") else f"{space} copies"


def _per_request(
    key: str,
    first: Mapping[str, MemoryCount],
    second: Mapping[str, MemoryCount],
    of: Callable[[MemoryCount], float],
) -> tuple[str, str]:
    return _ratio_text(first.get(key), of), _ratio_text(second.get(key), of)


def _ratio_text(count: MemoryCount | None, of: Callable[[MemoryCount], float]) -> str:
    if count is None or not count.requests:
        return ""
    return f"{of(count) / count.requests:.2f}"


def _conflicts(count: MemoryCount) -> float:
    return count.bank_conflicts


def _sectors(count: MemoryCount) -> float:
    return count.sectors


def _used(count: MemoryCount | None) -> str:
    return f"{count.bytes_used / count.bytes_moved:.0%}" if count is not None and count.bytes_moved else ""


def _resources(a: VariantRecord, b: VariantRecord) -> Iterator[DifferentFact]:
    """Yield what the compiler and the launch need, and the occupancy that follows."""
    if a.build is not None and b.build is not None:
        first, second = a.build.resources, b.build.resources
        yield from _different("registers", str(first.registers), str(second.registers))
        yield from _different("spilled bytes", str(first.spill_bytes), str(second.spill_bytes))
    if a.sass is not None and b.sass is not None:
        yield from _different("SASS instructions", *(f"{mix.counts.instructions:,}" for mix in (a.sass, b.sass)))
    shared = [_shared(record) for record in (a, b)]
    yield from _different("shared memory of a block, bytes", *shared)
    launches = [record.launch for record in (a, b)]
    if launches[0] is not None and launches[1] is not None:
        yield from _different("blocks", *(f"{math.prod(one.grid):,}" for one in launches if one))
        yield from _different("threads of a block", *(f"{math.prod(one.block):,}" for one in launches if one))
    predictions = [record.prediction for record in (a, b)]
    if predictions[0] is not None and predictions[1] is not None:
        yield from _different("occupancy", *(f"{one.occupancy:.0%}" for one in predictions if one))


def _shared(record: VariantRecord) -> str:
    if record.build is None or record.launch is None:
        return ""
    return f"{record.build.resources.shared_bytes + record.launch.dynamic_shared_bytes:,}"


def _mix(a: VariantRecord, b: VariantRecord) -> Iterator[DifferentFact]:
    """Yield executed instructions per thread, and the classes that change by a share of the larger count."""
    first_counts, second_counts = _per_thread(a), _per_thread(b)
    if first_counts is None or second_counts is None:
        return
    (total_a, classes_a), (total_b, classes_b) = first_counts, second_counts
    if significant(total_a, 3) == significant(total_b, 3) and classes_a == classes_b:
        return
    yield from _different("executed per thread", significant(total_a, 3), significant(total_b, 3))
    changed = {name: (classes_a.get(name, 0.0), classes_b.get(name, 0.0)) for name in {**classes_a, **classes_b}}
    for name, (first, second) in sorted(changed.items(), key=lambda item: -abs(item[1][0] - item[1][1])):
        if abs(first - second) > _TELLING * max(total_a, total_b):
            yield from _different(f"{name} per thread", significant(first, 3), significant(second, 3))


def _hot_loop(a: VariantRecord, b: VariantRecord) -> Iterator[DifferentFact]:
    """Yield the counts of the SASS hot loops, where both variants have one."""
    loops = [record.sass.hot_loop if record.sass is not None else None for record in (a, b)]
    if loops[0] is None or loops[1] is None:
        return
    first, second = loops[0].counts, loops[1].counts
    yield from _different("hot loop: instructions", str(first.instructions), str(second.instructions))
    yield from _different("hot loop: fma", str(first.fma), str(second.fma))
    yield from _different("hot loop: ld.shared", str(first.ld_shared), str(second.ld_shared))
    yield from _different("hot loop: FMA share", *(f"{one.fma_share or 0.0:.1%}" for one in (first, second)))


def _per_thread(record: VariantRecord) -> tuple[float, dict[str, float]] | None:
    """Return the instructions of a thread as executed, in total and by class; None where nothing was executed."""
    emulation = record.emulation
    executed: ExecutedCounts | None = emulation.executed if emulation is not None else None
    if emulation is None or executed is None or not executed.threads:
        return None
    threads = sum(math.prod(step.launch.grid) * math.prod(step.launch.block) for step in emulation.launches)
    if not threads:
        return None
    return executed.threads / threads, {name: count / threads for name, count in executed.threads_by_class.items()}


def _findings(a: ContrastSide, b: ContrastSide) -> Iterator[DifferentFact]:
    """Yield the findings that one variant has and the other has not, or that cost differently.

    Of several findings of a rule on a line, such as those of a load and a store, the costliest stands for all.
    """
    costliest: dict[str, list[PerformanceFinding | None]] = {}
    for place, side in enumerate((a, b)):
        for finding in side.advice.findings:
            pair = costliest.setdefault(_title(finding, by_line=a.source == b.source), [None, None])
            pair[place] = pair[place] or finding
    for name, (first, second) in costliest.items():
        yield from _different(name, _gain(first), _gain(second))


def _title(finding: PerformanceFinding, *, by_line: bool) -> str:
    """Return the row of a finding; lines are only comparable within one source."""
    where = finding.place.source
    return f"{finding.rule}, line {where.line}" if by_line and where is not None else str(finding.rule)


def _gain(finding: PerformanceFinding | None) -> str:
    if finding is None:
        return "none"
    if finding.gain is None:
        return f"{finding.waste:.0%} wasted"
    return "hidden" if finding.gain < HIDDEN else f"costs {finding.gain:.2f} x"
