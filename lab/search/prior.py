"""Information on variants before they are measured: predicted times, and build figures that correct them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lab.isa.model import InstructionClass
from lab.recorded.run_records import VariantRecord
from lab.store.figures import hot_counts, response_of, time_ms

_CLASSES: Final = (
    InstructionClass.FMA, InstructionClass.FLOAT, InstructionClass.INTEGER, InstructionClass.LD_GLOBAL,
    InstructionClass.ST_GLOBAL, InstructionClass.LD_SHARED, InstructionClass.ST_SHARED, InstructionClass.BARRIER,
    InstructionClass.BRANCH,
)  # fmt: skip


def known_before(record: VariantRecord) -> dict[str, float]:
    """Return figures of a variant from its build and its emulation, by name; none after a failure."""
    figures: dict[str, float] = {}
    if record.build and record.prediction:
        used = record.build.resources
        figures |= {"registers": used.registers, "spill_bytes": used.spill_bytes, "shared_bytes": used.shared_bytes}
        figures |= {"occupancy": record.prediction.occupancy, "blocks_per_sm": record.prediction.blocks_per_sm}
    if record.launch:
        figures |= {"blocks": math.prod(record.launch.grid), "threads": math.prod(record.launch.block)}
        figures |= {"dynamic_shared_bytes": record.launch.dynamic_shared_bytes}
    if record.sass and (hot := hot_counts(record.sass)):
        figures |= {"instructions": record.sass.counts.instructions, "hot_instructions": hot.instructions}
        figures |= {f"hot_{cls.value}": hot.by_class.get(cls.value, 0) for cls in _CLASSES}
    if record.emulation and record.emulation.executed:
        figures["executed_warps"] = record.emulation.executed.warps
    return figures


def predicted_ms(records: Sequence[VariantRecord]) -> dict[str, float]:
    """Return predicted times in ms by variant, all by the same predictor; variants without one are absent.

    The predictor is the one that ranks a run without a GPU: the estimate if every variant has one, else the score, else
    the ceiling.
    """
    before = tuple(replace(record, measurement=None) for record in records if record.build and not record.status.failed)
    response = response_of(before)
    times = {record.variant: time_ms(record, response) for record in before}
    return {variant: ms for variant, ms in times.items() if ms}


def as_columns(facts: Sequence[dict[str, float]]) -> list[tuple[float, ...]]:
    """Return figures as equally long rows of logarithms (most figures are counts), with 0 for missing ones."""
    names = sorted({name for fact in facts for name in fact})
    return [tuple(math.log1p(max(0.0, fact.get(name, 0.0))) for name in names) for fact in facts]
