"""Registers or shared memory that cost a block per SM, where saving a few would admit one more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.advice.evidence import Evidence, threads
from lab.advice.finding import CodePlace, PerformanceFinding, Rule
from lab.hardware.gpus import Gpu
from lab.hardware.occupancy import Occupancy, occupancy
from lab.predict.work import LaunchWork
from lab.recorded.run_records import LaunchRecord
from lab.toolchain.base import Resources

_MOST: Final = 0.25
"""Share of a resource that a kernel may be asked to save."""
_LEAST_GAIN: Final = 1.03
_SAVED: Final = frozenset({"registers", "shared memory"})


def find(evidence: Evidence) -> Iterator[PerformanceFinding]:
    """Yield a finding where the time model says that one more block per SM pays."""
    used, launch, gpu = evidence.resources, evidence.launch, evidence.gpu
    if used is None or launch is None or gpu is None:
        return
    held = _occupancy(gpu, used, launch)
    now, limits, gain = held.blocks_per_sm, held.limited_by, evidence.gain(_one_more)
    if not now or not _SAVED.issuperset(limits) or gain is None or gain < _LEAST_GAIN:
        return
    registers = _fitting_registers(gpu, used, launch, now) if "registers" in limits else used.registers
    shared = used.shared_bytes + launch.dynamic_shared_bytes
    fitting_shared = _fitting_bytes(gpu, now) if "shared memory" in limits else shared
    if registers < (1 - _MOST) * used.registers or fitting_shared < (1 - _MOST) * shared:
        return
    saved = [
        f"{count} of {of} {name}"
        for count, of, name in (
            (used.registers - registers, used.registers, "registers per thread"),
            (shared - fitting_shared, shared, "bytes of shared memory per block"),
        )
        if count > 0
    ]
    bounds = f": __launch_bounds__({threads(launch)}, {now + 1})" if limits == ("registers",) else ""
    blocks = "1 block" if now == 1 else f"{now} blocks"
    yield PerformanceFinding(
        Rule.OCCUPANCY,
        CodePlace(),
        f"an SM holds {blocks}, limited by {' and '.join(limits)}",
        f"save {' and '.join(saved)} for {now + 1} blocks per SM{bounds}",
        1 / (now + 1),
        gain,
    )


def _occupancy(gpu: Gpu, used: Resources, launch: LaunchRecord) -> Occupancy:
    return occupancy(gpu.architecture, used, threads(launch), launch.dynamic_shared_bytes, launch.carveout)


def _fitting_registers(gpu: Gpu, used: Resources, launch: LaunchRecord, now: int) -> int:
    """Return the most registers per thread with which the register file holds one more block; 0 where none do."""
    for registers in range(used.registers, 0, -1):
        limits = _occupancy(gpu, replace(used, registers=registers), launch).block_limits
        if limits.get("registers", now + 1) > now:
            return registers
    return 0


def _fitting_bytes(gpu: Gpu, now: int) -> int:
    """Return the most bytes of shared memory per block of which an SM holds one more."""
    sm = gpu.architecture
    return sm.shared_per_sm // (now + 1) // sm.shared_unit * sm.shared_unit - sm.reserved_shared


def _one_more(work: LaunchWork) -> LaunchWork:
    return replace(work, blocks_per_sm=work.blocks_per_sm + 1)
