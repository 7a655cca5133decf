"""Barriers of a block that order nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lab.advice.evidence import Evidence, threads
from lab.advice.finding import PerformanceFinding, Rule
from lab.base.warp import WARP_SIZE
from lab.isa.cfg import control_flow
from lab.isa.model import Function, Instruction, InstructionClass

_MEMORY = frozenset(
    {
        InstructionClass.LD_GLOBAL,
        InstructionClass.ST_GLOBAL,
        InstructionClass.LD_SHARED,
        InstructionClass.ST_SHARED,
        InstructionClass.ATOMIC,
        InstructionClass.CP_ASYNC,
        InstructionClass.BULK_COPY,
        InstructionClass.MMA,
        InstructionClass.OTHER,
    }
)


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding on barriers with no access to memory before the next one, and on those of a single warp."""
    every = [
        instruction
        for function in evidence.ptx_functions
        for instruction in function.instructions
        if _whole_block(instruction)
    ]
    repeated = [one for function in evidence.ptx_functions for one in _repeated(function)]
    alone = evidence.launch is not None and threads(evidence.launch) <= WARP_SIZE
    redundant = every if alone else repeated
    if not redundant:
        return
    executed = sum(map(evidence.warps, every))
    share = sum(map(evidence.warps, redundant)) / executed if executed else len(redundant) / len(every)
    hot = max(redundant, key=lambda one: (evidence.warps(one), -one.line))
    yield PerformanceFinding(
        Rule.REDUNDANT_BARRIER,
        evidence.place(hot, "BAR"),
        "the block has one warp, which needs no barrier"
        if alone
        else "no access to memory lies between this barrier and the one before it",
        "__syncwarp() in its place" if alone else "remove it",
        share,
        evidence.gain(
            lambda work: (
                work
                if work.chain is None
                else replace(work, chain=replace(work.chain, barriers=work.chain.barriers * (1 - share)))
            )
        ),
    )


def _whole_block(one: Instruction) -> bool:
    return one.opcode in ("bar.sync", "barrier.sync", "barrier.sync.aligned") and one.operands in (("0",), ())


def _repeated(function: Function) -> Iterator[Instruction]:
    flow = control_flow(function)
    for block in flow.blocks:
        since = None
        for one in function.instructions[block.start : block.stop]:
            if _whole_block(one):
                if since is not None:
                    yield one
                since = one
            elif one.cls in _MEMORY or one.opcode.startswith(("call", "bar", "barrier", "fence", "membar", "mbarrier")):
                since = None
