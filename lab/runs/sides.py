"""What two sides of a comparison can be: a run directory, a committed folder, a records file, or one variant of these.

A variant is named behind the place of its run: `reports/gemm_unroll#1a2b3c`, by its id or the beginning of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.collecting import uncollected
from lab.base.errors import Location, StoreError, UserError, did_you_mean
from lab.base.files import read_regular
from lab.base.folder import Folder
from lab.predict.variant_scores import lean
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.store import published
from lab.store.codec import RUN, VARIANT
from lab.store.database import Store, variant_folder
from lab.store.decoding import plain
from lab.store.lean import lean_records

_SOURCE = "kernel.cu"
_SHOWN = 12
_MOST_BYTES = 1 << 29
_MOST_VALUES = 20_000_000
"""Of a `records.json`, which holds all of a run that may have ten thousand variants."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    Attributes:
        run: The run's facts.
        records: Its variants, or the chosen one alone.
        single: One variant was chosen.
        source: CUDA source of the chosen variant; None where none was chosen or the run's files lack it.
    """

    run: RunRecord
    records: tuple[VariantRecord, ...]
    single: bool = False
    source: str | None = None


def read_side(name: str) -> Side:
    """Read one side.

    Args:
        name: A run directory, a folder of committed results, a `records.json`, or one of these with `#` and an id.

    Raises:
        UserError: no variant, or several, begin with the id.
        StoreError: there is no run, or it cannot be read.
    """
    place, mark, wanted = name.rpartition("#")
    if not mark or Path(name).exists():
        run, records = _read(Path(name))
        return Side(run, records)
    run, records = _read(Path(place))
    chosen = _chosen(records, wanted, place)
    return Side(run, (chosen,), single=True, source=_source(Path(place), chosen.variant))


def _read(path: Path) -> tuple[RunRecord, tuple[VariantRecord, ...]]:
    """The run and its records, without what a comparison does not ask for, whatever they are read from."""
    if path.is_file():
        run, records = _read_file(path)
    elif Folder(path).check(published.RECORDS):
        made = published.read_records(path)
        run, records = made.run, made.records
    else:
        with Store(path) as store:
            return store.run(), lean_records(store)
    return run, tuple(map(lean, records))


def _read_file(path: Path) -> tuple[RunRecord, tuple[VariantRecord, ...]]:
    if path.name == published.RECORDS:
        made = published.read_records(path.parent)
        return made.run, made.records
    try:
        with uncollected():
            values = plain(read_regular(path, _MOST_BYTES, "the records"), str(path), _MOST_VALUES)
            records = [{key: value for key, value in one.items() if key != "derived"} for one in values["records"]]
            return RUN.validate_python(values["run"]), tuple(map(VARIANT.validate_python, records))
    except (OSError, StoreError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{path} is no records.json of this version of lab: {str(error).splitlines()[0]}; "
            "accepted: a run directory, a folder of committed results, or a records.json"
        ) from error


def _chosen(records: Sequence[VariantRecord], wanted: str, place: str) -> VariantRecord:
    found = [record for record in records if wanted and record.variant.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    known = [f"{record.variant} {record.kernel} {record.label}".strip() for record in records]
    rest = [f"… {len(known) - _SHOWN} more"] if len(known) > _SHOWN else []
    raise UserError(
        "several variants begin with this id" if found else "no variant of the run has this id",
        code="unknown-name",
        at=Location(place),
        found=wanted,
        accepted="\n    ".join(["", *known[:_SHOWN], *rest]),
        suggestion=did_you_mean(wanted, [record.variant for record in records]),
    )


def _source(path: Path, variant: str) -> str | None:
    folder = path.parent if path.is_file() else path
    if Folder(folder).check(published.RECORDS):
        return published.read_listings(folder).get(variant, {}).get(_SOURCE)
    return variant_folder(folder, variant).read_text(_SOURCE)
