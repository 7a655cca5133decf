"""Nsight Compute from outside: its command, its CSV, and its refusals in words. Settings of the card are left alone."""

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

from lab.base.errors import LabError

INSTALL = "`ncu` is part of the CUDA Toolkit; NVIDIA's repository has it as the package nsight-compute"
NO_PERMISSION = (
    "the driver lets administrators alone read counters (ERR_NVGPUCTRPERM): run as root, or load the kernel module "
    "nvidia with NVreg_RestrictProfilingToAdminUsers=0"
)
_COMPLAINT = re.compile(r"^==(?:ERROR|WARNING)==.*", re.MULTILINE)
_PASSES = re.compile(r"^==PROF== Profiling .* - (\d+) pass(?:es)?\b", re.MULTILINE)
_SHOWN_LINES = 3


class ProfilerError(LabError):
    """Nsight Compute is missing, refuses, or says nothing that can be read; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Row:
    """One profiled launch.

    Attributes:
        kernel: As the profiler names it: the entry point, perhaps with its parameter types behind it.
        values: Metric to value, in base units; metrics without a value are absent.
    """

    kernel: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Collected:
    """What one run of the profiler yields.

    Attributes:
        rows: In the order of the launches.
        unknown: Metrics that this profiler does not know.
        passes: Most times that a launch was replayed, the first one included; 0 where it is not said.
    """

    rows: tuple[Row, ...]
    unknown: tuple[str, ...]
    passes: int


def read_csv(text: str, metrics: Sequence[str]) -> tuple[Row, ...]:
    """Read what ``ncu --csv --page raw --print-units base`` prints.

    Lines of the profiled program and of the profiler itself may stand before, between and after those of the table.

    Args:
        text: Its output.
        metrics: The metrics that were asked for; other columns are left out.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    start = next((place for place, line in enumerate(lines) if line.startswith('"ID",')), len(lines))
    rows = csv.DictReader(lines[start:])
    return tuple(
        Row(
            row["Kernel Name"] or "", {name: value for name in metrics if (value := _number(row.get(name))) is not None}
        )
        for row in rows
        if (row.get("ID") or "").isdigit()  # the line of units has no ID
    )


def _number(text: str | None) -> float | None:
    """``"1,234.5"`` → 1234.5; None for ``n/a``, for nan and for nothing."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def version(ncu: Path | str) -> str:
    """Its version, ``2025.3.1.0``; empty where it does not say.

    Raises:
        ProfilerError: it cannot be started.
    """
    try:
        done = subprocess.run([str(ncu), "--version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProfilerError(f"{ncu} cannot be started: {error}") from error
    found = re.search(r"Version (\S+)", done.stdout)
    return found[1] if found else ""


def collect(
    ncu: Path | str,
    metrics: Sequence[str],
    target: Sequence[str],
    *,
    flush: bool,
    kernels: Sequence[str] = (),
    timeout: float | None = None,
) -> Collected:
    """Profile the launches of a program. A metric that the profiler does not know is left out and named.

    Args:
        ncu: The profiler.
        metrics: Full names: ``dram__bytes_read.sum``.
        target: The program and its arguments.
        flush: Flush all caches before each pass of each launch; else they are as the program left them, and, from the
            second pass of a launch on, as the launch itself did.
        kernels: Entry points to profile; all where empty.
        timeout: Seconds, after which profiler and program are killed.

    Raises:
        ProfilerError: see there.
    """
    unknown: list[str] = []
    while True:
        asked = [metric for metric in metrics if metric not in unknown]
        command = [str(ncu), "--clock-control", "none", "--cache-control", "all" if flush else "none"]
        command += ["--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(asked)]
        if kernels:
            command += ["--kernel-name", f"regex:^({'|'.join(map(re.escape, dict.fromkeys(kernels)))})$"]
        code, said = _run([*command, *target], timeout)
        rows = read_csv(said, asked)
        if rows:  # a program that ends badly after its launches takes nothing from what they were counted
            silent = [metric for metric in asked if not any(metric in row.values for row in rows)]
            passes = max((int(count) for count in _PASSES.findall(said)), default=0)
            return Collected(rows, (*unknown, *silent), passes)
        if "ERR_NVGPUCTRPERM" in said:
            raise ProfilerError(NO_PERMISSION)
        refused = _refused(said, asked)
        if not refused or len(refused) == len(asked):
            raise ProfilerError(f"Nsight Compute profiled nothing: {_essence(said) or f'exit code {code}'}")
        unknown += refused


def _refused(said: str, asked: Sequence[str]) -> list[str]:
    """The metrics that the profiler's complaints name."""
    words = {word.rstrip(".") for word in re.findall(r"[\w.]+", " ".join(_COMPLAINT.findall(said)))}
    return [metric for metric in asked if metric in words or metric.partition(".")[0] in words]


def _essence(said: str) -> str:
    """The profiler's complaints, or its last words, on one line."""
    lines = _COMPLAINT.findall(said) or said.strip().splitlines()[-_SHOWN_LINES:]
    return " ".join(" ".join(lines[:_SHOWN_LINES]).split())


def _run(command: Sequence[str], timeout: float | None) -> tuple[int, str]:
    """Exit code and all output; the profiler and its program are one process group, which no timeout outlives."""
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ProfilerError(f"{command[0]} cannot be started: {error.strerror}; {INSTALL}") from error
    try:
        said, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        _kill(process)
        raise ProfilerError(f"Nsight Compute did not end within {timeout:.0f} s") from error
    except BaseException:  # Ctrl-C: it is in a session of its own and would go on
        _kill(process)
        raise
    return process.returncode, said


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
