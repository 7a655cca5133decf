"""Columns that say how exact a variant and the baselines beside it are, each compared with the same reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lab.measured.timing import Kind
from lab.recorded.run_records import VariantRecord
from lab.report.columns import Column
from lab.report.registry.getters import timed

OWN: Final = "max_error"
"""Name of the column of the variant's own error."""

_APART: Final = 2.0
"""Errors that differ by a larger factor come from another arithmetic, and not from another order of the same one."""


def of_baselines(records: Sequence[VariantRecord]) -> tuple[Column, ...]:
    """A column for each baseline whose error is known, in the tables where errors differ."""
    names = dict.fromkeys(name for record in records if record.measurement for name in record.measurement.errors)
    shown = differ(records)
    return tuple(_column(name, shown=shown) for name in names)


def _column(name: str, *, shown: bool) -> Column:
    return Column(
        f"{name}_error",
        f"largest error of {name}",
        Kind.MEASURED,
        timed(lambda m: m.errors.get(name)),
        format=".3g",
        shown=shown,
        about=f"largest scaled difference of the output of {name} from the same float64 reference",
    )


def differ(records: Sequence[VariantRecord]) -> bool:
    """Whether a variant's error is not that of the arithmetic of a baseline beside it."""
    return any(
        max(own, other) > _APART * min(own, other)
        for record in records
        if record.measurement is not None and record.verification is not None and not record.status.failed
        for own in (record.verification.max_error,)
        for other in record.measurement.errors.values()
    )


def telling(records: Sequence[VariantRecord]) -> tuple[str, ...]:
    """Names of the columns of errors that a table of the winners has: all, where errors differ."""
    return (OWN, *(column.name for column in of_baselines(records))) if differ(records) else ()
