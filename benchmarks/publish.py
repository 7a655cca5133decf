"""Copy what a reader needs of a run into the repository: page, PNGs, CSV, records with raw samples, and provenance.

python benchmarks/publish.py reports/gemm_ladder reports/h200/gemm_ladder
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from lab.store import Store, record_to_json

MOST_BYTES = 4 * 2**20


def main() -> None:
    """Copy, and refuse what is too large to commit."""
    run, target = (Path(argument) for argument in sys.argv[1:3])
    with Store(run) as store:
        provenance = record_to_json(store.run())
    files = [run / "index.html", run / "records.csv", run / "records.json", *sorted(run.glob("*.png"))]
    size = sum(file.stat().st_size for file in files)
    if size > MOST_BYTES:
        raise SystemExit(f"{size} bytes are too many to commit; the limit is {MOST_BYTES}")
    target.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copyfile(file, target / file.name)
    (target / "provenance.json").write_text(json.dumps(provenance, indent=1) + "\n")
    print(f"{target}: {len(files) + 1} files, {size / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
