"""Predicted figures of a variant: its ceilings, and the model's estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """One ceiling.

    Attributes:
        name: `issue slots`, `tensor cores`, `shared memory`, `memory pipe`, `DRAM`, `roofline`, `waves`.
        tflops: The ceiling in TFLOP/s.
        explanation: One line with the numbers behind it: `64 FFMA of 68 issued`.
        gb_s: The ceiling in GB/s of the problem's least traffic; None where throughput counts operations.
    """

    name: str
    tflops: float
    explanation: str
    gb_s: float | None = None

    @property
    def rate(self) -> float:
        """The ceiling in the unit of the operator's throughput."""
        return self.tflops if self.gb_s is None else self.gb_s


@dataclass(frozen=True, slots=True)
class Prediction:
    """All predictions for one variant on one GPU.

    Attributes:
        gpu: Name of the GPU, in the table or by the driver.
        occupancy: Resident warps over the most that the SM holds, 0 to 1.
        blocks_per_sm: Resident blocks; 0 where the kernel cannot be launched.
        limited_by: The resources that limit occupancy, separated by commas: `registers`, `shared memory`, `warps`,
            `blocks`, `barriers`; where the kernel cannot be launched, the reason.
        peak_tflops: The GPU's peak for the kernel's arithmetic type in TFLOP/s; that of its tensor cores for the loop's
            matrix instructions, where their rate is known.
        bounds: Every ceiling; `ceiling` is the least of them.
        peak_gb_s: The GPU's memory bandwidth in GB/s where throughput counts bytes, else None.
    """

    gpu: str
    occupancy: float
    blocks_per_sm: int
    limited_by: str
    peak_tflops: float
    bounds: tuple[Bound, ...]
    peak_gb_s: float | None = None

    @property
    def ceiling(self) -> Bound | None:
        """The lowest bound, or None where none applies (a kernel without arithmetic)."""
        return min(self.bounds, key=lambda bound: bound.rate, default=None)

    @property
    def peak(self) -> float:
        """The GPU's peak in the unit of the operator's throughput."""
        return self.peak_tflops if self.peak_gb_s is None else self.peak_gb_s


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated performance of a kernel on a GPU.

    Attributes:
        tflops: Throughput in TFLOP/s; an fma counts as two operations.
        cycles: Cycles of one iteration of the main loop with all resident warps.
        shares: Shares of the schedulers' cycles by cause (`lab.predict.schedulers.simulate.Cause`).
    """

    tflops: float
    cycles: float
    shares: Mapping[str, float]
