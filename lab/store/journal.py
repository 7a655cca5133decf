"""A crash-safe SQLite file: locking, recovery, schema check and transactions, for every kind of run.

`lab.store.database` keeps the records of a run in one, `lab.store.tuning` the times of a tuning run. A row counts once
its transaction is committed; whatever ends the process, committed rows are there afterwards and others are not.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar
from urllib.parse import quote

from pydantic import AfterValidator, TypeAdapter

from lab.base.errors import StoreError
from lab.base.folder import Folder
from lab.base.lock import Lock
from lab.store.decoding import decode
from lab.store.store_schema import SCHEMA, check_schema


def _checked_state(state: dict[str, Any]) -> dict[str, Any]:
    """Check that a run's state has the keys `finished` and `conditions`."""
    if isinstance(state.get("finished"), bool) and isinstance(state.get("conditions"), dict):
        return state
    raise ValueError("expected the keys conditions, a mapping, and finished, true or false")


Statement = tuple[str, Iterable[tuple[Any, ...]]]
"""SQL with `?` placeholders, and the rows to execute it with."""


@dataclass(frozen=True, slots=True)
class JournalFormat:
    """The format of a journal file.

    Attributes:
        name: File name inside the run directory.
        content: What the directory holds, for messages: `run`.
        command: Command that makes one, for messages: `lab run`.
        tables: `CREATE TABLE IF NOT EXISTS` statements.
        facts: Name of the table of single facts, with the columns `key` and `json`.
    """

    name: str
    content: str
    command: str
    tables: tuple[str, ...]
    facts: str


T = TypeVar("T")
RunState = dict[str, Any]
"""A run's state: `conditions`, a mapping, and whether the run `finished`."""

_ANYTHING: Final[TypeAdapter[Any]] = TypeAdapter(Any)
_STATE: Final[TypeAdapter[RunState]] = TypeAdapter(Annotated[RunState, AfterValidator(_checked_state)])
_DAMAGE: Final = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a damaged file; SQLite quotes its content in messages, which then need not be UTF-8."""

_COMPANIONS: Final = ("", "-wal", "-shm", "-journal")
"""Suffixes of a database's file names."""

_SUPER_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")
"""Last bytes of a rollback journal that names another file, which SQLite would remove on rollback."""

_MOST_ROW_BYTES: Final = 1 << 26
"""The largest record in bytes."""

_STEPS_PER_LOOK: Final = 1_000_000
"""SQLite VM instructions between two checks of the clock: some milliseconds."""

_MOST_SECONDS: Final = 10.0
"""Time limit in seconds for reading a schema, which takes a millisecond."""


def connect(path: Path) -> sqlite3.Connection:
    """Open a database file for writing, creating it if needed."""
    # a `Writer`'s thread uses it, too; the journal's own lock keeps transactions of two threads apart
    return _guarded(sqlite3.connect(path, check_same_thread=False))


def _guarded(db: sqlite3.Connection) -> sqlite3.Connection:
    """Harden a connection against a malicious file."""
    db.execute("PRAGMA trusted_schema=OFF")
    db.execute("PRAGMA cell_size_check=ON")
    db.execute("PRAGMA mmap_size=0")  # a file that another process cuts short would end this one
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_ROW_BYTES)
    db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    return db


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open an existing database file read-only.

    SQLite keeps a file of shared memory beside a database with a write-ahead log; a reader makes it, too, and removes
    it only if it may write. Where that fails, in a folder that cannot be written, the database is opened as one that
    nobody changes.

    Raises:
        sqlite3.OperationalError: It cannot be read, or holds work in a write-ahead log that only a writer can merge.
    """
    name = f"file:{quote(os.fsencode(path.resolve()))}"  # `?` and `#` of a path would begin the options
    db = sqlite3.connect(f"{name}?mode=rw", uri=True, check_same_thread=False)
    try:
        db.execute("PRAGMA query_only=ON")
        db.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError as error:
        db.close()
        log = path.with_name(f"{path.name}-wal")
        if log.is_file() and log.stat().st_size:
            raise sqlite3.OperationalError(
                f"the last run did not end properly, and what it wrote last is in {log.name}, which cannot be merged "
                f"here ({error}); copy the directory to where you can write"
            ) from error
        return _guarded(sqlite3.connect(f"{name}?immutable=1", uri=True, check_same_thread=False))
    return _guarded(db)


def _schema(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return kind, name and definition of all objects in a database, with whitespace normalised."""
    rows = db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return [(str(kind), str(name), " ".join(str(sql).split())) for kind, name, sql in rows]


def _ends_with(folder: Folder, name: str, end: bytes) -> bool:
    with os.fdopen(folder.open(name, os.O_RDONLY), "rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - len(end)))
        return stream.read(len(end)) == end


class Journal:
    """A journal file, opened by one process to write or by any to read. Use a subclass as a context manager.

    Attributes:
        form: What the file holds; each subclass says so.
        folder: The run directory.
        path: The file.
        damage: A sentence about a damaged file that was set aside; empty where there was none.
    """

    form: ClassVar[JournalFormat]

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open the file and recover what an earlier process left.

        Args:
            folder: The run directory.
            create: Open it to write; create the directory and the file where they are missing, and replace a damaged
                file by an empty one.

        Raises:
            StoreError: the file is missing, damaged, of another schema, or in use by another writer.
        """
        form = self.form
        self.folder, self.path, self.damage = folder, folder / form.name, ""
        self._one_at_a_time = threading.Lock()
        self._lock = Lock(folder) if create else None
        try:
            if create:
                self._recover()
            else:
                self._open()
        except StoreError:
            self._unlock()
            raise
        except (*_DAMAGE, OSError) as error:
            self._unlock()
            raise StoreError(f"{self.path} cannot be opened: {error}") from error

    def _is_there(self) -> bool:
        """Check the database's files, which SQLite opens itself, and return whether there is a database.

        Raises:
            StoreError: One of them is not a regular file, or names a file for SQLite to remove.
        """
        folder, name = Folder(self.folder), self.form.name
        try:
            present = [folder.check(f"{name}{suffix}") for suffix in _COMPANIONS]
            if present[-1] and _ends_with(folder, f"{name}{_COMPANIONS[-1]}", _SUPER_JOURNAL):
                raise StoreError(
                    f"{self.path}{_COMPANIONS[-1]} names another file, which SQLite would remove; "
                    f"expected a journal of {name} alone"
                )
        except OSError as error:  # a name that is too long, a folder that may not be entered
            raise StoreError(f"{self.path} cannot be read: {error.strerror}") from error
        return present[0]

    def _recover(self) -> None:
        """Open the file to write, after setting aside a damaged one."""
        try:
            self._open()
        except sqlite3.OperationalError:  # the disk or the permissions, not the content
            raise
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self._set_aside(error)
            self._open()

    def _open(self) -> None:
        """Connect, check and complete the file; return its schema version."""
        writes = self._lock is not None
        if not self._is_there() and not writes:
            form = self.form
            raise StoreError(
                f"{self.folder} holds no {form.content}: there is no {form.name}; `{form.command}` makes one"
            )
        self._db = connect(self.path) if writes else connect_to_read(self.path)
        try:
            self._check_schema()
            if writes:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
                for table in self.form.tables:
                    self._db.execute(table)
            self._check()
            schema = int(self._db.execute("PRAGMA user_version").fetchone()[0])
            if writes and schema == 0:  # a new file
                self._db.execute(f"PRAGMA user_version={SCHEMA}")
            else:
                check_schema(schema, self.path, f"; remove {self.folder} and run again")
        except BaseException:
            self._db.close()
            raise

    def _check_schema(self) -> None:
        """Check that the file holds only this program's tables, views, triggers and indexes.

        Raises:
            StoreError: It does: reading them could compute anything.
        """
        with contextlib.closing(sqlite3.connect(":memory:")) as own:
            for table in self.form.tables:
                own.execute(table)
            expected = set(_schema(own))
        # pages of the schema that refer to each other can take for ever to read; `_check` would say so, and reads them
        deadline = time.monotonic() + _MOST_SECONDS
        self._db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_PER_LOOK)
        entries = _schema(self._db)
        self._db.set_progress_handler(None, 0)
        tables = ", ".join(sorted(name for kind, name, _ in expected if kind == "table"))
        for kind, name, definition in entries:
            if (kind, name, definition) not in expected:
                raise StoreError(
                    f"{self.path} holds the {kind} {name[:100]!r}, which `{self.form.command}` did not make; "
                    f"expected the tables {tables} as it makes them"
                )

    def _check(self) -> None:
        """Read every page to check it.

        Raises:
            sqlite3.DatabaseError: one of them is damaged.
        """
        state = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if state != "ok":
            raise sqlite3.DatabaseError(state)

    def _set_aside(self, error: sqlite3.DatabaseError | UnicodeDecodeError) -> None:
        """Rename a damaged file: its content cannot be trusted and can be recreated."""
        target = self.path.with_name(f"{self.path.name}.damaged")
        self.path.replace(target)
        for companion in ("-wal", "-shm"):
            Folder(self.folder).remove(f"{self.form.name}{companion}")
        self.damage = f"The database of an earlier run was damaged ({error}); it is kept as {target.name}."

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Merge the write-ahead log into the file, close it, and release the lock."""
        if self._lock is not None:
            with contextlib.suppress(sqlite3.Error):  # on a full disk, say: the log keeps what is not merged yet
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def note(self, key: str, value: object) -> None:
        """Store a JSON value under a key, replacing an older one."""
        self._commit(self._noting(key, json.dumps(value)))

    def noted(self, key: str) -> Any:  # noqa: ANN401 - whatever JSON holds
        """Return the value stored by `note`; None if there is none."""
        return self.fact(_ANYTHING, key)

    def fact(self, shape: TypeAdapter[T], key: str) -> T | None:
        """Return the value under a key; None if there is none.

        Raises:
            StoreError: It does not have this shape.
        """
        text = self._noted_text(key)
        return None if text is None else decode(shape, text, f"{self.path}: {key}")

    def state(self) -> RunState | None:
        """Return the conditions and progress of the run in the file; None before its start.

        Raises:
            StoreError: It cannot be read.
        """
        return self.fact(_STATE, "state")

    def copy_into(self, folder: Path) -> None:
        """Copy the file with all committed rows into another directory.

        Raises:
            StoreError: It cannot be written there.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(connect(folder / self.form.name)) as copy:
                self._db.backup(copy)
        except (*_DAMAGE, OSError) as error:
            raise StoreError(f"{folder / self.form.name} cannot be written: {error}") from error

    @contextlib.contextmanager
    def unchanging(self) -> Iterator[None]:
        """Give all reads within the `with` block one snapshot, even while another process writes.

        Raises:
            StoreError: the file cannot be read.
        """
        try:
            with self._one_at_a_time:
                self._db.execute("BEGIN")  # sqlite3 begins a transaction by itself only for statements that write
        except _DAMAGE as error:
            raise StoreError(f"{self.path} cannot be read: {error}") from error
        with self._db:
            yield

    def _noting(self, key: str, text: str) -> Statement:
        """Return the statement that stores a fact given as JSON text."""
        statement = f"INSERT OR REPLACE INTO {self.form.facts} VALUES (?, ?)"  # noqa: S608 - our own name
        return statement, [(key, text)]

    def _noted_text(self, key: str) -> str | None:
        """Return the JSON text under a key; None if there is none."""
        rows = self._select(f"SELECT json FROM {self.form.facts} WHERE key=?", key)  # noqa: S608 - our own name
        return str(rows[0][0]) if rows else None

    def _commit(self, *statements: Statement) -> None:
        """Execute statements in one transaction.

        Raises:
            StoreError: the file cannot be written.
        """
        try:
            # Ctrl-C may come between any two steps in here; leaving the connection's context then rolls back
            with self._one_at_a_time, self._db:
                for statement, rows in statements:
                    self._db.executemany(statement, rows)
        except _DAMAGE as error:
            raise StoreError(f"{self.path} cannot be written: {error}") from error

    def _select(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query.

        Raises:
            StoreError: the file cannot be read.
        """
        try:
            with self._one_at_a_time:
                return self._db.execute(statement, values).fetchall()
        except _DAMAGE as error:
            raise StoreError(f"{self.path} cannot be read: {error}") from error

    def _iterate(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query.

        Raises:
            StoreError: the file cannot be read.
        """
        try:
            yield from self._db.execute(statement)
        except _DAMAGE as error:
            raise StoreError(f"{self.path} cannot be read: {error}") from error
