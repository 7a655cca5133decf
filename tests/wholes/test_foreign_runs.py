"""Run directories that somebody sent: links, what is not a file, and hostile databases."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from written_runs import make_store

from lab.base.errors import StoreError
from lab.cli.main import app
from lab.runs.compare import compare_folders
from lab.runs.sides import read_side
from lab.store import previous, published
from lab.store.codec import record_to_text
from lab.store.database import Store

OWN = "the user's own text, which no page may show"

EXPERIMENT = """
question: Is a run directory of somebody else's left unread?
source: double.cu
problem: {n: 200}
arguments: {n: int32, x: "float32[n]", out: "out float32[n]"}
grid: 1
block: 256
reference: {out: 2 * x}
"""
KERNEL = """extern "C" __global__ void twice(int n, const float* x, float* out) {
  int i = threadIdx.x;
  if (i < n) out[i] = 2 * x[i];
}
"""


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """A finished run."""
    with make_store(tmp_path, "ladder") as store:
        store.note("state", {"finished": True, "conditions": {}})
        return store.folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "outside" / "secret"
    file.parent.mkdir()
    file.write_text(OWN)
    return file


def a_variant(folder: Path) -> Path:
    return next(path for path in sorted((folder / "variants").iterdir()) if (path / "kernel.ptx").is_file())


def lab(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a process."""
    command = [sys.executable, "-m", "lab", *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=environment, cwd=folder)


def reported(folder: Path, capsys: pytest.CaptureFixture[str] | None = None) -> None:
    app(["report", str(folder)], standalone_mode=False)


@contextmanager
def given_up_after(seconds: int) -> Iterator[None]:
    """Let a test fail whose call hangs."""

    def fail(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"still running after {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", ["kernel.cu", "kernel.ptx", "build.log", "provenance.json", "kernel.cubin"])
def test_the_page_does_not_show_what_a_link_leads_to(sent: Path, secret: Path, name: str) -> None:
    variant = a_variant(sent)
    (variant / name).unlink(missing_ok=True)
    (variant / name).symlink_to(secret)
    with pytest.raises(StoreError, match=rf"{name}: expected a regular file, found a symbolic link"):
        reported(sent)
    assert not (sent / "index.html").exists()


@pytest.mark.parametrize("name", ["kernel.cu", "kernel.ptx"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["a FIFO", "/dev/zero"])
def test_what_is_not_a_file_is_refused_by_its_name_at_once(sent: Path, name: str, make: Callable[[Path], None]) -> None:
    variant = a_variant(sent)
    (variant / name).unlink()
    make(variant / name)
    with given_up_after(30), pytest.raises(StoreError, match=f"{name}: expected a regular file, found a"):
        reported(sent)


def test_a_large_file_is_refused_before_it_is_read(sent: Path) -> None:
    with (a_variant(sent) / "kernel.ptx").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(StoreError, match=r"kernel\.ptx: expected at most \d+ bytes, found 1099511627776"):
        reported(sent)


@pytest.mark.parametrize("linked", ["variants", "variant"])
def test_folders_behind_links_are_not_read(sent: Path, tmp_path: Path, linked: str) -> None:
    place = sent / "variants" if linked == "variants" else a_variant(sent)
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="expected a folder, found a symbolic link"):
        reported(sent)


def test_a_folder_behind_a_link_is_not_written(sent: Path, tmp_path: Path) -> None:
    variant = a_variant(sent)
    elsewhere = tmp_path / "elsewhere"
    shutil.move(variant, elsewhere)
    variant.symlink_to(elsewhere)
    (elsewhere / "kernel.cu").write_text(OWN)
    with Store(sent, create=True) as store, pytest.raises(StoreError, match="expected a folder, found a symbolic link"):
        store.write_files(variant.name, {"kernel.cu": "new"})
    assert (elsewhere / "kernel.cu").read_text() == OWN


@pytest.mark.usefixtures("painted_small")
def test_written_files_take_the_places_of_links(sent: Path, secret: Path) -> None:
    variant = a_variant(sent)
    for place in (variant / "kernel.cu", sent / "index.html", sent / "records.csv", sent / "mix.png"):
        place.unlink(missing_ok=True)
        place.symlink_to(secret)
    with Store(sent, create=True) as store:
        store.write_files(variant.name, {"kernel.cu": "new"})
    reported(sent)
    assert secret.read_text() == OWN
    for place in (variant / "kernel.cu", sent / "index.html", sent / "records.csv", sent / "mix.png"):
        assert place.is_file(), place.name
        assert not place.is_symlink(), place.name


@pytest.mark.parametrize("variant", ["../../../outside", "..", ".", "", "a/b", "/etc", "a\0b", "a\nb", "x" * 300])
def test_an_id_that_is_not_the_name_of_a_folder_is_refused(sent: Path, secret: Path, variant: str) -> None:
    (secret.parent / "kernel.cu").write_text(OWN)
    with Store(sent) as store:
        record = store.records()[0]
    text = record_to_text(record).replace(f'"variant":"{record.variant}"', f'"variant":{json.dumps(variant)}')
    assert text != record_to_text(record)
    with closing(sqlite3.connect(sent / "run.sqlite")) as db, db:
        db.execute("UPDATE records SET variant=?, json=? WHERE variant=?", (variant, text, record.variant))
    with pytest.raises(StoreError, match="variant"):
        reported(sent)
    with pytest.raises(StoreError, match="variant"):
        read_side(str(sent))
    with Store(sent) as store, pytest.raises(StoreError, match="not a valid name"):
        store.read_file(variant, "kernel.cu")


def test_a_second_side_of_a_comparison_shows_no_source_behind_a_link(sent: Path, secret: Path) -> None:
    ids = sorted(path.name for path in (sent / "variants").iterdir())[:2]
    (sent / "variants" / ids[0] / "kernel.cu").unlink()
    (sent / "variants" / ids[0] / "kernel.cu").symlink_to(secret)
    with pytest.raises(StoreError, match=r"kernel\.cu: expected a regular file"):
        compare_folders(f"{sent}#{ids[0]}", f"{sent}#{ids[1]}")


@pytest.mark.parametrize("name", ["run.holder", "run.lock"])
def test_a_lock_behind_a_link_is_neither_written_nor_removed(sent: Path, secret: Path, name: str) -> None:
    (sent / name).unlink(missing_ok=True)
    (sent / name).symlink_to(secret)
    try:
        Store(sent, create=True).close()
    except StoreError as error:
        assert f"{name}: expected a regular file, found a symbolic link" in str(error)  # noqa: PT017 - either is fine
    assert secret.read_text() == OWN


def test_resuming_a_run_removes_no_file_behind_a_link(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "double.cu").write_text(KERNEL)
    (tmp_path / "double.yaml").write_text(EXPERIMENT)
    folder = tmp_path / "run"
    assert lab("run", "double.yaml", "--no-gpu", "--output", str(folder), folder=tmp_path).returncode == 0
    for name in ("run.holder",):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(secret)
    lab("run", "double.yaml", "--no-gpu", "--resume", "--output", str(folder), folder=tmp_path)
    assert secret.read_text() == OWN


@pytest.mark.parametrize("name", ["run.sqlite", "run.sqlite-wal", "run.sqlite-shm", "run.sqlite-journal"])
@pytest.mark.parametrize("create", [False, True], ids=["read", "written"])
def test_a_database_behind_a_link_is_not_opened(sent: Path, tmp_path: Path, name: str, create: bool) -> None:
    elsewhere = tmp_path / "outside.sqlite"
    shutil.copy(sent / "run.sqlite", elsewhere)
    before = elsewhere.read_bytes()
    (sent / name).unlink(missing_ok=True)
    (sent / name).symlink_to(elsewhere)
    with pytest.raises(StoreError, match=f"{name}: expected a regular file, found a symbolic link"):
        Store(sent, create=create)
    assert elsewhere.read_bytes() == before


def test_a_rollback_journal_removes_no_file_that_it_names(sent: Path, secret: Path) -> None:
    """SQLite removes a super-journal that a hot journal names once it has rolled back."""
    name = os.fsencode(secret)
    page = (1 << 30).to_bytes(4, "big")  # any number that is not that of a page
    magic = bytes.fromhex("d9d505f920a163d7")
    with closing(sqlite3.connect(sent / "run.sqlite")) as db:
        db.execute("PRAGMA journal_mode=DELETE")
        pages = db.execute("PRAGMA page_count").fetchone()[0]
    header = magic + (0).to_bytes(4, "big") + bytes(4) + pages.to_bytes(4, "big") + (512).to_bytes(4, "big")
    header += (4096).to_bytes(4, "big")
    tail = page + name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + magic
    (sent / "run.sqlite-journal").write_bytes(header.ljust(512, b"\0") + tail)
    secret.write_bytes(os.fsencode(tmp := secret.parent / "none") + b"\0")
    assert not tmp.exists()
    with pytest.raises(StoreError, match=r"run\.sqlite-journal"):
        Store(sent)
    assert secret.exists()


HOSTILE_SCHEMAS = {
    "a view": "ALTER TABLE records RENAME TO kept; CREATE VIEW records AS WITH RECURSIVE n(i) AS "
    "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS variant, i AS position, kept.json AS json FROM n, kept",
    "a view of the facts": "ALTER TABLE run RENAME TO kept; CREATE VIEW run AS SELECT * FROM kept",
    "a trigger": "CREATE TRIGGER often AFTER INSERT ON run BEGIN DELETE FROM records; END",
    "a generated column": "ALTER TABLE records RENAME TO kept; CREATE TABLE records (variant TEXT PRIMARY KEY, "
    "position INTEGER, json TEXT AS (hex(zeroblob(position))))",
    "an index": "CREATE INDEX slow ON records (length(hex(zeroblob(position))))",
}


@pytest.mark.parametrize("create", [False, True], ids=["read", "written"])
@pytest.mark.parametrize("schema", HOSTILE_SCHEMAS)
def test_a_database_with_another_schema_is_refused(sent: Path, schema: str, create: bool) -> None:
    with closing(sqlite3.connect(sent / "run.sqlite")) as db:
        db.execute("PRAGMA journal_mode=DELETE")
        db.executescript(HOSTILE_SCHEMAS[schema])
    for suffix in ("-wal", "-shm"):
        (sent / f"run.sqlite{suffix}").unlink(missing_ok=True)
    before = (sent / "run.sqlite").read_bytes()
    with pytest.raises(StoreError, match="did not make"):
        Store(sent, create=create)
    assert (sent / "run.sqlite").read_bytes() == before


def test_an_endless_view_does_not_hang_report_and_compare(sent: Path) -> None:
    with closing(sqlite3.connect(sent / "run.sqlite")) as db:
        db.executescript(HOSTILE_SCHEMAS["a view"])
    for words in (("report", str(sent)), ("compare", str(sent), str(sent))):
        with given_up_after(20), pytest.raises(StoreError, match="records"):
            app(list(words), standalone_mode=False)


@pytest.mark.parametrize("name", [previous.FOLDER, "repeat"])
def test_the_folders_of_other_runs_are_not_followed(sent: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "index.html").write_text(OWN)
    shutil.rmtree(sent / name, ignore_errors=True)
    (sent / name).symlink_to(elsewhere)
    with Store(sent, create=True) as store:
        if name == previous.FOLDER:
            previous.keep(store)
            assert not (sent / name).is_symlink()
    assert [path.name for path in elsewhere.iterdir()] == ["index.html"]
    assert (elsewhere / "index.html").read_text() == OWN


def test_committed_results_are_not_restored_behind_a_link(sent: Path, tmp_path: Path) -> None:
    committed, elsewhere = tmp_path / "committed", tmp_path / "elsewhere"
    committed.mkdir()
    elsewhere.mkdir()
    with Store(sent) as store:
        published.write_records(published.PublishedRun(store.run(), store.records()), committed)
    (committed / published.FULL).symlink_to(elsewhere)
    with pytest.raises(StoreError, match="expected a folder, found a symbolic link"):
        reported(committed)
    assert list(elsewhere.iterdir()) == []


def test_an_output_that_is_a_link_is_the_users_own(sent: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(sent)
    reported(link)
    assert (sent / "index.html").is_file()
    Store(link, create=True).close()


@pytest.fixture(autouse=True)
def _quiet(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    capsys.readouterr()
