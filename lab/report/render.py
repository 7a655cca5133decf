"""Write the report of a run: the page, the PNGs, and the tables as CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab.base.collecting import uncollected
from lab.base.errors import StoreError
from lab.base.files import write_atomically
from lab.report.analysis import Analysis, analyse, load
from lab.report.aside import HERE, Aside
from lab.report.charts import vega
from lab.report.charts.painting import draw_picture
from lab.report.gallery import chart_list, pictures
from lab.report.page.page import page
from lab.store.codec import settled
from lab.store.database import Store
from lab.store.memo import remembering
from lab.store.record_files import csv_text, records_json


def render(
    store: Store, *, listing_budget: int | None = None, folder: Path | None = None, aside: Aside = HERE
) -> tuple[Path, ...]:
    """Write the report of a run.

    Args:
        store: The run directory; `run`, `records` and the variants' files are read.
        listing_budget: Bytes of the page that embedded listings may take. The page links to the listings of all
            further variants, as far as their files are in `folder`.
        folder: Where the report goes; the run directory where None.
        aside: Where pictures are drawn and listings prepared; in this thread by default.

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


def _render(
    analysis: Analysis, store: Store, listing_budget: int | None, folder: Path, aside: Aside
) -> tuple[Path, ...]:
    charts = chart_list(analysis)
    try:
        images = pictures(analysis, charts)
        drawn = aside.begin((draw_picture, picture, folder) for picture in images)
        html = page(
            analysis,
            charts=[vega.draw(chart) for chart in charts],
            store=store,
            folder=folder,
            pngs=[picture.file for picture in images],
            budget=listing_budget,
            aside=aside,
        )
        write_atomically(folder / "index.html", html)
        write_atomically(folder / "records.csv", csv_of(analysis))
        write_atomically(folder / "records.json", _json_of(analysis, store))
        pngs = drawn()
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error}") from error
    return (folder / "index.html", *pngs, folder / "records.csv", folder / "records.json")


def csv_of(analysis: Analysis) -> str:
    """Return records.csv: a row for each variant."""
    names = [column.name for column in analysis.columns]
    return csv_text(names, ([cells[column.key] for column in analysis.columns] for cells in analysis.rows))


def _json_of(analysis: Analysis, store: Store) -> Iterator[str | bytes]:
    """Return records.json, in parts."""
    columns = [column for column in analysis.columns if column.kind is not None]
    derived = ({column.name: cells[column.key] for column in columns} for cells in analysis.rows)
    return records_json(analysis.run, store.texts(), derived)
