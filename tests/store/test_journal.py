"""The mechanism that both stores are made of; every test that takes `kind` holds for each of them."""

from __future__ import annotations

import _thread
import contextlib
import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.base.errors import StoreError
from lab.store.database import Store
from lab.store.journal import Journal, JournalFormat, connect
from lab.store.store_schema import SCHEMA
from lab.store.tuning import TuningStore

KINDS = [Store, TuningStore]

each_kind = pytest.mark.parametrize("kind", KINDS, ids=["run", "tuning run"])


class Numbers(Journal):
    """The least that a journal can be."""

    form = JournalFormat(
        name="numbers.sqlite",
        content="numbers",
        command="count",
        tables=(
            "CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, json TEXT NOT NULL)",
            "CREATE TABLE IF NOT EXISTS numbers (value INTEGER PRIMARY KEY)",
        ),
        facts="facts",
    )

    def add(self, *values: int) -> None:
        self._commit(("INSERT INTO numbers VALUES (?)", [(value,) for value in values]))

    def values(self) -> list[int]:
        return [row[0] for row in self._iterate("SELECT value FROM numbers ORDER BY value")]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, even where this process was started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def written(kind: type[Journal], folder: Path) -> Path:
    with kind(folder, create=True) as store:
        store.note("answer", {"value": list(range(2000))})
    return folder / kind.form.name


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def garbage(content: bytes) -> bytes:
    return b"not a database at all, " * 100


def torn(content: bytes) -> bytes:
    return content[:4096] + bytes(byte ^ 0x5A for byte in content[4096:])


@each_kind
@pytest.mark.parametrize("harm", [cut, garbage, torn])
def test_a_damaged_file_is_set_aside_and_made_anew(
    kind: type[Journal], tmp_path: Path, harm: Callable[[bytes], bytes]
) -> None:
    path = written(kind, tmp_path)
    damaged = harm(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match="cannot be opened"):
        kind(tmp_path)
    with kind(tmp_path, create=True) as store:
        assert "was damaged" in store.damage
        assert store.noted("answer") is None
        store.note("answer", 42)
    assert path.with_name(f"{path.name}.damaged").read_bytes() == damaged
    with kind(tmp_path) as store:
        assert (store.noted("answer"), store.damage) == (42, "")


@each_kind
def test_another_schema_is_refused_by_its_number_and_left_as_it_is(kind: type[Journal], tmp_path: Path) -> None:
    path = written(kind, tmp_path)
    with contextlib.closing(connect(path)) as db:
        db.execute("PRAGMA user_version=99")
    before = path.read_bytes()
    for create in (False, True):
        with pytest.raises(StoreError, match=rf"another version of lab: schema 99, this reads {SCHEMA}; remove"):
            kind(tmp_path, create=create)
    assert path.read_bytes() == before


@each_kind
def test_a_folder_without_a_file_names_the_command_that_makes_one(kind: type[Journal], tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"holds no {kind.form.content}: .*`{kind.form.command}` makes one"):
        kind(tmp_path)
    assert list(tmp_path.iterdir()) == []


@each_kind
def test_one_process_writes_while_others_read(kind: type[Journal], tmp_path: Path) -> None:
    with kind(tmp_path, create=True) as store:
        store.note("answer", 1)
        with pytest.raises(StoreError, match=f"in use by process {os.getpid()} "):
            kind(tmp_path, create=True)
        with kind(tmp_path) as reader:
            assert reader.noted("answer") == 1
    kind(tmp_path, create=True).close()


KILLED = """
import os, signal, sys
from pathlib import Path
from lab.store.database import Store
from lab.store.tuning import TuningStore

kind = {"Store": Store, "TuningStore": TuningStore}[sys.argv[2]]
store = kind(Path(sys.argv[1]), create=True)
store.note("kept", 1)

def rows():
    yield "lost", "2"
    os.kill(os.getpid(), signal.SIGKILL)

store._commit((f"INSERT OR REPLACE INTO {store.form.facts} VALUES (?, ?)", rows()))
"""


@each_kind
def test_a_killed_writer_leaves_its_finished_transactions_and_no_lock(kind: type[Journal], tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), kind.__name__]
    killed = subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert killed.returncode == -signal.SIGKILL
    with kind(tmp_path, create=True) as store:
        assert (store.noted("kept"), store.noted("lost"), store.damage) == (1, None, "")
        store.note("lost", 3)
        assert store.noted("lost") == 3


@each_kind
def test_ctrl_c_inside_a_transaction_leaves_none_open(kind: type[Journal], tmp_path: Path, interruptible: None) -> None:
    with kind(tmp_path, create=True) as store:
        store.note("kept", 1)
        # SQLite calls back while it executes the statement, so that the interrupt is pending when it returns; nothing
        # of the callback is Python code, in which the interrupt would be raised at once and swallowed
        once = itertools.chain(map(_thread.interrupt_main, [signal.SIGINT]), itertools.repeat(None))
        store._db.set_progress_handler(once.__next__, 1)
        with pytest.raises(KeyboardInterrupt):
            store.note("lost", 2)
        assert not store._db.in_transaction
        store.note("after", 3)
        assert (store.noted("kept"), store.noted("lost"), store.noted("after")) == (1, None, 3)


def test_a_transaction_is_whole_or_nothing(tmp_path: Path) -> None:
    with Numbers(tmp_path, create=True) as store:
        store.add(1, 2)
        with pytest.raises(StoreError, match=r"numbers\.sqlite cannot be written: UNIQUE"):
            store.add(3, 4, 2)
        assert store.values() == [1, 2]


def test_a_full_disk_is_an_error_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> sqlite3.Connection:
        db = connect(path)
        db.execute("PRAGMA max_page_count=8")
        return db

    monkeypatch.setattr("lab.store.journal.connect", full)
    with Numbers(tmp_path, create=True) as store:
        with pytest.raises(StoreError, match=r"numbers\.sqlite cannot be written: database or disk is full"):
            store.note("long", "x" * 100_000)
        assert store.noted("long") is None


@each_kind
def test_a_folder_that_cannot_be_written_can_be_read(
    kind: type[Journal], open_folder: Path, read_only: Callable[[Path], None]
) -> None:
    written(kind, open_folder)
    read_only(open_folder)
    with kind(open_folder) as store, store.unchanging():
        assert len(store.noted("answer")["value"]) == 2000
    with pytest.raises(StoreError, match="cannot be written"):
        kind(open_folder, create=True)


def test_a_log_that_cannot_be_merged_is_not_passed_over(open_folder: Path, read_only: Callable[[Path], None]) -> None:
    """Reading the file without its log would show an older state as if it were the last."""
    source = open_folder / "source"
    with Numbers(source, create=True) as store:
        store.add(1)
        copy = open_folder / "copy"
        shutil.copytree(source, copy)
    (copy / "numbers.sqlite-shm").unlink()
    assert (copy / "numbers.sqlite-wal").stat().st_size
    read_only(copy)
    with pytest.raises(StoreError, match=r"numbers\.sqlite-wal, which cannot be merged here .*; copy the directory"):
        Numbers(copy)


@each_kind
def test_reading_makes_and_changes_no_file(kind: type[Journal], tmp_path: Path) -> None:
    path = written(kind, tmp_path)
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in tmp_path.iterdir()}
    with kind(tmp_path) as store:
        assert store.noted("answer")
        with pytest.raises(StoreError, match="cannot be written: attempt to write a readonly database"):
            store.note("answer", 1)
    assert path.is_file()
    assert {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in tmp_path.iterdir()} == before


def test_what_is_read_together_is_of_one_moment(tmp_path: Path) -> None:
    with Numbers(tmp_path, create=True) as writer, Numbers(tmp_path) as reader:
        writer.add(1)
        with reader.unchanging():
            assert reader.values() == [1]
            writer.add(2)
            assert reader.values() == [1]
        assert reader.values() == [1, 2]


def test_the_closed_file_needs_no_companion(tmp_path: Path) -> None:
    path = written(Store, tmp_path)
    assert not path.with_name(f"{path.name}-wal").exists()
    assert {file.name for file in tmp_path.iterdir()} == {"run.sqlite", "run.lock"}


@each_kind
@pytest.mark.parametrize("state", [[], {}, {"finished": 1, "conditions": {}}, {"finished": True, "conditions": []}])
def test_a_state_that_a_run_cannot_go_on_from_is_refused(kind: type[Journal], tmp_path: Path, state: object) -> None:
    with kind(tmp_path, create=True) as store:
        assert store.state() is None
        store.note("state", {"finished": True, "conditions": {"seed": 1}})
        assert store.state() == {"finished": True, "conditions": {"seed": 1}}
        store.note("state", state)
        with pytest.raises(StoreError, match=r"sqlite: state cannot be read: "):
            store.state()


@each_kind
def test_a_damaged_schema_that_is_not_text_is_damage(kind: type[Journal], tmp_path: Path) -> None:
    path = written(kind, tmp_path)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", b"CREATE \xd4\xd4BLE"))
    with pytest.raises(StoreError, match="cannot be opened"):
        kind(tmp_path)
    with kind(tmp_path, create=True) as store:
        assert "was damaged" in store.damage
