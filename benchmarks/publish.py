"""Copy what a reader needs of a run into the repository: page, PNGs, CSV, records with raw samples, and provenance.

python benchmarks/publish.py reports/gemm_ladder reports/h200/gemm_ladder

What is too large to commit gets smaller step by step: records.json is compressed, then loses the executions of every
PTX line, the page embeds the listings of fewer variants, the best ones, and at last records.json is left out:
records.csv has every variant's figures. What was left out is printed, and stands in provenance.json.

Of a tuning run: page, PNGs, tables, and every time with its samples as times.csv.gz; not its libraries, whose machine
code is larger than all the rest.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
import sys
import tempfile
from pathlib import Path

from lab.report.render import render
from lab.store.codec import record_to_json
from lab.store.database import Store
from lab.store.tuning import FILE as TUNING
from lab.store.tuning import TuningStore
from lab.store.tuning_model import TimingStage

MOST_BYTES = 4 * 2**20

COMPRESSED = "records.json.gz"

MARGIN = 0.95
"""Share of the room that listings may take: the page also names the texts of every variant that it embeds."""


def publish(run: Path, target: Path, most_bytes: int = MOST_BYTES) -> tuple[str, ...]:
    """Copy a run's report.

    Args:
        run: The run directory; its report is drawn where it is missing.
        target: Where the copies go; those of an earlier call are replaced.
        most_bytes: Of all files but provenance.json.

    Returns:
        What was changed or left out, as sentences.

    Raises:
        SystemExit: It is too large even without listings and records.json.
    """
    if (run / TUNING).exists():
        return _publish_tuning(run, target)
    with Store(run) as store, tempfile.TemporaryDirectory() as made:
        folder, said = Path(made), []
        if not (run / "index.html").exists():
            render(store)  # the run was interrupted while it drew its report
        for file in (run / "index.html", run / "records.csv", run / "records.json", *sorted(run.glob("*.png"))):
            shutil.copyfile(file, folder / file.name)
        if _size(folder) > most_bytes:
            _compress(folder)
            said.append("records.json is compressed.")
        if _size(folder) > most_bytes:
            _without_lines(folder)
            said.append("The records do not say how often each PTX line was executed.")
        if _size(folder) > most_bytes:
            said += _fewer_listings(store, folder, most_bytes)
        provenance = {**record_to_json(store.run()), "published": said}
        (folder / "provenance.json").write_text(json.dumps(provenance, indent=1) + "\n")
        target.mkdir(parents=True, exist_ok=True)
        for name in ("records.json", COMPRESSED):
            (target / name).unlink(missing_ok=True)
        for file in folder.iterdir():
            shutil.copyfile(file, target / file.name)
    return tuple(said)


def _publish_tuning(run: Path, target: Path) -> tuple[str, ...]:
    said = ("The libraries are not published.",)
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.png"):
        old.unlink()  # maps of sizes that are no longer in the file
    for file in (run / "index.html", *sorted(run.glob("*.csv")), *sorted(run.glob("*.png"))):
        shutil.copyfile(file, target / file.name)
    with TuningStore(run) as store:
        (target / "times.csv.gz").write_bytes(gzip.compress(_times(store).encode(), mtime=0))
        provenance = {**store.noted("facts"), "published": said}
    (target / "provenance.json").write_text(json.dumps(provenance, indent=1) + "\n")
    return said


def _times(store: TuningStore) -> str:
    """Every time of every stage as CSV; samples in ms, in the order of measuring."""
    names = {one.id: (one.type, one.name) for one in store.kernels()}
    made = io.StringIO()
    table = csv.writer(made, lineterminator="\n")
    table.writerow(["stage", "type", "kernel", "m", "n", "k", "kind", "cache", "error", "failure", "samples_ms"])
    for stage in TimingStage:
        for kernel, by_size in sorted(store.times(stage).items()):
            for (m, n, k), one in sorted(by_size.items()):
                samples = " ".join(f"{ms:.6g}" for ms in one.samples.ms) if one.samples else ""
                facts = [one.kind, one.cache, "" if one.error is None else f"{one.error:.3g}", one.failure, samples]
                table.writerow([stage, *names.get(kernel, ("", kernel)), m, n, k, *facts])
    return made.getvalue()


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _compress(folder: Path) -> None:
    """Replace records.json by its compressed form and mend the page's link."""
    records = folder / "records.json"
    _write_compressed(folder, records.read_bytes())
    records.unlink()
    _link(folder, COMPRESSED)


def _without_lines(folder: Path) -> None:
    """Leave what was counted a PTX line, most of a record's bytes, out of the compressed records."""
    made = json.loads(gzip.decompress((folder / COMPRESSED).read_bytes()))
    for record in made["records"]:
        if record["emulation"]:
            record["emulation"]["lines"] = []
    _write_compressed(folder, json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode())


def _fewer_listings(store: Store, folder: Path, most_bytes: int) -> list[str]:
    """Render the report again with as many listings as there is room for; without records.json where there is none."""
    said = []
    _render(store, folder, 0)
    if _size(folder) > most_bytes:
        (folder / COMPRESSED).unlink()
        said.append("There was no room for records.json; records.csv has every variant's figures.")
    size = _size(folder)
    if size > most_bytes:
        raise SystemExit(f"{size} bytes are too many to commit; the limit is {most_bytes}")
    room = int((most_bytes - size) * MARGIN)
    _render(store, folder, room)
    if _size(folder) > most_bytes:  # the names of what is embedded took what little room there was
        room = 0
        _render(store, folder, room)
    return [*said, f"Of the page's listings, those of the best variants are embedded, up to {room / 1e6:.2f} MB."]


def _render(store: Store, folder: Path, listing_budget: int) -> None:
    """The report beside the compressed records, if they are still there."""
    render(store, listing_budget=listing_budget, folder=folder)
    (folder / "records.json").unlink()
    _link(folder, COMPRESSED if (folder / COMPRESSED).exists() else "")


def _write_compressed(folder: Path, text: bytes) -> None:
    """The same bytes for the same records."""
    (folder / COMPRESSED).write_bytes(gzip.compress(text, mtime=0))


def _link(folder: Path, name: str) -> None:
    """Let the page's link to the records name this file; without a name it is left out."""
    page = folder / "index.html"
    text = page.read_text(encoding="utf-8")
    link = f'<a href="{name}">{name}</a>' if name else "no records.json"
    page.write_text(text.replace('<a href="records.json">records.json</a>', link), encoding="utf-8")


def main() -> None:
    """Publish, and say what was left out."""
    run, target = (Path(argument) for argument in sys.argv[1:3])
    for sentence in publish(run, target):
        print(sentence)
    print(f"{target}: {len(list(target.iterdir()))} files, {_size(target) / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
