"""The report of a tuning run: a page, PNGs and tables, from its store alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from lab.base.errors import StoreError
from lab.base.files import write_atomically
from lab.report.charts import style
from lab.report.page.page import environment, own_code
from lab.report.tuning.data import SizeWinner, TuningAnalysis, TypeReport, analyse
from lab.report.tuning.gains import MOST_GAINS, gains
from lab.report.tuning.png import draw
from lab.report.tuning.tuning_charts import chart_list
from lab.report.tuning.tuning_rows import RATIOS_FILE, TuningCharts, charts_of, colours
from lab.report.tuning.tuning_tables import KernelLine, WinnerLine, kernel_lines, to_csv, winner_lines
from lab.report.variant.listings import highlight_yaml
from lab.store.tuning import TuningStore
from lab.store.tuning_model import Cut, CutKind, KernelFacts, ProtocolStep, StepRow

MOST_ROWS = 200
"""Most rows of a step's table on the page; the store has the rest."""


def render(store: TuningStore, folder: Path | None = None) -> tuple[Path, ...]:
    """Write `index.html`, PNGs, `winners.csv` and `kernels.csv`.

    Args:
        store: The folder of the tuning run.
        folder: Where the report goes; the folder of the run where None.

    Raises:
        StoreError: the folder cannot be read or written.
    """
    analysis, folder = analyse(store), folder or store.folder
    charts = charts_of(analysis)
    try:
        pngs = draw(charts, folder)
        write_atomically(folder / "index.html", page(analysis, charts, [path.name for path in pngs]))
        write_atomically(folder / "winners.csv", to_csv(WinnerLine, winner_lines(analysis)))
        write_atomically(folder / "kernels.csv", to_csv(KernelLine, kernel_lines(analysis, _by_name(store.kernels()))))
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error}") from error
    return (folder / "index.html", *pngs, folder / "winners.csv", folder / "kernels.csv")


def page(analysis: TuningAnalysis, charts: TuningCharts, pngs: Sequence[str]) -> str:
    """Return the page's HTML, one file that works offline.

    Args:
        analysis: The analysis it shows.
        charts: Its charts.
        pngs: Names of the pictures beside it.
    """
    drawn = chart_list(charts)
    return (
        environment()
        .get_template("tuning/tuning.html.j2")
        .render(
            a=analysis,
            facts=analysis.facts,
            kind=analysis.kind,
            meaning=style.KIND_MEANING[analysis.kind],
            labels={chart.id: chart.label for chart in drawn},
            data={
                "charts": {chart.id: chart.choices[0].spec for chart in drawn},
                "labels": {chart.id: chart.label for chart in drawn},
            },
            maps={
                report.label: [chart for chart in charts.maps if chart.type == report.label]
                for report in analysis.types
            },
            ratios=charts.ratios,
            ratios_file=RATIOS_FILE,
            cuts={report.label: [cut_sentence(cut) for cut in report.cuts] for report in analysis.types},
            colours={report.label: colours(report) for report in analysis.types},
            ends={report.label: ends(report) for report in analysis.types},
            tables={
                report.label: [(step, columns(step), shown(step)) for step in report.steps] for report in analysis.types
            },
            gains=gains(analysis),
            batches=any(kind.batched for kind in analysis.facts.types.values()),
            most_gains=MOST_GAINS,
            pngs=pngs,
            **own_code("tuning/tuning.js"),
            source=Markup(highlight_yaml(analysis.facts.source)),  # noqa: S704 - escaped by pygments
        )
    )


_SMALLEST_OF_PAPER = (16, 16, 3104)
"""Size of experiment 1 in D. E. Tanner, "Tensile: Auto-Tuning GEMM GPU Assembly for All Problem Sizes", 2018."""


def columns(step: ProtocolStep) -> list[str]:
    """Return the names of the values a step varies, in order."""
    return list(dict.fromkeys(name for row in step.rows for name in row.values))


def shown(step: ProtocolStep) -> list[StepRow]:
    """Return the rows of a step's table: competitors together, winners first; at most `MOST_ROWS`."""
    rows = sorted(step.rows, key=lambda row: (row.competes, not row.wins, row.ms is None, row.ms or 0.0))
    return rows[:MOST_ROWS]


def cut_sentence(cut: Cut) -> str:
    """Describe what a rule left out, and why."""
    if cut.kind is CutKind.PREDICTION:
        reason = f"were not run: the kernel's predicted time is more than {cut.limit:g} times the best prediction"
    elif cut.kind is CutKind.NEIGHBOURS:
        reason = (
            f"were not run: the kernel is more than {cut.limit:.0%} slower than the fastest at each of the "
            f"{cut.nearest} nearest of {cut.coarse} coarse sizes ({cut.sizes} sizes in all)"
        )
    else:
        reason = (
            "got no further samples: the kernel's first sample is more than "
            f"{cut.limit:.0%} slower than the fastest kernel's"
        )
    return f"{cut.points} pairs of kernel and size {reason}."


def ends(report: TypeReport) -> str:
    """Describe the smallest size and the best one, compared with the Tensile paper where the sizes are its own."""
    if not report.winners:
        return ""
    peak = report.peak_tflops
    small = min(report.winners, key=lambda winner: math.prod(winner.size))
    best = max(report.winners, key=lambda winner: winner.tflops)
    share, of_it = (
        (f", {small.tflops / peak:.2%} of the peak of {peak:.1f}", f", {best.tflops / peak:.0%} of it,")
        if peak
        else ("", "")
    )
    text = (
        f"The smallest size, {_size(small)}, reaches {small.tflops:.3f} TFLOP/s{share}; the best is "
        f"{best.tflops:.1f} TFLOP/s{of_it} at {_size(best)}."
    )
    if small.size == _SMALLEST_OF_PAPER:
        text += (
            f" The Tensile paper reports 0.029 TFLOP/s for {_size(small)}, 0.2 % of its card's 13.1, and 11.7, 90 % of "
            "them, for 3712 x 5632 x 3104."
        )
    return text


def _by_name(kernels: Sequence[KernelFacts]) -> list[KernelFacts]:
    """Sort kernels independently of which worker finished first."""
    return sorted(kernels, key=lambda kernel: (kernel.type, kernel.group, kernel.name))


def _size(winner: SizeWinner) -> str:
    return " x ".join(map(str, winner.size))
