"""Thread-instructions per second of the emulator's two engines, side by side, on kernels of several kinds.

Run ``python benchmarks/emulator_speed.py``; it prints a table, in processor time of one core, and what machine code
costs to make and to load. ``--programs 1000`` then compares both engines on so many random programs, bit for bit. Other
processes disturb the column of two cores, which is in time of the clock.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.api import launch
from lab.emulator.compiled.execution import SUSPICIOUS
from lab.emulator.compiled.kept import KernelMaker
from lab.emulator.compiled.native import forget
from lab.emulator.compiled.shadows import Watched
from lab.emulator.program import Program
from lab.emulator.results import Emulation, Engine
from lab.isa.model import Module
from lab.isa.ptx.module import read_ptx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import compiling  # noqa: E402  the tests' compiler helper
import random_ptx  # noqa: E402

CUDA = r"""
extern "C" __global__ void copy4(const float4 *a, float4 *b) { int i = blockIdx.x * 256 + threadIdx.x; b[i] = a[i]; }
extern "C" __global__ void axpy(const float *x, float *y, float a, int n) {
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) y[i] += a * x[i];
}
extern "C" __global__ void reduce(const float *x, float *z) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    for (int h = 128; h; h >>= 1) { __syncthreads(); if (t < h) s[t] += s[t + h]; }
    if (!t) z[blockIdx.x] = s[0];
}
extern "C" __global__ void collatz(int *out) {
    unsigned i = blockIdx.x * 256 + threadIdx.x, v = i + 1, n = 0;
    while (v != 1) { v = v & 1 ? 3 * v + 1 : v / 2; n++; }
    out[i] = n;
}
extern "C" __global__ void mandelbrot(int *out) {
    int i = blockIdx.x * 256 + threadIdx.x, n = 0;
    float x0 = (i % 512) / 200.0f - 2.0f, y0 = (i / 512) / 200.0f - 1.2f, x = 0, y = 0;
    while (x * x + y * y < 4 && n < 200) { float t = x * x - y * y + x0; y = 2 * x * y + y0; x = t; n++; }
    out[i] = n;
}
extern "C" __global__ void lengths(float *out) {
    int i = blockIdx.x * 256 + threadIdx.x;
    float s = 0;
    for (int k = 0; k < i % 64; k++) s = s * 0.5f + k;
    out[i] = s;
}
extern "C" __global__ void gather(const unsigned *x, unsigned *bins) {
    int i = blockIdx.x * 256 + threadIdx.x;
    bins[i] = x[x[i] & 1023];
}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A launch to time.

    Attributes:
        name: What the table calls it.
        entry: The kernel.
        grid: Blocks of the compiled engine's launch.
        small: Blocks of the interpreter's, which is slower.
        arguments: Makes the arguments.
    """

    name: str
    entry: str
    grid: tuple[int, int]
    small: tuple[int, int]
    arguments: Callable[[], list[Any]]


def cases() -> list[Case]:
    """Return the launches of the table."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> NDArray[np.float32]:
        return rng.standard_normal(shape, np.float32)

    def zeros(count: int, dtype: str = "f4") -> NDArray[Any]:
        return np.zeros(count, dtype)

    n, m = 1 << 22, 1024
    return [
        Case("sgemm 128x128", "sgemm", (8, 8), (2, 1), lambda: [m, m, m, normal(m, m), normal(m, m), zeros(m * m)]),
        Case("copy float4", "copy4", (4096, 1), (4096, 1), lambda: [normal(n), zeros(n)]),
        Case("axpy", "axpy", (1024, 1), (1024, 1), lambda: [normal(n), normal(n), np.float32(2), np.int32(n)]),
        Case("block reduction", "reduce", (16384, 1), (2048, 1), lambda: [normal(n), zeros(16384)]),
        Case("collatz", "collatz", (256, 1), (32, 1), lambda: [zeros(65536, "i4")]),
        Case("mandelbrot", "mandelbrot", (1024, 1), (128, 1), lambda: [zeros(1 << 18, "i4")]),
        Case("loop to i % 64", "lengths", (1024, 1), (128, 1), lambda: [zeros(1 << 18)]),
        Case(
            "gather",
            "gather",
            (8192, 1),
            (256, 1),
            lambda: [rng.integers(0, 1 << 32, n, "u4"), zeros(n, "u4")],
        ),
    ]


def run(
    module: Module, case: Case, engine: Engine, *, count: bool = True, check: bool = False, threads: int = 1
) -> tuple[Emulation, float, float]:
    """Run a case; return the emulation, its processor time and its time by the clock, in seconds."""
    arguments, grid = case.arguments(), case.small if engine == "interpreted" else case.grid
    began, clock = time.process_time(), time.perf_counter()
    done = launch(module, case.entry, grid, 256, arguments, check=check, count=count, engine=engine, threads=threads)
    return done, time.process_time() - began, time.perf_counter() - clock


def speeds(module: Module, case: Case, repeat: int) -> str:
    """Return a case's line of the table: thread-instructions per second, in units of 10^9."""
    cold, warm = making(module, case.entry)
    slow, slow_seconds, _ = run(module, case, "interpreted")
    checked, checked_seconds, _ = run(module, case, "interpreted", check=True)
    done, *_ = run(module, case, "compiled", check=True)
    if done.counts is None or slow.counts is None or checked.counts is None or done.engine != "compiled":
        return f"{case.name:16} not compiled: {done.not_compiled}"
    total = done.counts.threads
    ways = ((False, False), (True, False), (True, True))
    seconds = [
        min(run(module, case, "compiled", count=count, check=check)[1] for _ in range(repeat)) for count, check in ways
    ]
    one, two = (min(run(module, case, "compiled", check=True, threads=n)[2] for _ in range(repeat)) for n in (1, 2))
    rates = " ".join(f"{total / each / 1e9:9.2f}" for each in seconds)
    return (
        f"{case.name:16} {total / 1e6:8.0f} {slow.counts.threads / slow_seconds / 1e9:9.3f} "
        f"{checked.counts.threads / checked_seconds / 1e9:9.3f} {rates} {one / two:9.2f} {cold:9.2f} {warm:9.3f}"
    )


def making(module: Module, entry: str) -> tuple[float, float]:
    """Return the processor time, in seconds, to make a kernel's machine code, and to load it from a cache."""
    durations = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            forget()
            began = time.process_time()
            watched = Watched(shared=4, global_=4, copies=False, extents={})
            KernelMaker(Program(module, entry), {}, count=True, watched=watched, folder=Path(folder)).make()
            durations.append(time.process_time() - began)
    return durations[0], durations[1]


def compare(programs: int) -> None:
    """Run random programs on both engines, with all checks; print how many agree on outputs, counts and findings."""
    agree, suspicious, other = 0, 0, 0
    ways: tuple[Engine, Engine] = ("interpreted", "compiled")
    for seed in range(programs):
        kernel = random_ptx.random_kernel(seed)
        (slow, wanted), (fast, fast_output) = (random_ptx.run(kernel, seed, engine, check=True) for engine in ways)
        suspicious += fast.not_compiled == SUSPICIOUS
        other += fast.engine != "compiled" and fast.not_compiled != SUSPICIOUS
        if np.array_equal(wanted, fast_output) and (slow.lines, slow.findings) == (fast.lines, fast.findings):
            agree += fast.engine == "compiled"
        else:
            print(f"random program {seed}: the engines differ")
    print(
        f"{agree} of {programs} random programs: the same bits, counts and findings; {suspicious} were suspicious, "
        f"{other} were not compiled for other reasons"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="executions of each setting; the fastest counts")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--programs", type=int, default=0, help="random programs on which both engines are compared")
    options = parser.parse_args()
    text = compiling.compile_text(CUDA)
    modules = {"sgemm": read_ptx(compiling.ptx("gemm_128"))}
    print(
        f"{'':16} {'':8} {'interpreted':>19} {'machine code':>29}\n"
        f"{'10^9 per second':16} {'millions':>8} {'counts':>9} {'+ checks':>9} {'plain':>9} {'counts':>9} "
        f"{'+ checks':>9} {'two cores':>9} {'make s':>9} {'load s':>9}"
    )
    for case in cases():
        if options.only not in case.name:
            continue
        print(speeds(modules.get(case.entry) or read_ptx(text), case, options.repeat), flush=True)
    if options.programs:
        compare(options.programs)


if __name__ == "__main__":
    main()
