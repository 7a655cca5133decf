"""Loops whose warps wait for one global load after the other, and grids with too few bytes on their way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence, warps_of_block
from lab.advice.finding import PerformanceFinding, Rule
from lab.isa.model import Instruction, InstructionClass
from lab.predict.work import LaunchWork

_LEAST_GAIN: Final = 1.25
"""Where latency and another resource take equally long, the model sees a gain of 1.19 that no kernel reaches."""
_AHEAD: Final = 4
"""Loads that an unrolled loop has on their way; the gain is that of so many together."""
_BOUND: Final = "latency"


def find_loops(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding where a loop waits for each load before it asks for the next."""
    loads = [load for load in _loads(evidence) if load.line in evidence.ptx_loops]
    gain = _gain(evidence)
    if not loads or gain is None or gain < _LEAST_GAIN:
        return
    hot = max(loads, key=lambda one: (evidence.warps(one), -one.line))
    yield PerformanceFinding(
        Rule.LATENCY,
        evidence.place(hot, "LDG", "LD"),
        "each pass of the loop waits for its global loads before the next one asks for more",
        f"unroll by {_AHEAD} (#pragma unroll {_AHEAD}) so that loads of several passes are on their way, or"
        " prefetch the next pass into registers or by cp.async",
        1 - 1 / gain,
        gain,
    )


def find_bytes(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding where the loads that an SM has on their way cannot fill DRAM's bandwidth."""
    loads = [load for load in _loads(evidence) if load.line not in evidence.ptx_loops]
    gain, gpu, launch = _gain(evidence), evidence.gpu, evidence.launch
    if not loads or gain is None or gain < _LEAST_GAIN or gpu is None or launch is None or evidence.work is None:
        return
    if any(load.line in evidence.ptx_loops for load in _loads(evidence)) or not gpu.dram_gb_s:
        return
    work = max(evidence.work.launches, key=lambda one: one.load_bytes)
    warps = evidence.blocks_per_sm * warps_of_block(launch)
    each = work.load_bytes / max(1.0, work.load_requests)
    flying = warps * each * work.loads_together
    needed = (
        gpu.dram_gb_s * 1e9 * gpu.latencies.dram_share * gpu.latencies.global_latency / (gpu.clock_mhz * 1e6) / gpu.sms
    )
    if flying >= needed:
        return
    yield PerformanceFinding(
        Rule.BYTES_IN_FLIGHT,
        evidence.place(loads[0], "LDG", "LD"),
        f"{flying:,.0f} bytes per SM are on their way at once, {needed:,.0f} fill DRAM's bandwidth",
        "more elements per thread with the loads first, wider loads (float4), or more resident warps",
        1 - flying / needed,
        gain,
    )


def _loads(evidence: Evidence) -> list[Instruction]:
    return [
        instruction
        for function in evidence.ptx_functions
        for instruction in function.instructions
        if instruction.cls is InstructionClass.LD_GLOBAL and (evidence.counts is None or evidence.warps(instruction))
    ]


def _gain(evidence: Evidence) -> float | None:
    if evidence.work is None or evidence.bound != _BOUND:
        return None
    return evidence.gain(_together)


def _together(work: LaunchWork) -> LaunchWork:
    """Return the work with at least `_AHEAD` loads on their way; as it is where it has so many."""
    more = max(1.0, _AHEAD / work.loads_together)
    chain = work.chain
    if chain is None:
        return replace(work, loads_together=work.loads_together * more)
    return replace(work, chain=replace(chain, global_loads=chain.global_loads / more))
