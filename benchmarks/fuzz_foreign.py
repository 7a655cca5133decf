"""Run directories, archives and databases that somebody else made: each is damaged somewhere, and then read.

`fuzz.py` feeds them. An input is a number that decides the damage. Links of a damaged folder lead to one beside it:
no command may read, change or remove its files.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import random
import shutil
import socket
import sqlite3
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from fuzz_watch import WATCH  # noqa: E402 - only now can tests/support be found
from library_support import small_library  # noqa: E402

from lab.library.archive import stored  # noqa: E402
from lab.library.emit import write as write_library  # noqa: E402
from lab.report import render  # noqa: E402
from lab.report.charts.definition import Chart, Picture  # noqa: E402
from lab.report.charts.vega import PageChart  # noqa: E402
from lab.report.page.page import warm  # noqa: E402
from lab.report.tuning import render as tuning  # noqa: E402
from lab.runs.compare import compare_folders  # noqa: E402
from lab.store import previous, published  # noqa: E402
from lab.store.database import Store  # noqa: E402
from lab.store.journal import Journal  # noqa: E402
from lab.store.tuning import TuningStore  # noqa: E402

RUNS: Final = (
    *("gemm_carveout", "gemm_ladder", "gemm_odd", "hgemm_counters", "softmax_traffic"),
    *("plain/vector_add", "others/flash_attention"),
)
MOST_RECORDS: Final = 4
"""Records of a run that are kept: more of them take longer, and are read no other way."""

TUNINGS: Final = ("gemm_batched",)
PAINTED: Final = 200
"""One of so many reports is drawn with its pictures and charts, which take ten times as long as all else."""

MEMORY: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - each folder there is our own
"""A disk takes its time to write each transaction."""

FOREIGN: Final = "foreign"
OWN: Final = "CANARY: a file of the user's"

VALUES: Final[tuple[Any, ...]] = (
    *(0, 1, -1, 7, 2**31, -(2**31), 2**53 + 1, 2**63, 2**70, 10**30, 0.5, -0.0, 1e-320, 1e308, -1e308),
    *(float("inf"), float("-inf"), float("nan"), True, False, None, "", " ", "nan", "inf", "x" * 5000, "\0", "\ud800"),
    *("../../../outside/secret", "/etc/passwd", "..", "<script>alert(1)</script>", "{{ 1 }}", "%s", "1e999"),
    *([], {}, [[]], [None], {"": None}, [0] * 1000, {"a": {"b": {"c": []}}}),
)
NAMES: Final = (
    *("kernel.cu", "kernel.ptx", "kernel.sass", "kernel.cubin", "kernel.lines", "build.log", "provenance.json"),
    *("run.sqlite", "run.sqlite-wal", "run.sqlite-shm", "run.sqlite-journal", "run.lock", "run.holder", "variants"),
    *("tuning.sqlite", "tuning.sqlite-wal", "tuning.sqlite-journal", "records.json.xz", "listings.tar.xz", "full"),
    *("tuning.json.xz", "times.csv.xz", "index.html", "records.csv", "ladder.png", "ratios.png", "repeat", "previous"),
)
STATEMENTS: Final = (
    "CREATE VIEW {new} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    "ALTER TABLE {table} RENAME TO kept; CREATE VIEW {table} AS SELECT kept.* FROM kept, kept AS a, kept AS b",
    "CREATE TRIGGER {new} AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
    "CREATE INDEX {new} ON {table} (hex(zeroblob(1000)))",
    "CREATE TABLE {new} (a, b AS (hex(zeroblob(1000000))))",
    "ALTER TABLE {table} ADD COLUMN {new} AS (hex(zeroblob(1000000)))",
    "CREATE VIRTUAL TABLE {new} USING fts5(a)",
    "DROP TABLE {table}",
    "DELETE FROM {table}",
    "PRAGMA user_version={number}",
    "PRAGMA application_id={number}",
    "PRAGMA encoding='UTF-16'; VACUUM",
    "PRAGMA page_size=512; VACUUM",
    "PRAGMA auto_vacuum=FULL; VACUUM",
    "PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql='CREATE VIEW {table} AS SELECT 1' WHERE name='{table}'",
    "PRAGMA writable_schema=ON; UPDATE sqlite_master SET rootpage={number} WHERE name='{table}'",
    "INSERT INTO {table} SELECT * FROM {table} WHERE 0",
    "UPDATE {table} SET json=CAST(zeroblob({number} % 50000) AS TEXT)",
    "UPDATE {table} SET json=NULL",
    "UPDATE {table} SET json={number}",
)


# ---- undamaged ones


@cache
def _kept() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="lab-foreign-", dir=MEMORY, ignore_cleanup_errors=True)


@cache
def _template(name: str) -> Path:
    """Return an undamaged folder: a run directory, or with `committed:` before its name what is committed of it."""
    warm()  # writes to the user's cache
    place = Path(_kept().name) / name.replace(":", "_").replace("/", "_")
    kind, _, report = name.rpartition(":")
    committed = ROOT / "reports" / "h200" / report
    if kind == "committed":
        shutil.copytree(committed, place, ignore=shutil.ignore_patterns("*.png", "*.html", "full"))
    elif kind == "library":
        library = small_library()
        write_library(library, {kernel.name: b"\x7fELF" + kernel.name.encode() for kernel in library.kernels}, place)
    else:
        published.restore(committed, place)
        if report in RUNS:
            with Store(place, create=True) as store:
                kept = [record.variant for record in store.each()][:MOST_RECORDS]
                store.drop_others(kept)
            for folder in (place / "variants").glob("*"):
                if folder.name not in kept:
                    shutil.rmtree(folder)
            with closing(sqlite3.connect(place / "run.sqlite")) as db:  # those of tuning runs keep a write-ahead log
                db.execute("PRAGMA journal_mode=DELETE")
                db.execute("VACUUM")
    return place


# ---- damage


def _damaged_bytes(content: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        at = rng.randrange(len(damaged) + 1)
        match rng.randrange(5):
            case 0 if damaged:
                damaged[at % len(damaged)] = rng.randrange(256)
            case 1:
                damaged[at : at + 4] = rng.choice((bytes(4), b"\xff" * 4, b"\x7f\xff\xff\xff", rng.randbytes(4)))
            case 2:
                del damaged[at : at + rng.choice((1, 16, 512, 4096))]
            case 3:
                source = rng.randrange(len(damaged) + 1)
                damaged[at:at] = damaged[source : source + rng.choice((1, 16, 512, 4096))]
            case _:
                damaged[at:at] = rng.randbytes(rng.choice((1, 8, 512)))
    return bytes(damaged)


def _damaged_values(value: Any, rng: random.Random) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return JSON values with a few of them replaced, removed, repeated or moved."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        value = _replaced(value, rng, rng.choice(_parts(value)))
    return value


def _parts(value: Any) -> list[Any]:  # noqa: ANN401
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *(part for one in inner for part in (_parts(one) if isinstance(one, dict | list) else [one]))]


def _replaced(value: Any, rng: random.Random, other: Any) -> Any:  # noqa: ANN401
    """Walk down at random, and damage what is there."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.05:  # noqa: PLR2004 - seldom so high up
        if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.5:  # noqa: PLR2004
            return rng.choice((-value, value * 10**6, value + 1, value * 0, float(value) / 3, str(value)))
        return rng.choice((*VALUES, other))
    damaged: Any = dict(value) if isinstance(value, dict) else list(value)
    key = rng.choice(list(damaged)) if isinstance(damaged, dict) else rng.randrange(len(damaged))
    kind = rng.randrange(10)
    if kind == 0:
        del damaged[key]
    elif kind == 1 and isinstance(damaged, list):
        damaged.extend([damaged[key]] * rng.choice((1, 3, 1000)))
    elif kind == 1:
        damaged[str(rng.choice(VALUES))] = damaged[key]
    else:
        damaged[key] = _replaced(damaged[key], rng, other)
    return damaged


def _damaged_text(text: str, rng: random.Random) -> str:
    """Damage JSON text, mostly by its values and now and then by its letters."""
    if rng.random() < 0.2:  # noqa: PLR2004
        return _damaged_bytes(text.encode(), rng).decode(errors="replace")
    with suppress(ValueError):
        text = json.dumps(_damaged_values(json.loads(text), rng), ensure_ascii=rng.random() < 0.5)  # noqa: PLR2004
    return text.encode("utf-8", "replace").decode()


def _damage_rows(file: Path, rng: random.Random) -> None:
    """Change what some rows of a database say."""
    with closing(sqlite3.connect(file)) as db, suppress(sqlite3.Error), db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        table = rng.choice(tables)
        rows = db.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - of our own file
        names = [entry[1] for entry in db.execute(f"PRAGMA table_info({table})")]
        if "json" not in names:  # a statement replaced the table
            return
        for row in rng.sample(rows, min(len(rows), rng.choice((1, 1, 3)))):
            column = "json" if rng.random() < 0.8 else rng.choice(names)  # noqa: PLR2004
            old = row[names.index(column)]
            new = _damaged_text(str(old), rng) if column == "json" else rng.choice(VALUES[:21] + VALUES[24:27])
            key = names[0]
            db.execute(f"UPDATE {table} SET {column}=? WHERE {key}=?", (_for_sql(new), row[0]))  # noqa: S608


def _for_sql(value: Any) -> Any:  # noqa: ANN401
    return str(value) if isinstance(value, int) and abs(value) >= 2**63 else value


def _damage_schema(file: Path, rng: random.Random) -> None:
    """Execute a statement that changes what a database is."""
    words = {"new": "new", "number": rng.choice((0, 1, 99, 2**31 - 1, 4096)), "table": "records"}
    with closing(sqlite3.connect(file)) as db, suppress(sqlite3.Error):
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        words["table"] = rng.choice(tables)
        db.executescript(rng.choice(STATEMENTS).format(**words))


def _damage_pages(file: Path, rng: random.Random) -> None:
    file.write_bytes(_damaged_bytes(file.read_bytes(), rng))


def _put(place: Path, rng: random.Random, outside: Path) -> None:
    """Put something else into the place of a file or a folder."""
    with suppress(OSError):
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    others = (outside, outside / "none", Path("/dev/zero"), Path("/"), place, Path("/proc/self/mem"))
    targets = (*sorted(outside.iterdir()), *others)
    with suppress(OSError):
        match rng.randrange(8):
            case 0:
                os.mkfifo(place)
            case 1:
                place.mkdir()
            case 2:
                with socket.socket(socket.AF_UNIX) as unix_socket:
                    unix_socket.bind(os.path.relpath(place))
            case 3:
                with place.open("wb") as file:
                    file.truncate(rng.choice((0, 1, 1 << 20, 1 << 40)))
            case 4:
                place.write_bytes(rng.randbytes(rng.choice((10, 600, 5000))))
            case _:
                place.symlink_to(rng.choice(targets))


def _damage_packed(file: Path, rng: random.Random) -> None:
    """Damage a compressed file: as it is, or what is in it."""
    packed = file.read_bytes()
    if rng.random() < 0.2:  # noqa: PLR2004
        file.write_bytes(_damaged_bytes(packed, rng))
        return
    content = lzma.decompress(packed)
    if file.name.endswith(".tar.xz"):
        content = _damaged_archive(content, rng)
    elif file.name.endswith(".json.xz"):
        content = _damaged_text(content.decode(), rng).encode()
    else:
        content = _damaged_bytes(content, rng)
    if rng.random() < 0.02:  # noqa: PLR2004
        content += bytes(rng.choice((1 << 20, 1 << 27)))
    file.write_bytes(lzma.compress(content, preset=0))


KINDS: Final = (*(b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"L", b"K", b"x", b"g", b"X", b"S", b"\0", b"V"),)


def _damaged_archive(content: bytes, rng: random.Random) -> bytes:
    """Change members of an archive: kinds, sizes, names and contents, or the bytes of it all."""
    if rng.random() < 0.3:  # noqa: PLR2004
        return _damaged_bytes(content, rng)
    archive = io.BytesIO()
    form: Any = rng.choice((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    with tarfile.open(fileobj=io.BytesIO(content)) as old:
        entries = [(member, stream.read() if (stream := old.extractfile(member)) else b"") for member in old]
    chosen = rng.randrange(len(entries))
    for place, (member, data) in enumerate(entries):
        body, stated_size = data, len(data)
        if place == chosen:
            match rng.randrange(6):
                case 0:
                    member.type = rng.choice(KINDS)
                case 1:
                    stated_size = rng.choice((0, 1, 2**31, 2**33 - 1, 10**10, stated_size + 1, max(0, stated_size - 1)))
                case 2:
                    member.name = rng.choice(("../x", "/etc/passwd", "", ".", "a" * 300, "ü" * 99, "a/../../b"))
                case 3:
                    member.pax_headers = {"path": "../x", "size": "99999999999", "mtime": "nan"}
                case 4:
                    is_json = member.name.endswith(".json")
                    body = _damaged_text(data.decode(), rng).encode() if is_json else _damaged_bytes(data, rng)
                    stated_size = len(body)
                case _:
                    continue
        member.size = stated_size
        with suppress(ValueError, UnicodeError):
            archive.write(member.tobuf(form, "utf-8", "replace"))
            archive.write(body.ljust(-(-len(body) // 512) * 512, b"\0"))
    return archive.getvalue() + bytes(1024)


# ---- readers


@contextmanager
def _as_sent(name: str, number: int, folder: Path) -> Iterator[tuple[Path, random.Random, Path]]:
    """Copy an undamaged folder; on leaving, remove it and check that nothing beside it was touched."""
    outside = folder / FOREIGN / "outside"
    sent = folder / FOREIGN / "sent"
    outside.mkdir(parents=True)
    (outside / "secret").write_text(OWN)
    (outside / "kernel.cu").write_text(OWN)
    shutil.copytree(_template(name), sent)
    for file in sent.rglob("*.sqlite"):
        shutil.copy(file, outside / file.name)
    rng = random.Random(number)  # noqa: S311 - no secret
    try:
        yield sent, rng, outside
    finally:
        shutil.rmtree(folder / FOREIGN)


def _states(outside: Path) -> dict[str, tuple[int, bytes | None]]:
    """Return what tells whether files were touched: time of the last access, and the content."""
    state: dict[str, tuple[int, bytes | None]] = {}
    for file in sorted(outside.rglob("*")):
        content = file.read_bytes() if file.is_file() else None
        os.utime(file, ns=(1, 2))  # an access time before that of the change is replaced by the next access
        state[str(file.relative_to(outside))] = (file.lstat().st_atime_ns, content)
    return state


def _untouched(outside: Path, before: dict[str, tuple[int, bytes | None]]) -> None:
    times = {str(file.relative_to(outside)): file.lstat().st_atime_ns for file in sorted(outside.rglob("*"))}
    read = [name for name, time in times.items() if name in before and time != before[name][0]]
    after = {name: content for name, (_, content) in _states(outside).items()}
    if after != {name: content for name, (_, content) in before.items()}:
        raise AssertionError("files beside the folder were changed")
    if read:
        raise AssertionError(f"files beside the folder were read: {read}")


Work = Callable[[Path, random.Random], object]


def _fed(
    name: str, number: int, folder: Path, damage: Callable[[Path, random.Random, Path], None], work: Work
) -> object:
    WATCH.reading = False
    with _as_sent(name, number, folder) as (sent, rng, outside):
        damage(sent, rng, outside)
        before = _states(outside)
        WATCH.reading, WATCH.inside = True, str(folder / FOREIGN / "sent")
        try:
            return work(sent, rng)
        finally:
            WATCH.reading, WATCH.inside = False, ""
            _untouched(outside, before)


def read_run(content: bytes, folder: Path) -> object:
    """A run directory, with a report, a comparison, or a run that goes on there."""
    number = int(content)
    rng = random.Random(number)  # noqa: S311
    return _fed(rng.choice((*RUNS, *TUNINGS)), number, folder, _damage_run, _use_run)


def read_database(content: bytes, folder: Path) -> object:
    """A run directory whose database is damaged."""
    number = int(content)
    rng = random.Random(number)  # noqa: S311
    return _fed(rng.choice((*RUNS, *TUNINGS)), number, folder, _damage_database, _use_run)


def read_archive(content: bytes, folder: Path) -> object:
    """A tuned library as a folder or an archive, and committed results."""
    number = int(content)
    rng = random.Random(number)  # noqa: S311
    if rng.random() < 0.5:  # noqa: PLR2004
        return _fed("library:small", number, folder, _damage_library, lambda sent, _: stored(sent))
    name = f"committed:{rng.choice((*RUNS, *TUNINGS))}"
    return _fed(name, number, folder, _damage_committed, _use_committed)


def _damage_run(sent: Path, rng: random.Random, outside: Path) -> None:
    files = [path for path in sorted(sent.rglob("*")) if ".sqlite" not in path.name]
    for _ in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.5 or not files:  # noqa: PLR2004
            below = sorted(path for path in sent.rglob("*") if path.is_dir() and not path.is_symlink())
            _put(rng.choice((sent, *below)) / rng.choice(NAMES), rng, outside)
        elif rng.random() < 0.5 and (whole := [file for file in files if file.is_file() and not file.is_symlink()]):  # noqa: PLR2004
            chosen = rng.choice(whole)
            if chosen.stat().st_size < 1 << 24:
                _damage_pages(chosen, rng)
        else:
            _put(rng.choice(files), rng, outside)


def _damage_database(sent: Path, rng: random.Random, outside: Path) -> None:
    (file,) = sent.glob("*.sqlite")
    damages = [_damage_rows] * 6 + [_damage_schema] * 2 + [_damage_pages]
    for _ in range(rng.choice((1, 1, 2))):
        rng.choice(damages)(file, rng)
        if not file.read_bytes().startswith(b"SQLite format 3\0"):
            break
    if rng.random() < 0.1:  # noqa: PLR2004
        beside = file.with_name(file.name + rng.choice(("-wal", "-shm", "-journal")))
        if rng.random() < 0.5:  # noqa: PLR2004
            _put(beside, rng, outside)
        else:
            beside.write_bytes(_hot_journal(outside / "secret") if rng.random() < 0.5 else rng.randbytes(5000))  # noqa: PLR2004


def _hot_journal(named: Path) -> bytes:
    """Return a rollback journal that names a file, which SQLite removes when it rolls back."""
    magic, name = bytes.fromhex("d9d505f920a163d7"), os.fsencode(named)
    head = magic + bytes(8) + (100).to_bytes(4, "big") + (512).to_bytes(4, "big") + (4096).to_bytes(4, "big")
    tail = (1 << 30).to_bytes(4, "big") + name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + magic
    return head.ljust(512, b"\0") + tail


def _damage_library(sent: Path, rng: random.Random, outside: Path) -> None:
    if rng.random() < 0.5:  # noqa: PLR2004
        file = rng.choice(sorted(sent.iterdir()))
        if rng.random() < 0.3:  # noqa: PLR2004
            _put(file, rng, outside)
        elif file.suffix == ".json":
            file.write_text(_damaged_text(file.read_text(), rng))
        else:
            _damage_pages(file, rng)
        return
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(sent.iterdir()):
            tar.add(file, file.name)
            file.unlink()
    (sent / "small.tar.xz").write_bytes(lzma.compress(stream.getvalue(), preset=0))
    _damage_packed(sent / "small.tar.xz", rng)


def _damage_committed(sent: Path, rng: random.Random, outside: Path) -> None:
    packed = sorted(sent.glob("*.xz"))
    if rng.random() < 0.2:  # noqa: PLR2004
        _put(rng.choice((*packed, sent / "full")), rng, outside)
    else:
        _damage_packed(rng.choice(packed), rng)


def _use_run(sent: Path, rng: random.Random) -> object:
    """Do with a run directory what a command does."""
    if (sent / "tuning.sqlite").exists() or (sent / "tuning.json.xz").exists():
        if rng.random() < 0.2:  # noqa: PLR2004
            return _go_on(TuningStore, sent)
        with TuningStore(sent) as tuned, _painting(rng):
            return tuning.render(tuned)
    match rng.randrange(5):
        case 0:
            return compare_folders(str(sent), str(sent))
        case 1:
            ids = sorted(path.name for path in (sent / "variants").iterdir()) if (sent / "variants").is_dir() else []
            one, other = (ids * 2 + ["x", "y"])[:2]
            return compare_folders(f"{sent}#{one}", f"{sent}#{other}")
        case 2:
            return _go_on(Store, sent)
        case _:
            with Store(sent) as store, _painting(rng):
                return render.render(store)


def _go_on(kind: type[Journal], sent: Path) -> object:
    """Do what a run does that goes on in a folder, or begins there anew."""
    with kind(sent, create=True) as store:
        store.state()
        if isinstance(store, Store):
            for variant in store.whole_records():
                store.write_files(variant, {"kernel.cu": "new", "build.log": "new"})
            store.note("state", {"finished": True, "conditions": {}})
            previous.keep(store)
            store.clear()
        elif isinstance(store, TuningStore):
            store.note("state", {"finished": True, "conditions": {}})
            previous.keep_tuning(store)
            store.clear()
        return previous.kept(store)


def _use_committed(sent: Path, rng: random.Random) -> object:
    if rng.random() < 0.3:  # noqa: PLR2004
        return compare_folders(str(sent), str(sent))
    target = sent.with_name("sent") / "full"
    published.restore(sent, target)
    return _use_run(target, rng)


@contextmanager
def _painting(rng: random.Random) -> Iterator[None]:
    """Leave out pictures and charts of most reports."""
    if rng.randrange(PAINTED) == 0:
        yield
        return

    def unpainted(picture: Picture, folder: Path) -> Path:
        return folder / picture.file

    def unspecified(chart: Chart) -> PageChart:
        return PageChart(chart.id, chart.label, ())

    with (
        patch("lab.report.render.draw_picture", unpainted),
        patch("lab.report.charts.vega.draw", unspecified),
        patch("lab.report.tuning.render.draw", lambda *_: []),
    ):
        yield


def number(rng: random.Random) -> str:
    """Return a number that decides an input."""
    return str(rng.getrandbits(48))
