"""Count false positives of the emulator on clean kernels: shipped experiments, and kernels using CUDA's libraries.

Run ``python benchmarks/clean_kernels.py``. It executes some variants of every experiment (``--each``) at the size that
the experiment has for the CPU, and the kernels of `clean/library_kernels.cu`, which use CUB, cooperative groups and
libcu++. Every finding is printed; none is known to be right.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lab.api.executing import execute_experiment, planned_variants
from lab.base.errors import LabError
from lab.emulator.api import launch
from lab.emulator.results import Finding
from lab.experiment.load import load
from lab.isa.ptx.module import read_ptx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import compiling  # noqa: E402  the tests' compiler helper

LIBRARIES = Path(__file__).parent / "clean" / "library_kernels.cu"
BLOCKS, THREADS, WORDS = 4, 128, 1024

Outcome = tuple[str, tuple[Finding, ...], str]
"""A kernel, what was found, and why it could not be executed."""


def of_libraries() -> Iterator[Outcome]:
    """Execute the kernels that use CUDA's libraries."""
    module = read_ptx(compiling.compile_text(LIBRARIES.read_text(), "-lineinfo", "--std=c++17"))
    for kernel in module.kernels:
        given = np.random.default_rng(0).integers(0, 1000, WORDS).astype(np.int32)
        try:
            done = launch(module, kernel.name, BLOCKS, THREADS, [given, np.zeros(WORDS, np.int32)], count=False)
        except LabError as error:
            yield kernel.name, (), str(error)
        else:
            yield kernel.name, done.findings, ""


def of_experiment(file: Path, limit: int) -> Iterator[Outcome]:
    """Execute up to `each` variants of an experiment, spread over its variants."""
    try:
        planned = planned_variants(load(file))
    except LabError as error:
        yield file.stem, (), str(error).splitlines()[0]
        return
    for number in sorted({round(i * (len(planned) - 1) / max(1, limit - 1)) for i in range(limit)}):
        one = planned[number]
        name = f"{file.stem} {one.label}".strip()
        try:
            done = execute_experiment(file, one.variant, {}, None)
        except LabError as error:
            yield name, (), str(error).splitlines()[0]
        else:
            yield name, done.findings, "" if done.executed else " ".join(done.notes)


def main() -> None:
    """Execute everything and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=2, help="variants of an experiment")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="experiments, or `libraries`")
    options = parser.parse_args()
    files = sorted((ROOT / "experiments").glob("*.yaml")) + sorted((ROOT / "experiments").glob("*/*.yaml"))
    executed = flagged = 0
    for file in [None, *files]:
        if options.only and (file.stem if file else "libraries") not in options.only:
            continue
        began = time.perf_counter()
        for name, findings, why_not in of_experiment(file, options.each) if file else of_libraries():
            if why_not:
                print(f"{name}: not executed: {why_not}")
                continue
            executed, flagged = executed + 1, flagged + bool(findings)
            for finding in findings:
                print(f"{name}: {finding.kind}, PTX line {finding.line}: {finding.detail} ({finding.source})")
        print(f"{file.stem if file else 'libraries'}: {time.perf_counter() - began:.1f} s", flush=True)
    print(f"{flagged} of {executed} kernels are flagged")


if __name__ == "__main__":
    main()
