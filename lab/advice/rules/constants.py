"""Loads from constant memory whose lanes name different words, which are served one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence
from lab.advice.finding import PerformanceFinding, Rule
from lab.isa.model import Instruction
from lab.predict.work import LaunchWork

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
    for members in groups.values():
        worst, words = max(members, key=lambda member: member[1])
        passes = sum(evidence.warps(one) * (each - 1) for one, each in members)
        yield PerformanceFinding(
            Rule.DIVERGENT_CONSTANT,
            evidence.place(worst, "LDC", "LDCU"),
            f"{words:.3g} different words per request, each served in a pass of its own",
            "keep the table in shared memory, or in global memory behind const __restrict__",
            passes / (passes + evidence.executed_warps),
            _gain(evidence, passes),
        )


def _gain(evidence: Evidence, passes: float) -> float | None:
    """Return the predicted time over that with one pass per request."""
    total = evidence.total("const.load").passes
    if not total:
        return None

    def without_passes(work: LaunchWork) -> LaunchWork:
        return replace(work, constant_passes=work.constant_passes * max(0.0, 1 - passes / total))

    return evidence.gain(without_passes)
