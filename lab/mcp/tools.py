"""The tools of the MCP server, without the protocol: plain functions from texts to texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.base.executor import Executor
from lab.hardware.gpus import gpu_for, read_rows
from lab.judging.judge import JudgeOptions, judge_file, judge_text
from lab.judging.task import load_task
from lab.judging.verdict import Judgement
from lab.mcp.commands import CallLimits, run_command, shortened
from lab.mcp.confinement import Confinement

Report = Callable[[str], None]
"""Receives the progress of a call: one line."""


@dataclass(frozen=True)
class Tools:
    """The functions that an agent may call.

    Attributes:
        confinement: The limits of file access.
        limits: The limits of each call.
        executor: Warm workers that judge.
        command: Runs a command of lab.
    """

    confinement: Confinement
    limits: CallLimits
    executor: Executor
    command: Callable[..., str] = field(default=run_command)

    def judge(self, task: str, candidate: str, seed: int | None, report: Report, *, full: bool = False) -> str:
        """Return the verdict on a candidate: the path of a file, or CUDA text."""
        return self._judged(task, candidate, seed, report).as_json(full=full)

    def advise(self, task: str, candidate: str, report: Report) -> str:
        """Return the findings on a candidate's performance, the largest gain first, as JSON."""
        verdict = self._judged(task, candidate, 0, report).as_dict()
        keys = ("verdict", "reason", "resources", "time", "advice")
        return shortened(json.dumps({key: verdict[key] for key in keys if key in verdict}), self.limits.characters)

    def _judged(self, task: str, candidate: str, seed: int | None, report: Report) -> Judgement:
        file = self.confinement.file(task, "task")
        options = JudgeOptions(seed=seed, executor=self.executor, follow=report)
        if "\n" in candidate:
            return judge_text(load_task(file), candidate, "candidate.cu", options)
        return judge_file(file, self.confinement.file(candidate, "candidate"), options)

    def run(self, experiment: str, report: Report, *, measure: bool = True) -> str:
        """Run an experiment, and return its figures as JSON; records go below `reports` in the root."""
        file = self.confinement.file(experiment, "experiment")
        output = self.confinement.path(f"reports/{file.stem}", "experiment")
        words = ["run", str(file), "--json", "--output", str(output), *([] if measure else ["--no-gpu"])]
        return self._command(words, report)

    def inspect(self, file: str, kernel: str, report: Report) -> str:
        """Return registers, spills, hot loop and instruction mix of a source, PTX or cubin."""
        path = self.confinement.file(file, "file")
        return self._command(["inspect", str(path), *(["--kernel", kernel] if kernel else [])], report)

    def emulate(
        self,
        file: str,
        arguments: Sequence[str],
        report: Report,
        *,
        grid: str = "1",
        block: str = "32",
        kernel: str = "",
    ) -> str:
        """Return counts and faults of one launch on the CPU."""
        path = self.confinement.file(file, "file")
        words = ["emulate", str(path), "--grid", grid, "--block", block, *(["--kernel", kernel] if kernel else [])]
        return self._command([*words, "--", *arguments], report)

    def compare(self, a: str, b: str, report: Report) -> str:
        """Return what differs between two runs, or between two variants RUN#ID."""
        sides = []
        for key, name in (("a", a), ("b", b)):
            path, mark, variant = name.partition("#")
            sides.append(f"{self.confinement.path(path, key)}{mark}{variant}")
        return self._command(["compare", *sides], report)

    def diff(self, a: str, b: str, report: Report) -> str:
        """Return how the machine code of two files differs."""
        paths = [str(self.confinement.file(name, key)) for key, name in (("a", a), ("b", b))]
        return self._command(["diff", *paths], report)

    @staticmethod
    def gpus(part: str = "") -> str:
        """Return the GPUs whose name contains a text, one a line: name, architecture, SMs, memory bandwidth."""
        return "\n".join(
            f"{gpu.name}: {gpu.architecture.arch}, {gpu.sms} SMs, {gpu.dram_gb_s:g} GB/s"
            for gpu in (gpu_for(row["name"]) for row in read_rows())
            if part.lower() in gpu.name.lower()
        )

    def _command(self, words: Sequence[str], report: Report) -> str:
        report(f"lab {words[0]}")
        return self.command(words, self.confinement.root, self.limits, lambda seconds: report(f"{seconds:.0f} s"))


def confined(root: Path, limits: CallLimits, executor: Executor, *, python: bool = False) -> Tools:
    """Return the tools for a root."""
    return Tools(Confinement(root.resolve(), python), limits, executor)
