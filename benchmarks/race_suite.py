"""Score the emulator on labelled races: detected races and overruns, and false positives.

Run ``python benchmarks/race_suite.py FOLDER``. The folder holds kernels of the Indigo suite, in the form that HiRace's
artifact uses: `*.cu` whose name carries the label (a word that ends in `Bug` is a race, `boundsBug` alone an overrun,
and no such word a clean kernel) and a graph `*.egr`. Each kernel runs as in the artifact: 128 blocks of 256 threads.

``--half 0`` or ``--half 1`` takes half of the files, chosen by a hash of their names, so that one half can be kept
unseen.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections import Counter
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from lab.emulator.api import launch
from lab.emulator.compiled.execution import SUSPICIOUS
from lab.emulator.results import Emulation, EngineChoice
from lab.isa.ptx.module import read_ptx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import compiling  # noqa: E402  the tests' compiler helper

BLOCKS, THREADS = 128, 256
HOST = "void qsort(void*, size_t, size_t, int (*)(const void*, const void*)) {}"
"""What the suite's host code needs, which is compiled along with the kernel."""
RACES = frozenset({"shared-race", "global-race"})
OVERRUNS = frozenset({"out-of-bounds"})


def label_of(name: str) -> str:
    """Return `race`, `overrun`, `race and overrun` or `clean` by the words of a file's name."""
    words = {word for word in name.split("_") if word.endswith("Bug")}
    if not words:
        return "clean"
    if words == {"boundsBug"}:
        return "overrun"
    return "race and overrun" if "boundsBug" in words else "race"


def read_graph(file: Path) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the index of each node's first neighbour, (nodes + 1,), and the neighbours, (edges,)."""
    words = np.fromfile(file, "<i4")
    nodes, edges = (int(word) for word in words[:2])
    return words[2 : 3 + nodes].copy(), words[3 + nodes : 3 + nodes + edges].copy()


def compile_kernel(file: Path, cache: Path) -> str:
    """Return the PTX of a file, compiled without the suite's host header; what is compiled once is kept."""
    text = file.read_text().replace('#include "indigo_cuda.h"', HOST)
    kept = cache / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.ptx"
    if not kept.exists():
        made = compiling.compile_text(text, "-lineinfo", "--device-as-default-execution-space")
        cache.mkdir(parents=True, exist_ok=True)
        kept.write_text(made)
    return kept.read_text()


def execute(
    file: Path, graph: tuple[NDArray[np.int32], NDArray[np.int32]], cache: Path, engine: EngineChoice
) -> Emulation:
    """Execute one kernel on random data within the graph's range."""
    module = read_ptx(compile_kernel(file, cache))
    index, neighbours = graph
    nodes, edges = len(index) - 1, len(neighbours)
    size = max(nodes, edges)
    dtype = np.float64 if "double" in file.stem else np.int32
    rng = np.random.default_rng(0)
    data1, data2 = rng.integers(0, nodes, size).astype(dtype), rng.integers(0, edges, size).astype(dtype)
    data1[0] = data2[0] = 0
    name = next(function.name for function in module.kernels if "test_kernel" in function.name)
    arguments = [index.copy(), neighbours.copy(), data1, data2, nodes]
    return launch(module, name, BLOCKS, THREADS, arguments, count=False, engine=engine)


def in_half(name: str, half: int | None) -> bool:
    """Return whether a file belongs to the half that was asked for; None asks for all."""
    return half is None or hashlib.sha256(name.encode()).digest()[0] % 2 == half


def main() -> None:
    """Print found, missed and false findings by label, and the seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", type=int, choices=(0, 1), help="only one half of the files")
    parser.add_argument("--only", default="", help="only files whose name contains this")
    parser.add_argument("--names", action="store_true", help="name the files that were missed or wrongly flagged")
    parser.add_argument("--engine", choices=get_args(EngineChoice), default="interpreted", help="what executes them")
    parser.add_argument("--cache", type=Path, default=Path("reports/race_suite"), help="where PTX is kept")
    chosen = parser.parse_args()
    graph = read_graph(next(iter(sorted(chosen.folder.glob("*.egr")))))
    files = [file for file in sorted(chosen.folder.glob("*.cu")) if in_half(file.stem, chosen.half)]
    score: Counter[tuple[str, str, bool]] = Counter()
    engines: Counter[tuple[str, str, str]] = Counter()
    began = time.perf_counter()
    for file in files:
        if chosen.only not in file.stem:
            continue
        label = label_of(file.stem)
        done = execute(file, graph, chosen.cache, chosen.engine)
        kinds = {finding.kind for finding in done.findings}
        engines[label, done.engine, done.not_compiled if done.not_compiled == SUSPICIOUS else ""] += 1
        for what, wanted in (("race", RACES), ("overrun", OVERRUNS)):
            found, expected = bool(kinds & wanted), what in label
            score[label, what, found] += 1
            if chosen.names and found != expected:
                print(f"{'false' if found else 'missed'} {what}: {file.name} {sorted(kinds)}", flush=True)
    for what in ("race", "overrun"):
        for label in ("clean", "overrun", "race", "race and overrun"):
            seen, silent = score[label, what, True], score[label, what, False]
            words = f"found {seen}, missed {silent}" if what in label else f"false {seen}, rightly silent {silent}"
            print(f"{what:8} in kernels labelled {label + ':':18} {words}")
    if chosen.engine != "interpreted":
        for (label, engine, why), number in sorted(engines.items()):
            print(f"{label + ':':18} {number:4} {engine}{', ' if why else ''}{why}")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
