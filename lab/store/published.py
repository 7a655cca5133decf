"""Committed results: a run in a few small files, and the run directory restored from them.

::

    reports/<GPU>/<name>/
        index.html          a small page for readers
        *.png               its charts
        provenance.json     where, when and how the figures were made
        records.json.xz     of `lab run`: the run's facts and every record
        tuning.json.xz      of `lab tune`: facts, kernels, steps
        times.csv.xz        every time with its samples
        winners.csv.xz      the fastest kernel of each size
        listings.tar.xz     source, PTX, SASS and build log of the best variants
        full/               the run directory made from these files; git ignores it

The compression is xz, not gzip: the records of a sweep repeat each other over more than gzip's window of 32 KiB, and
xz needs as little as a fifth of the space. The same run gives the same bytes.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from lab.base.collecting import uncollected
from lab.base.errors import StoreError
from lab.base.files import write_atomically
from lab.base.folder import Folder
from lab.base.sizes import AXES, Size
from lab.base.unpacking import members, unpacked
from lab.measured.timing import Kind, Samples
from lab.recorded.run_records import RepeatRecord, RunRecord, VariantRecord
from lab.store.codec import REPEAT, RUN, VARIANT, record_to_text
from lab.store.database import PROVENANCE, Store
from lab.store.decoding import plain, validate
from lab.store.store_schema import SCHEMA, check_schema
from lab.store.tuning import CUTS, FACTS, STEPS, TuningStore
from lab.store.tuning_model import KernelFacts, Timed, TimingStage

RECORDS: Final = "records.json.xz"
LISTINGS: Final = "listings.tar.xz"
TUNING: Final = "tuning.json.xz"
TIMES: Final = "times.csv.xz"
WINNERS: Final = "winners.csv.xz"
FULL: Final = "full"
"""Subdirectory with the full page, beside the committed files."""

MOST_BYTES: Final = 1 << 26
"""The largest unpacked size of a committed file in bytes; the largest so far has ten million."""

LEFT_OUT: Final = "published"
"""Key of the notes on what committed results lack, in a store and in provenance.json."""

_TEXTS: Final = frozenset({"kernel.cu", "kernel.ptx", "kernel.sass", "build.log", PROVENANCE})
"""Files of a variant allowed in a committed archive; others are ignored."""

_SAMPLE_DIGITS: Final = 5
"""Significant digits of a tuning run's samples: CUDA events resolve 0.5 µs.

There are tens of thousands of samples, and they differ by more than a thousandth.
"""

_ERROR_DIGITS: Final = 2
"""Significant digits of a tuning run's errors, which are compared with a tolerance."""

_KERNELS = TypeAdapter(list[KernelFacts])
_LIST = TypeAdapter(list[Any])
_SENTENCES = TypeAdapter(tuple[str, ...])
_MEMBERS: Final = "members"
"""Column of a size's batch count; the column `batch` holds the launches per sample."""

_TIME_COLUMNS: Final = (
    "stage", "type", "kernel", "m", "n", "k", "kind", "cache", "error", "failure", "batch", "unused", "samples_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """A run as committed.

    Attributes:
        run: The run's facts.
        records: Every record, in the experiment's order.
        repeat: How it came out a second time; None where it was not repeated.
        left_out: Sentences on what the records lack of those that the run made.
    """

    run: RunRecord
    records: tuple[VariantRecord, ...]
    repeat: RepeatRecord | None = None
    left_out: tuple[str, ...] = ()


def is_published(folder: Path) -> bool:
    """Return whether a folder holds committed results of a run or a tuning run."""
    return any(Folder(folder).check(name) for name in (RECORDS, TUNING))


def compressed(content: str | bytes) -> bytes:
    """Compress text (as UTF-8) or bytes with xz, deterministically."""
    return lzma.compress(content.encode() if isinstance(content, str) else content, preset=9)


def write_records(published: PublishedRun, folder: Path) -> None:
    """Write `records.json.xz`, one record per line."""
    records = ",\n".join(record_to_text(record) for record in published.records)
    repeat = REPEAT.dump_json(published.repeat).decode() if published.repeat else "null"
    head = f'"schema": {SCHEMA},\n"run": {record_to_text(published.run)},\n"repeat": {repeat}'
    text = f'{{{head},\n"left_out": {json.dumps(published.left_out)},\n"records": [\n{records}\n]}}\n'
    write_atomically(folder / RECORDS, compressed(text))


def read_records(folder: Path) -> PublishedRun:
    """Read the file of `write_records`.

    Raises:
        StoreError: The file is missing or damaged, or another schema of this program wrote it.
    """
    with uncollected():
        content, place = _read_json(folder, RECORDS), str(folder / RECORDS)
        return PublishedRun(
            validate(RUN, content.get("run"), place),
            tuple(validate(VARIANT, record, place) for record in validate(_LIST, content.get("records"), place)),
            validate(REPEAT, content["repeat"], place) if content.get("repeat") else None,
            validate(_SENTENCES, content.get("left_out", ()), place),
        )


def write_listings(texts: Mapping[str, Mapping[str, str]], folder: Path) -> int:
    """Write the archive of listings, or remove it if there are no texts.

    Args:
        texts: Variant to file name to text. Files of one name are put side by side, since siblings' listings are alike.
        folder: Where the archive goes.

    Returns:
        Bytes of the archive.
    """
    content = archive(texts)
    if content:
        write_atomically(folder / LISTINGS, content)
    else:
        Folder(folder).remove(LISTINGS)
    return len(content)


def archive(texts: Mapping[str, Mapping[str, str]]) -> bytes:
    """Return the archive of `write_listings`; empty without texts."""
    if not texts:
        return b""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for file in sorted({file for files in texts.values() for file in files}):
            for variant, files in texts.items():
                if file in files:
                    content = files[file].encode()
                    member = tarfile.TarInfo(f"{variant}/{file}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    return compressed(stream.getvalue())


def read_listings(folder: Path) -> dict[str, dict[str, str]]:
    """Return the listings by variant and file name; empty without an archive.

    Raises:
        StoreError: The archive is damaged.
    """
    listings: dict[str, dict[str, str]] = {}
    try:
        for name, content in members(_unpacked(folder, LISTINGS) or b""):
            variant, _, file = name.partition("/")
            if file in _TEXTS:
                listings.setdefault(variant, {})[file] = content.decode()
    except ValueError as error:
        raise StoreError(f"{folder / LISTINGS} cannot be read: {error}") from error
    return listings


def write_tuning(store: TuningStore, folder: Path) -> None:
    """Write `tuning.json.xz` and `times.csv.xz`, from which a tuning run's report is rendered."""
    steps, cuts = store.steps()
    content = {
        "schema": SCHEMA,
        "facts": FACTS.dump_python(store.facts(), mode="json"),
        "kernels": _KERNELS.dump_python(list(store.kernels()), mode="json"),
        "steps": STEPS.dump_python(dict(steps), mode="json"),
        "cuts": CUTS.dump_python(dict(cuts), mode="json"),
    }
    write_atomically(folder / TUNING, compressed(json.dumps(content, ensure_ascii=False, indent=0) + "\n"))
    write_atomically(folder / TIMES, compressed(times_table(store)))


def times_table(store: TuningStore) -> str:
    """Return all times of all stages as CSV; samples in ms, in order of measurement.

    A run with batches has a column more, for their members.
    """
    names = {kernel.id: (kernel.type, kernel.name) for kernel in store.kernels()}
    times = {stage: store.times(stage) for stage in TimingStage}
    dimensions = max((len(size) for own in times.values() for sizes in own.values() for size in sizes), default=0)
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow([*_TIME_COLUMNS, *([_MEMBERS] if dimensions > len(AXES) else [])])
    for stage, own in times.items():
        for kernel, by_size in sorted(own.items()):
            for size, timed in sorted(by_size.items()):
                plain, members = size[: len(AXES)], size[len(AXES) :]
                table.writerow([stage, *names.get(kernel, ("", kernel)), *plain, *_time_cells(timed), *members])
    return stream.getvalue()


def _time_cells(timed: Timed) -> list[object]:
    facts = [timed.kind, timed.cache, "" if timed.error is None else f"{timed.error:.{_ERROR_DIGITS}g}", timed.failure]
    if timed.samples is None:
        return [*facts, "", "", ""]
    unused = " ".join(map(str, timed.samples.unused))
    return [*facts, timed.samples.batch, unused, " ".join(f"{ms:.{_SAMPLE_DIGITS}g}" for ms in timed.samples.ms)]


def restore(folder: Path, target: Path) -> None:
    """Restore a run directory from committed results; `lab report` and `lab compare` can read it.

    Args:
        folder: The committed results.
        target: The run directory; what an earlier call put there is replaced.

    Raises:
        StoreError: `folder` holds none, they are damaged or of another schema, or `target` cannot be written.
    """
    if Folder(folder).check(TUNING):
        _restore_tuning(folder, target)
    elif Folder(folder).check(RECORDS):
        _restore_run(folder, target)
    else:
        raise StoreError(f"{folder} holds no committed results: it has neither {RECORDS} nor {TUNING}")


def _restore_run(folder: Path, target: Path) -> None:
    published, listings = read_records(folder), read_listings(folder)
    _make(target)
    with Store(target, create=True) as store:
        store.clear()
        store.write_run(published.run)
        store.note(LEFT_OUT, published.left_out)
        if published.repeat is not None:
            store.write_repeat(published.repeat)
        for position, record in enumerate(published.records):
            store.write(record, position)
            if record.variant in listings:
                store.write_files(record.variant, listings[record.variant])


def _restore_tuning(folder: Path, target: Path) -> None:
    content = _read_json(folder, TUNING)
    try:
        kernels = _KERNELS.validate_python(content["kernels"])
        facts, steps = FACTS.validate_python(content["facts"]), STEPS.validate_python(content["steps"])
        cuts = CUTS.validate_python(content["cuts"])
        times = list(_times(folder, {(kernel.type, kernel.name): kernel.id for kernel in kernels}))
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, csv.Error) as error:
        # a row that is too short holds None
        raise StoreError(f"{folder} cannot be read: {error}") from error
    _make(target)
    with TuningStore(target, create=True) as store:
        store.clear()
        store.write_facts(facts)
        store.write_kernels(kernels)
        store.write_steps(steps, cuts)
        grouped: dict[tuple[TimingStage, Size], dict[str, Timed]] = {}
        for stage, size, kernel, timed in times:
            grouped.setdefault((stage, size), {})[kernel] = timed
        for (stage, size), by_kernel in grouped.items():
            store.write_times(stage, size, by_kernel)


def _times(folder: Path, ids: Mapping[tuple[str, str], str]) -> Iterator[tuple[TimingStage, Size, str, Timed]]:
    for row in csv.DictReader(io.StringIO(_text(folder, TIMES))):
        samples = None
        if row["samples_ms"]:
            ms, unused = tuple(map(float, row["samples_ms"].split())), tuple(map(int, row["unused"].split()))
            samples = Samples(ms, int(row["batch"]), unused)
        error = float(row["error"]) if row["error"] else None
        timed = Timed(samples, Kind(row["kind"]), row["cache"], error, row["failure"])
        members = (int(row[_MEMBERS]),) if row.get(_MEMBERS) else ()
        size = (*(int(row[name]) for name in AXES), *members)
        yield TimingStage(row["stage"]), size, ids.get((row["type"], row["kernel"]), row["kernel"]), timed


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder} cannot be made: {error.strerror}") from error


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    content = plain(_text(folder, name), str(path))
    if not isinstance(content, dict):
        raise StoreError(f"{path} cannot be read: expected a mapping, found {type(content).__name__}")
    check_schema(content.get("schema"), path)
    return dict(content)


def _text(folder: Path, name: str) -> str:
    try:
        content = _unpacked(folder, name)
        if content is None:
            raise StoreError(f"{folder / name} cannot be read: no such file")
        return content.decode()
    except ValueError as error:
        raise StoreError(f"{folder / name} cannot be read: {error}") from error


def _unpacked(folder: Path, name: str) -> bytes | None:
    """Return the content of a compressed file; None if it does not exist."""
    packed = Folder(folder).read(name)
    return None if packed is None else unpacked(packed, MOST_BYTES)
