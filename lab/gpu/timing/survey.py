"""Time many kernels at one size: the request, the answer and the procedure.

A run of tens of thousands of points cannot afford what a sweep does for each of them: inputs made on the host, buffers
and modules loaded, a reference in NumPy, thirty samples. Here buffers are made once, at the largest size, and every
cubin is loaded once; a size is a set of arguments. Every kernel is checked at every size against a float64 reference
that the device computes, and that launch is its warm-up. Then

1. each kernel runs once with L2 flushed, which is its first sample; if the fastest is short (`lab.gpu.timing.cache`),
   each kernel runs a warm batch of launches instead, so that all times at a size are of one kind;
2. kernels more than `drop` slower than the fastest get no other sample;
3. the rest and the baseline are interleaved until each has its samples.

A policy may set a pause before each sample, as in the Tensile paper's benchmarks, so that the GPU cools.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from lab.base.expressions import Scalar
from lab.gpu.device.backend import Backend, BaselineMissingError, DeviceError, Enqueue, Field, RefusedError
from lab.gpu.timing import cache
from lab.measured.baselines import CUBLAS
from lab.measured.timing import Samples
from lab.operators.gemm import GemmProblem, tolerance_of
from lab.templates.launches import Launches, Workspace

BASELINE: Final = CUBLAS
"""Name of the baseline's point."""

BATCH_MS: Final = 0.2
"""Target device time of a batch, shorter than a sweep's because there are many points."""

MOST_LAUNCHES: Final = 32
"""Largest batch."""

ALIGNMENT: Final = 256
"""Bytes to which CUDA aligns every allocation (CUDA C++ Programming Guide, device memory accesses)."""

FEW: Final = 3
"""Minimum number of samples of a long kernel: a median and one on each side of it."""

JITTER_MS: Final = 0.003
"""Differences below this, in milliseconds, are noise: the events' resolution and the scatter of a launch."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Parameters shared by all sizes of a survey.

    Attributes:
        dtype: Element type of A, B and C.
        elements: Elements of A, B and C, enough for every size.
        workspace_bytes: Size of the largest workspace.
        seed: Seed of A and B.
    """

    dtype: str
    elements: tuple[int, int, int]
    workspace_bytes: int
    seed: int


@dataclass(frozen=True, slots=True)
class Entrant:
    """One kernel at the survey's size.

    Attributes:
        kernel: Its id.
        launches: Geometry and arguments at this size.
    """

    kernel: str
    launches: Launches


@dataclass(frozen=True, slots=True)
class SurveyPolicy:
    """The policy for timing points.

    Attributes:
        samples: Samples of a kernel that is not dropped.
        enough_ms: `FEW` samples are enough if they took this long together; 0 takes all samples.
        drop: Kernels slower than the fastest by more than this share in their first sample get no other; None drops
            no kernel.
        flush: Whether L2 is flushed before a sample.
        verify: Compare results with the reference.
        warmup_ms: Warm-up before the first sample of a worker.
        pause_ms: Time that the host sleeps before each sample, so that the GPU cools; 0 for none.
        batch_below_us: If the fastest kernel is shorter than this, launches are timed in batches.
        timeout_s: Seconds without a heartbeat after which the worker is killed.
    """

    samples: int = 5
    enough_ms: float = 0.0
    drop: float | None = 0.15
    flush: cache.Flush = cache.Flush.AUTO
    verify: bool = True
    warmup_ms: float = 300.0
    pause_ms: float = 0.0
    batch_below_us: float = cache.SHORT_US
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Survey:
    """A request: the kernels to time at one size.

    Attributes:
        ground: Buffers.
        problem: The operator's problem, complete.
        entrants: The kernels.
        baseline: Time cuBLAS as well.
        policy: How points are timed.
        cubins: Machine code of the entrants that the worker does not have yet, by kernel.
        kept: Kernels that get all samples, however slow the first is.
    """

    ground: Ground
    problem: Mapping[str, Scalar]
    entrants: tuple[Entrant, ...]
    baseline: bool
    policy: SurveyPolicy
    cubins: Mapping[str, bytes] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SurveyPoint:
    """The result of one kernel at the size.

    Attributes:
        kernel: Its id, or `BASELINE`.
        samples: Times; None if it failed.
        cache: State of L2: `cold` or `warm`; empty if it failed.
        error: Largest error relative to its scale; None if it was not compared.
        failure: Why it has no samples; empty if it has some.
        note: The baseline's library; empty for other kernels.
        silent: It failed because the worker sent no heartbeat, which may be the card's fault.
    """

    kernel: str
    samples: Samples | None = None
    cache: str = ""
    error: float | None = None
    failure: str = ""
    note: str = ""
    silent: bool = False


def room(buffer: Workspace) -> int:
    """Return the bytes of a workspace buffer, rounded up to `ALIGNMENT`."""
    return -(-buffer.bytes // ALIGNMENT) * ALIGNMENT


class Surveyor:
    """A survey runner on one backend that keeps its buffers between surveys."""

    def __init__(
        self,
        backend: Backend,
        begin: Callable[[str, str], None],
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create a surveyor without buffers.

        Args:
            backend: The device.
            begin: Called with an activity and a kernel whenever one begins.
            now: The host's clock, in seconds.
            sleep: Pauses the host for some seconds.
        """
        self._backend, self._begin, self._now, self._sleep = backend, begin, now, sleep
        self._field: Field | None = None
        self._ground: Ground | None = None
        self._cubins: dict[str, bytes] = {}
        self._warm = False

    def answer(self, order: Survey) -> tuple[SurveyPoint, ...]:
        """Check and time every entrant. Device errors are raised."""
        self._cubins.update(order.cubins)
        ground = self._prepared(order.ground)
        if order.policy.verify:
            self._begin("reference", "")
            ground.expect(order.problem)
        launches: dict[str, Enqueue] = {}
        points: dict[str, SurveyPoint] = {}
        for entrant in order.entrants:
            point, launch = self._checked(ground, entrant, order)
            points[entrant.kernel] = point
            if launch is not None:
                launches[entrant.kernel] = launch
        if order.baseline:
            point, launch = self._baseline(ground, order)
            points[BASELINE] = point
            if launch is not None:
                launches[BASELINE] = launch
        for name, (samples, state) in self._timed(launches, order).items():
            points[name] = replace(points[name], samples=samples, cache=state)
        return tuple(points.values())

    def _prepared(self, ground: Ground) -> Field:
        if self._field is None or self._ground != ground:
            self._begin("allocation", "")
            self._field = None  # frees the old buffers first
            self._field = self._backend.field(ground.dtype, ground.elements, ground.workspace_bytes, ground.seed)
            self._ground = ground
        return self._field

    def _checked(self, ground: Field, entrant: Entrant, order: Survey) -> tuple[SurveyPoint, Enqueue | None]:
        point = SurveyPoint(entrant.kernel)
        self._begin("launch", entrant.kernel)
        try:
            launch = ground.kernel(entrant.kernel, self._cubins[entrant.kernel], entrant.launches, order.problem)
        except RefusedError as error:
            return replace(point, failure=str(error)), None
        return self._compared(ground, point, launch, order)

    def _baseline(self, ground: Field, order: Survey) -> tuple[SurveyPoint, Enqueue | None]:
        point = SurveyPoint(BASELINE)
        self._begin("launch of the baseline", BASELINE)
        try:
            baseline = ground.baseline(order.problem)
        except (BaselineMissingError, DeviceError) as error:
            return replace(point, failure=str(error)), None
        return self._compared(ground, replace(point, note=baseline.library), baseline.launch, order)

    def _compared(
        self, ground: Field, point: SurveyPoint, launch: Enqueue, order: Survey
    ) -> tuple[SurveyPoint, Enqueue | None]:
        if not order.policy.verify:
            self._backend.run((launch,))
            return point, launch
        error = ground.check(launch)
        # relative to the norms of a row of A and a column of B; `lab.operators.gemm.Gemm.verify` says why
        tolerance = tolerance_of(GemmProblem.restored(order.problem))
        if error <= tolerance:
            return replace(point, error=error), launch
        reason = f"the result is wrong: its largest error is {error:.3g} of its scale, the tolerance is {tolerance:.3g}"
        return replace(point, error=error, failure=reason), None

    def _timed(self, launches: Mapping[str, Enqueue], order: Survey) -> dict[str, tuple[Samples, str]]:
        """Return samples and the state of L2 by name."""
        if not launches:
            return {}
        policy = order.policy
        self._warm_up(tuple(launches.values()), policy)
        pilots = {}
        for name, launch in launches.items():
            self._begin_sample(name, policy)
            pilots[name] = self._backend.time(launch, batch=1, lead_ms=cache.LEAST_HEAD_START_MS, rewarm=False)
        best = _fastest({name: pilot.ms for name, pilot in pilots.items()})
        cold = cache.is_cold(policy.flush, best, policy.batch_below_us)
        batches = {name: 1 if cold else warm_batch(pilot.ms) for name, pilot in pilots.items()}

        def sample(name: str) -> float:
            self._begin_sample(name, policy)
            batch = batches[name]
            lead_ms = cache.head_start_ms(batch, pilots[name].enqueue_ms)
            return self._backend.time(launches[name], batch=batch, lead_ms=lead_ms, rewarm=not cold).ms

        times_by_name = {name: [pilot.ms if cold else sample(name)] for name, pilot in pilots.items()}
        remaining = _kept({name: first for name, (first,) in times_by_name.items()}, batches, order)
        while pending := [name for name in remaining if _wanting(times_by_name[name], policy)]:
            for name in pending:
                times_by_name[name].append(sample(name))
        state = cache.state(cold=cold)
        return {name: (Samples(tuple(ms), batches[name]), state) for name, ms in times_by_name.items()}

    def _begin_sample(self, name: str, policy: SurveyPolicy) -> None:
        """Pause as the policy says, then report a sample; kernels are interleaved, so a pause lies between kernels."""
        if policy.pause_ms:
            self._begin("pause", name)
            self._sleep(policy.pause_ms / 1e3)
        self._begin("measurement", name)

    def _warm_up(self, launches: tuple[Enqueue, ...], policy: SurveyPolicy) -> None:
        if self._warm:
            return
        self._warm = True
        until = self._now() + policy.warmup_ms / 1e3
        while self._now() < until:
            self._begin("warm-up", "")
            self._backend.run(launches)
        self._backend.calibrate()


def _fastest(ms: Mapping[str, float]) -> float:
    """Return the fastest kernel's time without the baseline, which must not cost the best kernel its samples."""
    return min(duration for name, duration in ms.items() if name != BASELINE or len(ms) == 1)


def _kept(first_ms: Mapping[str, float], batches: Mapping[str, int], order: Survey) -> list[str]:
    """Return the kernels that get further samples, given their first samples in milliseconds."""
    fastest = _fastest(first_ms)
    return [
        name
        for name, first in first_ms.items()
        if first <= most_ms(fastest, order.policy.drop, batches[name]) or name in order.kept or name == BASELINE
    ]


def most_ms(fastest_ms: float, drop: float | None, batch: int) -> float:
    """Return the longest first sample, in ms per launch, with which a kernel gets more samples.

    Args:
        fastest_ms: First sample of the fastest kernel.
        drop: Allowed share above it; None sets no limit.
        batch: Launches of the kernel's sample.
    """
    return fastest_ms * (math.inf if drop is None else 1 + drop) + JITTER_MS / batch


def _wanting(samples_ms: list[float], policy: SurveyPolicy) -> bool:
    """Return whether a kernel needs another sample; a few samples are enough for a long kernel."""
    if len(samples_ms) >= policy.samples:
        return False
    return not (policy.enough_ms and len(samples_ms) >= FEW and sum(samples_ms) >= policy.enough_ms)


def warm_batch(pilot_ms: float) -> int:
    """Return the number of launches between two events, which take about `BATCH_MS`."""
    return cache.batch_size(pilot_ms, BATCH_MS, MOST_LAUNCHES)
