"""Thread-instructions per second of the emulator, for the 128 x 128 double-buffered SGEMM at 512 x 512 x 256.

Run ``python benchmarks/emulator_speed.py``; it prints a line for each setting. Targets on one core: 200 million with
counts and checks off, 20 million with both on.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from lab.emulator.api import launch
from lab.isa.ptx.module import read_ptx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import compiling  # noqa: E402  the tests' compiler helper

M, N, K = 512, 512, 256


def main() -> None:
    """Print the speeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="executions of each setting; the fastest counts")
    repeat = parser.parse_args().repeat
    module = read_ptx(compiling.ptx("gemm_128"))
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), np.float32)
    b = rng.standard_normal((K, N), np.float32)
    args = [M, N, K, a, b]
    c = np.full((M, N), np.nan, np.float32)
    counted = launch(module, "sgemm", (4, 4), 256, [*args, c])
    if counted.counts is None:
        raise SystemExit("nothing was counted")
    threads = counted.counts.threads
    print(f"{threads / 1e6:.0f} M thread-instructions, largest error {np.abs(c - a @ b).max():.1e}")
    for on in (False, True):
        seconds = []
        for _ in range(repeat):
            start = time.perf_counter()
            launch(module, "sgemm", (4, 4), 256, [*args, c], check=on, count=on)
            seconds.append(time.perf_counter() - start)
        best, median = min(seconds), sorted(seconds)[len(seconds) // 2]
        print(
            f"counts and checks {'on ' if on else 'off'}: {threads / median / 1e6:6.0f} M/s "
            f"(median of {repeat}; best {threads / best / 1e6:.0f})"
        )


if __name__ == "__main__":
    main()
