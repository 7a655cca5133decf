"""The tables of a tuning run as CSV: `winners.csv`, a row per size, and `kernels.csv`, a row per kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from lab.base.sizes import AXES, extents
from lab.measured.timing import Kind
from lab.report.tuning.data import SizeWinner, TuningAnalysis
from lab.store.record_files import csv_text
from lab.store.tuning_model import KernelFacts


@dataclass(frozen=True, slots=True)
class WinnerLine:
    """A row of `winners.csv`: the fastest kernel of one size. The fields are the columns.

    Attributes:
        type: The problem type's label.
        m: Rows of C.
        n: Columns of C.
        k: Inner dimension of the GEMM.
        batch: Number of GEMMs; empty where the size is a single GEMM.
        kernel: Name of the fastest kernel.
        kind: Kind of its time.
        ms: Its median time in ms.
        samples: Number of samples.
        spread: 80th less 20th percentile over the median.
        cache: State of the L2 cache; empty for a prediction.
        max_error: Largest error against the float64 reference, relative to its scale.
        tflops: Throughput.
        kernels_timed: Kernels that have a time at the size.
        single_tuned_ms: Median time of the single-tuned kernel in ms.
        cublas_ms: Median time of cuBLAS in ms.
    """

    type: str
    m: int
    n: int
    k: int
    batch: int | None
    kernel: str
    kind: Kind
    ms: float
    samples: int
    spread: float | None
    cache: str
    max_error: float | None
    tflops: float
    kernels_timed: int
    single_tuned_ms: float | None
    cublas_ms: float | None


@dataclass(frozen=True, slots=True)
class KernelLine:
    """A row of `kernels.csv`: a kernel, its main loop and its wins. The fields are the columns.

    Attributes:
        id: Short hash of everything that decides its machine code.
        name: Its abbreviation.
        group: Its group.
        type: Its problem type's label.
        template: Template path.
        parameters: Every parameter of the template, ``name=value`` with spaces between.
        arch: Architecture.
        registers: Registers per thread.
        spill_bytes: Spilled bytes per thread.
        shared_bytes: Shared memory per block.
        threads: Threads of a block.
        blocks_per_sm: Resident blocks per SM.
        cluster: Blocks of a cluster.
        failure: Why it could not be built; empty where it could.
        fma: Multiply-accumulates in the main loop's text; this and the next are empty without a main loop.
        vector: Other arithmetic of every thread.
        control: Branches and barriers.
        global_memory: Loads and stores of global memory.
        shared_memory: Loads and stores of shared memory.
        efficiency_all_hidden: Share of fma where memory and control instructions are hidden.
        efficiency_memory_hidden: The same where memory instructions alone are hidden.
        efficiency_none_hidden: The same where nothing is hidden.
        wins: Sizes at which it is the fastest.
        wins_by_times: Kind of the times that decide this.
    """

    id: str
    name: str
    group: str
    type: str
    template: str
    parameters: str
    arch: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    threads: int
    blocks_per_sm: int
    cluster: int
    failure: str
    fma: int | None
    vector: int | None
    control: int | None
    global_memory: int | None
    shared_memory: int | None
    efficiency_all_hidden: float | None
    efficiency_memory_hidden: float | None
    efficiency_none_hidden: float | None
    wins: int
    wins_by_times: Kind


def winner_lines(analysis: TuningAnalysis) -> tuple[WinnerLine, ...]:
    """Return the rows of `winners.csv`, in the order of the tuning file."""
    return tuple(_winner(report.label, winner) for report in analysis.types for winner in report.winners)


def _winner(label: str, winner: SizeWinner) -> WinnerLine:
    m, n, k, batch = extents(winner.size)
    timed = winner.timed
    return WinnerLine(
        type=label,
        m=m,
        n=n,
        k=k,
        batch=batch if len(winner.size) > len(AXES) else None,
        kernel=winner.kernel,
        kind=timed.kind,
        ms=winner.ms,
        samples=timed.samples.n if timed.samples else 0,
        spread=timed.samples.spread if timed.samples else None,
        cache=timed.cache,
        max_error=timed.error,
        tflops=winner.tflops,
        kernels_timed=winner.entrants,
        single_tuned_ms=winner.single_ms,
        cublas_ms=winner.cublas_ms,
    )


def kernel_lines(analysis: TuningAnalysis, kernels: Iterable[KernelFacts]) -> tuple[KernelLine, ...]:
    """Return the rows of `kernels.csv`.

    Args:
        analysis: Gives the number of sizes at which each kernel wins.
        kernels: Every kernel of the run.
    """
    won = {(report.label, champion.facts.id): champion.wins for report in analysis.types for champion in report.kernels}
    return tuple(_kernel(facts, won.get((facts.type, facts.id), 0), analysis.kind) for facts in kernels)


def _kernel(facts: KernelFacts, wins: int, kind: Kind) -> KernelLine:
    census = facts.census
    return KernelLine(
        id=facts.id,
        name=facts.name,
        group=facts.group,
        type=facts.type,
        template=facts.template,
        parameters=" ".join(f"{name}={value}" for name, value in facts.parameters.items()),
        arch=facts.arch,
        registers=facts.registers,
        spill_bytes=facts.spill_bytes,
        shared_bytes=facts.shared_bytes,
        threads=facts.threads,
        blocks_per_sm=facts.blocks_per_sm,
        cluster=facts.cluster,
        failure=facts.failure,
        fma=census.fma if census else None,
        vector=census.vector if census else None,
        control=census.control if census else None,
        global_memory=census.global_memory if census else None,
        shared_memory=census.shared_memory if census else None,
        efficiency_all_hidden=census.efficiency("all") if census else None,
        efficiency_memory_hidden=census.efficiency("memory") if census else None,
        efficiency_none_hidden=census.efficiency("none") if census else None,
        wins=wins,
        wins_by_times=kind,
    )


def to_csv(line: type[WinnerLine | KernelLine], lines: Iterable[WinnerLine | KernelLine]) -> str:
    """Return rows as CSV.

    Args:
        line: The rows' class, which names the columns.
        lines: The rows.
    """
    names = [field.name for field in fields(line)]
    return csv_text(names, ([getattr(line, name) for name in names] for line in lines))
