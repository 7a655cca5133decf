"""Integer division and remainder by a value that is known only at run time, within a loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from lab.advice.evidence import Evidence
from lab.advice.finding import PerformanceFinding, Rule
from lab.isa.model import Instruction, InstructionClass
from lab.predict.work import LaunchWork

_COST: Final = {"32": 18, "64": 80}
"""Machine instructions of a division by its bits: what nvdisasm shows of `a / b` and `a % b` for sm_90, rounded."""
_LEAST_SHARE: Final = 0.05


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding for each source line that divides within a loop."""
    groups: dict[object, list[Instruction]] = {}
    for function in evidence.ptx_functions:
        for instruction in function.instructions:
            divides = instruction.opcode.startswith(("div.", "rem.")) and instruction.cls is InstructionClass.INTEGER
            if divides and instruction.line in evidence.ptx_loops:
                groups.setdefault(instruction.source or instruction.line, []).append(instruction)
    for members in groups.values():
        bits = members[0].opcode[-2:]
        cost = _COST.get(bits, _COST["32"])
        spent = cost * sum(map(evidence.warps, members))
        others = max(1, evidence.executed_warps - sum(map(evidence.warps, members)))
        share = spent / (spent + others)
        if evidence.counts is not None and share < _LEAST_SHARE:
            continue
        narrower = "in 32 bits where the values allow it, " if bits == "64" else ""
        yield PerformanceFinding(
            Rule.DIVISION,
            evidence.place(members[0]),
            f"{_number(len(members), bits)} per pass of the loop, about {cost} instructions each",
            f"{narrower}shifts and masks for a power of two, a template or macro for a constant divisor, or a"
            " multiplication by a reciprocal that is computed once",
            share,
            evidence.gain(partial(_without, share=share)),
        )


def _number(count: int, bits: str) -> str:
    return f"a {bits}-bit division or remainder" if count == 1 else f"{count} {bits}-bit divisions or remainders"


def _without(work: LaunchWork, share: float) -> LaunchWork:
    remaining = 1 - share
    by_class = dict(work.by_class)
    for cls in (InstructionClass.INTEGER, InstructionClass.CONVERT, InstructionClass.SPECIAL, InstructionClass.COMPARE):
        if cls in by_class:
            by_class[cls] *= remaining
    chain = work.chain
    if chain is not None:
        chain = replace(chain, stalls=chain.stalls * remaining, others=chain.others * remaining)
    return replace(work, instructions=work.instructions * remaining, by_class=by_class, chain=chain)
