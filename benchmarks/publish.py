"""Copy what a reader needs of a run into the repository: page, PNGs, CSV, records with raw samples, and provenance.

python benchmarks/publish.py reports/gemm_ladder reports/h200/gemm_ladder

What is too large to commit gets smaller in two steps: records.json is compressed, then the page embeds the listings of
fewer variants, the best ones. What was left out is printed, and stands in provenance.json.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
from pathlib import Path

from lab.report import render
from lab.store import Store, record_to_json

MOST_BYTES = 4 * 2**20

MARGIN = 0.95
"""Share of the room that listings may take: the page also names the texts of every variant that it embeds."""


def publish(run: Path, target: Path, most_bytes: int = MOST_BYTES) -> tuple[str, ...]:
    """Copy a run's report.

    Args:
        run: The run directory, with its report.
        target: Where the copies go; those of an earlier call are replaced.
        most_bytes: Of all files but provenance.json.

    Returns:
        What was changed or left out, as sentences.

    Raises:
        SystemExit: It is too large even without listings.
    """
    with Store(run) as store, tempfile.TemporaryDirectory() as made:
        folder, said = Path(made), []
        for file in (run / "index.html", run / "records.csv", run / "records.json", *sorted(run.glob("*.png"))):
            shutil.copyfile(file, folder / file.name)
        if _size(folder) > most_bytes:
            _compress(folder)
            said.append("records.json is compressed.")
        if _size(folder) > most_bytes:
            said.append(_fewer_listings(store, folder, most_bytes))
        provenance = {**record_to_json(store.run()), "published": said}
        (folder / "provenance.json").write_text(json.dumps(provenance, indent=1) + "\n")
        target.mkdir(parents=True, exist_ok=True)
        for name in ("records.json", "records.json.gz"):
            (target / name).unlink(missing_ok=True)
        for file in folder.iterdir():
            shutil.copyfile(file, target / file.name)
    return tuple(said)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _compress(folder: Path) -> None:
    """Replace records.json by its compressed form, the same bytes for the same records, and mend the page's link."""
    records, page = folder / "records.json", folder / "index.html"
    (folder / "records.json.gz").write_bytes(gzip.compress(records.read_bytes(), mtime=0))
    records.unlink()
    text = page.read_text(encoding="utf-8")
    link = '<a href="{0}">{0}</a>'
    page.write_text(text.replace(link.format("records.json"), link.format("records.json.gz")), encoding="utf-8")


def _fewer_listings(store: Store, folder: Path, most_bytes: int) -> str:
    """Render the report again with as many listings as there is room for."""
    for listings in (False, True):
        room = int((most_bytes - _size(folder)) * MARGIN) if listings else 0
        render(store, listing_budget=room, folder=folder)
        _compress(folder)
        size = _size(folder)
        if size > most_bytes:
            raise SystemExit(f"{size} bytes are too many to commit; the limit is {most_bytes}")
    return f"Of the page's listings, those of the best variants are embedded, up to {room / 1e6:.2f} MB."


def main() -> None:
    """Publish, and say what was left out."""
    run, target = (Path(argument) for argument in sys.argv[1:3])
    for sentence in publish(run, target):
        print(sentence)
    print(f"{target}: {len(list(target.iterdir()))} files, {_size(target) / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
