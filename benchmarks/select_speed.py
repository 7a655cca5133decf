"""How long a library takes to pick a kernel: microseconds a call, the first time and from then on.

    python benchmarks/select_speed.py [LIBRARY.json]

Without a library, one is grown over invented times at 27 x 27 x 3 sizes.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.base.sizes import Size
from lab.library import dispatch
from lab.library.grid import Grid
from lab.library.tree import Logic, build

REPETITIONS = 7
ALONG = [16 * (1 + i * (i + 1) // 2) for i in range(27)]
"""Tensile's range [16, 16, 16, 5632]: strides that grow by 16."""


def invented(size: Size, tile: int) -> float:
    """Time in ms of a kernel that does not exist."""
    m, n, k = size
    return 1e-3 + math.ceil(math.ceil(m / tile) * math.ceil(n / tile) / 132) * k * (tile * tile + 80 * tile) * 1e-8


def invented_logic() -> Logic:
    """A tree over invented times."""
    sizes = [(m, n, k) for m in ALONG for n in ALONG for k in (64, 512, 3104)]
    return build(Grid.of({size: {f"tile{t}": invented(size, t) for t in range(16, 272, 16)} for size in sizes}))


def microseconds(select: Callable[[int, int, int], object], sizes: list[Size]) -> float:
    """Median over repetitions of the mean time of a call, the loop included."""
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        for m, n, k in sizes:
            select(m, n, k)
        times.append((time.perf_counter() - start) / len(sizes) * 1e6)
    return statistics.median(times)


def main() -> None:
    """Print the table."""
    loaded = dispatch.load(Path(sys.argv[1])) if len(sys.argv) > 1 else None
    logic = loaded.library.logic if loaded else invented_logic()
    sizes = [(m + 3, n + 5, k) for m in ALONG for n in ALONG for k in (100, 2048)]
    print(f"{len(logic.kernels)} kernels, {len(logic.splits)} splits, {len(logic.exact)} exact sizes")
    print(f"through the tree: {microseconds(logic.select, sizes):8.3f} µs")
    picker = dispatch.Picker(logic)
    microseconds(picker.select, sizes)
    print(f"remembered:       {microseconds(picker.select, sizes):8.3f} µs")


if __name__ == "__main__":
    main()
