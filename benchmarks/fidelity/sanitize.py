"""Let compute-sanitizer judge the emulator's test kernels and their planted faults, beside the emulator's verdict.

Run ``python benchmarks/fidelity/sanitize.py`` where a GPU, PyCUDA and compute-sanitizer are; it writes `sanitizer.json`
beside itself (or the file named), which ``write.py`` puts into docs/fidelity.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import measure  # the modules beside this one
from hardware import Prepared

from lab.emulator import api
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import build, toolchain

import cases  # isort: skip  found through `measure`, which knows where the tests are
import compiling  # isort: skip
import mutants  # isort: skip

TOOLS = ("memcheck", "racecheck", "synccheck")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")
_FAULT = re.compile(
    r"=+ +((?:Invalid|Misaligned|Uninitialized|Barrier error|Error: |Warning: |Program hit|Potential)[^\n]*)"
)
_ENDLESS_STEPS = 100_000
_LIMIT_S = 60


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
        made = build(toolchain("nvrtc"), CompileRequest(text, f"{kernel}.cu", "sm_90", ("-lineinfo",))).build
        outcomes: list[cases.Outcome] = []
        execute = functools.partial(_execute, case, made.ptx, outcomes)
        (recorded,) = measure.recorded(kernel, name, made.cubin, execute)
        kinds = [str(finding.kind) for finding in outcomes[0].emulation.findings]
        if not outcomes[0].right:
            kinds.append("wrong-result")
        yield Judged(kernel, name, tuple(dict.fromkeys(kinds)), recorded.launch)


def _execute(case: Callable[[str], cases.Outcome], ptx: str, outcomes: list[cases.Outcome]) -> None:
    outcomes.append(case(ptx))


def verdict(tool: str, launch: Prepared, command: str) -> str:
    """What compute-sanitizer says of a launch: empty where it finds nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "launch.pickle"
        file.write_bytes(pickle.dumps((launch,)))
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
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            return f"does not end within {_LIMIT_S} s"
    text = done.stdout + done.stderr
    summary = _SUMMARY.search(text)
    failure = re.search(r"failed: (an? [a-z ]+)", text) if done.returncode else None
    if summary is None or (summary[1] == "0" and done.returncode and not failure):
        raise SystemExit(f"compute-sanitizer said nothing that can be read of {launch.name}:\n{text[-3000:]}")
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
    options = parser.parse_args()
    found = list(judged(options.only))
    endless = [one for one in found if "endless-loop" in one.found]
    others = [one for one in found if one not in endless]
    rows = []

    def ask(one: Judged) -> dict[str, object]:
        said = {tool: verdict(tool, one.launch, options.command) for tool in TOOLS}
        return {"kernel": one.kernel, "mutant": one.mutant, "emulator": one.found, "sanitizer": said}

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        rows = list(pool.map(ask, others))
    for one in endless:  # alone: it keeps the GPU busy until it is killed
        said = verdict("memcheck", one.launch, options.command)
        rows.append(
            {"kernel": one.kernel, "mutant": one.mutant, "emulator": one.found, "sanitizer": {"memcheck": said}}
        )
    version = subprocess.run([options.command, "--version"], capture_output=True, text=True, check=True).stdout
    machine = {
        "compute-sanitizer": version.split("ersion ")[-1].split()[0],
        "compiler": f"nvrtc {toolchain('nvrtc').version}",
    }
    if options.only:
        held = json.loads((measure.HERE / "sanitizer.json").read_text())["kernels"]
        new = {(row["kernel"], row["mutant"]): row for row in rows}
        rows = [new.get((row["kernel"], row["mutant"]), row) for row in held]
    lines = ",\n".join(json.dumps(row) for row in rows)
    options.output.write_text(f'{{"machine": {json.dumps(machine)}, "kernels": [\n{lines}\n]}}\n')
    print(f"{len(rows)} kernels in {options.output}")


if __name__ == "__main__":
    main()
