"""Time a library takes to select a kernel, in nanoseconds per call: in Python, and in both forms of the C.

    python benchmarks/select_speed.py [LIBRARY.json | FOLDER]

FOLDER holds committed results of `lab tune`: a tree is grown over the times of each problem type. Without an argument,
one is grown over invented times at 27 x 27 x 3 sizes.

Cold sizes are a million random ones, far more than are remembered; some are sizes of the logic itself. Repeated ones
are a hundred of them in turn. Every figure is a median over repetitions, the loop included.
"""

from __future__ import annotations

import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from lab.base.sizes import Size
from lab.library import dispatch
from lab.library.emit import Selection, to_header, to_source
from lab.library.grid import Grid
from lab.library.package import Library, LibraryKernel, LibraryLaunch, TimesKind
from lab.library.tree import Logic, build, evaluate
from lab.store import published
from lab.store.tuning import TuningStore
from lab.store.tuning_model import Timed, TimingStage

REPETITIONS = 7
COLD, REPEATED, COLD_IN_PYTHON = 1_000_000, 100, 2000
LARGEST = 8192
SEED = 1
ALONG = [16 * (1 + i * (i + 1) // 2) for i in range(27)]
"""Tensile's range [16, 16, 16, 5632]: strides that grow by 16."""

HERE = Path(__file__).parent
GCC = shutil.which("gcc") or ""


def invented(size: Size, tile: int) -> float:
    """Time in ms of a kernel that does not exist."""
    m, n, k = size
    return 1e-3 + math.ceil(math.ceil(m / tile) * math.ceil(n / tile) / 132) * k * (tile * tile + 80 * tile) * 1e-8


def invented_grid() -> Grid:
    """Invented times at a range of sizes."""
    sizes = [(m, n, k) for m in ALONG for n in ALONG for k in (64, 512, 3104)]
    return Grid.of({size: {f"tile{t}": invented(size, t) for t in range(16, 272, 16)} for size in sizes})


def measured(folder: Path) -> Iterator[tuple[str, Logic]]:
    """Yield a committed tuning run's problem types with a logic each, grown over its measured times."""
    with tempfile.TemporaryDirectory() as temporary:
        run = Path(temporary) / "run"
        published.restore(folder, run)
        with TuningStore(run) as store:
            facts, kernels, times = store.facts(), store.kernels(), store.times(TimingStage.FINAL)
    for label, final in facts.final.items():
        own = {kernel.name: times[kernel.id] for kernel in kernels if kernel.type == label and kernel.id in times}
        yield label, build(*(_grid(sizes, own) for sizes in (final.ranges, final.exact)))


def _grid(sizes: Sequence[Size], times: Mapping[str, Mapping[Size, Timed]]) -> Grid | None:
    """The times in ms at some sizes, by the kernels' names; None without sizes."""
    known = {
        size: {name: ms for name, own in times.items() if size in own and (ms := own[size].ms) is not None}
        for size in sizes
    }
    return Grid.of(known) if known else None


def nanoseconds(select: Callable[[int, int, int], object], sizes: Sequence[Size]) -> float:
    """Median over repetitions of the mean time of a call, the loop included."""
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        for m, n, k in sizes:
            select(m, n, k)
        times.append((time.perf_counter() - start) / len(sizes) * 1e9)
    return statistics.median(times)


def drawn(logic: Logic, count: int) -> list[Size]:
    """Random sizes, evenly over the logarithm; every tenth is an exact size of the logic if it has any."""
    rng = random.Random(SEED)  # noqa: S311 - sizes, not secrets
    exact = [(one.m, one.n, one.k) for one in logic.exact]

    def side() -> int:
        return round(math.exp(rng.uniform(0, math.log(LARGEST))))

    return [rng.choice(exact) if exact and i % 10 == 0 else (side(), side(), side()) for i in range(count)]


def of_c(logic: Logic, selection: Selection, folder: Path, files: Sequence[Path]) -> list[float]:
    """Nanoseconds a call of the emitted C, for each file of sizes."""
    name = f"{selection}_sgemm"
    never = LibraryLaunch("none", ("1", "1", "1"), ("1", "1", "1"), "0", ())
    kernels = tuple(LibraryKernel(kernel, f"{kernel}.cubin", "none", {}, (never,)) for kernel in logic.kernels)
    loss = evaluate(logic, Grid.of({(1, 1, 1): dict.fromkeys(logic.kernels, 1.0)}))
    made = Library(name, "float32", "nn", "sm_90", TimesKind.PREDICTED, "nothing", kernels, logic, loss)
    (folder / f"{name}.h").write_text(to_header(made))
    (folder / f"{name}.c").write_text(to_source(made, selection))
    program = folder / name
    flags = ["-std=c11", "-O2", f"-DNAME={name}", f"-D{name.upper()}_SELECTION_ONLY"]
    subprocess.run([GCC, *flags, "-o", program, HERE / "select_speed.c", folder / f"{name}.c"], check=True)
    run = subprocess.run([program, *files], check=True, capture_output=True, text=True)
    return [float(figure) for figure in run.stdout.split()]


def show(title: str, logic: Logic) -> None:
    """Print a table."""
    print(f"{title}: {len(logic.kernels)} kernels, {len(logic.splits)} splits, {len(logic.exact)} exact sizes")
    print(f"{'ns a call':<28}{'cold':>10}{'repeated':>10}")
    cold = drawn(logic, COLD)
    repeated = cold[:REPEATED]
    if GCC:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            files = [folder / "cold", folder / "repeated"]
            for file, sizes in zip(files, (cold, repeated), strict=True):
                np.array(sizes, dtype=np.int64).tofile(file)
            for selection in Selection:
                first, later = of_c(logic, selection, folder, files)
                print(f"{f'C, {selection}':<28}{first:>10.1f}{later:>10.1f}")
    picker = dispatch.Picker(logic)
    for size in repeated:
        picker.select(*size)
    first = nanoseconds(logic.select, cold[:COLD_IN_PYTHON])
    print(f"{'Python':<28}{first:>10.0f}{nanoseconds(picker.select, repeated * 20):>10.0f}")


def main() -> None:
    """Print the tables."""
    report_folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if report_folder is None:
        show("invented", build(invented_grid()))
    elif published.is_published(report_folder):
        for label, logic in measured(report_folder):
            show(label, logic)
    else:
        loaded = dispatch.load(report_folder)
        several = loaded.layouts.values() if isinstance(loaded, dispatch.LayoutDispatcher) else (loaded,)
        for one in several:
            show(one.library.layout, one.library.logic)


if __name__ == "__main__":
    main()
