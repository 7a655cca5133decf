"""Let compute-sanitizer judge the emulator's test kernels and their planted faults, beside the emulator's verdict.

Run ``python benchmarks/fidelity/sanitize.py`` where a GPU, PyCUDA and compute-sanitizer are; it writes `sanitizer.json`
beside itself (or the file named), which ``write.py`` puts in docs/results/fidelity.md. ``--group order`` judges
the kernels that synchronise and their mutants alone (`tests/support/race_cases.py`, `fault_cases.py`), ``--group
kernels`` the emulator's test kernels; the other rows are kept.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import measure  # the modules beside this one
from hardware import Prepared

from lab.emulator import api
from lab.emulator.api import launch
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import build, toolchain

import cases  # isort: skip  found through `measure`, which knows where the tests are
import compiling  # isort: skip
import fault_cases  # isort: skip
import mutants  # isort: skip
import race_cases  # isort: skip

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")
_FAULT = re.compile(
    r"=+ +((?:Invalid|Misaligned|Uninitialized|Barrier error|Error: |Warning: |Program hit|Potential)[^\n]*)"
)
_ENDLESS_STEPS = 100_000
_LIMIT_S = 60
_AT_A_TIME = 12
_ORDER = (*race_cases.CASES, *fault_cases.CASES, *race_cases.SLOW_TO_COMPILE, *fault_cases.SLOW_TO_COMPILE)


@dataclass(frozen=True, slots=True)
class Judged:
    """A kernel, what the emulator found in it, and its launch."""

    kernel: str
    mutant: str
    found: tuple[str, ...]
    launch: Prepared


def judged(only: Sequence[str] = ()) -> Iterator[Judged]:
    """The originals, then the mutants, each executed by the emulator; of some kernels where `only` names them."""
    api.DEFAULT_MAX_STEPS = _ENDLESS_STEPS
    originals: list[tuple[str, str, Callable[[str], cases.Outcome], str]] = [
        (source, f"original ({case.__name__})", case, compiling.source(source)) for source, case in cases.CASES
    ]
    planted = [(m.kernel, m.name, m.case, m.apply(compiling.source(m.kernel))) for m in mutants.MUTANTS]
    for kernel, name, case, text in originals + planted:
        if only and kernel not in only:
            continue
        built = build(toolchain("nvrtc"), CompileRequest(text, f"{kernel}.cu", "sm_90", ("-lineinfo",))).build
        outcomes: list[cases.Outcome] = []
        execute = functools.partial(_execute, case, built.ptx, outcomes)
        (recorded,) = measure.recorded(kernel, name, built.cubin, execute)
        kinds = [str(finding.kind) for finding in outcomes[0].emulation.findings]
        if not outcomes[0].right:
            kinds.append("wrong-result")
        yield Judged(kernel, name, tuple(dict.fromkeys(kinds)), recorded.launch)


def judged_order() -> Iterator[Judged]:
    """Kernels that synchronise, then their mutants, each executed by the emulator."""
    work = [(i, -1) for i in range(len(_ORDER))]
    work += [(i, j) for i, case in enumerate(_ORDER) for j in range(len(case.mutants))]
    with ProcessPoolExecutor() as pool:
        yield from pool.map(_judge, *zip(*work, strict=True))


def _judge(number: int, mutant: int) -> Judged:
    """Execute a case of `_ORDER`, or one of its mutants, on the CPU; -1 is the case itself."""
    case = _ORDER[number]
    change, text = "original", case.source
    if mutant >= 0:
        old, new = case.mutants[mutant]
        change, text = _change(old, new), text.replace(old, new, 1)
    built = build(toolchain("nvrtc"), CompileRequest(text, "kernel.cu", "sm_90", ("-lineinfo",))).build
    arguments = case.arguments()
    done = launch(built.ptx, "k", case.grid, case.block, arguments, max_steps=_ENDLESS_STEPS)
    kinds = [str(finding.kind) for finding in done.findings]
    if not case.check(arguments):
        kinds.append("wrong-result")
    prepared = Prepared(
        f"{case.name}, {change}", built.cubin, "k", (case.grid, 1, 1), (case.block, 1, 1), 0, tuple(case.arguments())
    )
    return Judged(case.name, change, tuple(dict.fromkeys(kinds)), prepared)


def _change(old: str, new: str) -> str:
    """Describe the edit of a mutant."""
    was, now = (" ".join(text.split()).replace("`", "'") for text in (old, new))
    return f"`{was}` becomes `{now}`" if now else f"without `{was}`"


def _execute(case: Callable[[str], cases.Outcome], ptx: str, outcomes: list[cases.Outcome]) -> None:
    outcomes.append(case(ptx))


def verdict(tool: str, prepared: Prepared, command: str, limit: int = _LIMIT_S) -> str:
    """Return compute-sanitizer's report on a launch within `limit` seconds; empty without errors."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "launch.pickle"
        file.write_bytes(pickle.dumps((prepared,)))
        words = [
            command,
            "--tool",
            tool,
            "--print-limit",
            "3",
            sys.executable,
            str(measure.HERE / "hardware.py"),
            str(file),
        ]
        output = Path(folder) / "said"
        with output.open("w") as said:  # a file, since a pipe stays open while a killed checker's program lives
            process = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return f"does not end within {limit} s"
        text = output.read_text(errors="replace")
    summary = _SUMMARY.search(text)
    failure = re.search(r"failed: (an? [a-z ]+)", text) if code else None
    if summary is None or (summary[1] == "0" and code and not failure):
        lines = text.strip().splitlines() or ["nothing"]
        return f"cannot be judged: {lines[-1].lstrip('= ')[:80]}"
    if summary[1] == "0":
        return f"the launch fails: {failure[1]}" if failure else ""
    fault = _FAULT.search(text)
    return re.sub(r" at 0x[0-9a-f]+.*| with .*", "", fault[1]).strip() if fault else f"{summary[1]} errors"


def main() -> None:
    """Judge everything and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", type=Path, default=measure.HERE / "sanitizer.json")
    parser.add_argument("--command", default="compute-sanitizer", help="compute-sanitizer's command")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="KERNEL", help="judge only these, and keep the other rows"
    )
    parser.add_argument("--group", choices=("kernels", "order"), help="judge only these, and keep the other rows")
    parser.add_argument("--limit", type=int, default=_LIMIT_S, help="seconds of one launch under one tool")
    options = parser.parse_args()
    found = [] if options.group == "order" else list(judged(options.only))
    found += [] if options.only or options.group == "kernels" else list(judged_order())
    endless = [one for one in found if {"endless-loop", "deadlock"} & set(one.found)]
    others = [one for one in found if one not in endless]
    rows = []

    def ask(judged_case: Judged) -> dict[str, object]:
        said = {tool: verdict(tool, judged_case.launch, options.command, options.limit) for tool in TOOLS}
        return {
            "kernel": judged_case.kernel,
            "mutant": judged_case.mutant,
            "emulator": judged_case.found,
            "sanitizer": said,
        }

    with ThreadPoolExecutor(min(_AT_A_TIME, os.cpu_count() or 1)) as pool:
        rows = list(pool.map(ask, others))
    for judged_case in endless:  # alone: it keeps the GPU busy until it is killed
        said = verdict("memcheck", judged_case.launch, options.command, options.limit)
        rows.append(
            {
                "kernel": judged_case.kernel,
                "mutant": judged_case.mutant,
                "emulator": judged_case.found,
                "sanitizer": {"memcheck": said},
            }
        )
    version = subprocess.run([options.command, "--version"], capture_output=True, text=True, check=True).stdout
    machine = {
        "compute-sanitizer": version.split("ersion ")[-1].split()[0],
        "compiler": f"nvrtc {toolchain('nvrtc').version}",
    }
    if options.only or options.group:
        held = json.loads((measure.HERE / "sanitizer.json").read_text())["kernels"]
        new = {(row["kernel"], row["mutant"]): row for row in rows}
        rows = [new.pop((row["kernel"], row["mutant"]), row) for row in held] + list(new.values())
    lines = ",\n".join(json.dumps(row) for row in rows)
    options.output.write_text(f'{{"machine": {json.dumps(machine)}, "kernels": [\n{lines}\n]}}\n')
    print(f"{len(rows)} kernels in {options.output}")


if __name__ == "__main__":
    main()
