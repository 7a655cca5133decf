"""Registers or shared memory that cost a block per SM, where saving a few would admit one more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence, threads
from lab.advice.finding import HIDDEN, CodePlace, PerformanceFinding, Rule
from lab.hardware.gpus import Gpu
from lab.hardware.occupancy import occupancy
from lab.predict.work import LaunchWork
from lab.recorded.run_records import LaunchRecord
from lab.toolchain.base import Resources

_MOST: Final = 0.25
"""Share of a resource that a kernel may be asked to save."""
_LEAST_GAIN: Final = 1.03


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding where the time model says that one more block per SM pays."""
    used, launch, gpu = evidence.resources, evidence.launch, evidence.gpu
    if used is None or launch is None or gpu is None:
        return
    now = _blocks(gpu, used, launch)
    if not now or set(now_limits := _limits(gpu, used, launch)) - {"registers", "shared memory"}:
        return
    if not all(limit in ("registers", "shared memory") for limit in now_limits):
        return
    gain = evidence.gain(_one_more)
    if gain is None or gain < _LEAST_GAIN:
        return
    fewer, smaller = used, launch
    said = []
    if "registers" in now_limits:
        registers = next((r for r in range(used.registers - 1, 15, -1) if _admits(gpu, used, launch, r, now)), None)
        if registers is None or used.registers - registers > _MOST * used.registers:
            return
        said.append(f"{used.registers - registers} of {used.registers} registers per thread")
        fewer = replace(used, registers=registers)
    if "shared memory" in now_limits:
        held = used.shared_bytes + launch.dynamic_shared_bytes
        room = (
            gpu.architecture.shared_per_sm // (now + 1) // gpu.architecture.shared_unit * gpu.architecture.shared_unit
        )
        save = held - (room - gpu.architecture.reserved_shared)
        if save <= 0 or save > _MOST * held:
            return
        said.append(f"{save} of {held} bytes of shared memory per block")
        dynamic = max(0, launch.dynamic_shared_bytes - save)
        smaller = replace(launch, dynamic_shared_bytes=dynamic)
        fewer = replace(fewer, shared_bytes=used.shared_bytes - max(0, save - launch.dynamic_shared_bytes))
    if _blocks(gpu, fewer, smaller) <= now:
        return
    yield PerformanceFinding(
        Rule.OCCUPANCY,
        CodePlace(),
        f"an SM holds {now} blocks, limited by {' and '.join(now_limits)}",
        f"save {' and '.join(said)} for {now + 1} blocks per SM"
        + (f": __launch_bounds__({threads(launch)}, {now + 1})" if now_limits == ("registers",) else ""),
        1 / (now + 1),
        gain if gain > HIDDEN else None,
    )


def _limits(gpu: Gpu, used: Resources, launch: LaunchRecord) -> tuple[str, ...]:
    return occupancy(gpu.architecture, used, threads(launch), launch.dynamic_shared_bytes, launch.carveout).limited_by


def _blocks(gpu: Gpu, used: Resources, launch: LaunchRecord) -> int:
    return occupancy(
        gpu.architecture, used, threads(launch), launch.dynamic_shared_bytes, launch.carveout
    ).blocks_per_sm


def _admits(gpu: Gpu, used: Resources, launch: LaunchRecord, registers: int, now: int) -> bool:
    architecture = gpu.architecture
    limits = occupancy(architecture, replace(used, registers=registers), threads(launch), 0).block_limits
    return limits.get("registers", now + 1) > now


def _one_more(work: LaunchWork) -> LaunchWork:
    return replace(work, blocks_per_sm=work.blocks_per_sm + 1)
