"""What a worker is asked to do and what it answers: frozen values that travel between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lab.base.expressions import Scalar
from lab.measured.timing import Measurement, Verification
from lab.templates.launches import Launches


class Stage(StrEnum):
    """Where a job failed."""

    PREPARE = "prepare"  # the operator could not make inputs or a reference
    LAUNCH = "launch"  # CUDA, or a check before the launch, refused the kernel or its execution
    VERIFY = "verify"  # the outputs are wrong
    TIMEOUT = "timeout"  # the worker was killed because nothing happened for too long
    CRASH = "crash"  # the worker ended by itself, or could not start


class Flush(StrEnum):
    """Whether the L2 cache is flushed before each repetition."""

    AUTO = "auto"  # flushed, unless the launches are so short that they are timed in batches
    ON = "on"
    OFF = "off"

    @classmethod
    def of(cls, cache: str) -> Flush:
        """What leaves the cache in the state that a file asks for: `auto`, `cold` or `warm`."""
        return {"auto": cls.AUTO, "cold": cls.ON, "warm": cls.OFF}[cache]


@dataclass(frozen=True, slots=True)
class Job:
    """One variant to run.

    Attributes:
        variant: Id, as in the records.
        cubin: The image that was inspected; it is the one that runs.
        launches: What is launched, in order, on one stream; entries as the cubin spells them (mangled if need be).
        operator: As the experiment names it: ``gemm`` or ``path/to/file.py:Class``.
        problem: The operator's problem, complete.
        seed: Of the random inputs.
        base: Folder that a relative operator path starts from; the current one by default.
    """

    variant: str
    cubin: bytes
    launches: Launches
    operator: str
    problem: Mapping[str, Scalar]
    seed: int = 0
    base: Path | None = None

    @property
    def data_key(self) -> tuple[object, ...]:
        """Jobs with equal keys have the same inputs and the same reference."""
        return (self.operator, str(self.base), tuple(sorted(self.problem.items())), self.seed)


@dataclass(frozen=True, slots=True)
class Policy:
    """How variants are checked and timed.

    Attributes:
        check: Compare the outputs with the reference before timing.
        measure: Time the variant.
        launches: Without checking or timing, launch the variant's sequence so often, as a profiler watches it: from the
            state that `flush` asks for, on fresh data.
        baseline: Name of the baseline to interleave with it, or None.
        others: Names of further baselines, interleaved too.
        warmup_ms: Warm-up of the first timing in a worker, least wall-clock time.
        rewarm_ms: Warm-up of later timings, least, where the card has idled since the last one.
        warmup_limit_ms: Most that a warm-up may take while the SM clock is not steady.
        min_samples: Least number of samples, however slow the kernel.
        max_samples: Most samples, unless they scatter or the clock drops: then up to `plan.LONGER` times as many.
        first_samples: Samples after which a variant that has settled is done.
        settled: (p80 - p20) / median at or below which it has.
        budget_s: Time that the samples of one variant and its baseline may take together, beyond which
            no more than `min_samples` are taken.
        batch_below_us: Launches shorter than this are timed several at once.
        flush: Whether L2 is flushed before each repetition.
        timeout_s: Seconds without a sign of life, in a stage that waits for the GPU, after which the worker is
            killed. One launch may take this long.
        host_timeout_s: The same for stages that compute on the host (inputs, reference, comparison).
    """

    check: bool = True
    measure: bool = True
    launches: int = 0
    baseline: str | None = "cublas"
    others: tuple[str, ...] = ()
    warmup_ms: float = 300.0
    rewarm_ms: float = 60.0
    warmup_limit_ms: float = 2000.0
    min_samples: int = 5
    max_samples: int = 30
    first_samples: int = 10
    settled: float = 0.01
    budget_s: float = 1.0
    batch_below_us: float = 50.0
    flush: Flush = Flush.AUTO
    timeout_s: float = 30.0
    host_timeout_s: float = 900.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job has no measurement.

    Attributes:
        stage: Where it ended.
        reason: One line.
    """

    stage: Stage
    reason: str


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """What the baseline was.

    Attributes:
        name: ``cublas``.
        library: File and version: ``libcublas.so.13 13.1.0.3 (…/nvidia/cu13/lib)``; empty when it is missing.
        kernel: Names of the kernels that it launches for this problem; empty when they could not be read.
        verification: Its output against the same reference; None when unchecked or missing.
        note: Why it is missing or what must be known about it; may be empty.
        ptx: PTX of its kernel where it is known, else empty.
    """

    name: str
    library: str = ""
    kernel: str = ""
    verification: Verification | None = None
    note: str = ""
    ptx: str = ""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of a job.

    Attributes:
        variant: The job's.
        verification: Where the outputs were checked.
        measurement: Where the variant was timed.
        failure: Where anything went wrong, else None.
        baseline: Where the policy asked for one and the job came that far.
        others: The same for the policy's further baselines.
    """

    variant: str
    verification: Verification | None = None
    measurement: Measurement | None = None
    failure: Failure | None = None
    baseline: BaselineResult | None = None
    others: tuple[BaselineResult, ...] = ()
