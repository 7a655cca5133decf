"""Requests to the worker and its results, as frozen values that are passed between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from lab.base.expressions import Scalar
from lab.gpu.timing.cache import SHORT_US, Flush
from lab.measured.baselines import CUBLAS
from lab.measured.timing import Measurement, Verification
from lab.templates.launches import Launches


class JobStage(StrEnum):
    """The stage in which a job failed."""

    PREPARE = "prepare"  # the operator could not make inputs or a reference
    LAUNCH = "launch"  # CUDA, or a check before the launch, refused the kernel or its execution
    VERIFY = "verify"  # the outputs are wrong
    VERIFY_AGAIN = "verify again"  # they are wrong when the variant is launched again
    TIMEOUT = "timeout"  # the worker was killed because it was silent for too long
    CRASH = "crash"  # the worker ended by itself, or could not start


@dataclass(frozen=True, slots=True)
class Job:
    """One variant to run.

    Attributes:
        variant: Its id, as in the records.
        cubin: The image that was inspected; the same image runs.
        launches: The launches, in order, on one stream. Entry points are spelled as in the cubin (mangled if need be).
        operator: Its name in the experiment: ``gemm`` or ``path/to/file.py:Class``.
        problem: The operator's problem, complete.
        seed: Seed of the random inputs.
        base: Folder that a relative operator path starts from; None means the current folder.
        reference: The job whose outputs stand in for a reference; None where the operator has one.
    """

    variant: str
    cubin: bytes
    launches: Launches
    operator: str
    problem: Mapping[str, Scalar]
    seed: int = 0
    base: Path | None = None
    reference: Job | None = None

    @property
    def data_key(self) -> tuple[object, ...]:
        """Identity of the inputs: jobs with equal keys share inputs and reference."""
        return (self.operator, str(self.base), tuple(sorted(self.problem.items())), self.seed)


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy for checking and timing variants.

    Attributes:
        check: Compare the outputs with the reference before timing.
        measure: Time the variant.
        launches: Number of launches of the variant's sequence on fresh data for a profiler, from the cache state that
            `flush` selects; 0 for none. Used without checking and timing.
        baseline: Name of the baseline to interleave with the variant, or None.
        others: Names of further baselines, interleaved too.
        warmup_ms: Minimum warm-up before the first timing in a worker, in milliseconds of wall-clock time.
        rewarm_ms: Minimum warm-up before later timings, if the card has idled since the last one.
        warmup_limit_ms: Longest warm-up while the SM clock is not steady.
        min_samples: Minimum number of samples, however slow the kernel is.
        max_samples: Maximum number of samples, unless they scatter or the clock drops: then up to
            `lab.gpu.timing.layout.LONGER` times as many.
        first_samples: Samples after which a variant that has settled is finished.
        settled: (p80 - p20) / median at or below which a variant has settled.
        budget_s: Time that the samples of a variant and its baselines may take together, in seconds. Beyond it no more
            than `min_samples` are taken.
        beaten_ms: Time of a launch, in milliseconds, beyond which a first sample ends the sampling: the variant cannot
            win any more. None samples every variant in full.
        batch_below_us: Launches shorter than this, in microseconds, are timed several at once.
        flush: Whether L2 is flushed before each repetition.
        timeout_s: Seconds without a heartbeat, in a stage that waits for the GPU, after which the worker is
            killed. One launch may take this long.
        host_timeout_s: The same for stages that compute on the host (inputs, reference, comparison).
    """

    check: bool = True
    measure: bool = True
    launches: int = 0
    baseline: str | None = CUBLAS
    others: tuple[str, ...] = ()
    warmup_ms: float = 300.0
    rewarm_ms: float = 60.0
    warmup_limit_ms: float = 2000.0
    min_samples: int = 5
    max_samples: int = 30
    first_samples: int = 10
    settled: float = 0.01
    budget_s: float = 1.0
    beaten_ms: float | None = None
    batch_below_us: float = SHORT_US
    flush: Flush = Flush.AUTO
    timeout_s: float = 30.0
    host_timeout_s: float = 900.0


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a job has no measurement.

    Attributes:
        stage: The stage in which it failed.
        reason: One line.
    """

    stage: JobStage
    reason: str


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """The result of a baseline that ran beside a variant.

    Attributes:
        name: ``cublas``.
        library: File and version: ``libcublas.so.13 13.1.0.3 (…/nvidia/cu13/lib)``; empty if the baseline is missing.
        kernel: Names of the kernels that it launches for this problem; empty if they could not be read.
        verification: Comparison of its output with the same reference; None if unchecked or missing.
        note: Why it is missing, or a remark for the reader; may be empty.
        ptx: PTX of its kernel if it is known, else empty.
    """

    name: str
    library: str = ""
    kernel: str = ""
    verification: Verification | None = None
    note: str = ""
    ptx: str = ""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job.

    Attributes:
        variant: The job's variant.
        verification: Comparison of the outputs with the reference, if they were checked.
        measurement: Times, if the variant was timed.
        failure: The failure, or None.
        baseline: The policy's baseline, if there is one and the job got that far.
        others: The policy's further baselines, likewise.
    """

    variant: str
    verification: Verification | None = None
    measurement: Measurement | None = None
    failure: Failure | None = None
    baseline: BaselineResult | None = None
    others: tuple[BaselineResult, ...] = ()

    def failed(self, stage: JobStage, reason: str) -> JobResult:
        """Return this result with a failure; the reason is put on one line."""
        return replace(self, failure=Failure(stage, " ".join(reason.split())))
