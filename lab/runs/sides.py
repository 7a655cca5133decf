"""The sides of a comparison: a run directory, a committed folder, a records file, or one variant of these.

A variant is named after the path of its run: `reports/gemm_unroll#1a2b3c`, by its id or the beginning of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.advice.evidence import Evidence
from lab.base.collecting import uncollected
from lab.base.errors import Location, StoreError, UserError, did_you_mean
from lab.base.files import read_regular
from lab.base.folder import Folder
from lab.predict.variant_scores import lean
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.store import published
from lab.store.advice import evidence_of, evidence_of_listings
from lab.store.codec import RUN, VARIANT
from lab.store.database import Store, variant_folder
from lab.store.decoding import plain
from lab.store.lean import lean_records

_SOURCE = "kernel.cu"
_SHOWN = 12
_MOST_BYTES = 1 << 29
_MOST_VALUES = 20_000_000
"""Most values in a `records.json`, which may hold a run of ten thousand variants."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    Attributes:
        run: The run's facts.
        records: Its variants, or the chosen one alone.
        single: One variant was chosen.
        source: CUDA source of the chosen variant; None where none was chosen or the run's files lack it.
        peers: All variants of the run, from which a predicted time follows.
        place: Location of the run.
    """

    run: RunRecord
    records: tuple[VariantRecord, ...]
    single: bool = False
    source: str | None = None
    peers: tuple[VariantRecord, ...] = ()
    place: Path = Path()


@dataclass(frozen=True, slots=True)
class VariantDetail:
    """Everything that is stored of one variant.

    Attributes:
        record: Its complete record.
        evidence: The evidence for performance findings.
        source: Its CUDA source; empty where the run's files lack it.
    """

    record: VariantRecord
    evidence: Evidence
    source: str


def read_side(name: str) -> Side:
    """Read one side.

    Args:
        name: A run directory, a folder of committed results, a `records.json`, or one of these with `#` and an id.

    Raises:
        UserError: no variant, or several, begin with the id.
        StoreError: there is no run, or it cannot be read.
    """
    place, mark, beginning = name.rpartition("#")
    if not mark or Path(name).exists():
        run, records = _read(Path(name))
        return Side(run, records, peers=records, place=Path(name))
    run, records = _read(Path(place))
    chosen = _chosen(records, beginning, place)
    source = _source(Path(place), chosen.variant)
    return Side(run, (chosen,), single=True, source=source, peers=records, place=Path(place))


def read_detail(side: Side, variant: str) -> VariantDetail:
    """Read everything that is stored of a variant.

    Raises:
        StoreError: The run has no such variant, or it cannot be read.
    """
    place = side.place
    folder = place.parent if place.is_file() else place
    if place.is_file() or Folder(folder).check(published.RECORDS):
        complete = next((record for record in _complete(place)[1] if record.variant == variant), None)
        if complete is None:
            raise StoreError(f"{place} holds no variant {variant}")
    else:
        with Store(place) as store:
            complete = store.record(variant)
    source = _source(place, variant) or ""
    if Folder(folder).check(published.RECORDS):
        listings = published.read_listings(folder).get(variant, {})
        return VariantDetail(complete, evidence_of_listings(listings, complete), source)
    return VariantDetail(complete, evidence_of(variant_folder(folder, variant), complete), source)


def _read(path: Path) -> tuple[RunRecord, tuple[VariantRecord, ...]]:
    """Read a run and its records, without what a comparison does not need."""
    if not path.is_file() and not Folder(path).check(published.RECORDS):
        with Store(path) as store:
            return store.run(), lean_records(store)
    run, records = _complete(path)
    return run, tuple(map(lean, records))


def _complete(path: Path) -> tuple[RunRecord, tuple[VariantRecord, ...]]:
    """Read a run and its complete records from a file or a folder of committed results."""
    if path.suffix in (".yaml", ".yml") and path.is_file():
        raise UserError(
            "an experiment has no results of its own",
            code="wrong-value",
            at=Location(path),
            accepted=f"its run directory, as of: lab run {shlex.quote(str(path))} -o {shlex.quote(path.stem)}",
        )
    if path.is_file():
        return _read_file(path)
    committed = published.read_records(path)
    return committed.run, committed.records


def _read_file(path: Path) -> tuple[RunRecord, tuple[VariantRecord, ...]]:
    if path.name == published.RECORDS:
        committed = published.read_records(path.parent)
        return committed.run, committed.records
    try:
        with uncollected():
            values = plain(read_regular(path, _MOST_BYTES, "the records"), str(path), _MOST_VALUES)
            records = [
                {key: value for key, value in record.items() if key != "derived"} for record in values["records"]
            ]
            return RUN.validate_python(values["run"]), tuple(map(VARIANT.validate_python, records))
    except (OSError, StoreError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{path} is not a records.json of this version of lab: {str(error).splitlines()[0]}; "
            "accepted: a run directory, a folder of committed results, or a records.json"
        ) from error


def _chosen(records: Sequence[VariantRecord], beginning: str, place: str) -> VariantRecord:
    matches = [record for record in records if beginning and record.variant.startswith(beginning)]
    if len(matches) == 1:
        return matches[0]
    titles = [f"{record.variant} {record.kernel} {record.label}".strip() for record in records]
    omitted = [f"… {len(titles) - _SHOWN} more"] if len(titles) > _SHOWN else []
    raise UserError(
        "several variants begin with this id" if matches else "no variant of the run has this id",
        code="unknown-name",
        at=Location(place),
        found=beginning,
        accepted="\n    ".join(["", *titles[:_SHOWN], *omitted]),
        suggestion=did_you_mean(beginning, [record.variant for record in records]),
    )


def _source(path: Path, variant: str) -> str | None:
    folder = path.parent if path.is_file() else path
    if Folder(folder).check(published.RECORDS):
        return published.read_listings(folder).get(variant, {}).get(_SOURCE)
    return variant_folder(folder, variant).read_text(_SOURCE)
