"""Many kernels at one size after another: what is asked of the worker, what it answers, and how it goes about it.

A run of tens of thousands of points cannot afford what a sweep does for each: inputs made on the host, buffers and
modules loaded, a reference in NumPy, thirty samples. Here buffers are made once, at the largest size, and every cubin
is loaded once; a size is a set of arguments. Every kernel is checked at every size against a float64 reference that the
device computes, and that launch is its warm-up. Then

1. each kernel runs once, L2 flushed before it, which is its first sample; where the fastest is so short that an event
   would weigh, that is a batch of launches instead, warm, so that all times at a size are of one kind;
2. those that are more than `drop` slower than the fastest of them get no other;
3. the rest, with the baseline, take turns until each has its samples.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lab.base.expressions import Scalar
from lab.gpu.device.backend import Backend, BaselineMissingError, DeviceError, Field, Launch, RefusedError
from lab.gpu.process.job import Flush
from lab.gpu.timing import layout
from lab.measured.timing import Samples
from lab.operators.matrices import tolerance_of_sums
from lab.templates.launches import Launches, Workspace

BASELINE = "cublas"
"""Name of the baseline's point."""

TOLERANCE = tolerance_of_sums("float32")
"""Of float32, relative to the norms of a row of A and a column of B: `lab.operators.gemm.Gemm.verify` says why."""

BATCH_MS = 0.2
MOST_LAUNCHES = 32
"""Batches are shorter than a sweep's: the host queues a launch in microseconds, and there are many points."""

_ALIGNMENT = 256
"""Bytes: CUDA aligns every allocation to so many (CUDA C++ Programming Guide, device memory accesses)."""

FEW = 3
"""Samples that a long kernel gets at least: a median, and one on each side of it."""

JITTER_MS = 0.003
"""Two events tell nothing finer of what lies between them: their resolution, and what a launch scatters by."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What all sizes of a survey share.

    Attributes:
        dtype: Element type.
        elements: Of A, B and C, enough for every size.
        workspace_bytes: Of the largest workspace.
        seed: Of A and B.
    """

    dtype: str
    elements: tuple[int, int, int]
    workspace_bytes: int
    seed: int


@dataclass(frozen=True, slots=True)
class Entrant:
    """One kernel at the order's size.

    Attributes:
        kernel: Id.
        launches: Geometry and arguments at this size.
    """

    kernel: str
    launches: Launches


@dataclass(frozen=True, slots=True)
class SurveyPolicy:
    """How points are timed.

    Attributes:
        samples: Of a kernel that is not dropped.
        enough_ms: `FEW` samples do where they took so long together; 0 takes all.
        drop: Share by which a kernel may be slower than the fastest in its first sample and still get others; None
            drops none.
        flush: Whether L2 is flushed before a sample.
        verify: Compare with the reference.
        warmup_ms: Before the first sample of a worker.
        batch_below_us: Below this time of the fastest, launches are timed in batches.
        timeout_s: Seconds without a sign of life after which the worker is killed.
    """

    samples: int = 5
    enough_ms: float = 0.0
    drop: float | None = 0.15
    flush: Flush = Flush.AUTO
    verify: bool = True
    warmup_ms: float = 300.0
    batch_below_us: float = 50.0
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Survey:
    """One size.

    Attributes:
        ground: Buffers.
        problem: The operator's problem, complete.
        entrants: Kernels.
        baseline: Time cuBLAS as well.
        policy: How.
        cubins: Machine code of those entrants that the worker does not have.
        kept: Kernels that are not dropped, whatever their first sample.
    """

    ground: Ground
    problem: Mapping[str, Scalar]
    entrants: tuple[Entrant, ...]
    baseline: bool
    policy: SurveyPolicy
    cubins: Mapping[str, bytes] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Point:
    """What became of one kernel at the size.

    Attributes:
        kernel: Id, or `BASELINE`.
        samples: Times; None where it failed.
        cache: `cold` or `warm`.
        error: Largest error relative to its scale; None where it was not compared.
        failure: Why it has no samples; empty where it has.
        note: Of the baseline: its library.
    """

    kernel: str
    samples: Samples | None = None
    cache: str = ""
    error: float | None = None
    failure: str = ""
    note: str = ""


def room(buffer: Workspace) -> int:
    """Bytes that a scratch buffer takes where several lie one behind the other, each aligned like an allocation."""
    return -(-buffer.bytes // _ALIGNMENT) * _ALIGNMENT


class Surveyor:
    """Answers surveys on one backend; keeps the field between them."""

    def __init__(self, backend: Backend, begin: Callable[[str, str], None]) -> None:
        """Begin with nothing.

        Args:
            backend: The device.
            begin: Told what begins, and with which kernel.
        """
        self._backend, self._begin = backend, begin
        self._field: Field | None = None
        self._ground: Ground | None = None
        self._cubins: dict[str, bytes] = {}
        self._warm = False

    def answer(self, order: Survey) -> tuple[Point, ...]:
        """Check and time every entrant; device errors are the caller's to deal with."""
        self._cubins.update(order.cubins)
        ground = self._prepared(order.ground)
        if order.policy.verify:
            self._begin("reference", "")
            ground.expect(order.problem)
        launches: dict[str, Launch] = {}
        points: dict[str, Point] = {}
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
        for name, (samples, cache) in self._timed(launches, order).items():
            points[name] = replace(points[name], samples=samples, cache=cache)
        return tuple(points.values())

    def _prepared(self, wanted: Ground) -> Field:
        if self._field is None or self._ground != wanted:
            self._begin("allocation", "")
            self._field = None  # frees the old buffers first
            self._field = self._backend.field(wanted.dtype, wanted.elements, wanted.workspace_bytes, wanted.seed)
            self._ground = wanted
        return self._field

    def _checked(self, ground: Field, entrant: Entrant, order: Survey) -> tuple[Point, Launch | None]:
        point = Point(entrant.kernel)
        self._begin("launch", entrant.kernel)
        try:
            launch = ground.kernel(entrant.kernel, self._cubins[entrant.kernel], entrant.launches, order.problem)
        except RefusedError as error:
            return replace(point, failure=str(error)), None
        return self._compared(ground, point, launch, order.policy)

    def _baseline(self, ground: Field, order: Survey) -> tuple[Point, Launch | None]:
        point = Point(BASELINE)
        self._begin("launch of the baseline", BASELINE)
        try:
            baseline = ground.baseline(order.problem)
        except (BaselineMissingError, DeviceError) as error:
            return replace(point, failure=str(error)), None
        return self._compared(ground, replace(point, note=baseline.library), baseline.launch, order.policy)

    def _compared(
        self, ground: Field, point: Point, launch: Launch, policy: SurveyPolicy
    ) -> tuple[Point, Launch | None]:
        if not policy.verify:
            self._backend.run((launch,))
            return point, launch
        error = ground.check(launch)
        if error <= TOLERANCE:
            return replace(point, error=error), launch
        reason = f"the result is wrong: an error of {error:.3g} of its scale, beyond {TOLERANCE:.3g}"
        return replace(point, error=error, failure=reason), None

    def _timed(self, launches: Mapping[str, Launch], order: Survey) -> dict[str, tuple[Samples, str]]:
        """Samples and cache state by name."""
        if not launches:
            return {}
        policy = order.policy
        self._warm_up(tuple(launches.values()), policy)
        pilots = {}
        for name, launch in launches.items():
            self._begin("measurement", name)
            pilots[name] = self._backend.time(launch, batch=1, lead_ms=layout.LEAST_LEAD_MS, rewarm=False)
        best = _fastest({name: pilot.ms for name, pilot in pilots.items()})
        cold = policy.flush is Flush.ON or (policy.flush is Flush.AUTO and best * 1e3 >= policy.batch_below_us)
        batches = {name: 1 if cold else batch_size(pilot.ms) for name, pilot in pilots.items()}

        def sample(name: str) -> float:
            self._begin("measurement", name)
            batch = batches[name]
            lead = max(layout.LEAST_LEAD_MS, 1.5 * (batch + 1) * pilots[name].enqueue_ms)
            return self._backend.time(launches[name], batch=batch, lead_ms=lead, rewarm=not cold).ms

        taken = {name: [pilot.ms if cold else sample(name)] for name, pilot in pilots.items()}
        best = _fastest({name: first for name, (first,) in taken.items()})
        share = math.inf if policy.drop is None else 1 + policy.drop
        kept = [
            name
            for name, (first,) in taken.items()
            if first <= best * share + JITTER_MS / batches[name] or name in order.kept or name == BASELINE
        ]
        while wanting := [name for name in kept if _wanting(taken[name], policy)]:
            for name in wanting:
                taken[name].append(sample(name))
        state = "cold" if cold else "warm"
        return {name: (Samples(tuple(ms), batches[name]), state) for name, ms in taken.items()}

    def _warm_up(self, launches: tuple[Launch, ...], policy: SurveyPolicy) -> None:
        if self._warm:
            return
        self._warm = True
        until = time.perf_counter() + policy.warmup_ms / 1e3
        while time.perf_counter() < until:
            self._begin("warm-up", "")
            self._backend.run(launches)
        self._backend.calibrate()


def _fastest(ms: Mapping[str, float]) -> float:
    """Of the kernels: a baseline that beats them all must not leave the best of them with one sample."""
    return min(one for name, one in ms.items() if name != BASELINE or len(ms) == 1)


def _wanting(taken: list[float], policy: SurveyPolicy) -> bool:
    """Whether a kernel needs another sample; of a long one the first few tell as much."""
    if len(taken) >= policy.samples:
        return False
    return not (policy.enough_ms and len(taken) >= FEW and sum(taken) >= policy.enough_ms)


def batch_size(pilot_ms: float) -> int:
    """Launches between two events: about `BATCH_MS` of them."""
    return max(1, min(MOST_LAUNCHES, math.ceil(BATCH_MS / max(pilot_ms, 1e-6))))
