"""Throughput of parsing and analysing listings: MB/s on one core, for about 1 MB of PTX and of SASS.

The last line is a PTX file of 10 MB, read once in a process of its own: processor time and the most memory.

    python benchmarks/isa_speed.py

The text is a golden listing whose functions are repeated under other names; `one function` has all its statements in
a single loop, as complete unrolling makes it. "Analysed" is control flow, loops and the mix.
"""

from __future__ import annotations

import multiprocessing
import re
import resource
import time
from collections.abc import Callable
from pathlib import Path

from lab.isa.mix import module_mix
from lab.isa.model import Module
from lab.isa.ptx.module import read_ptx
from lab.isa.sass.module import read_sass

GOLDEN = Path(__file__).parents[1] / "tests" / "isa" / "golden"
SIZE = 1_000_000
REPETITIONS = 5


LARGE = 10_000_000
LARGE_S, LARGE_MB = 5, 500
"""What reading the large file may take."""


def many_functions(size: int = SIZE) -> str:
    """The PTX of `nvcc_mixed.ptx`, each function many times."""
    text = (GOLDEN / "nvcc_mixed.ptx").read_text()
    start = re.search(r"^(?:// \.globl|\.func|\.visible \.entry|\.visible \.func)", text, re.MULTILINE)
    head = text[: start.start() if start else 0]
    functions = text[len(head) : text.index("\t.file")]
    names = re.findall(r"\.entry (\w+)\(|\.func +\([^)]*\) +(\w+)\(", functions)
    pattern = re.compile(rf"\b(?:{'|'.join(entry or function for entry, function in names)})\b")
    count = size // len(functions)
    return head + "".join(pattern.sub(rf"\g<0>_{number}", functions) for number in range(count))


def one_function() -> str:
    """One loop of 1 MB with registers of its own for every statement."""
    statements = []
    size = number = 0
    while size < SIZE:
        statement = (
            f"\tld.shared.v2.f32 \t{{%f{number}, %f{number + 1}}}, [%r1+{8 * number}];\n"
            f"\tfma.rn.f32 \t%f{number + 2}, %f{number}, %f{number + 1}, %f{number + 2};\n"
        )
        statements.append(statement)
        size += len(statement)
        number += 3
    return (
        f".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry k() {{\n\t.reg .f32 %f<{number}>;\n"
        f"\t.reg .b32 %r<2>;\n\t.reg .pred %p<2>;\n$L:\n{''.join(statements)}\t@%p1 bra $L;\n\tret;\n}}\n"
    )


def many_sections() -> str:
    """The SASS of `sm_100_mixed`, each section many times."""
    listing = (GOLDEN / "sm_100_mixed.lst").read_text()
    count = SIZE // len(listing)
    pattern = re.compile(r"(\.section\s+\.text\.|\.other\s+)(\w+)")
    return "".join(pattern.sub(rf"\g<1>\g<2>_{number}", listing) for number in range(count))


def report(name: str, characters: int, read: Callable[[], Module]) -> None:
    """Print the best of several repetitions."""
    best: tuple[float, float, int] = (float("inf"), 0.0, 0)
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        module = read()
        middle = time.perf_counter()
        module_mix(module)
        end = time.perf_counter()
        instructions = sum(len(function.instructions) for function in module.functions)
        best = min(best, (end - start, middle - start, instructions))
    total, reading, instructions = best
    megabytes = characters / 1e6
    print(
        f"{name:22} {megabytes:5.2f} MB {instructions:7} instructions: read {reading:5.2f} s, "
        f"analysed {total - reading:5.2f} s, together {total:5.2f} s = {megabytes / total:5.1f} MB/s"
    )


def report_large() -> None:
    """Print what it takes to read 10 MB, in a child process, whose memory is its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        seconds, megabytes, instructions = pool.apply(read_large)
    print(
        f"{'PTX of 10 MB':22} {LARGE / 1e6:5.2f} MB {instructions:7} instructions: read {seconds:5.2f} s of processor "
        f"time (at most {LARGE_S}), {megabytes:.0f} MB of memory (at most {LARGE_MB})"
    )


def read_large() -> tuple[float, float, int]:
    """Read 10 MB; return processor seconds, the process's most memory in MB, and the instructions."""
    text = many_functions(LARGE)
    start = time.process_time()
    module = read_ptx(text)
    seconds = time.process_time() - start
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return seconds, most, sum(len(function.instructions) for function in module.functions)


def main() -> None:
    """Print one line a case."""
    ptx, unrolled, sass = many_functions(), one_function(), many_sections()
    report("PTX, many functions", len(ptx), lambda: read_ptx(ptx))
    report("PTX, one function", len(unrolled), lambda: read_ptx(unrolled))
    report("SASS", len(sass), lambda: read_sass(sass))
    report_large()


if __name__ == "__main__":
    main()
