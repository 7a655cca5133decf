"""The folder of a tuning run: every time as soon as it is known, so that whatever ends the run costs one size at most.

::

    reports/<tuning>/
        tuning.sqlite      kernels, times, steps and the run's facts; the only source of the report
        <library>/         a library a problem type
        run.lock           who writes here

A time belongs to a kernel, known by a hash of what decides its machine code, and a size: steps that ask for it again,
and a run that goes on, find it here.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from lab.base.errors import StoreError
from lab.base.lock import Lock
from lab.base.sizes import Size
from lab.store.tuning_model import Cut, KernelFacts, Step, Timed

SCHEMA = 1
"""Raised when what is stored changes its shape; an older store is refused, never misread."""

FILE = "tuning.sqlite"
_TIMED, _KERNEL = TypeAdapter(Timed), TypeAdapter(KernelFacts)
_STEPS, _CUTS = TypeAdapter(dict[str, list[Step]]), TypeAdapter(dict[str, list[Cut]])
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, json TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS kernels (id TEXT PRIMARY KEY, json TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS times (stage TEXT NOT NULL, kernel TEXT NOT NULL, m INTEGER NOT NULL, n INTEGER NOT NULL,
    k INTEGER NOT NULL, json TEXT NOT NULL, PRIMARY KEY (stage, kernel, m, n, k)) WITHOUT ROWID;
"""


class Stage(StrEnum):
    """What a time was taken for; kernels are compared by times of one stage."""

    STEPS = "steps"  # steps 2 to 6
    FINAL = "final"  # step 7
    REFINED = "refined"  # sizes between those of step 7, for the library's thresholds
    HELD_OUT = "held out"  # sizes between those of step 7


class TuningStore:
    """A folder, opened to write by one process or to read. Use as a context manager."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open it.

        Raises:
            StoreError: it is missing, of another schema, damaged, or in use.
        """
        self.folder = folder
        path = folder / FILE
        if not create and not path.is_file():
            raise StoreError(f"{folder} holds no tuning run: there is no {FILE}; `lab tune` makes one")
        self._lock = Lock(folder) if create else None
        try:
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(_TABLES)
            found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
            if found == 0:
                self._db.execute(f"PRAGMA user_version={SCHEMA}")
        except sqlite3.Error as error:
            self._release()
            raise StoreError(f"{path} cannot be opened: {error}; remove it and run again") from error
        if found not in (0, SCHEMA):
            self.close()
            raise StoreError(f"{path} has schema {found}, this program writes {SCHEMA}; remove {folder} and run again")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database, and let others write."""
        self._db.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def clear(self) -> None:
        """Forget everything: a new run begins."""
        for table in ("facts", "kernels", "times"):
            self._write(f"DELETE FROM {table}", [()])  # noqa: S608 - our own names

    def note(self, key: str, value: object) -> None:
        """Remember a fact as JSON."""
        self._write("INSERT OR REPLACE INTO facts VALUES (?, ?)", [(key, json.dumps(value))])

    def noted(self, key: str) -> Any:  # noqa: ANN401 - JSON
        """What `note` remembered; None where there is nothing."""
        rows = self._read("SELECT json FROM facts WHERE key=?", key)
        return json.loads(rows[0][0]) if rows else None

    def write_kernels(self, kernels: Iterable[KernelFacts]) -> None:
        """Remember kernels, replacing what is known of them."""
        rows = [(one.id, _KERNEL.dump_json(one).decode()) for one in kernels]
        self._write("INSERT OR REPLACE INTO kernels VALUES (?, ?)", rows)

    def write_times(self, stage: Stage, size: Size, times: Mapping[str, Timed]) -> None:
        """Remember times of kernels, by their ids, at one size; all of them or none."""
        rows = [(stage, kernel, *size, _TIMED.dump_json(timed).decode()) for kernel, timed in times.items()]
        self._write("INSERT OR REPLACE INTO times VALUES (?, ?, ?, ?, ?, ?)", rows)

    def write_steps(self, steps: Mapping[str, list[Step]], cuts: Mapping[str, list[Cut]]) -> None:
        """Remember what the steps did, by problem type, and what step 7 left out."""
        self._write(
            "INSERT OR REPLACE INTO facts VALUES (?, ?)",
            [("steps", _STEPS.dump_json(dict(steps)).decode()), ("cuts", _CUTS.dump_json(dict(cuts)).decode())],
        )

    def kernels(self) -> tuple[KernelFacts, ...]:
        """Every kernel, in the order of writing."""
        return tuple(self._each(_KERNEL, "SELECT json FROM kernels ORDER BY rowid"))

    def times(self, stage: Stage) -> dict[str, dict[Size, Timed]]:
        """Every time of a stage, by the kernel's id and the size."""
        found: dict[str, dict[Size, Timed]] = {}
        try:
            for kernel, m, n, k, text in self._read("SELECT kernel, m, n, k, json FROM times WHERE stage=?", stage):
                found.setdefault(kernel, {})[m, n, k] = _TIMED.validate_json(text)
        except ValidationError as error:
            raise StoreError(f"{self.folder}: a time cannot be read: {error}") from error
        return found

    def steps(self) -> tuple[dict[str, list[Step]], dict[str, list[Cut]]]:
        """What `write_steps` remembered."""
        steps = list(self._each(_STEPS, "SELECT json FROM facts WHERE key='steps'"))
        cuts = list(self._each(_CUTS, "SELECT json FROM facts WHERE key='cuts'"))
        return (steps[0] if steps else {}), (cuts[0] if cuts else {})

    def _each(self, adapter: TypeAdapter[Any], statement: str) -> Iterator[Any]:
        try:
            yield from (adapter.validate_json(row[0]) for row in self._read(statement))
        except ValidationError as error:
            raise StoreError(f"{self.folder}: what is stored cannot be read: {error}") from error

    def _write(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        try:
            self._db.execute("BEGIN")
            self._db.executemany(statement, rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder / FILE} cannot be written: {error}") from error

    def _read(self, statement: str, *values: object) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder / FILE} cannot be read: {error}") from error
