"""The records of a run as a pandas DataFrame, and what a run returns to Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from lab.report.columns import Column, Value, row
from lab.report.registry.registry import columns_for
from lab.runs.pipeline import RunOutcome
from lab.store.database import Store
from lab.store.figures import ranked, response_of
from lab.store.model import RepeatRecord, RunRecord, VariantRecord


def frame(run: RunRecord, records: Sequence[VariantRecord], repeat: RepeatRecord | None = None) -> pd.DataFrame:
    """One row for each variant, with the columns of `records.csv`; a column's name holds its unit.

    Args:
        run: The run's facts.
        records: Its records.
        repeat: The comparison with its repetition; None where it was not repeated.

    Returns:
        Columns of dtype `Int64`, `boolean`, `float64` or `string`; parameters that mix types have dtype `object`. An
        empty cell is `<NA>`, or NaN in a `float64` column.
    """
    columns = columns_for(run, records, repeat)
    cells = [row(record, columns) for record in records]
    return pd.DataFrame({column.name: _series(column, [one[column.name] for one in cells]) for column in columns})


def _series(column: Column, values: Sequence[Value]) -> pd.Series:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pd.Series(values, dtype="boolean")
    if kinds == {int}:
        return pd.Series(values, dtype="Int64")
    if kinds <= {int, float} and (kinds or column.kind is not None):
        return pd.Series([None if value is None else float(value) for value in values], dtype="float64")
    if kinds <= {str}:
        return pd.Series(values, dtype="string")
    return pd.Series(list(values), dtype="object")


def read_frame(folder: Path) -> pd.DataFrame:
    """Read the records of a run directory; see `frame`.

    Raises:
        StoreError: the directory holds no run, or cannot be read.
    """
    with Store(folder) as store:
        return frame(store.run(), store.records(), store.repeat())


@dataclass(frozen=True)
class ExperimentRun:
    """A finished run.

    Attributes:
        outcome: The run's facts and records.
    """

    outcome: RunOutcome

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self.outcome.folder

    @property
    def page(self) -> Path:
        """The report, an HTML page."""
        return self.outcome.folder / "index.html"

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row for each variant; see `lab.records`."""
        return read_frame(self.folder)

    @property
    def best(self) -> VariantRecord | None:
        """The variant with the highest throughput; None where every variant failed.

        Throughput is measured where anything was measured, else estimated, else the predicted ceiling.
        """
        records = self.outcome.records
        return next(iter(ranked(records, response_of(records))), None)
