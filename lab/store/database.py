"""The records of a run and their files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from lab.base.collecting import uncollected
from lab.base.errors import StoreError
from lab.base.folder import Folder
from lab.recorded.run_records import RepeatRecord, RunRecord, VariantRecord
from lab.store.codec import REPEAT, RUN, VARIANT, record_to_text
from lab.store.decoding import decode
from lab.store.journal import Journal, JournalFormat

PROVENANCE = "provenance.json"
"""Name of a variant's last file, which holds the sizes of its other files."""


def variant_folder(run: Path, variant: str) -> Folder:
    """Return the folder of a variant's files in a run directory.

    Raises:
        StoreError: The id is not a name of a folder.
    """
    return Folder(run) / "variants" / variant


class Store(Journal):
    """A run directory, opened by one process to write or by any to read. Use as a context manager."""

    form = JournalFormat(
        name="run.sqlite",
        content="run",
        command="lab run",
        tables=(
            "CREATE TABLE IF NOT EXISTS run (key TEXT PRIMARY KEY, json TEXT NOT NULL)",
            """CREATE TABLE IF NOT EXISTS records
            (variant TEXT PRIMARY KEY, position INTEGER NOT NULL, json TEXT NOT NULL)""",
        ),
        facts="run",
    )

    def clear(self) -> None:
        """Delete all records for a new run of the experiment."""
        # the run's own facts are replaced when they are written
        self._commit(("DELETE FROM records", [()]), ("DELETE FROM run WHERE key<>'run'", [()]))

    def write_run(self, run: RunRecord) -> None:
        """Store the run's facts, replacing older ones."""
        self._commit(self._noting("run", record_to_text(run)))

    def write_repeat(self, comparison: RepeatRecord) -> None:
        """Store the comparison with a second run."""
        self._commit(self._noting("repeat", REPEAT.dump_json(comparison).decode()))

    def repeat(self) -> RepeatRecord | None:
        """Return the comparison with a second run; None if the run was not repeated.

        Raises:
            StoreError: it cannot be read.
        """
        text = self._noted_text("repeat")
        return None if text is None else decode(REPEAT, text, f"{self.folder}: the comparison with the second run")

    def write(self, record: VariantRecord, position: int) -> None:
        """Store one variant's record, replacing an earlier one.

        Args:
            record: The record.
            position: The variant's place in the experiment, from 0. Records are read in this order.
        """
        row = (record.variant, position, record_to_text(record))
        self._commit(("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", [row]))

    def place(self, variant: str, position: int) -> None:
        """Change a record's position in the experiment, which may have grown since."""
        self._commit(("UPDATE records SET position=? WHERE variant=? AND position<>?", [(position, variant, position)]))

    def drop_others(self, variants: Collection[str]) -> None:
        """Remove the records of variants that the experiment no longer has."""
        dropped = [(variant,) for variant in sorted(self.variants() - set(variants))]
        self._commit(("DELETE FROM records WHERE variant=?", dropped))

    def run(self) -> RunRecord:
        """Return the run's facts.

        Raises:
            StoreError: there are none, or they cannot be read.
        """
        text = self._noted_text("run")
        if text is None:
            raise StoreError(f"{self.folder} holds no run: the database is empty")
        return decode(RUN, text, f"{self.folder}: the run's facts")

    def records(self) -> tuple[VariantRecord, ...]:
        """Return all finished records, in the experiment's order.

        Raises:
            StoreError: one cannot be read.
        """
        with uncollected():
            return tuple(self.each())

    def each(self) -> Iterator[VariantRecord]:
        """Yield all finished records, in the experiment's order.

        Raises:
            StoreError: one cannot be read.
        """
        for text in self.texts():
            yield self._record(text)

    def texts(self) -> Iterator[bytes]:
        """Yield the JSON text of all finished records in UTF-8, in the experiment's order."""
        # as bytes: what is parsed or copied need not become Python text first
        for row in self._iterate("SELECT CAST(json AS BLOB) FROM records ORDER BY position, variant"):
            yield row[0]

    def whole_records(self) -> Mapping[str, VariantRecord]:
        """Return finished records with complete files, by variant; each is read on access.

        Raises:
            StoreError: when asked for one that cannot be read.
        """
        variants = [row[0] for row in self._select("SELECT variant FROM records ORDER BY position, variant")]
        return _StoredRecords(self, [variant for variant in variants if self._files_are_whole(variant)])

    def _files_are_whole(self, variant: str) -> bool:
        folder = self.variant_folder(variant)
        try:
            sizes = json.loads(folder.read(PROVENANCE) or b"")["sizes"]
            return all(folder.size(name) == size for name, size in sizes.items())
        except (OSError, StoreError, ValueError, KeyError, TypeError, AttributeError):
            return False

    def record(self, variant: str) -> VariantRecord:
        """Return one variant's record.

        Raises:
            StoreError: there is none, or it cannot be read.
        """
        rows = self._select("SELECT json FROM records WHERE variant=?", variant)
        if not rows:
            raise StoreError(f"{self.folder} holds no variant {variant}")
        return self._record(rows[0][0])

    def _record(self, text: str | bytes) -> VariantRecord:
        return decode(VARIANT, text, f"{self.folder}: a record")

    def variants(self) -> frozenset[str]:
        """Return the ids of the variants with a record."""
        return frozenset(row[0] for row in self._select("SELECT variant FROM records"))

    def count(self) -> int:
        """Return the number of finished records."""
        return int(self._select("SELECT count(*) FROM records")[0][0])

    def read_file(self, variant: str, name: str) -> bytes:
        """Return the content of one of a variant's files.

        Raises:
            StoreError: it is missing or cannot be read.
        """
        folder = self.variant_folder(variant)
        content = folder.read(name)
        if content is None:
            raise StoreError(f"{folder.path / name} cannot be read: No such file or directory")
        return content

    def variant_folder(self, variant: str) -> Folder:
        """Return the folder of a variant's files.

        Raises:
            StoreError: The id is not a name of a folder.
        """
        return variant_folder(self.folder, variant)

    def write_files(self, variant: str, files: Mapping[str, str | bytes]) -> None:
        """Write a variant's files in this order, each atomically.

        Args:
            variant: The variant's id.
            files: Name to content.

        Raises:
            StoreError: the folder cannot be written.
        """
        folder = self.variant_folder(variant)
        try:
            folder.make()
            for name, content in files.items():
                folder.write(name, content)
        except OSError as error:
            raise StoreError(f"{folder.path} cannot be written: {error}") from error


class _StoredRecords(Mapping[str, VariantRecord]):
    """A lazy mapping of some records of a store."""

    def __init__(self, store: Store, variants: Iterable[str]) -> None:
        self._store, self._variants = store, dict.fromkeys(variants)

    def __getitem__(self, variant: str) -> VariantRecord:
        if variant not in self._variants:
            raise KeyError(variant)
        return self._store.record(variant)

    def __contains__(self, variant: object) -> bool:
        return variant in self._variants

    def __iter__(self) -> Iterator[str]:
        return iter(self._variants)

    def __len__(self) -> int:
        return len(self._variants)


def stored_records(folder: Path) -> Iterator[VariantRecord]:
    """Yield all finished records of a run directory, in the experiment's order.

    Raises:
        StoreError: The directory holds no run, or cannot be read.
    """
    with Store(folder) as store:
        yield from store.each()
