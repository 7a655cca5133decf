"""A run directory and its database."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from lab.base.errors import StoreError
from lab.base.files import write_atomically
from lab.base.lock import Lock
from lab.store.codec import READ_TOO, REPEAT, RUN, SCHEMA, VARIANT, record_to_text, uncollected
from lab.store.model import RepeatRecord, RunRecord, VariantRecord

PROVENANCE = "provenance.json"
"""The file of a variant that is written last; it holds the sizes of the others."""


class Store:
    """A run directory, opened for one process. Use as a context manager."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open the directory: to write, which one process can do at a time, or to read.

        Args:
            folder: The run directory.
            create: Make it, and the database, where they are missing; and write.

        Raises:
            StoreError: it is missing, unreadable, written by another schema of this program, or in use.
        """
        self.folder, self.damage = folder, ""
        self._one_at_a_time = threading.Lock()
        path = folder / "run.sqlite"
        if not create and not path.is_file():
            raise StoreError(f"{folder} holds no run: there is no run.sqlite; `lab run` makes one")
        self._lock = Lock(folder) if create else None
        try:
            try:
                found = self._open(path)
            except sqlite3.DatabaseError as error:
                if not create or isinstance(error, sqlite3.OperationalError):
                    raise
                self._set_aside(path, error)
                found = self._open(path)
        except (sqlite3.Error, OSError) as error:
            self._unlock()
            raise StoreError(f"{path} cannot be opened: {error}") from error
        if found != SCHEMA:
            self.close()
            raise StoreError(f"{path} has schema {found}, this program writes {SCHEMA}; remove {folder} and run again")

    def _open(self, path: Path) -> int:
        """Connect; the schema that the database has."""
        # a Writer's thread uses it, too; each statement is a transaction of its own, and the lock keeps them apart
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE IF NOT EXISTS run (key TEXT PRIMARY KEY, json TEXT NOT NULL)")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS records (variant TEXT PRIMARY KEY, position INTEGER NOT NULL, "
            "json TEXT NOT NULL)"
        )
        state = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if state != "ok":
            raise sqlite3.DatabaseError(state)
        found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if found == 0 or (found in READ_TOO and self._lock is not None):  # what is written from now on is of this one
            self._db.execute(f"PRAGMA user_version={SCHEMA}")
            return SCHEMA
        return SCHEMA if found in READ_TOO else found

    def _set_aside(self, path: Path, error: sqlite3.DatabaseError) -> None:
        """Rename a database that is damaged: what it holds cannot be trusted, and all of it can be made again."""
        self._db.close()
        kept = path.with_name(f"{path.name}.damaged")
        path.replace(kept)
        for companion in ("-wal", "-shm"):
            path.with_name(path.name + companion).unlink(missing_ok=True)
        self.damage = f"The database of an earlier run was damaged ({error}); it is kept as {kept.name}."

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; afterwards one file holds it all."""
        with contextlib.suppress(sqlite3.Error):  # on a full disk, say: the log keeps what is not merged yet
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def clear(self) -> None:
        """Forget everything: a new run of the experiment begins."""
        self._write("DELETE FROM records", ())
        self._write("DELETE FROM run WHERE key<>'run'", ())  # the facts are replaced when they are written

    def note(self, key: str, value: object) -> None:
        """Remember a fact of the run's own, as JSON, under a key other than `run`."""
        self._write("INSERT OR REPLACE INTO run VALUES (?, ?)", (key, json.dumps(value)))

    def noted(self, key: str) -> Any:  # noqa: ANN401 - JSON
        """What `note` remembered; None where there is nothing."""
        rows = self._read("SELECT json FROM run WHERE key=?", key)
        return json.loads(rows[0]) if rows else None

    def write_run(self, run: RunRecord) -> None:
        """Store the run's facts, replacing what was there."""
        self._write("INSERT OR REPLACE INTO run VALUES ('run', ?)", (record_to_text(run),))

    def write_repeat(self, found: RepeatRecord) -> None:
        """Store how the run came out a second time."""
        self._write("INSERT OR REPLACE INTO run VALUES ('repeat', ?)", (REPEAT.dump_json(found).decode(),))

    def repeat(self) -> RepeatRecord | None:
        """How the run came out a second time; None where it was not repeated.

        Raises:
            StoreError: it cannot be read.
        """
        rows = self._read("SELECT json FROM run WHERE key='repeat'")
        try:
            return REPEAT.validate_json(rows[0]) if rows else None
        except ValidationError as error:
            raise StoreError(f"{self.folder}: the comparison with the second run cannot be read: {error}") from error

    def write(self, record: VariantRecord, position: int) -> None:
        """Store one variant's record, replacing an earlier one.

        Args:
            record: The record.
            position: The variant's place in the experiment, from 0; records are read in this order.
        """
        self._write(
            "INSERT OR REPLACE INTO records VALUES (?, ?, ?)",
            (record.variant, position, record_to_text(record)),
        )

    def place(self, variant: str, position: int) -> None:
        """Put a record that is there already where it now belongs: the experiment may have grown since."""
        self._write("UPDATE records SET position=? WHERE variant=? AND position<>?", (position, variant, position))

    def drop_others(self, variants: Collection[str]) -> None:
        """Remove the records of all other variants: the experiment has them no more."""
        present = self._read("SELECT variant FROM records")
        for variant in set(present) - set(variants):
            self._write("DELETE FROM records WHERE variant=?", (variant,))

    def run(self) -> RunRecord:
        """The run's facts.

        Raises:
            StoreError: there are none, or they cannot be read.
        """
        rows = self._read("SELECT json FROM run WHERE key='run'")
        if not rows:
            raise StoreError(f"{self.folder} holds no run: the database is empty")
        try:
            return RUN.validate_json(rows[0])
        except ValidationError as error:
            raise StoreError(f"{self.folder}: the run's facts cannot be read: {error}") from error

    def records(self) -> tuple[VariantRecord, ...]:
        """Every finished record, in the experiment's order."""
        with uncollected():
            return tuple(self.each())

    def each(self) -> Iterator[VariantRecord]:
        """Every finished record, in the experiment's order, one at a time."""
        try:
            yield from map(VARIANT.validate_json, self.texts())
        except ValidationError as error:
            raise StoreError(f"{self.folder}: a record cannot be read: {error}") from error

    def texts(self) -> Iterator[bytes]:
        """Every finished record as its JSON text in UTF-8, in the experiment's order, one at a time."""
        try:
            # as bytes: what is parsed or copied need not become Python text first
            for row in self._db.execute("SELECT CAST(json AS BLOB) FROM records ORDER BY position, variant"):
                yield row[0]
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder / 'run.sqlite'} cannot be read: {error}") from error

    @contextlib.contextmanager
    def unchanging(self) -> Iterator[None]:
        """All that is read within is of one moment, even while another process goes on writing."""
        self._write("BEGIN", ())
        try:
            yield
        finally:
            self._write("ROLLBACK", ())  # nothing was written

    def whole_records(self) -> dict[str, VariantRecord]:
        """Finished records by variant, without those whose files are missing or cut short."""
        return {record.variant: record for record in self.records() if self._files_are_whole(record.variant)}

    def _files_are_whole(self, variant: str) -> bool:
        folder = self.variant_folder(variant)
        try:
            sizes = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))["sizes"]
            return all((folder / name).stat().st_size == size for name, size in sizes.items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    def record(self, variant: str) -> VariantRecord:
        """One variant's record.

        Raises:
            StoreError: there is none, or it cannot be read.
        """
        rows = self._read("SELECT json FROM records WHERE variant=?", variant)
        if not rows:
            raise StoreError(f"{self.folder} holds no variant {variant}")
        try:
            return VARIANT.validate_json(rows[0])
        except ValidationError as error:
            raise StoreError(f"{self.folder}: a record cannot be read: {error}") from error

    def count(self) -> int:
        """How many records there are."""
        return int(self._read("SELECT count(*) FROM records")[0])

    def read_file(self, variant: str, name: str) -> bytes:
        """One of a variant's files.

        Raises:
            StoreError: it is missing or cannot be read.
        """
        path = self.variant_folder(variant) / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error

    def variant_folder(self, variant: str) -> Path:
        """Where a variant's files are."""
        return self.folder / "variants" / variant

    def write_files(self, variant: str, files: Mapping[str, str | bytes]) -> None:
        """Write a variant's files in this order, each whole or not at all."""
        folder = self.variant_folder(variant)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                write_atomically(folder / name, content)
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {error}") from error

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        try:
            with self._one_at_a_time:
                self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder / 'run.sqlite'} cannot be written: {error}") from error

    def _read(self, statement: str, *values: object) -> list[str]:
        try:
            with self._one_at_a_time:
                return [row[0] for row in self._db.execute(statement, values)]
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder / 'run.sqlite'} cannot be read: {error}") from error
