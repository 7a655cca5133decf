"""Measured values: raw samples and the statistics derived from them.

Frozen results keep the observations; medians, quantiles and rates are derived. Times are in milliseconds, clocks in
MHz, power in watts, temperatures in degrees Celsius.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """The origin of a figure, which stays with the figure down to the page."""

    STATIC = "static"  # read off the program text
    PREDICTED = "predicted"  # computed from the text and the GPU's limits
    EMULATED = "emulated"  # counted while executing the PTX on the CPU
    MEASURED = "measured"  # observed on a GPU


class Merit(StrEnum):
    """Figure of merit: the quantity an operator's throughput counts. The member's value is the unit."""

    TFLOPS = "TFLOP/s"  # 10^12 floating-point operations of the problem a second
    BANDWIDTH = "GB/s"  # 10^9 bytes of the problem's least traffic a second

    def rate(self, flops: int, bytes_moved: int, ms: float) -> float:
        """Return the throughput of a problem that took `ms` milliseconds, in this unit; 0 if no time passed."""
        if ms <= 0:
            return 0.0
        return flops / ms / 1e9 if self is Merit.TFLOPS else bytes_moved / ms / 1e6


@dataclass(frozen=True, slots=True)
class Samples:
    """Durations of one kernel launch, one per repetition.

    Attributes:
        ms: Milliseconds per launch, in the order taken.
        batch: Launches timed together between two events; each entry of `ms` is their mean.
        unused: Indices in `ms` of samples taken while the SM clock was well below the run's own. Statistics leave
            them out.
    """

    ms: tuple[float, ...]
    batch: int = 1
    unused: tuple[int, ...] = ()

    @property
    def used(self) -> tuple[float, ...]:
        """The samples used by statistics, in the order taken."""
        return tuple(ms for index, ms in enumerate(self.ms) if index not in self.unused) if self.unused else self.ms

    @property
    def n(self) -> int:
        """Number of samples used by statistics."""
        return len(self.used)

    @property
    def median(self) -> float:
        """Median time in ms."""
        return self.quantile(0.5)

    def quantile(self, q: float) -> float:
        """Return the linearly interpolated quantile in ms, for 0 ≤ q ≤ 1."""
        return self.quantiles(q)[0]

    def quantiles(self, *qs: float) -> tuple[float, ...]:
        """Return several quantiles, as `quantile` does."""
        ordered = sorted(self.used)  # a report needs some hundred thousand of these; NumPy takes ten times as long
        last, values = len(ordered) - 1, []
        for q in qs:
            place = q * last
            below = int(place)
            values.append(ordered[below] + (place - below) * (ordered[min(below + 1, last)] - ordered[below]))
        return tuple(values)

    @property
    def p20(self) -> float:
        """20th percentile in ms."""
        return self.quantile(0.2)

    @property
    def p80(self) -> float:
        """80th percentile in ms."""
        return self.quantile(0.8)

    @property
    def best(self) -> float:
        """Minimum time in ms."""
        return min(self.used)

    @property
    def spread(self) -> float:
        """(p80 - p20) / median, as a fraction; 0 where the median is 0."""
        low, middle, high = self.quantiles(0.2, 0.5, 0.8)
        return (high - low) / middle if middle else 0.0


@dataclass(frozen=True, slots=True)
class CardState:
    """State of the GPU around one measurement, from NVML; None where NVML does not report it.

    Attributes:
        sm_clock_mhz: SM clock.
        memory_clock_mhz: Memory clock.
        power_w: Board power.
        temperature_c: GPU temperature.
        throttle_reasons: Names of the active clock-event reasons, idle excluded.
        neighbours: Other processes that compute on it.
    """

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    throttle_reasons: tuple[str, ...] = ()
    neighbours: int | None = None


@dataclass(frozen=True, slots=True)
class EarlierTiming:
    """The timing of a sweep that was replaced by the finals.

    Attributes:
        card: Id of the card.
        samples: The variant.
        baseline: The baseline beside it; None without one.
    """

    card: str
    samples: Samples
    baseline: Samples | None


@dataclass(frozen=True, slots=True)
class Verification:
    """One comparison of a kernel's outputs with the NumPy float64 reference.

    Attributes:
        passed: Every output element is within tolerance.
        max_error: Largest |output - reference| / tolerance-scale over all outputs; nan if any output is nan
            where the reference is not.
        tolerance: The limit for `max_error`.
        worst: The element with the largest error: ``C[12, 7]: got 1.5, expected 1.25``; empty when passed.
        executed_on: The GPU's name, or ``emulator``.
    """

    passed: bool
    max_error: float
    tolerance: float
    worst: str
    executed_on: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """One variant timed on a GPU beside its baseline.

    Attributes:
        samples: The variant.
        baseline: The baseline, interleaved A B A B with the variant; None without a baseline.
        baseline_name: Such as ``cublas``.
        cache: ``cold`` (L2 flushed before each repetition) or ``warm``.
        before: The card's state when the samples began.
        after: The card's state when they ended.
        remeasured: The winner's samples from a fresh process, else None.
        notes: Remarks for the reader: a kernel too short for events, a noisy spread.
        others: Further baselines, interleaved like the first, by name.
        card: Id of the card; empty in records of versions that used one card alone.
        doubt: Reason these times are not comparable with those of the run's other cards; empty if they are.
        sweep: The sweep's timing if the best variants of several cards were timed again, interleaved on one card, and
            the samples here are from that; else None.
        errors: Largest error of each baseline whose output was compared with the variant's own reference, by name, as
            `Verification.max_error` has the variant's.
    """

    samples: Samples
    baseline: Samples | None
    baseline_name: str | None
    cache: str
    before: CardState
    after: CardState
    remeasured: Samples | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)
    others: Mapping[str, Samples] = field(default_factory=dict)
    card: str = ""
    doubt: str = ""
    sweep: EarlierTiming | None = None
    errors: Mapping[str, float] = field(default_factory=dict)

    def ratio_to(self, name: str) -> float | None:
        """Return the throughput over that of a named baseline, above 1 if faster; None if it was not timed."""
        reference, own = self.baseline if name == self.baseline_name else self.others.get(name), self.samples.median
        return None if reference is None or not own else reference.median / own

    @property
    def ratio_to_baseline(self) -> float | None:
        """Throughput of the variant over the baseline's: above 1 is faster. None without a baseline."""
        own = self.samples.median
        return None if self.baseline is None or not own else self.baseline.median / own


@dataclass(frozen=True, slots=True)
class GpuDescription:
    """The GPU used by a run.

    Attributes:
        name: As the driver names it: ``NVIDIA H200``.
        arch: ``sm_90``.
        sms: Streaming multiprocessors.
        sm_clock_mhz: Maximum SM clock.
        memory_bytes: Device memory.
        l2_bytes: L2 cache.
        driver: Driver version, ``580.159.04``.
        cuda: Highest CUDA version the driver supports, ``13.0``.
        clusters: Cluster size in blocks and number of such clusters resident at once, with one block per SM; empty
            if the driver was not queried.
    """

    name: str
    arch: str
    sms: int
    sm_clock_mhz: int
    memory_bytes: int
    l2_bytes: int
    driver: str
    cuda: str
    clusters: tuple[tuple[int, int], ...] = ()
