"""Ceilings on a kernel's throughput, read off its SASS and the GPU's limits. All predicted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """One ceiling.

    Attributes:
        name: `issue slots`, `shared memory`, `DRAM`, `roofline`.
        tflops: The ceiling in TFLOP/s.
        explanation: One line with the numbers that made it: `64 FFMA of 68 issued`.
    """

    name: str
    tflops: float
    explanation: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """Everything predicted for one variant on one GPU.

    Attributes:
        gpu: The GPU that the figures are for (name in the table).
        occupancy: Resident warps over the most the SM holds, 0 to 1.
        blocks_per_sm: Resident blocks.
        limited_by: What limits occupancy: `registers`, `shared memory`, `warps`, `blocks`.
        peak_tflops: The GPU's peak for the kernel's arithmetic type.
        bounds: Every ceiling; `ceiling` is the least of them.
    """

    gpu: str
    occupancy: float
    blocks_per_sm: int
    limited_by: str
    peak_tflops: float
    bounds: tuple[Bound, ...]

    @property
    def ceiling(self) -> Bound | None:
        """The lowest bound, or None where no bound applies (a kernel without arithmetic)."""
        return min(self.bounds, key=lambda bound: bound.tflops, default=None)
