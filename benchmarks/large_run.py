"""Cost of ten thousand variants: listing them, resuming their run, its report, a table and a comparison.

    python benchmarks/large_run.py RUN [--variants 10000]

RUN is the directory of any finished run. Its records, which have a realistic size, are repeated with other times. Each
step is a process of its own, so that its peak of memory is known. Prints wall time and processor time in seconds, the
peak in MB, and the size of the page.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from lab.measured.timing import CardState, Measurement, Samples
from lab.store.codec import record_to_text
from lab.store.database import Store

SPACE = """question: How long does it take to list ten thousand variants?
operator: gemm
problem: {m: 4096, n: 4096, k: 4096, dtype: float32, layout: nn, alpha: 1.0, beta: 0.0}
kernels:
  - template: gemm/tiled.cu.j2
    parameters:
      block_m: [32, 64, 128]
      block_n: [32, 64, 128]
      block_k: [8, 16, 32]
      thread_m: [2, 4, 8]
      thread_n: [4, 8]
      vector_width: [1, 2, 4]
      padding: [0, 1, 2, 4]
      double_buffer: [false, true]
      unroll: [1, 2, 4, 8]
      min_blocks: [1, 2]
archs: [sm_90]
toolchains: [nvrtc]
"""


def grow(source: Path, folder: Path, variants: int) -> int:
    """Write a run with this number of variants; return the mean size of a record in bytes."""
    rng = random.Random(0)  # noqa: S311 - no secret
    with Store(source) as store:
        facts, stored_records = store.run(), store.records()
        texts = {record.variant: store.variant_folder(record.variant).path for record in stored_records}
    card, total = CardState(1980, 2619, 600.0, 50), 0
    with Store(folder, create=True) as store:
        store.write_run(replace(facts, variants=variants, swept=(*facts.swept, "copy")))
        for place in range(variants):
            record_source = stored_records[place % len(stored_records)]
            ms = 1 + rng.random()
            sides = [Samples(tuple(side * rng.gauss(1, 0.005) for _ in range(31))) for side in (ms, 0.9)]
            timed = Measurement(sides[0], sides[1], "cublas", "cold", card, card)
            name = f"{place:010x}"
            record = replace(
                record_source,
                variant=name,
                parameters={**record_source.parameters, "copy": place % 7},
                measurement=timed,
            )
            store.write(record, place)
            shutil.copytree(texts[record_source.variant], store.variant_folder(name).path, copy_function=os.link)
            total += len(record_to_text(record))
    return total // variants


def list_variants(folder: Path) -> int:
    """List a space of about the same size, as `lab inspect` does; return the number of variants."""
    from rich.console import Console  # noqa: PLC0415 - each step pays for its own imports alone

    from lab.cli.inspect import variants  # noqa: PLC0415
    from lab.cli.tables import print_variants  # noqa: PLC0415

    file = folder / "space.yaml"
    file.write_text(f"{SPACE}search: {{sample: 10000}}\n")
    planned = variants(file, 10000)
    with Path(os.devnull).open("w") as nowhere:
        print_variants(Console(file=nowhere), planned)
    return len(planned)


def resume(folder: Path) -> int:
    """Read what resuming a run reads: every record, and whether its files are whole."""
    with Store(folder) as store:
        return sum(1 for _ in store.whole_records().values())


def report(folder: Path) -> int:
    """Draw the report; return the size of the page in bytes."""
    from lab.report.render import render  # noqa: PLC0415

    with Store(folder) as store:
        return render(store)[0].stat().st_size


def frame(folder: Path) -> int:
    """Read the records as a table of pandas; return its number of rows."""
    from lab.runs.frame import read_frame  # noqa: PLC0415

    return len(read_frame(folder))


def compare(folder: Path) -> int:
    """Compare the run with itself; return the number of variants that are in both."""
    from lab.runs.compare import compare_folders  # noqa: PLC0415

    return len(compare_folders(folder, folder).changes)


STEPS = {"list": list_variants, "resume": resume, "report": report, "frame": frame, "compare": compare}


def main() -> None:
    """Make the run, then do each step in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="directory of a finished run")
    parser.add_argument("--variants", type=int, default=10000, help="number of variants")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        began = time.perf_counter()
        step_result = STEPS[options.step](options.run)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([step_result, time.perf_counter() - began, time.process_time(), peak]))
        return
    with tempfile.TemporaryDirectory(dir=options.run.parent) as name:
        folder = Path(name)
        print(f"{options.variants} records of {grow(options.run, folder, options.variants) / 1000:.1f} KB")
        for step in STEPS:
            command = [sys.executable, __file__, str(folder), "--step", step]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            step_result, wall, processor, peak = json.loads(done.stdout)
            what = f"page {step_result / 1e6:.1f} MB" if step == "report" else f"{step_result} variants"
            print(f"{step}: {wall:.1f} s, {processor:.1f} s of processor time with imports, {peak:.0f} MB; {what}")


if __name__ == "__main__":
    main()
