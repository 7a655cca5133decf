"""Loads from constant memory whose lanes name different words, which are served one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence
from lab.advice.finding import PerformanceFinding, Rule
from lab.isa.model import Instruction

_LEAST: Final = 1.5
"""Distinct words per request from which on a load counts as divergent."""


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding for each source line that loads different words of constant memory in a warp."""
    groups: dict[object, list[tuple[Instruction, float]]] = {}
    for function in evidence.ptx_functions:
        for instruction in function.instructions:
            pattern = evidence.pattern(instruction.line, "const.load")
            if pattern is not None and pattern.cost >= _LEAST * pattern.requests and evidence.warps(instruction):
                groups.setdefault(instruction.source or instruction.line, []).append(
                    (instruction, pattern.cost / pattern.requests)
                )
    passes = {
        place: sum(evidence.warps(one) * (each - 1) for one, each in members) for place, members in groups.items()
    }
    for place, members in groups.items():
        worst, words = max(members, key=lambda member: member[1])
        yield PerformanceFinding(
            Rule.DIVERGENT_CONSTANT,
            evidence.place(worst, "LDC", "LDCU"),
            f"{words:.3g} different words per request, each served in a pass of its own",
            "keep the table in shared memory, or in global memory behind const __restrict__",
            passes[place] / (passes[place] + evidence.executed_warps),
            _gain(evidence, 1 - passes[place] / sum(passes.values())),
        )


def _gain(evidence: Evidence, kept: float) -> float | None:
    """Return the predicted time over that with a share of the passes; None for records that do not count them."""
    if evidence.work is None or not any(work.constant_passes for work in evidence.work.launches):
        return None
    return evidence.gain(lambda work: replace(work, constant_passes=work.constant_passes * kept))
