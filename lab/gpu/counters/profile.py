"""Hardware counters of verified variants: Nsight Compute profiles a process that only launches them, chunk by chunk.

The profiler replays a launch for several passes, and the contents of L2 decide the DRAM traffic of each pass. A single
launch from a cold L2 is simple: the profiler flushes before every pass. The launches of a sequence, and a launch from
a warm L2, must find what earlier launches left there: their traffic is counted in one pass of the whole sequence, after
an eviction of our own and without any flush. The other figures are counted in further passes, where L2 holds what the
pass before left. On an H200 with Nsight Compute 2025.3.1 a launch nevertheless read all of its inputs from DRAM,
although the launch before had left them in L2: such traffic is an upper bound.
"""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.gpu.counters import ncu
from lab.gpu.process.job import Job
from lab.gpu.timing.cache import COLD
from lab.measured.counters import PIPES, STALLS, LaunchCounters, Profile
from lab.toolchain import locate

TRAFFIC: Final = {
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "duration_ns": "gpu__time_duration.sum",
}
"""Fields of `LaunchCounters` that depend on the contents of L2, and their metrics. One unit counts all of them, so one
pass is enough."""

_USE: Final = {"tensor": "pipe_tensor_cycles_active"}
"""Metrics for pipes whose instructions take many cycles; for other pipes, instructions are counted."""

EXECUTION: Final = {
    "l2_read_sectors": "lts__t_sectors_op_read.sum",
    "l2_write_sectors": "lts__t_sectors_op_write.sum",
    "active_cycles": "sm__cycles_active.avg",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "instructions": "smsp__inst_executed.sum",
    "issues": "smsp__issue_active.sum",
    "issue_share": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "clock_hz": "sm__cycles_elapsed.avg.per_second",
    **{
        f"pipes.{pipe}": f"sm__{_USE.get(pipe, f'inst_executed_pipe_{pipe}')}.avg.pct_of_peak_sustained_active"
        for pipe in PIPES
    },
    **{f"stalls.{state}": f"smsp__average_warps_issue_stalled_{state}_per_issue_active.ratio" for state in STALLS},
}
"""The other fields and their metrics; keys of mapping fields follow a dot."""

CHUNK: Final = 16
"""Variants per profiled process, whose start takes seconds and whose results are kept when it ends."""

_START_S: Final = 120.0
"""Seconds that a process may take to start."""

_VARIANT_S: Final = 60.0
"""Seconds allowed per variant: inputs, upload, and some dozen replays."""

NOT_FLUSHED: Final = (
    "DRAM traffic was counted without emptying L2 between launches, but the profiler may empty it (on an H200 it did), "
    "so data that a launch would have found in L2 may be counted as read; other counters were read in further passes"
)
REPLAYED: Final = "the profiler needed several passes for DRAM traffic; from the second pass on, L2 was warm"

TARGET: Final = (sys.executable, "-m", "lab.gpu.counters.profiled")
"""The program that is profiled."""


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """A variant to profile.

    Attributes:
        job: The variant.
        cache: State of L2 in which it was timed: `cold` or `warm`.
        visible: ``CUDA_VISIBLE_DEVICES`` of the program that launches it; empty keeps the current value. Orders
            that are passed together have the same value.
    """

    job: Job
    cache: str
    visible: str = ""

    @property
    def simple(self) -> bool:
        """True for a single launch from a cold L2, a state that the profiler can restore before each pass."""
        return len(self.job.launches.steps) == 1 and self.cache == COLD


@dataclass(frozen=True, slots=True)
class Counted:
    """The results of one chunk.

    Attributes:
        profiles: By variant; variants whose launch failed are absent.
        notes: Sentences for the reader of the report.
    """

    profiles: Mapping[str, Profile]
    notes: tuple[str, ...]


def profiles(
    orders: Sequence[ProfileOrder],
    *,
    seconds: float,
    profiler: Path | str | None = None,
    target: Sequence[str] = TARGET,
    chunk: int = CHUNK,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Counted]:
    """Profile variants, problem by problem.

    Args:
        orders: The variants.
        seconds: Time after which no further chunk begins.
        profiler: Nsight Compute's command; found on this machine by default.
        target: The program that is profiled.
        chunk: Variants that one process launches.
        now: The host's clock, in seconds.

    Yields:
        The results of each chunk as soon as it is finished. If the profiler does not work at all, a single note.
    """
    command = profiler or locate.tool("ncu")
    if command is None:
        yield Counted({}, (f"No hardware counters were read: Nsight Compute was not found; {ncu.INSTALL}.",))
        return
    deadline = now() + seconds
    ordered = sorted(orders, key=lambda order: str(order.job.data_key))  # stable; inputs are made once a problem
    for first in range(0, len(ordered), chunk):
        if first and now() > deadline:
            remaining = len(ordered) - first
            yield Counted(
                {}, (f"The counters of {remaining} variants were not read: the limit of {seconds:.0f} s had passed.",)
            )
            return
        try:
            yield _chunk(ordered[first : first + chunk], _Profiler(command, tuple(target)))
        except ncu.ProfilerError as error:
            yield Counted({}, (f"No {'further ' if first else ''}hardware counters were read: {error}.",))
            return


@dataclass(frozen=True, slots=True)
class _Profiler:
    command: Path | str
    target: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """The results of one profiled process: for each variant, the fields of each launch of its sequence."""

    launches: Mapping[str, tuple[Mapping[str, float], ...]]
    passes: int
    notes: tuple[str, ...]


def _chunk(orders: Sequence[ProfileOrder], profiler: _Profiler) -> Counted:
    name = f"Nsight Compute {ncu.version(profiler.command)}".strip()
    simple, complex_orders = [o for o in orders if o.simple], [o for o in orders if not o.simple]
    runs = [
        (simple, {**TRAFFIC, **EXECUTION}, True),
        (complex_orders, TRAFFIC, False),
        (complex_orders, EXECUTION, False),
    ]
    results, failures, remarks = [], [], [NOT_FLUSHED]
    for group, fields, flush in runs:
        if not group:
            continue
        try:
            result = _profile(group, fields, profiler, flush=flush)
        except ncu.ProfilerError as error:
            failures.append(error)
            continue
        results.append(result)
        if fields is TRAFFIC and result.passes > 1:
            remarks.append(REPLAYED)
    if not results:
        raise failures[0]
    by_variant = {}
    for order in orders:
        halves = [result.launches[order.job.variant] for result in results if order.job.variant in result.launches]
        if halves:
            fields_by_launch = [
                dict(pair for half in halves for pair in half[place].items()) for place in range(len(halves[0]))
            ]
            steps = zip(order.job.launches.steps, fields_by_launch, strict=True)
            launches = tuple(counters(step.entry, values) for step, values in steps)
            by_variant[order.job.variant] = Profile(name, order.cache, launches, () if order.simple else tuple(remarks))
    notes = [note for result in results for note in result.notes]
    notes += [f"Some hardware counters were not read: {error}." for error in failures]
    return Counted(by_variant, tuple(dict.fromkeys(notes)))


def counters(kernel: str, values: Mapping[str, float]) -> LaunchCounters:
    """Return the counters of one launch.

    Args:
        kernel: Its entry point.
        values: Values by field (`TRAFFIC`, `EXECUTION`); shares in per cent.
    """
    figures: dict[str, float] = {}
    keyed: dict[str, dict[str, float]] = {"pipes": {}, "stalls": {}}
    for field, value in values.items():
        group, _, key = field.partition(".")
        metric = EXECUTION.get(field, "")
        value = value / 100 if "pct_of_peak" in metric else value  # noqa: PLW2901 - the same figure as a share
        if key:
            keyed[group][key] = value
        else:
            figures[field] = value
    return LaunchCounters(kernel, **figures, pipes=keyed["pipes"], stalls=keyed["stalls"])


def _profile(orders: Sequence[ProfileOrder], fields: Mapping[str, str], profiler: _Profiler, *, flush: bool) -> _Found:
    with tempfile.TemporaryDirectory(prefix="lab-profile-") as folder:
        file, log = Path(folder) / "orders.pickle", Path(folder) / "launched.jsonl"
        file.write_bytes(pickle.dumps([(order.job, order.cache) for order in orders]))
        collected = ncu.collect(
            profiler.command,
            list(fields.values()),
            [*profiler.target, str(file), str(log), *filter(None, [orders[0].visible])],
            flush=flush,
            kernels=[step.entry for order in orders for step in order.job.launches.steps],
            timeout=_START_S + _VARIANT_S * len(orders),
        )
        log_lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    notes = [f"Nsight Compute does not know the metric {metric}." for metric in collected.unknown]
    notes += [f"{line['variant']} was not profiled: {line['error']}." for line in log_lines if line["error"]]
    names = {metric: field for field, metric in fields.items()}
    launches = matched(orders, log_lines, collected.rows)
    values = {
        variant: tuple({names[metric]: value for metric, value in row.values.items()} for row in rows)
        for variant, rows in launches.items()
    }
    return _Found(values, collected.passes, tuple(notes))


def matched(
    orders: Iterable[ProfileOrder], log_lines: Sequence[Mapping[str, object]], rows: Sequence[ncu.MetricRow]
) -> dict[str, tuple[ncu.MetricRow, ...]]:
    """Assign rows to variants: the profiler lists launches in order, and the program logs the variant of each.

    Args:
        orders: The variants that were to be launched.
        log_lines: The program's lines: `variant` and `times`, the number of times its sequence was launched.
        rows: The profiled launches.

    Returns:
        For each variant, the rows of its last sequence.

    Raises:
        ProfilerError: Rows and lines do not agree.
    """
    entries = {order.job.variant: [step.entry for step in order.job.launches.steps] for order in orders}
    by_variant: dict[str, tuple[ncu.MetricRow, ...]] = {}
    position = 0
    for line in log_lines:
        variant, times = str(line["variant"]), int(str(line["times"]))
        sequence = entries[variant]
        for _ in range(times):
            sequence_rows = tuple(rows[position : position + len(sequence)])
            position += len(sequence_rows)
            if [row.kernel.partition("(")[0] for row in sequence_rows] != sequence:
                raise ncu.ProfilerError(f"Nsight Compute saw other launches than the program made for {variant}")
            by_variant[variant] = sequence_rows
    if position != len(rows):
        errors = "".join(f"; {line['variant']}: {line['error']}" for line in log_lines if line.get("error"))
        raise ncu.ProfilerError(f"Nsight Compute saw {len(rows)} launches, the program made {position}{errors}")
    return by_variant
