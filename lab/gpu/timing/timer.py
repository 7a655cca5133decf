"""Time launches with events queued after a memset that keeps the device busy, and flush L2."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

import numpy as np
import pycuda.driver as cuda

from lab.gpu.device.backend import BatchTiming, Enqueue
from lab.gpu.timing.evict import reader
from lab.measured.timing import GpuDescription

LEAST_SCRATCH_BYTES: Final = 64 << 20
"""Minimum size of the memset: even with a small L2 it must outlast the host's queueing of a launch."""

_DIGITS: Final = 6
"""Significant digits of a time: CUDA events are single precision. Further digits are noise, which would take a fifth of
a record's bytes."""

_NAN: Final = 0x7FC00000
_FILLS: Final = 5
_QUICK_SAMPLES: Final = 5
_QUICK_LEAD_MS: Final = 0.1


class LaunchTimer:
    """A timer of launches on one stream."""

    def __init__(self, gpu: GpuDescription, stream: cuda.Stream, clock: Callable[[], int | None]) -> None:
        """Allocate the scratch buffer and calibrate.

        Args:
            gpu: The GPU, for its L2 cache and architecture.
            stream: The stream that launches are queued on.
            clock: Reads the SM clock, in MHz.
        """
        self._arch, self._stream, self._clock = gpu.arch, stream, clock
        self._events = (cuda.Event(), cuda.Event())
        self._scratch_bytes = max(2 * gpu.l2_bytes + (1 << 20), LEAST_SCRATCH_BYTES)
        self._scratch = cuda.mem_alloc(self._scratch_bytes)
        self._read: Enqueue | None = None
        self._memset_ms = 0.0
        self.calibrate()

    def calibrate(self) -> None:
        """Time the memset at the device's current clocks."""
        durations = []
        start, stop = self._events
        for _ in range(_FILLS):
            self._memset()
            start.record(self._stream)
            self._memset()
            stop.record(self._stream)
            stop.synchronize()
            durations.append(float(stop.time_since(start)))
        self._memset_ms = max(min(durations), 1e-3)

    def time(self, launch: Enqueue, *, batch: int, lead_ms: float, rewarm: bool) -> BatchTiming:
        """Queue memsets, an untimed launch if `rewarm`, an event, the launches, and an event; see `Backend.time`."""
        start, stop = self._events
        for _ in range(math.ceil(max(lead_ms, 1e-3) / self._memset_ms)):
            self._memset()
        if rewarm:
            launch()
        start.record(self._stream)
        began = time.perf_counter()
        for _ in range(batch):
            launch()
        enqueue = time.perf_counter() - began
        stop.record(self._stream)
        starved = bool(start.query())
        clock = self._clock()  # while the device works: afterwards it may idle
        stop.synchronize()
        ms = float(f"{stop.time_since(start) / batch:.{_DIGITS}g}")
        return BatchTiming(ms, enqueue * 1e3 / batch, starved, clock)

    def quick(self, launch: Enqueue) -> float:
        """Return the median of a few cold timings, in milliseconds: good enough to choose between launches."""
        timings = [self.time(launch, batch=1, lead_ms=_QUICK_LEAD_MS, rewarm=False).ms for _ in range(_QUICK_SAMPLES)]
        return float(np.median(timings))

    def evict(self) -> None:
        """Queue reads of the whole scratch buffer, which is more than twice as large as L2."""
        if self._read is None:
            self._read = reader(self._arch, int(self._scratch), self._scratch_bytes, self._stream)
        self._read()

    def _memset(self) -> None:
        cuda.memset_d32_async(self._scratch, _NAN, self._scratch_bytes // 4, self._stream)
