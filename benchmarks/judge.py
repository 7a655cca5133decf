"""Judge every candidate of the gallery, without a GPU: how many exploits are accepted, how many solutions rejected?

    python benchmarks/judge.py                      # exploits and solutions of benchmarks/judge_gallery
    python benchmarks/judge.py --held-out           # those that were written after the judge
    python benchmarks/judge.py --experiments 4      # kernels of experiments/plain and others at four settings each

Beside each figure stands what plain ``numpy.allclose`` accepts: outputs of one execution at the task's emulated size
with seed 0, compared with tolerances of 1e-2, as benchmarks of generated kernels do.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from judge_tasks import candidates_of, make_tasks

from lab.base.executor import ProcessExecutor
from lab.emulator.monitor import LaunchMonitor
from lab.judging.judge import JudgeOptions, judge_file

GALLERY: Final = Path(__file__).with_name("judge_gallery")
_SUFFIXES: Final = (".cu", ".ptx", ".py")
_LIMIT_S: Final = 120.0
_LOOSE: Final = 1e-2


@dataclass(frozen=True)
class Row:
    """The outcome for one candidate.

    Attributes:
        name: Its task and file.
        kind: Its class; `solution` for a correct one.
        ruling: The word of the verdict.
        check: The check that decided; empty for a correct one.
        seconds: Wall time of the verdict, with warm workers.
        close: Plain allclose accepts it; None where it was not asked.
    """

    name: str
    kind: str
    ruling: str
    check: str
    seconds: float
    close: bool | None


def gallery(prefixes: Sequence[str]) -> Iterator[tuple[Path, Path]]:
    """Yield the task and the file of every candidate whose name begins with one of some words."""
    for file in sorted(GALLERY.glob("*/*")):
        if file.suffix in _SUFFIXES and file.name.startswith(tuple(prefixes)):
            yield file.parent / "task.yaml", file


def kind_of(file: Path) -> str:
    """Return the class that the first line of a candidate names; `solution` without one."""
    first = file.read_text(encoding="utf-8").split("\n", 1)[0]
    _, found, kind = first.partition("class: ")
    return kind if found else "solution"


def allclose_accepts(task: Path, text: str, file: str) -> bool:
    """Return whether one execution at the emulated size passes ``numpy.allclose``; whatever else it does counts not."""
    from lab.emulator.api import launch  # noqa: PLC0415 - only workers need the pipeline
    from lab.judging.case import RejectedError, case_of  # noqa: PLC0415
    from lab.judging.task import Request  # noqa: PLC0415
    from lab.stages.memory import DeviceMemory  # noqa: PLC0415

    try:
        case = case_of(Request(task, task.read_text(encoding="utf-8"), file, text, 0))
    except RejectedError as error:
        return error.fault.check == "printing"  # which no such comparison sees
    operator, problem = case.operator, case.operator.restored(case.emulated)
    inputs = operator.inputs(problem, 0)
    memory = DeviceMemory(inputs, case.launches)
    for step in case.launches.steps:
        arguments = [memory.argument(name, kind) for name, kind in step.arguments]
        shared = step.dynamic_shared_bytes
        result = launch(
            case.variant.ptx, step.entry, step.grid, step.block, arguments,
            dynamic_shared_bytes=shared, check=False, count=False, monitor=LaunchMonitor(_LIMIT_S / 4),
        )  # fmt: skip
        if any(finding.kind in {"deadlock", "unfinished", "endless-loop"} for finding in result.findings):
            return False
    expected = operator.reference(problem, inputs)
    return all(
        np.allclose(
            operator.typed(problem).declaration.argument[name].element.widened(memory.outputs[name]),
            np.asarray(getattr(value, "held", value.values)).reshape(-1),
            rtol=_LOOSE,
            atol=_LOOSE,
        )
        for name, value in expected.items()
    )


def judge_all(pairs: Sequence[tuple[Path, Path]], seed: int, *, compare: bool) -> list[Row]:
    """Judge candidates one after the other with two warm workers."""
    rows = []
    with ProcessExecutor(2) as executor:
        for task, file in pairs:
            begin = time.perf_counter()
            verdict = judge_file(task, file, JudgeOptions(seed=seed, executor=executor))
            seconds = time.perf_counter() - begin
            close = None
            if compare:
                text = file.read_text(encoding="utf-8")
                try:
                    close = executor.submit(allclose_accepts, task, text, file.name, timeout_s=_LIMIT_S).result()
                except Exception:  # noqa: BLE001 - a candidate that cannot be run passes no comparison
                    close = False
            check = verdict.faults[0].check if verdict.faults else ""
            row = Row(f"{task.parent.name}/{file.name}", kind_of(file), str(verdict.ruling), check, seconds, close)
            rows.append(row)
            print(json.dumps(vars(row)), flush=True)
    return rows


def summary(rows: Sequence[Row]) -> str:
    """Return the figures in Markdown."""
    lines = ["| class | candidates | accepted | allclose accepts | words |", "| --- | --- | --- | --- | --- |"]
    for kind in sorted({row.kind for row in rows}):
        group = [row for row in rows if row.kind == kind]
        accepted = sum(row.ruling == "correct" for row in group)
        close = sum(bool(row.close) for row in group) if group[0].close is not None else "-"
        words = ", ".join(f"{word} {count}" for word, count in Counter(row.ruling for row in group).most_common())
        lines.append(f"| {kind} | {len(group)} | {accepted} | {close} | {words} |")
    seconds = sorted(row.seconds for row in rows)
    lines.append(
        f"\nTime of a verdict, warm: median {statistics.median(seconds):.2f} s, "
        f"p95 {seconds[int(0.95 * len(seconds))]:.2f} s, most {seconds[-1]:.1f} s; load {os.getloadavg()[0]:.1f}."
    )
    return "\n".join(lines)


def main() -> None:
    """Judge what the command line asks for, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--held-out", action="store_true", help="candidates written after the judge")
    parser.add_argument("--experiments", type=int, default=0, help="settings of each kernel of experiments/")
    parser.add_argument("--only", default="", help="candidates whose task and file contain this")
    parser.add_argument("--seed", type=int, default=0, help="seed of the verdicts and of the settings")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.experiments:
            tasks = make_tasks(Path(folder), options.experiments, options.seed)
            pairs = [(task.file, solution) for task, solution in candidates_of(tasks)]
        else:
            pairs = list(gallery(["heldout_"] if options.held_out else ["exploit_", "solution_"]))
        pairs = [pair for pair in pairs if options.only in f"{pair[1].parent.name}/{pair[1].name}"]
        print(summary(judge_all(pairs, options.seed, compare=not options.experiments)))


if __name__ == "__main__":
    main()
