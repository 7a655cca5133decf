"""Definitions of a tuning run's charts, which `charts` draws on the page and `png` as pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lab.measured.timing import Kind
from lab.report.tuning.data import Map, Ratios, SizeWinner, TuningAnalysis, TypeReport

MOST_COLOURS: Final = 24
"""Most kernels with a colour of their own in a map, those that win most; the others share a grey."""

OTHERS: Final = "others"
OTHERS_COLOUR: Final = "#b8bcc2"

RATIOS_FILE: Final = "ratios.png"
"""The picture that holds all ratios."""


class MapSubject(StrEnum):
    """The quantity a map over M and N shows for each size's fastest kernel."""

    THROUGHPUT = "throughput"
    FASTEST = "fastest"


_LABELS: Final = {
    MapSubject.THROUGHPUT: "Throughput of the fastest kernel over M and N",
    MapSubject.FASTEST: "Which kernel is fastest over M and N",
}
_TITLES: Final = {
    MapSubject.THROUGHPUT: "TFLOP/s of the fastest kernel",
    MapSubject.FASTEST: "fastest kernel",
}


@dataclass(frozen=True, slots=True)
class MapCell:
    """One size of a map.

    Attributes:
        m: Rows of C.
        n: Columns of C.
        winner: The size's fastest kernel.
        group: The kernel's name, or `OTHERS` where it has no colour of its own.
        number: The kernel's place in `MapChart.kernels`.
    """

    m: int
    n: int
    winner: SizeWinner
    group: str
    number: int


@dataclass(frozen=True)
class MapChart:
    """Fastest kernels over M and N at one K, drawn once for each `MapSubject`.

    Attributes:
        type: The problem type's label.
        k: K.
        batch: GEMMs per size; None where each size is a single GEMM.
        ms: Values of M, ascending.
        ns: Values of N, ascending.
        cells: By M, then by N; a size without a time has none.
        kernels: Names of the kernels that win in the map, most wins of the problem type first.
        colours: Group to colour, in the order of wins, `OTHERS` last; groups that are not in the map included.
        over_single: Sizes may have a ratio over the single-tuned kernel.
        over_cublas: Some size has a ratio over cuBLAS.
    """

    type: str
    k: int
    ms: tuple[int, ...]
    ns: tuple[int, ...]
    cells: tuple[MapCell, ...]
    kernels: tuple[str, ...]
    colours: Mapping[str, str]
    over_single: bool
    over_cublas: bool
    batch: int | None = None

    def id(self, subject: MapSubject) -> str:
        """Return the chart's id on the page."""
        return f"{subject}-{self.type}-{self.k}{'' if self.batch is None else f'-{self.batch}'}"

    def file(self, subject: MapSubject) -> str:
        """Return the picture's file name."""
        return f"{subject}_{self.type}_{self.k}{'' if self.batch is None else f'_{self.batch}'}.png"

    def label(self, subject: MapSubject) -> str:
        """Return a description of the chart for screen readers."""
        return f"{_LABELS[subject]}, {self.type}, {self.rest}"

    def title(self, subject: MapSubject) -> str:
        """Return the picture's title."""
        return f"{_TITLES[subject]}, {self.type}, {self.rest}"

    @property
    def rest(self) -> str:
        """The dimensions all sizes of the map share."""
        return f"K = {self.k}{'' if self.batch is None else f', batch = {self.batch}'}"


@dataclass(frozen=True, slots=True)
class RatioPoint:
    """One size in a curve of sorted ratios.

    Attributes:
        place: From 1, in ascending order of the ratio.
        ratio: Throughput over the other kernel's.
        winner: The size's fastest kernel.
    """

    place: int
    ratio: float
    winner: SizeWinner


@dataclass(frozen=True)
class RatioChart:
    """Throughput of size-tuned kernels over something else, sizes sorted by the ratio.

    Attributes:
        against: `single-tuned` or `cuBLAS`.
        mean: Geometric mean of the ratios.
        faster: Share of the sizes at which the size-tuned kernel is faster, 0 to 1.
        points: One for each size that has both times.
    """

    against: str
    mean: float
    faster: float
    points: tuple[RatioPoint, ...]

    @property
    def id(self) -> str:
        """The chart's id on the page."""
        return f"sorted-{self.against}"

    @property
    def label(self) -> str:
        """Description of the chart for screen readers."""
        return f"Throughput of size-tuned kernels over {self.against}, sizes sorted"


@dataclass(frozen=True)
class TuningCharts:
    """All charts of a tuning run; those without data are left out.

    Attributes:
        tuning: The run's name.
        gpu: The GPU that measured, or that predictions are for.
        kind: Kind of the run's times.
        maps: Over all problem types.
        ratios: Over all problem types.
    """

    tuning: str
    gpu: str
    kind: Kind
    maps: tuple[MapChart, ...]
    ratios: tuple[RatioChart, ...]


def charts_of(analysis: TuningAnalysis) -> TuningCharts:
    """Define a run's charts."""
    return TuningCharts(
        tuning=analysis.facts.tuning,
        gpu=analysis.gpu,
        kind=analysis.kind,
        maps=tuple(_map(report, grid) for report in analysis.types for grid in report.maps),
        ratios=tuple(_ratios(ratios) for ratios in analysis.ratios),
    )


def colours(report: TypeReport) -> dict[str, str]:
    """Return colours of the kernels that win most: evenly spaced hues, alternately lighter and darker."""
    names = [champion.facts.name for champion in report.kernels[:MOST_COLOURS]]
    spread = {}
    for i, name in enumerate(names):
        # the golden angle keeps neighbours in the order of wins apart
        spread[name] = f"hsl({round(i * 137.508) % 360}, {(70, 55)[i % 2]}%, {(45, 65, 55)[i % 3]}%)"
    return spread


def _map(report: TypeReport, grid: Map) -> MapChart:
    palette, present = colours(report), {winner.kernel for winner in grid.cells.values()}
    kernels = tuple(champion.facts.name for champion in report.kernels if champion.facts.name in present)
    cells = tuple(
        MapCell(m, n, winner, winner.kernel if winner.kernel in palette else OTHERS, kernels.index(winner.kernel))
        for (m, n), winner in sorted(grid.cells.items())
    )
    return MapChart(
        type=report.label,
        k=grid.k,
        ms=grid.ms,
        ns=grid.ns,
        cells=cells,
        kernels=kernels,
        colours={**palette, OTHERS: OTHERS_COLOUR},
        over_single=bool(report.single),
        over_cublas=any(winner.over_cublas for winner in grid.cells.values()),
        batch=grid.batch,
    )


def _ratios(ratios: Ratios) -> RatioChart:
    points = tuple(RatioPoint(i + 1, ratio, winner) for i, (ratio, winner) in enumerate(ratios.values))
    return RatioChart(ratios.against, ratios.mean, ratios.faster, points)
