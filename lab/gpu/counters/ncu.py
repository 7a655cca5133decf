"""Run Nsight Compute: its command line, CSV output and errors. The card's settings are not changed."""

from __future__ import annotations

import contextlib
import csv
import math
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.base import interrupts
from lab.base.errors import LabError
from lab.base.workers import environment

INSTALL: Final = "`ncu` is part of the CUDA Toolkit; NVIDIA's repository has it as the package nsight-compute"
"""Where to get Nsight Compute."""

NO_PERMISSION: Final = (
    "the driver lets only administrators read counters (ERR_NVGPUCTRPERM); run as root, or load the kernel module "
    "nvidia with NVreg_RestrictProfilingToAdminUsers=0"
)

_COMPLAINT: Final = re.compile(r"^==(?:ERROR|WARNING)==.*", re.MULTILINE)
_PASSES: Final = re.compile(r"^==PROF== Profiling .* - (\d+) pass(?:es)?\b", re.MULTILINE)
_SHOWN_LINES: Final = 3


class ProfilerError(LabError):
    """Nsight Compute is missing, fails, or prints unreadable output; the message says what to do."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One profiled launch.

    Attributes:
        kernel: The profiler's name for it: the entry point, in some versions followed by its parameter types.
        values: Metric to value, in base units; metrics without a value are absent.
    """

    kernel: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of one run of the profiler.

    Attributes:
        rows: One for each launch, in order.
        unknown: Metrics that this profiler does not know.
        passes: Largest number of passes of a launch, the first one included; 0 if the profiler does not say.
    """

    rows: tuple[MetricRow, ...]
    unknown: tuple[str, ...]
    passes: int


def read_csv(text: str, metrics: Sequence[str]) -> tuple[MetricRow, ...]:
    """Read the output of ``ncu --csv --page raw --print-units base``.

    Lines of the profiled program and of the profiler itself may come before, between and after those of the table.

    Args:
        text: The output.
        metrics: The metrics to read; other columns are left out.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    start = next((place for place, line in enumerate(lines) if line.startswith('"ID",')), len(lines))
    rows = csv.DictReader(lines[start:])
    return tuple(
        MetricRow(
            row["Kernel Name"] or "", {name: value for name in metrics if (value := _number(row.get(name))) is not None}
        )
        for row in rows
        if (row.get("ID") or "").isdigit()  # the line of units has no ID
    )


def _number(text: str | None) -> float | None:
    """Read ``1,234.5`` as 1234.5; None for ``n/a``, nan and empty fields."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def version(ncu: Path | str) -> str:
    """Return the profiler's version, ``2025.3.1.0``; empty if it prints none.

    Raises:
        ProfilerError: It cannot be started.
    """
    try:
        completed = subprocess.run(
            [str(ncu), "--version"], capture_output=True, text=True, check=False, timeout=60, env=environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProfilerError(f"{ncu} cannot be started: {error}") from error
    match = re.search(r"Version (\S+)", completed.stdout)
    return match[1] if match else ""


def collect(
    ncu: Path | str,
    metrics: Sequence[str],
    target: Sequence[str],
    *,
    flush: bool,
    kernels: Sequence[str] = (),
    timeout: float | None = None,
) -> Collected:
    """Profile the launches of a program. A metric that the profiler does not know is left out and reported.

    Args:
        ncu: The profiler.
        metrics: Full metric names: ``dram__bytes_read.sum``.
        target: The program and its arguments.
        flush: Flush all caches before each pass of each launch. Otherwise the first pass of a launch finds them as the
            program left them, and later passes as the launch itself left them.
        kernels: Entry points to profile; all if empty.
        timeout: Seconds after which the profiler and the program are killed; None waits forever.

    Raises:
        ProfilerError: The profiler is missing, refuses, times out, or profiles nothing.
    """
    unknown: list[str] = []
    while True:
        requested = [metric for metric in metrics if metric not in unknown]
        command = [str(ncu), "--clock-control", "none", "--cache-control", "all" if flush else "none"]
        command += ["--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(requested)]
        if kernels:
            command += ["--kernel-name", f"regex:^({'|'.join(map(re.escape, dict.fromkeys(kernels)))})$"]
        code, output = _run([*command, *target], timeout)
        rows = read_csv(output, requested)
        if rows:  # counters remain valid if the program fails after its launches
            silent = [metric for metric in requested if not any(metric in row.values for row in rows)]
            passes = max((int(count) for count in _PASSES.findall(output)), default=0)
            return Collected(rows, (*unknown, *silent), passes)
        if "ERR_NVGPUCTRPERM" in output:
            raise ProfilerError(NO_PERMISSION)
        refused = _refused(output, requested)
        if not refused or len(refused) == len(requested):
            raise ProfilerError(f"Nsight Compute profiled nothing: {_essence(output) or f'exit code {code}'}")
        unknown += refused


def _refused(output: str, requested: Sequence[str]) -> list[str]:
    """Return the metrics that the profiler's errors and warnings name."""
    words = {word.rstrip(".") for word in re.findall(r"[\w.]+", " ".join(_COMPLAINT.findall(output)))}
    return [metric for metric in requested if metric in words or metric.partition(".")[0] in words]


def _essence(output: str) -> str:
    """Return the profiler's errors and warnings, or its last lines, on one line."""
    lines = _COMPLAINT.findall(output) or output.strip().splitlines()[-_SHOWN_LINES:]
    return " ".join(" ".join(lines[:_SHOWN_LINES]).split())


def _run(command: Sequence[str], timeout: float | None) -> tuple[int, str]:
    """Return exit code and output. The profiler and its program form one process group, which is killed together."""
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            env=environment(),
        )
    except OSError as error:
        raise ProfilerError(f"{command[0]} cannot be started: {error.strerror}; {INSTALL}") from error
    try:
        output, _ = interrupts.wait(process.communicate, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        _kill(process)
        raise ProfilerError(f"Nsight Compute did not finish within {timeout:.0f} s") from error
    except BaseException:  # Ctrl-C: the group is in a session of its own and would go on
        _kill(process)
        raise
    return process.returncode, output


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
