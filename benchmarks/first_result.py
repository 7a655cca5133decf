"""When a run's first results are on the terminal: seconds from the start of `python -m lab run` on a pseudo-terminal.

    python benchmarks/first_result.py [--runs 5] [--experiment experiments/gemm_unroll.yaml] [-- OPTIONS OF LAB RUN]

The first run is cold: its cache of builds is empty. The others are warm. A moment is when its words have been read from
the terminal, so it includes what drawing costs:

    question    the experiment was read, and its question is shown
    built       the first variant was compiled and inspected
    executed    the first one was executed on the CPU
    best        the first throughput is shown, with its kind
    last        every variant is recorded
    end         the process has ended, the report is there
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LIMIT_S: Final = 600.0
WORDS: Final = {
    "question": rb"\d+ variants of \d+ combinations",
    "built": rb"built: \w+",
    "executed": rb"executed on the CPU: \w+",
    "best": rb"best[^:\n]*: [\d.]+ \S+ \((measured|predicted)",
    "last": rb"drawing the report",
}


def run(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Run a command on a terminal of 120 columns.

    Returns:
        Seconds from its start to each moment that it came to, by name.

    Raises:
        RuntimeError: the command failed, or took longer than `LIMIT_S`.
    """
    ours, theirs = pty.openpty()
    begun = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT, start_new_session=True
    )
    os.close(theirs)
    seconds: dict[str, float] = {}
    text = b""
    while time.perf_counter() - begun < LIMIT_S:
        ready, _, _ = select.select([ours], [], [], 1.0)
        try:
            part = os.read(ours, 65536) if ready else b""
        except OSError:  # the other end is closed
            break
        text += part
        now = time.perf_counter() - begun
        for name, words in WORDS.items():
            if name not in seconds and re.search(words, text):
                seconds[name] = now
    else:
        process.kill()
    code = process.wait()
    os.close(ours)
    if code:
        raise RuntimeError(f"{' '.join(command)} ended with {code}:\n{text.decode(errors='replace')[-2000:]}")
    return seconds | {"end": time.perf_counter() - begun}


def main() -> None:
    """Print the seconds of the cold run, and the medians of the warm ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="warm runs")
    parser.add_argument("--experiment", default="experiments/gemm_unroll.yaml")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("options", nargs="*", help="options of lab run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLUMNS": "120",
            "LINES": "40",
            "LAB_CACHE_DIR": f"{folder}/cache",
        }
        command = [sys.executable, "-m", "lab", "run", options.experiment, *options.options, "--no-resume"]
        runs = [run([*command, "--output", f"{folder}/{number}"], environment) for number in range(options.runs + 1)]
    cold, warm = runs[0], runs[1:]
    names = [name for name in (*WORDS, "end") if any(name in run for run in runs)]
    medians = {
        name: statistics.median(times) for name in names if (times := [one[name] for one in warm if name in one])
    }
    print(f"{'':10}{'cold, s':>10}{'warm, s':>10}")
    for name in names:
        cells = (one.get(name) for one in (cold, medians))
        print(f"{name:10}" + "".join(f"{'' if value is None else f'{value:.2f}':>10}" for value in cells))
    if options.json:
        options.json.write_text(
            json.dumps({"cold": cold, "warm": warm, "medians": medians}, indent=1), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
