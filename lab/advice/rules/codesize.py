"""Loops whose code is longer than the instruction caches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence
from lab.advice.finding import CodePlace, PerformanceFinding, Rule
from lab.hardware.latencies import INSTRUCTION_BYTES
from lab.isa.cfg import control_flow
from lab.isa.loops import natural_loops
from lab.isa.model import Function, Instruction

_CACHE_BYTES: Final = 32 << 10
"""Code that runs at the full rate on sm_90 (experiments/micro/code_size)."""


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding on the longest loop, where it does not fit into the nearest instruction cache."""
    loops = [loop for function in evidence.sass_functions for loop in _loops(function)]
    first, size = max(loops, key=lambda one: one[1], default=(None, 0))
    if first is None or size <= _CACHE_BYTES:
        return
    gain = evidence.gain(lambda work: replace(work, code=()))
    yield PerformanceFinding(
        Rule.CODE_SIZE,
        CodePlace(first.source, 0, first.line),
        f"the loop has {size / 1024:.0f} KiB of code, and the nearest instruction cache holds {_CACHE_BYTES >> 10} KiB",
        "unroll less (#pragma unroll 4), or move rare code out of the loop",
        1 - _CACHE_BYTES / size,
        gain,
    )


def _loops(function: Function) -> Iterator[tuple[Instruction, int]]:
    flow = control_flow(function)
    for loop in natural_loops(flow):
        blocks = [flow.blocks[index] for index in loop.blocks]
        header = function.instructions[flow.blocks[loop.header].start]
        yield header, INSTRUCTION_BYTES * sum(block.stop - block.start for block in blocks)
