"""Columns of the tables: the CSV, the JSON, the page's table and the charts read records through them.

`registry` defines the columns of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.measured.timing import Kind
from lab.recorded.run_records import VariantRecord

Value = bool | int | float | str | None
Getter = Callable[[VariantRecord], Value]


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: CSV header.
        title: Header on the page, without the unit.
        kind: Kind of the figures; None for what identifies a variant rather than describes its code.
        get: Value of a record, None for an empty cell.
        unit: Unit of the figures; empty for counts, shares and text.
        format: Format specification, empty for text.
        shown: Shown in the page's table by default.
        field: Name that charts use; free of characters that a chart language would interpret.
        about: One-line definition of the figure.
    """

    name: str
    title: str
    kind: Kind | None
    get: Getter
    unit: str = ""
    format: str = ""
    shown: bool = False
    field: str = ""
    about: str = ""

    @property
    def key(self) -> str:
        """Field name in chart data."""
        return self.field or self.name

    @property
    def header(self) -> str:
        """Title with its unit in parentheses."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def is_share(self) -> bool:
        """True if its figures are shares, shown in per cent."""
        return self.format.endswith("%")

    def text(self, value: Value) -> str:
        """Return a value of this column as the page shows it; empty for None."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        return format(value, self.format) if self.format and not isinstance(value, str) else str(value)


def row(record: VariantRecord, columns: Iterable[Column]) -> dict[str, Value]:
    """Return a record's cells by column name; None is an empty cell."""
    return {column.name: column.get(record) for column in columns}


class RowCells(Mapping[str, Value]):
    """A record's cells by column key; None is an empty cell.

    Ten thousand rows share their keys: a row takes a quarter of what a dictionary does.
    """

    __slots__ = ("_places", "_values")

    def __init__(self, places: Mapping[str, int], values: tuple[Value, ...]) -> None:
        """Store the values, and the position of each key among them."""
        self._places, self._values = places, values

    def __getitem__(self, key: str) -> Value:
        return self._values[self._places[key]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def table(records: Iterable[VariantRecord], columns: Sequence[Column]) -> tuple[RowCells, ...]:
    """Return the cells of each record."""
    getters = {column.key: column.get for column in columns}
    places = {key: place for place, key in enumerate(getters)}
    return tuple(RowCells(places, tuple([get(record) for get in getters.values()])) for record in records)
