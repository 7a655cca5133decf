"""Hardware counters of a variant, one frozen value per launch, and metrics derived from all launches.

Metrics are sums (bytes, cycles, instructions) or weighted means whose weights are counted, too, so that several
launches have one value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lab.base.warp import SECTOR_BYTES

PIPES: Final = {
    "fma": "fma and other floating-point arithmetic",
    "alu": "integer, logic, compare and select",
    "lsu": "loads, stores, shuffles and shared memory",
    "xu": "exponentials, reciprocals and conversions between types",
    "tensor": "matrix instructions",
}
"""Execution pipes that are counted, with what they execute (Nsight Compute's documentation, "Pipelines")."""

STALLS: Final = {
    "long_scoreboard": "waits for data from global or local memory",
    "short_scoreboard": "waits for data from shared memory or for a special function",
    "mio_throttle": "the queue to shared memory and special functions is full",
    "lg_throttle": "the queue to global and local memory is full",
    "math_pipe_throttle": "the arithmetic pipe is busy",
    "barrier": "waits for other warps at a block barrier",
    "membar": "waits at a memory fence",
    "wait": "waits for a fixed latency",
    "dispatch_stall": "the dispatcher holds the instruction back, as for register banks",
    "no_instruction": "waits for its next instruction",
    "branch_resolving": "waits for a branch's target",
    "imc_miss": "waits for a constant",
    "drain": "has ended and waits for its stores to leave",
    "sleeping": "sleeps",
    "not_selected": "could issue, another warp did",
    "selected": "issues",
}
"""States of a warp in a cycle, with their meanings (Nsight Compute's documentation, "Warp Stall Reasons")."""

_ISSUING: Final = ("selected", "not_selected")
"""States of warps that could issue, which are not stalls."""


@dataclass(frozen=True, slots=True)
class LaunchCounters:
    """Counters of one launch; a metric the profiler did not report is None or absent from its mapping.

    Attributes:
        kernel: Its entry point.
        dram_read_bytes: Bytes read from DRAM.
        dram_write_bytes: Bytes written to DRAM.
        l2_read_sectors: Sectors read from L2.
        l2_write_sectors: Sectors written to L2.
        duration_ns: Duration under the profiler, in nanoseconds. Clocks and queues differ from those of a timing.
        active_cycles: Cycles in which an SM held a warp; mean over the SMs.
        occupancy: Resident warps over the most that an SM can hold, 0 to 1; mean over the active cycles.
        instructions: Warp instructions executed.
        issues: Cycles in which a scheduler issued, over all schedulers.
        issue_share: The same as a share of the active cycles, 0 to 1.
        pipes: Use of each pipe (`PIPES`) as a share of its peak while an SM was active, 0 to 1. A matrix instruction
            keeps its pipe busy for many cycles, so cycles are counted for `tensor`, and instructions for the others.
        stalls: Cycles that a warp spends in each state (`STALLS`) for every instruction that it issues.
        clock_hz: Frequency of the SMs, by the cycles that elapsed; below what NVML reports where power limits it.
    """

    kernel: str
    dram_read_bytes: float | None = None
    dram_write_bytes: float | None = None
    l2_read_sectors: float | None = None
    l2_write_sectors: float | None = None
    duration_ns: float | None = None
    active_cycles: float | None = None
    occupancy: float | None = None
    instructions: float | None = None
    issues: float | None = None
    issue_share: float | None = None
    pipes: Mapping[str, float] = field(default_factory=dict)
    stalls: Mapping[str, float] = field(default_factory=dict)
    clock_hz: float | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """Counters of a variant, whose sequence of launches ran once under the profiler.

    Attributes:
        profiler: `Nsight Compute 2025.3.1.0`.
        cache: State of the L2 cache when the sequence began: `cold` or `warm`.
        launches: In order.
        notes: Remarks needed to read the metrics.
    """

    profiler: str
    cache: str
    launches: tuple[LaunchCounters, ...]
    notes: tuple[str, ...] = ()

    @property
    def dram_bytes(self) -> float | None:
        """Bytes read from and written to DRAM."""
        return _sum(self.launches, lambda launch: _both(launch.dram_read_bytes, launch.dram_write_bytes))

    @property
    def l2_bytes(self) -> float | None:
        """Bytes of the sectors read from and written to L2."""
        sectors = _sum(self.launches, lambda launch: _both(launch.l2_read_sectors, launch.l2_write_sectors))
        return None if sectors is None else sectors * SECTOR_BYTES

    @property
    def duration_ms(self) -> float | None:
        """Duration of all launches under the profiler in ms, without the gaps between them."""
        total = _sum(self.launches, lambda launch: launch.duration_ns)
        return None if total is None else total / 1e6

    @property
    def clock_hz(self) -> float | None:
        """Frequency of the SMs; mean over the durations of all launches."""
        return _mean(self.launches, lambda launch: launch.clock_hz, lambda launch: launch.duration_ns)

    @property
    def instructions(self) -> float | None:
        """Warp instructions executed."""
        return _sum(self.launches, lambda launch: launch.instructions)

    @property
    def occupancy(self) -> float | None:
        """Achieved occupancy, 0 to 1; mean over the active cycles of all launches."""
        return _mean(self.launches, lambda launch: launch.occupancy, lambda launch: launch.active_cycles)

    @property
    def issue_share(self) -> float | None:
        """Share of the active cycles in which a scheduler issued, 0 to 1."""
        return _mean(self.launches, lambda launch: launch.issue_share, lambda launch: launch.active_cycles)

    @property
    def pipes(self) -> dict[str, float]:
        """Use of each pipe as a share of its peak, 0 to 1; mean over the active cycles of all launches."""
        used = {
            pipe: _mean(
                self.launches,
                lambda launch, pipe=pipe: launch.pipes.get(pipe),  # type: ignore[misc]  # the default binds the name
                lambda launch: launch.active_cycles,
            )
            for pipe in PIPES
        }
        return {pipe: share for pipe, share in used.items() if share is not None}

    @property
    def stalls(self) -> dict[str, float]:
        """Cycles a warp spends in each state per instruction it issues; mean over the issues of all launches."""
        cycles = {
            state: _mean(
                self.launches,
                lambda launch, state=state: launch.stalls.get(state),  # type: ignore[misc]  # as above
                lambda launch: launch.issues,
            )
            for state in STALLS
        }
        return {state: warps for state, warps in cycles.items() if warps is not None}

    @property
    def waits(self) -> dict[str, float]:
        """Share of each reason for which warps cannot issue, the largest first; the shares add up to 1."""
        waiting = {state: warps for state, warps in self.stalls.items() if state not in _ISSUING and warps > 0}
        total = sum(waiting.values())
        return {state: warps / total for state, warps in sorted(waiting.items(), key=lambda item: -item[1])}

    @property
    def idle(self) -> dict[str, float]:
        """Share of active cycles in which a scheduler issued nothing, by stall reason.

        The counters give stall reasons over all cycles, not only idle ones, so the idle share is divided in proportion
        to `waits`.
        """
        if self.issue_share is None:
            return {}
        return {state: share * (1 - self.issue_share) for state, share in self.waits.items()}


def _both(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


def _sum(launches: Sequence[LaunchCounters], figure: Callable[[LaunchCounters], float | None]) -> float | None:
    """Sum over all launches; None if a launch lacks the metric, since the sum of the others would mislead."""
    values = [figure(launch) for launch in launches]
    reported = [value for value in values if value is not None]
    return sum(reported) if reported and len(reported) == len(values) else None


def _mean(
    launches: Sequence[LaunchCounters],
    figure: Callable[[LaunchCounters], float | None],
    weight: Callable[[LaunchCounters], float | None],
) -> float | None:
    """Return the weighted mean; None if a launch lacks metric or weight. A single launch needs no weight."""
    if len(launches) == 1:
        return figure(launches[0])
    pairs = [(figure(launch), weight(launch)) for launch in launches]
    reported = [(value, heavy) for value, heavy in pairs if value is not None and heavy is not None]
    total = sum(heavy for _, heavy in reported)
    if not total or len(reported) < len(pairs):
        return None
    return sum(value * heavy for value, heavy in reported) / total
