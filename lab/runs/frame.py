"""A run's records as a pandas DataFrame, and the result objects a run returns to Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from lab.base.errors import UserError, did_you_mean
from lab.base.expressions import Scalar
from lab.recorded.run_records import RepeatRecord, RunRecord, VariantRecord
from lab.report.columns import Column, Value, row
from lab.report.registry.run_columns import columns_for
from lab.runs.pipeline import RunOutcome
from lab.runs.shortlist import Shortlist, as_html, as_text, shortlist, variants_beginning
from lab.store.database import Store
from lab.store.figures import name_of, ranked, response_of
from lab.store.lean import lean_records
from lab.store.tuned import write_tuned

_MOST_LISTED = 50
"""Most ids an error lists."""


def frame(run: RunRecord, records: Sequence[VariantRecord], repeat: RepeatRecord | None = None) -> pd.DataFrame:
    """Return one row per variant with the columns of `records.csv`; a column's name holds its unit.

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
    return pd.DataFrame(
        {column.name: _series(column, [row_cells[column.name] for row_cells in cells]) for column in columns}
    )


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
        return frame(store.run(), lean_records(store), store.repeat())


@dataclass(frozen=True)
class VariantResult:
    """One variant of a finished run, with its texts.

    Attributes:
        record: Its complete record.
        folder: The run directory.
    """

    record: VariantRecord
    folder: Path

    @property
    def id(self) -> str:
        """Its id."""
        return self.record.variant

    @property
    def parameters(self) -> Mapping[str, Scalar]:
        """Its parameters."""
        return self.record.parameters

    @property
    def time_ms(self) -> float | None:
        """Median of its measured times, in milliseconds; None where nothing was measured."""
        return self.record.measurement.samples.median if self.record.measurement else None

    @property
    def source(self) -> str:
        """Its CUDA source."""
        return self._text("kernel.cu")

    @property
    def ptx(self) -> str:
        """Its PTX."""
        return self._text("kernel.ptx")

    @property
    def sass(self) -> str:
        """Its SASS."""
        return self._text("kernel.sass")

    @property
    def log(self) -> str:
        """The compiler's output."""
        return self._text("build.log")

    def _text(self, name: str) -> str:
        """Read one of its files.

        Raises:
            StoreError: The file is missing, as for a variant that did not compile.
        """
        with Store(self.folder) as store:
            return store.read_file(self.record.variant, name).decode("utf-8", errors="replace")

    def __repr__(self) -> str:
        return f"<variant {self.id}: {name_of(self.record)}, {self.record.status}>"


@dataclass(frozen=True, repr=False)
class ExperimentRun:
    """A finished run.

    Attributes:
        outcome: The run's facts and records.
    """

    outcome: RunOutcome

    @classmethod
    def of(cls, folder: Path) -> ExperimentRun:
        """Open the run in a directory.

        Raises:
            StoreError: The directory holds no run, or cannot be read.
        """
        with Store(folder) as store:
            pages = tuple(page for page in (folder / "index.html",) if page.is_file())
            records = store.records()
            return cls(RunOutcome(folder, store.run(), lambda: records, pages, interrupted=False))

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self.outcome.folder

    @property
    def page(self) -> Path:
        """The report, an HTML page."""
        return self.outcome.folder / "index.html"

    @property
    def records(self) -> tuple[VariantRecord, ...]:
        """The complete record of each variant, in the experiment's order."""
        return self.outcome.records

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per variant; see `lab.records`."""
        return read_frame(self.folder)

    @property
    def best(self) -> VariantRecord | None:
        """The best variant; None where every variant failed.

        Measurements decide where there are any, as `lab.measured.standing` says; else the estimated throughput, else
        the one predicted by the score, else the ceiling.
        """
        records = self.outcome.records
        return next(iter(ranked(records, response_of(records))), None)

    def variant(self, beginning: str) -> VariantResult:
        """Return one variant by its id or a prefix of it.

        Raises:
            UserError: No variant has this id, or several ids start with it.
        """
        matches = variants_beginning(self.outcome.records, beginning) if beginning else ()
        if len(matches) != 1:
            ids = [record.variant for record in self.outcome.records]
            raise UserError(
                "several variants begin with this id" if matches else "no variant has this id",
                code="unknown-name",
                key="variant",
                found=beginning,
                accepted=[record.variant for record in matches] or ids[:_MOST_LISTED],
                suggestion=did_you_mean(beginning, ids),
            )
        return VariantResult(matches[0], self.folder)

    @property
    def variants(self) -> tuple[VariantResult, ...]:
        """Every variant, in the experiment's order."""
        return tuple(VariantResult(record, self.folder) for record in self.outcome.records)

    def export(self, file: Path | str) -> None:
        """Write the times as a cache file of Kernel Tuner, or as T4 results where the name ends in ``.t4.json``.

        Raises:
            UserError: The run has several problems, kernels or compilers, or the file cannot be written.
        """
        write_tuned(Path(file), self.outcome.run, self.outcome.records)

    @cached_property
    def _shortlist(self) -> Shortlist:
        return shortlist(self.outcome.run, self.outcome.records)

    def __repr__(self) -> str:
        return as_text(self._shortlist, str(self.page))

    def _repr_html_(self) -> str:
        return as_html(self._shortlist, str(self.page))
