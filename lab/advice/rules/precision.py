"""Double precision by accident: floats that a double literal or a function of doubles converts there and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lab.advice.evidence import Evidence
from lab.advice.finding import PerformanceFinding, Rule
from lab.isa.model import Instruction, InstructionClass
from lab.predict.work import LaunchWork


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding for each source line that computes in float64 where no data is float64."""
    every = [instruction for function in evidence.ptx_functions for instruction in function.instructions]
    if any(_moves_doubles(one) for one in every) or not any(_widens(one) for one in every):
        return
    groups: dict[object, list[Instruction]] = {}
    for one in every:
        if _computes(one) and (evidence.counts is None or evidence.warps(one)):
            groups.setdefault(one.source or one.line, []).append(one)
    doubles = sum(evidence.warps(one) for one in every if _computes(one) or _converts(one))
    gain = evidence.gain(lambda work: _in_float(work, doubles / max(1, evidence.executed_warps)))
    ranked = sorted(groups.values(), key=lambda own: -sum(map(evidence.warps, own)))
    for members in ranked[:1]:
        first = members[0]
        lines = len(groups) - 1
        more = f" on this and {lines} further line{'s' if lines > 1 else ''}" if lines else ""
        count = sum(map(len, groups.values()))
        yield PerformanceFinding(
            Rule.DOUBLE_PRECISION,
            evidence.place(first, "DFMA", "DADD", "DMUL", "MUFU"),
            f"{count} float64 instruction{'s' if count > 1 else ''}{more}, though inputs and outputs are float32",
            "literals with f (0.5f) and functions of float (sqrtf, fabsf, powf), so that nothing is promoted to double",
            1.0,
            gain,
        )


def _computes(one: Instruction) -> bool:
    return one.opcode.endswith(".f64") and one.cls in (
        InstructionClass.FMA,
        InstructionClass.FLOAT,
        InstructionClass.SPECIAL,
    )


def _converts(one: Instruction) -> bool:
    return one.cls is InstructionClass.CONVERT and ".f64" in one.opcode


def _widens(one: Instruction) -> bool:
    return one.cls is InstructionClass.CONVERT and one.opcode.endswith((".f64.f32", ".f64.f16"))


def _moves_doubles(one: Instruction) -> bool:
    """Return whether the instruction loads or stores float64, so that doubles are meant."""
    memory = one.opcode.startswith(("ld.global", "st.global", "ld.shared", "st.shared", "ld.param"))
    return memory and one.opcode.endswith((".f64", ".v2.f64"))


def _in_float(work: LaunchWork, share: float) -> LaunchWork:
    """Return the work without conversions, in float32, with the waits of so many instructions at a float's."""
    by_class = {**work.by_class, InstructionClass.CONVERT: 0.0, InstructionClass.SPECIAL: 0.0}
    chain = work.chain
    if chain is not None:
        chain = replace(chain, stalls=chain.stalls * (1 - 0.75 * min(1.0, share)), others=0.0)
    return replace(work, double=0.0, by_class=by_class, chain=chain)
