"""The report of a tuning run: a page, PNGs and tables, from its store alone."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lab.base.errors import StoreError
from lab.base.files import write_atomically
from lab.report.charts import style
from lab.report.page.page import environment, vega
from lab.report.tuning.charts import chart_list, colours
from lab.report.tuning.data import SizeWinner, TuningAnalysis, TypeReport, analyse
from lab.report.tuning.png import draw
from lab.report.variant.listings import highlight_yaml
from lab.store.tuning import TuningStore
from lab.store.tuning_model import ProtocolStep, StepRow

MOST_ROWS = 200
"""Rows of a step's table on the page; the store has the rest."""


def render(store: TuningStore) -> tuple[Path, ...]:
    """Write `index.html`, PNGs, `winners.csv` and `kernels.csv`.

    Raises:
        StoreError: the folder cannot be read or written.
    """
    analysis, folder = analyse(store), store.folder
    try:
        pngs = draw(analysis, folder)
        write_atomically(folder / "index.html", page(analysis, [path.name for path in pngs]))
        write_atomically(folder / "winners.csv", to_csv(winner_rows(analysis)))
        write_atomically(folder / "kernels.csv", to_csv(kernel_rows(analysis, store)))
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error}") from error
    return (folder / "index.html", *pngs, folder / "winners.csv", folder / "kernels.csv")


def page(analysis: TuningAnalysis, pngs: Sequence[str]) -> str:
    """The page's HTML, one file that works offline."""
    charts = chart_list(analysis)
    shared, own = resources.files("lab.report.page"), resources.files("lab.report.tuning")
    return (
        environment()
        .get_template("tuning/tuning.html.j2")
        .render(
            a=analysis,
            facts=analysis.facts,
            kind=analysis.kind,
            meaning=style.KIND_MEANING[analysis.kind],
            charts=[chart.id for chart in charts],
            labels={chart.id: chart.label for chart in charts},
            data={
                "charts": {chart.id: chart.choices[0].spec for chart in charts},
                "labels": {c.id: c.label for c in charts},
            },
            colours={one.label: colours(one) for one in analysis.types},
            ends={one.label: ends(analysis, one) for one in analysis.types},
            tables={one.label: [(step, columns(step), shown(step)) for step in one.steps] for one in analysis.types},
            pngs=pngs,
            vega=vega(),
            css=Markup((shared / "page.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
            script=Markup((own / "tuning.js").read_text(encoding="utf-8")),  # noqa: S704 - our own file
            source=Markup(highlight_yaml(analysis.facts["source"])),  # noqa: S704 - escaped by pygments
        )
    )


_SMALLEST_OF_PAPER = (16, 16, 3104)
"""Of experiment 1 in D. E. Tanner, "Tensile: Auto-Tuning GEMM GPU Assembly for All Problem Sizes", 2018."""


def columns(step: ProtocolStep) -> list[str]:
    """What a step varies, in order."""
    return list(dict.fromkeys(name for row in step.rows for name in row.values))


def shown(step: ProtocolStep) -> list[StepRow]:
    """The rows of a step's table: those that compete together, winners first."""
    rows = sorted(step.rows, key=lambda row: (row.competes, not row.wins, row.ms is None, row.ms or 0.0))
    return rows[:MOST_ROWS]


def ends(analysis: TuningAnalysis, one: TypeReport) -> str:
    """The smallest size and the best of a type in words; of the Tensile paper's sizes beside what it reports."""
    if not one.winners:
        return ""
    peak = float(analysis.facts["peak_tflops"])
    small = min(one.winners, key=lambda winner: math.prod(winner.size))
    best = max(one.winners, key=lambda winner: winner.tflops)
    text = (
        f"The smallest size, {_size(small)}, reaches {small.tflops:.3f} TFLOP/s, {small.tflops / peak:.2%} of the peak "
        f"of {peak:.1f}; the best is {best.tflops:.1f} TFLOP/s, {best.tflops / peak:.0%} of it, at {_size(best)}."
    )
    if small.size == _SMALLEST_OF_PAPER:
        text += (
            f" The Tensile paper reports 0.029 TFLOP/s for {_size(small)}, 0.2 % of its card's 13.1, and 11.7, 90 % of "
            "them, for 3712 x 5632 x 3104."
        )
    return text


def _size(winner: SizeWinner) -> str:
    return " x ".join(map(str, winner.size))


def winner_rows(analysis: TuningAnalysis) -> list[dict[str, Any]]:
    """A row a size."""
    return [
        {
            "type": one.label,
            **dict(zip("mnk", winner.size, strict=True)),
            "kernel": winner.kernel,
            "kind": str(winner.timed.kind),
            "ms": winner.ms,
            "samples": winner.timed.samples.n if winner.timed.samples else 0,
            "spread": winner.timed.samples.spread if winner.timed.samples else None,
            "cache": winner.timed.cache,
            "max_error": winner.timed.error,
            "tflops": winner.tflops,
            "kernels_timed": winner.entrants,
            "single_tuned_ms": winner.single_ms,
            "cublas_ms": winner.cublas_ms,
        }
        for one in analysis.types
        for winner in one.winners
    ]


def kernel_rows(analysis: TuningAnalysis, store: TuningStore) -> list[dict[str, Any]]:
    """A row a kernel: what it is, its main loop, at how many sizes it wins."""
    won = {(one.label, facts.id): count for one in analysis.types for facts, count, _ in one.kernels}
    rows = []
    for facts in store.kernels():
        row = asdict(facts)
        census = row.pop("census") or {}
        row |= {"parameters": " ".join(f"{name}={value}" for name, value in facts.parameters.items())}
        row |= {name: value for name, value in census.items() if name != "entry"}
        if facts.census:
            hidden = {f"efficiency_{what}_hidden": facts.census.efficiency(what) for what in ("all", "memory", "none")}
            row |= hidden
        rows.append({**row, "wins": won.get((facts.type, facts.id), 0), "wins_by_times": str(analysis.kind)})
    return rows


def to_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Full precision, empty where there is no value."""
    table = list(rows)
    names = list(dict.fromkeys(name for row in table for name in row))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if row.get(name) is None else row[name] for name in names] for row in table])
    return stream.getvalue()
