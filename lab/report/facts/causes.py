"""Find changes in machine code between two sets of variants that can explain a speed difference.

A fact explains a change of throughput only if it changed in the direction that costs or saves time, by enough: the
amounts of work (instructions, wavefronts, sectors) must change by at least a quarter of what the throughput did, on a
logarithmic scale. Hardware limits (spills, resident warps) explain any change. Where nothing fits, no cause
is given.

Counts over a whole launch come from the emulated small problem, where tiles may reach far beyond the data. They are
compared only between variants that execute as many multiply-adds there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from lab.base.warp import WARP_SIZE
from lab.isa.model import InstructionClass
from lab.predict.gemm_loops import multiply_adds
from lab.recorded.run_records import VariantRecord
from lab.store import figures

Pair = tuple[VariantRecord, VariantRecord]
"""A pair of variants to compare: before and after."""

_LEAST: Final = 0.03
_EXPLAINS: Final = 0.25
_ALIKE: Final = 0.05
"""Relative difference allowed in multiply-adds: a kernel may compute addresses or results with some."""
_TELLING: Final = 0.02
"""Logarithmic change of throughput below which no cause is given: too many small things change with it."""
MOST: Final = 2
"""Most causes given for one change."""


@dataclass(frozen=True, slots=True)
class MachineFact:
    """A figure of a variant's code or of its execution.

    Attributes:
        name: As a sentence names it, plural: `blocks per SM`.
        of: The figure; None where it is not known.
        sign: 1 where more of it is faster, -1 where more is slower.
        work: It is an amount of work, which explains only changes of its own size.
        unit: Follows the figure.
        whole: It is an emulated count over a whole launch.
        least: The cost that stays when the figure is 0: a request without conflicts takes one wavefront.
    """

    name: str
    of: Callable[[VariantRecord], float | None]
    sign: int
    work: bool
    unit: str = ""
    whole: bool = False
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class CodeChange:
    """The median of a fact before and after, over pairs of variants.

    Attributes:
        fact: What changed.
        before: Its value before.
        after: Its value after.
    """

    fact: MachineFact
    before: float
    after: float

    @property
    def text(self) -> str:
        """`registers go from 168 to 255`."""
        return f"{self.fact.name} go from {_number(self.before)} to {_number(self.after)}{self.fact.unit}"

    @property
    def size(self) -> float:
        """Logarithmic size of the change, signed by its effect on throughput; infinite from or to zero."""
        if self.before == self.after:
            return 0.0
        before, after = self.before + self.fact.least, self.after + self.fact.least
        if before <= 0 or after <= 0:
            return self.fact.sign * math.copysign(math.inf, after - before)
        return self.fact.sign * math.log(after / before)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"  # noqa: PLR2004 - three digits


def _spills(record: VariantRecord) -> float | None:
    return None if record.build is None else float(record.build.resources.spill_bytes)


def _fences(record: VariantRecord) -> float | None:
    return figures.wide_fences(record.sass)


def _registers(record: VariantRecord) -> float | None:
    return None if record.build is None else float(record.build.resources.registers)


def _blocks(record: VariantRecord) -> float | None:
    return None if record.prediction is None else float(record.prediction.blocks_per_sm)


def _warps(record: VariantRecord) -> float | None:
    """Return the resident warps per SM; None for several launches."""
    if record.prediction is None or record.launch is None:
        return None
    return float(record.prediction.blocks_per_sm * -(-math.prod(record.launch.block) // WARP_SIZE))


def _executed(record: VariantRecord) -> float | None:
    executed = record.emulation.executed if record.emulation else None
    return None if executed is None else float(executed.warps)


def _of_class(cls: str) -> Callable[[VariantRecord], float | None]:
    def of(record: VariantRecord) -> float | None:
        executed = record.emulation.executed if record.emulation else None
        return None if executed is None else float(executed.warps_by_class.get(cls, 0))

    return of


def _per_fma(record: VariantRecord) -> float | None:
    counts = figures.hot_counts(record.sass)
    return counts.instructions / counts.fma if counts is not None and counts.fma else None


def _wavefronts(record: VariantRecord) -> float | None:
    total = figures.emulated_traffic(record, *figures.SHARED)
    return float(total.wavefronts) if total else None


def _load_bytes(record: VariantRecord) -> float | None:
    """Return the bytes used per request to global memory."""
    total = figures.emulated_traffic(record, *figures.GLOBAL)
    return total.bytes_used / total.requests if total else None


REGISTERS: Final = MachineFact("registers", _registers, -1, work=False)
BLOCKS: Final = MachineFact("blocks per SM", _blocks, 1, work=False)
FACTS: Final = (
    MachineFact("spills", _spills, -1, work=False, unit=" B"),
    MachineFact("bank conflicts per request", figures.emulated_conflicts, -1, work=True, least=1.0),
    MachineFact("bytes moved per byte used", figures.emulated_excess, -1, work=True),
    MachineFact("GPU-wide fences in the hot loop", _fences, -1, work=False),
    MachineFact("resident warps", _warps, 1, work=False),
    MachineFact("atomic instructions", _of_class("atomic"), -1, work=True, whole=True),
    MachineFact("SASS instructions per fma", _per_fma, -1, work=True),
    MachineFact("executed instructions", _executed, -1, work=True, whole=True),
    MachineFact("shared-memory wavefronts", _wavefronts, -1, work=True, whole=True),
    MachineFact("bytes per global request", _load_bytes, 1, work=True),
    MachineFact("barriers", _of_class("barrier"), -1, work=True, whole=True),
)
"""Facts, the most telling first."""


def change(fact: MachineFact, pairs: Sequence[Pair]) -> CodeChange | None:
    """Return a fact's medians over the pairs that have it; None where none does."""
    compared = (pair for pair in pairs if not fact.whole or _computes_alike(*pair))
    values = ((fact.of(before), fact.of(after)) for before, after in compared)
    complete = [(a, b) for a, b in values if a is not None and b is not None]
    if not complete:
        return None
    return CodeChange(fact, median(a for a, _ in complete), median(b for _, b in complete))


def _computes_alike(before: VariantRecord, after: VariantRecord) -> bool:
    """Return whether the emulator executed as many multiply-adds of both."""
    amounts = [_multiply_adds(record) for record in (before, after)]
    return math.isclose(*amounts, rel_tol=_ALIKE)


def _multiply_adds(record: VariantRecord) -> float:
    executed = record.emulation.executed if record.emulation else None
    if executed is None:
        return 0.0
    return multiply_adds(executed) + executed.threads_by_class.get(InstructionClass.FMA, 0)


def causes(pairs: Sequence[Pair], ratio: float) -> tuple[CodeChange, ...]:
    """Return at most `MOST` changes that plausibly explain a change of throughput, the most telling first.

    Args:
        pairs: Variants before and after.
        ratio: Throughput after over before.
    """
    effect = math.log(ratio)
    if abs(effect) < _TELLING:
        return ()
    changes = [
        candidate for fact in FACTS if (candidate := change(fact, pairs)) is not None and _explains(candidate, effect)
    ]
    # Hardware limits come before amounts of work; among the latter, the largest change.
    changes.sort(key=lambda candidate: (candidate.fact.work, -abs(candidate.size) if candidate.fact.work else 0.0))
    return tuple(changes[:MOST])


def because(changes: Sequence[CodeChange], pairs: Sequence[Pair]) -> str:
    """Word the causes: `because registers go from 168 to 255 and blocks per SM from 2 to 1`; empty without any."""
    parts: list[str] = []
    for cause in changes:
        blocks, registers = change(BLOCKS, pairs), change(REGISTERS, pairs)
        occupancy = cause.fact.of is _warps
        if occupancy and blocks and registers and blocks.size * cause.size > 0 and registers.size * cause.size > 0:
            parts += [blocks.text] if parts else [registers.text, blocks.text]
        else:
            parts.append(cause.text)
    chosen = parts[:MOST]
    if not chosen:
        return ""
    first, *further = chosen
    return f"because {' and '.join([first, *(text.replace(' go from ', ' from ') for text in further)])}"


def _explains(cause: CodeChange, effect: float) -> bool:
    size = cause.size
    if size * effect <= 0 or abs(size) < _LEAST:
        return False
    if cause.fact.name == "barriers" and abs(size) < math.log(2):
        return False  # a barrier costs little beside what it waits for
    return not cause.fact.work or abs(size) >= _EXPLAINS * abs(effect)
