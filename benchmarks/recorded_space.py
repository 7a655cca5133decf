"""A measured space in a small file: what every variant of an experiment took, and what was known of it before.

Spaces that others measured, as Kernel Tuner's cache files or T4 results, are read as well.

The file is compressed JSON, a column a figure, so that a thousand variants take some tens of kilobytes. Variants stand
in the experiment's order.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from lab.base.expressions import Scalar
from lab.store.tuned import TunedSpace, read_tuned

FOLDER: Final = Path(__file__).parent / "spaces"

_DIGITS: Final = 6
"""Significant digits that are kept: times scatter in the fourth."""


@dataclass(frozen=True, slots=True)
class RecordedVariant:
    """One variant.

    Attributes:
        parameters: The swept parameters.
        ms: Median time of a launch in ms; None where it failed.
        spread: (p80 - p20) / median of its samples; None where it failed.
        n: Samples.
        failure: Its status where it failed: `compile failed`; else empty.
        facts: What is known without measuring it: registers, occupancy, counts of instructions. Figures of one kind
            have the same name in every space.
        estimates: Predicted times in ms, by what predicts them: `estimate`, `score`, `ceiling`. Others are absent.
    """

    parameters: Mapping[str, Scalar]
    ms: float | None
    spread: float | None
    n: int
    failure: str
    facts: Mapping[str, float]
    estimates: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RecordedSpace:
    """Every variant of an experiment, measured.

    Attributes:
        name: The experiment's name.
        experiment: Its text.
        machine: Where it was measured, and what with: `gpu`, `driver`, `compiler`, `recorded`.
        values: The values of each swept parameter, in the experiment's order.
        variants: The variants, in the experiment's order.
    """

    name: str
    experiment: str
    machine: Mapping[str, str]
    values: Mapping[str, tuple[Scalar, ...]]
    variants: tuple[RecordedVariant, ...]

    @property
    def best_ms(self) -> float:
        """The shortest median."""
        return min(variant.ms for variant in self.variants if variant.ms is not None)


def write(space: RecordedSpace, file: Path) -> None:
    """Write a space; equal spaces make equal files."""
    columns = {
        "parameters": _table([variant.parameters for variant in space.variants]),
        "facts": _table([variant.facts for variant in space.variants]),
        "estimates": _table([variant.estimates for variant in space.variants]),
        **{
            name: [_short(getattr(variant, name)) for variant in space.variants]
            for name in ("ms", "spread", "n", "failure")
        },
    }
    head = {field.name: getattr(space, field.name) for field in fields(space) if field.name != "variants"}
    text = json.dumps({**head, "columns": columns}, separators=(",", ":"))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def read(file: Path) -> RecordedSpace:
    """Read a space: one that `write` wrote (.json.gz), or a cache file of Kernel Tuner or T4 results, as they are.

    Raises:
        UserError: The file is none of them.
    """
    if file.suffix != ".gz":
        return _of_others(read_tuned(file), file)
    contents: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    columns = contents.pop("columns")
    tables = {name: _rows(columns.pop(name), len(columns["ms"])) for name in ("parameters", "facts", "estimates")}
    variants = [
        RecordedVariant(**{name: rows[i] for name, rows in {**tables, **columns}.items()})
        for i in range(len(columns["ms"]))
    ]
    values = {name: tuple(listed) for name, listed in contents.pop("values").items()}
    return RecordedSpace(**contents, values=values, variants=tuple(variants))


def _of_others(tuned: TunedSpace, file: Path) -> RecordedSpace:
    """Return a space measured by others: times alone, without facts and estimates."""
    variants = [
        RecordedVariant(setting.setting, setting.ms, None, len(setting.times), setting.failure, {}, {})
        for setting in tuned.settings
    ]
    return RecordedSpace(file.stem, "", {"gpu": tuned.device}, dict(tuned.values), tuple(variants))


def _table(rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [_short(row.get(name)) for row in rows] for name in names}


def _rows(table: Mapping[str, Sequence[Any]], count: int) -> list[dict[str, Any]]:
    return [{name: column[i] for name, column in table.items() if column[i] is not None} for i in range(count)]


def _short(value: object) -> object:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
