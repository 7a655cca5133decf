"""Writes the report of a run: the page, the PNGs, and the tables as CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic_core import to_json as json_bytes

from lab.base.collecting import uncollected
from lab.base.errors import StoreError
from lab.base.files import write_atomically
from lab.report.analysis import Analysis, analyse, load
from lab.report.aside import HERE, Aside
from lab.report.charts import vega
from lab.report.charts.definition import Row
from lab.report.charts.painting import draw_picture
from lab.report.columns import Column
from lab.report.gallery import chart_list, pictures
from lab.report.page.page import page
from lab.report.variant.listings import BUDGET
from lab.store.codec import record_to_text, settled
from lab.store.database import Store
from lab.store.memo import remembering


def render(
    store: Store, *, listing_budget: int = BUDGET, folder: Path | None = None, aside: Aside = HERE
) -> tuple[Path, ...]:
    """Write the report of a run.

    Args:
        store: The run directory; `run`, `records` and the variants' files are read.
        listing_budget: Bytes of the page that embedded listings may take. The page links to the listings of all
            further variants, as far as their files are in `folder`.
        folder: Where the report goes; the run directory where None.
        aside: Where pictures are drawn and listings made ready; here, one after another, by default.

    Returns:
        The files written: `index.html` first, then PNGs, `records.csv` and `records.json`.

    Raises:
        StoreError: the directory cannot be read or written.
    """
    with store.unchanging(), remembering():
        with uncollected():
            analysis = analyse(store.run(), *load(store), store.repeat())
        with settled():
            return _render(analysis, store, listing_budget, folder or store.folder, aside)


def _render(analysis: Analysis, store: Store, listing_budget: int, folder: Path, aside: Aside) -> tuple[Path, ...]:
    charts = chart_list(analysis)
    try:
        shown = pictures(analysis, charts)
        drawn = aside.begin((draw_picture, picture, folder) for picture in shown)
        html = page(
            analysis,
            charts=[vega.draw(chart) for chart in charts],
            store=store,
            folder=folder,
            pngs=[picture.file for picture in shown],
            budget=listing_budget,
            aside=aside,
        )
        write_atomically(folder / "index.html", html)
        write_atomically(folder / "records.csv", to_csv(analysis.rows, analysis.columns))
        write_atomically(folder / "records.json", to_json(analysis, store.texts()))
        pngs = drawn()
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error}") from error
    return (folder / "index.html", *pngs, folder / "records.csv", folder / "records.json")


def to_csv(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """One line for each variant, in full precision, with empty cells where there is no value.

    Args:
        rows: Cells by column key.
        columns: The columns, in order; the header has their names.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    for cells in rows:
        values = (cells[column.key] for column in columns)
        writer.writerow([str(v).lower() if isinstance(v, bool) else "" if v is None else v for v in values])
    return stream.getvalue()


def to_json(analysis: Analysis, texts: Iterable[bytes]) -> Iterator[str | bytes]:
    """The run and its records as the store holds them, a record a line, each with its `derived` figures; in parts.

    Args:
        analysis: Everything derived from the records.
        texts: The records' own JSON texts, so that ten thousand of them need not be made from objects again.
    """
    derived = [column for column in analysis.columns if column.kind is not None]
    yield f'{{"run": {record_to_text(analysis.run)},\n"records": [\n'
    for place, (text, cells) in enumerate(zip(texts, analysis.rows, strict=True)):
        yield b",\n" if place else b""
        yield text[:-1]
        yield b', "derived": '
        figures = {column.name: cells[column.key] for column in derived}
        yield json_bytes(figures, inf_nan_mode="null")  # JSON has neither infinity nor NaN
        yield b"}"
    yield "\n]}\n"
