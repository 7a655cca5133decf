"""The files beside a run's database that other programs read: records.csv, records.json and a tuning run's tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic_core import to_json

from lab.recorded.run_records import RunRecord
from lab.store.codec import record_to_text


def csv_text(names: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV, in full precision, with empty cells where there is no value.

    Args:
        names: The header.
        rows: Cells of each row, in the header's order.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for cells in rows:
        writer.writerow([str(v).lower() if isinstance(v, bool) else "" if v is None else v for v in cells])
    return stream.getvalue()


def records_json(
    run: RunRecord, texts: Iterable[bytes], derived: Iterable[Mapping[str, object]]
) -> Iterator[str | bytes]:
    """Return the run and its records as JSON, a record a line, each with its `derived` figures; in parts.

    Args:
        run: The run's facts.
        texts: The records' own JSON texts, so that ten thousand of them need not be made from objects again.
        derived: Further figures of each record by name.
    """
    yield f'{{"run": {record_to_text(run)},\n"records": [\n'
    for place, (text, figures) in enumerate(zip(texts, derived, strict=True)):
        yield b",\n" if place else b""
        yield text[:-1]
        yield b', "derived": '
        yield to_json(figures, inf_nan_mode="null")  # JSON has neither infinity nor NaN
        yield b"}"
    yield "\n]}\n"
