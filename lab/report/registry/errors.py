"""Columns of the errors of a variant and of its baselines, each against the same reference."""

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
"""Ratio of errors beyond which they come from another arithmetic, not from another order of the same one."""


def of_baselines(records: Sequence[VariantRecord]) -> tuple[Column, ...]:
    """Return a column per baseline whose error is known, shown in tables where errors differ."""
    names = dict.fromkeys(name for record in records if record.measurement for name in record.measurement.errors)
    visible = differ(records)
    return tuple(_column(name, visible=visible) for name in names)


def _column(name: str, *, visible: bool) -> Column:
    return Column(
        f"{name}_error",
        f"largest error of {name}",
        Kind.MEASURED,
        timed(lambda m: m.errors.get(name)),
        format=".3g",
        shown=visible,
        about=f"largest scaled difference of the output of {name} from the same float64 reference",
    )


def differ(records: Sequence[VariantRecord]) -> bool:
    """Return whether a variant's error is not that of the arithmetic of a baseline beside it."""
    return any(
        max(own, baseline_error) > _APART * min(own, baseline_error)
        for record in records
        if record.measurement is not None and record.verification is not None and not record.status.failed
        for own in (record.verification.max_error,)
        for baseline_error in record.measurement.errors.values()
    )


def telling(records: Sequence[VariantRecord]) -> tuple[str, ...]:
    """Return the names of the error columns of a table of winners: all where errors differ, else none."""
    return (OWN, *(column.name for column in of_baselines(records))) if differ(records) else ()
