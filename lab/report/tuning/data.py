"""The figures in the report of a tuning run, computed from its store alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.base.elements import operations
from lab.base.errors import StoreError
from lab.base.sizes import Size
from lab.measured.timing import Kind
from lab.store.tuning import TuningStore
from lab.store.tuning_model import (
    Cut,
    KernelFacts,
    LibraryFacts,
    ProtocolStep,
    Timed,
    TimingStage,
    TuningFacts,
    baseline_id,
)

LEAST_SIDE: Final = 3
"""Fewest values of M, and of N, that make a map."""


@dataclass(frozen=True, slots=True)
class SizeWinner:
    """The fastest kernel of one size.

    Attributes:
        size: The size.
        kernel: Its name.
        timed: Its time.
        entrants: Kernels that have a time at this size.
        tflops: Its throughput.
        single_ms: Time of the single-tuned kernel in ms, or None.
        cublas_ms: Time of cuBLAS in ms, or None.
    """

    size: Size
    kernel: str
    timed: Timed
    entrants: int
    tflops: float
    single_ms: float | None
    cublas_ms: float | None

    @property
    def ms(self) -> float:
        """Its median time in ms."""
        return self.timed.ms or math.nan

    @property
    def over_single(self) -> float | None:
        """Throughput over that of the single-tuned kernel; None where that has no time."""
        return self.single_ms / self.ms if self.single_ms else None

    @property
    def over_cublas(self) -> float | None:
        """Throughput over that of cuBLAS; None where that has no time."""
        return self.cublas_ms / self.ms if self.cublas_ms else None


@dataclass(frozen=True, slots=True)
class Ratios:
    """A comparison of size-tuned kernels with something else, over all sizes that have both times.

    Attributes:
        against: `single-tuned` or `cuBLAS`.
        values: Throughput ratios, ascending, each with its winner.
    """

    against: str
    values: tuple[tuple[float, SizeWinner], ...]

    @property
    def mean(self) -> float:
        """Geometric mean of the ratios."""
        return math.exp(sum(math.log(ratio) for ratio, _ in self.values) / len(self.values))

    @property
    def faster(self) -> float:
        """Share of the sizes at which the size-tuned kernel is faster, 0 to 1."""
        return sum(ratio > 1 for ratio, _ in self.values) / len(self.values)


@dataclass(frozen=True, slots=True)
class Map:
    """Sizes that form a grid over M and N at one K.

    Attributes:
        k: K.
        ms: Values of M, ascending.
        ns: Values of N.
        cells: Winners by (m, n).
        batch: GEMMs per size; None where each size is a single GEMM.
    """

    k: int
    ms: tuple[int, ...]
    ns: tuple[int, ...]
    cells: Mapping[tuple[int, int], SizeWinner]
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Champion:
    """A kernel that is the fastest at some size.

    Attributes:
        facts: The kernel.
        wins: Number of sizes at which it is the fastest.
        best_tflops: Its best throughput at one of them.
    """

    facts: KernelFacts
    wins: int
    best_tflops: float


@dataclass(frozen=True, slots=True)
class TypeReport:
    """The report on one problem type.

    Attributes:
        label: ``float32_nt``.
        winners: The fastest kernel of every size that has a time, in the file's order.
        maps: Grids among the sizes.
        steps: Records of the protocol's steps.
        cuts: Candidates that step 7 left out.
        kernels: Kernels that win somewhere, most wins first.
        library: The library; None where none was written.
        single: Name of the single-tuned kernel; empty where there is none.
        points: Pairs of kernel and size that have a time.
        peak_tflops: The GPU's peak for the multiply units of the winning kernels, the highest one; None where it is
            not known.
    """

    label: str
    winners: tuple[SizeWinner, ...]
    maps: tuple[Map, ...]
    steps: tuple[ProtocolStep, ...]
    cuts: tuple[Cut, ...]
    kernels: tuple[Champion, ...]
    library: LibraryFacts | None
    single: str
    points: int
    peak_tflops: float | None


@dataclass(frozen=True)
class TuningAnalysis:
    """The analysis of a tuning run.

    Attributes:
        facts: The run's own.
        types: Its problem types.
        ratios: Over all problem types.
    """

    facts: TuningFacts
    types: tuple[TypeReport, ...]
    ratios: tuple[Ratios, ...]

    @property
    def kind(self) -> Kind:
        """The kind of its times."""
        return self.facts.kind

    @property
    def gpu(self) -> str:
        """The GPU that measured, or that predictions are for."""
        return self.facts.gpu.name if self.facts.gpu else self.facts.predicted_for

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to read before the run's figures."""
        if not self.facts.interrupted:
            return self.facts.notes
        cut_short = "The run was interrupted; the report shows what was timed until then."
        without = (
            f"No size of {problem_type.label} was timed." for problem_type in self.types if not problem_type.winners
        )
        return (cut_short, *without, *self.facts.notes)

    def sentence(self) -> str:
        """Describe the figures of the run."""
        if self.kind is Kind.MEASURED:
            several = f"{len(self.facts.cards)} x {self.gpu}, each size on one of them"
            device = several if self.facts.cards else f"one {self.gpu}"
            return f"Times were measured on {device}: medians, with the number of samples beside them."
        return (
            f"Nothing here was measured. {self.facts.not_measured} All times are predicted for one {self.gpu} by a "
            "coarse model."
        )


def analyse(store: TuningStore) -> TuningAnalysis:
    """Compute the data that page, PNGs and tables share.

    Raises:
        StoreError: the store is empty or cannot be read.
    """
    facts = store.facts()
    kernels = {kernel.id: kernel for kernel in store.kernels()}
    _check(facts, kernels, store.path)
    times = store.times(TimingStage.FINAL)
    steps, cuts = store.steps()
    types = tuple(
        _type(label, facts, kernels, times, protocol=(steps.get(label, ()), cuts.get(label, ())))
        for label in facts.types
    )
    winners = [winner for problem_type in types for winner in problem_type.winners]
    ratios = [
        _ratios("single-tuned", ((winner.over_single, winner) for winner in winners)),
        _ratios("cuBLAS", ((winner.over_cublas, winner) for winner in winners)),
    ]
    return TuningAnalysis(facts, types, tuple(comparison for comparison in ratios if comparison.values))


def _check(facts: TuningFacts, kernels: Mapping[str, KernelFacts], file: Path) -> None:
    """Check that the facts refer to existing problem types and kernels.

    Raises:
        StoreError: They name a problem type without sizes, or a kernel that is not stored.
    """
    if missing := sorted(set(facts.types) - set(facts.final)):
        raise StoreError(f"{file}: the facts hold no final sizes of the problem type {missing[0][:100]!r}")
    singles = [name for label in facts.types for name in facts.singles.get(label, ())[:1]]
    if missing := [name for name in singles if name not in kernels]:
        raise StoreError(f"{file}: the facts name a kernel {missing[0][:100]!r} that is not among the kernels")


def _ratios(against: str, pairs: Iterable[tuple[float | None, SizeWinner]]) -> Ratios:
    complete = [(ratio, winner) for ratio, winner in pairs if ratio is not None]
    return Ratios(against, tuple(sorted(complete, key=lambda pair: pair[0])))


def _type(
    label: str,
    facts: TuningFacts,
    kernels: Mapping[str, KernelFacts],
    times: Mapping[str, Mapping[Size, Timed]],
    *,
    protocol: tuple[Sequence[ProtocolStep], Sequence[Cut]],
) -> TypeReport:
    sizes = (*facts.final[label].ranges, *facts.final[label].exact)
    own = {name: times[name] for name, kernel in kernels.items() if kernel.type == label and name in times}
    single = next(iter(facts.singles.get(label, ())), None)
    beside = times.get(baseline_id(label), {})
    winners = []
    for size in dict.fromkeys(sizes):
        entrants = {name: by_size[size] for name, by_size in own.items() if size in by_size and by_size[size].ms}
        if entrants:
            # of equal times the first name wins: kernels are stored in the order in which workers finished them
            best = min(entrants, key=lambda entrant: (entrants[entrant].ms or math.inf, kernels[entrant].name))
            ms = entrants[best].ms or math.nan
            winners.append(
                SizeWinner(
                    size=size,
                    kernel=kernels[best].name,
                    timed=entrants[best],
                    entrants=len(entrants),
                    tflops=operations(facts.types[label].dtype) * math.prod(size) / ms / 1e9,
                    single_ms=entrants[single].ms if single in entrants else None,
                    cublas_ms=beside[size].ms if size in beside else None,
                )
            )
    library = next((candidate for candidate in facts.libraries.values() if candidate.type == label), None)
    champions = _champions(winners, [kernel for kernel in kernels.values() if kernel.type == label])
    return TypeReport(
        label=label,
        winners=tuple(winners),
        maps=_maps(winners),
        steps=tuple(protocol[0]),
        cuts=tuple(protocol[1]),
        kernels=champions,
        library=library,
        single=kernels[single].name if single else "",
        points=sum(timed.ms is not None for by_size in own.values() for timed in by_size.values()),
        peak_tflops=_peak(champions, facts.peak(label)),
    )


def _peak(champions: Sequence[Champion], of_type: float) -> float | None:
    """Return the peak of the champions' multiply units; `of_type` is that of their type's pipes."""
    peaks = [champion.facts.peak_tflops for champion in champions if champion.facts.peak_tflops is not None]
    if peaks:
        return max(peaks)
    # a kernel above the peak of the pipes uses tensor cores, whose rate the run does not record
    return None if any(champion.best_tflops > of_type for champion in champions) else of_type


def _champions(winners: Sequence[SizeWinner], kernels: Sequence[KernelFacts]) -> tuple[Champion, ...]:
    by_name = {kernel.name: kernel for kernel in kernels}
    wins: dict[str, list[float]] = {}
    for winner in winners:
        wins.setdefault(winner.kernel, []).append(winner.tflops)
    order = sorted(wins, key=lambda name: -len(wins[name]))
    return tuple(Champion(by_name[name], len(wins[name]), max(wins[name])) for name in order)


def _maps(winners: Sequence[SizeWinner]) -> tuple[Map, ...]:
    maps = []
    for k_and_batch in dict.fromkeys(winner.size[2:] for winner in winners):
        cells = {(w.size[0], w.size[1]): w for w in winners if w.size[2:] == k_and_batch}
        ms, ns = (tuple(sorted({cell[i] for cell in cells})) for i in (0, 1))
        # an isolated exact size at the same k must not stretch the map
        ms = tuple(m for m in ms if sum((m, n) in cells for n in ns) >= len(ns) / 2)
        ns = tuple(n for n in ns if sum((m, n) in cells for m in ms) >= len(ms) / 2)
        if len(ms) >= LEAST_SIDE and len(ns) >= LEAST_SIDE:
            inside = {(m, n): w for (m, n), w in cells.items() if m in ms and n in ns}
            maps.append(Map(k_and_batch[0], ms, ns, inside, *k_and_batch[1:]))
    return tuple(maps)
