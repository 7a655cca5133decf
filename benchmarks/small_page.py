"""The small page of committed results: question, answer, tables and pictures, without a script.

The whole page embeds listings, charts and the program that draws them: some megabytes. This one names the command that
draws it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lab.measured.timing import Kind
from lab.report.analysis import Analysis
from lab.report.charts.style import KIND_MEANING
from lab.report.facts.screen import ScreenRow, screen_rows
from lab.report.facts.winners import telling_columns
from lab.report.page.csp import policy
from lab.report.tuning.data import TuningAnalysis
from lab.report.tuning.gains import Gain, gains
from lab.report.tuning.render import ends
from lab.store import figures, published

MOST_VARIANTS: Final = 12
"""Variants in the table of a run with one problem."""

MOST_PROBLEMS: Final = 40
"""Problems in the table of a run with several."""

_PICTURES: Final = {
    "curve": "Throughput along the problem axis",
    "ratio_vs_throughput": "Mix figure and throughput; lines join variants that differ in the asked parameter alone",
    "mix": "Instruction mix of the hot loop beside throughput, a row per variant",
    "bars": "Throughput of the variants",
    "model": "Predicted against measured throughput",
    "main_effects": "Main effects of the parameters",
    "ratios": "Size-tuned kernels against cuBLAS and against one kernel for all sizes",
    "throughput": "Throughput of the fastest kernel over M and N",
    "fastest": "Which kernel is fastest over M and N",
}
"""Beginning of a picture's name to its caption; the page shows them in this order."""


_FILES: Final = (
    "provenance.json", published.RECORDS, published.TUNING, published.TIMES, published.WINNERS,
    published.LISTINGS,
)  # fmt: skip
"""Files that the page links to, as far as they are there."""


@dataclass(frozen=True, slots=True)
class SmallTable:
    """A table of the small page.

    Attributes:
        heading: Above it.
        columns: Headers, each with its unit; the first column names the row.
        rows: Cells as text, as many in each row as there are columns.
        total: Rows that there are; more than are shown where the table is cut.
    """

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int


@dataclass(frozen=True, slots=True)
class SmallPage:
    """The contents of the small page.

    Attributes:
        name: Of the experiment or the tuning file.
        question: What was asked.
        headline: The answer's figure; may be empty.
        kind: What the figures of headline and tables are.
        answer: Paragraphs.
        notes: What a reader must know besides.
        tables: In order.
        facts: (name, text) of where and how the figures were made.
    """

    name: str
    question: str
    headline: str
    kind: Kind
    answer: tuple[str, ...]
    notes: tuple[str, ...]
    tables: tuple[SmallTable, ...]
    facts: tuple[tuple[str, str], ...]


def of_run(analysis: Analysis) -> SmallPage:
    """The small page of `lab run`."""
    run, gpu = analysis.run, analysis.run.gpu
    table = _problems(analysis) if analysis.winners else _variants(analysis)
    facts = (
        ("command", run.command),
        ("started", run.started),
        ("lab", f"{run.lab_version} {run.commit}".strip()),
        ("GPU", f"{gpu.name}, driver {gpu.driver}, CUDA {gpu.cuda}" if gpu else f"none: {run.not_measured}"),
        ("compilers", ", ".join(dict.fromkeys(record.compiler for record in analysis.records if record.compiler))),
    )
    return SmallPage(
        run.experiment,
        run.question,
        analysis.answer.headline,
        analysis.response.kind,
        (
            " ".join(analysis.answer.lead),
            analysis.answer.text,
            " ".join(analysis.answer.verdict),
            *(_screen_sentence(row) for row in screen_rows(run, analysis.records, analysis.response)),
            *(f"{agreement.sentence[0].upper()}{agreement.sentence[1:]}." for agreement in analysis.agreements),
        ),
        run.notes,
        (table,) if table.rows else (),
        tuple((name, text) for name, text in facts if text),
    )


def _screen_sentence(row: ScreenRow) -> str:
    name = f"{row.name}: " if row.name else ""
    return f"{row.label}: {name}{row.text} ({row.kind})."


def _variants(analysis: Analysis) -> SmallTable:
    """The best variants of a run with one problem, or with few."""
    best = figures.ranked(analysis.records, analysis.response)
    columns = telling_columns(analysis.columns, best, analysis.response)
    rows = tuple(
        (figures.name_of(record), *(column.text(column.get(record)) for column in columns))
        for record in best[:MOST_VARIANTS]
    )
    return SmallTable(
        f"The best variants{_by(analysis)}", ("variant", *(column.header for column in columns)), rows, len(best)
    )


def _problems(analysis: Analysis) -> SmallTable:
    """The best variant of each problem."""
    assert analysis.winners is not None  # noqa: S101 - the caller asked
    columns = analysis.winners.columns
    rows = tuple(
        (row.problem, row.name, *(column.text(value) for column, value in zip(columns, row.values, strict=True)))
        for row in analysis.winners.rows[:MOST_PROBLEMS]
    )
    headers = ("problem", "best variant", *(column.header for column in columns))
    return SmallTable(f"Problem by problem{_by(analysis)}", headers, rows, analysis.winners.problems)


def _by(analysis: Analysis) -> str:
    """By what they are the best, where the response alone does not say it."""
    name = analysis.response.in_turns
    return f", by their ratio to {name} in turns" if name else ""


def of_tuning(analysis: TuningAnalysis) -> SmallPage:
    """The small page of `lab tune`."""
    facts, gpu = analysis.facts, analysis.facts.gpu
    answer = [analysis.sentence()]
    types = [one for one in analysis.types if one.winners]
    for problem_type in types:
        counts = f"{len(problem_type.winners)} sizes, {problem_type.points} pairs of kernel and size with a time"
        answer.append(
            f"{problem_type.label}: {counts}, {len(problem_type.kernels)} winning kernels. {ends(problem_type)}".strip()
        )
    answer += [
        f"Over {ratio.against}: geometric mean {ratio.mean:.3f},"
        f" faster at {ratio.faster:.1%} of {len(ratio.values)} sizes."
        for ratio in analysis.ratios
    ]
    tables = [
        SmallTable(
            f"Kernels that win, {one.label}",
            ("kernel", "sizes that it wins", "best throughput (TFLOP/s)"),
            tuple(
                (champion.facts.name, str(champion.wins), f"{champion.best_tflops:.2f}")
                for champion in one.kernels[:MOST_VARIANTS]
            ),
            len(one.kernels),
        )
        for one in types
    ]
    if size_gains := gains(analysis):
        tables.append(_gains(size_gains))
    summary_rows = (
        ("command", facts.command),
        ("started", facts.started),
        ("lab", f"{facts.lab_version} {facts.commit}".strip()),
        ("GPU", f"{gpu.name}, driver {gpu.driver}" if gpu else f"none: {facts.not_measured}"),
    )
    notes = (*analysis.notes, *((facts.grown_again,) if facts.grown_again else ()))
    return SmallPage(facts.tuning, facts.question, "", analysis.kind, tuple(answer), notes, tuple(tables), summary_rows)


def _gains(size_gains: Sequence[Gain]) -> SmallTable:
    """The sizes that gain most over one kernel for all."""
    return SmallTable(
        "Sizes that gain most",
        ("type and size", "tile", "FLOP/byte", "TFLOP/s", "over single-tuned", "over cuBLAS", "fastest kernel"),
        tuple(
            (
                f"{one.type} {' x '.join(map(str, one.winner.size))}",
                "x".join(map(str, one.tile or ())),
                f"{one.flop_per_byte:.1f}" if one.flop_per_byte else "",
                f"{one.winner.tflops:.3f}",
                f"{one.over_single:.2f}",
                f"{one.winner.over_cublas:.2f}" if one.winner.over_cublas else "",
                one.winner.kernel,
            )
            for one in size_gains[:MOST_VARIANTS]
        ),
        len(size_gains),
    )


def html(page: SmallPage, folder: Path, left_out: Sequence[str], place: str) -> str:
    """The page's HTML; it links to nothing that is not in the folder.

    Args:
        page: What it shows.
        folder: Where the pictures and the other files are.
        left_out: Sentences on what the committed results lack.
        place: The folder as a reader of the repository names it, for the command that draws the whole page.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("small_page.html.j2").render(
        policy=policy,
        page=page,
        meaning=KIND_MEANING[page.kind],
        pictures=pictures(folder),
        files=[name for name in _FILES if (folder / name).is_file()],
        left_out=left_out,
        place=place,
        full=published.FULL,
    )


def pictures(folder: Path) -> list[tuple[str, str]]:
    """(file name, caption) of every PNG of a folder, in the page's order."""
    captions = list(_PICTURES.values())
    captioned = sorted(
        (caption_place(file.stem), file.name, file.stem.replace("_", " ")) for file in folder.glob("*.png")
    )
    return [(name, captions[place] if place < len(captions) else plain) for place, name, plain in captioned]


def caption_place(stem: str) -> int:
    """The place on the page of a picture of this name, less its ending; those without a caption come last."""
    names = list(_PICTURES)
    return next((place for place, name in enumerate(names) if stem.startswith(name)), len(names))
