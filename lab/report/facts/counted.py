"""Hardware counters of a variant as figures, table rows and a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.measured.counters import PIPES, STALLS, Profile
from lab.recorded.run_records import VariantRecord

MOST_WAITS: Final = 3
"""Most stall reasons a sentence names."""


def per_needed(amount: Callable[[Profile], float | None]) -> Callable[[VariantRecord], float | None]:
    """Make a getter of counted bytes over the problem's least DRAM traffic; it returns None where either is unknown."""

    def get(record: VariantRecord) -> float | None:
        counted = amount(record.profile) if record.profile else None
        return None if counted is None or not record.bytes_moved else counted / record.bytes_moved

    return get


dram_per_needed = per_needed(lambda profile: profile.dram_bytes)
l2_per_needed = per_needed(lambda profile: profile.l2_bytes)


def wait(record: VariantRecord) -> str | None:
    """Return the most frequent stall reason of warps: ``long scoreboard 62%``; None without counters."""
    waits = record.profile.waits if record.profile else {}
    return next((f"{words(state)} {share:.0%}" for state, share in waits.items()), None)


def words(state: str) -> str:
    """Return a state of `STALLS` as text: ``long scoreboard``."""
    return state.replace("_", " ")


def busiest(profile: Profile) -> tuple[str, float] | None:
    """Return the busiest pipe and its utilisation, 0 to 1; None where pipes were not counted."""
    return max(profile.pipes.items(), key=lambda item: item[1], default=None)


def rows(record: VariantRecord) -> list[tuple[str, str]]:
    """Return (name, text) of every counted figure; empty without counters."""
    profile = record.profile
    if profile is None:
        return []
    lines = [("profiler", profile.profiler), ("L2 cache", profile.cache)]
    if profile.dram_bytes is not None:
        per_byte = dram_per_needed(record)
        over = f", {per_byte:.2f} per byte needed" if per_byte is not None else ""
        lines.append(("DRAM traffic", f"{profile.dram_bytes / 1e6:,.2f} MB{over}"))
    if profile.l2_bytes is not None:
        lines.append(("L2 traffic", f"{profile.l2_bytes / 1e6:,.2f} MB"))
    if profile.duration_ms is not None:
        lines.append(("duration", f"{profile.duration_ms:.4f} ms under the profiler"))
    if profile.clock_hz is not None:
        lines.append(("SM clock", f"{profile.clock_hz / 1e9:.2f} GHz under the profiler"))
    if profile.instructions is not None:
        lines.append(("executed", f"{profile.instructions:,.0f} warp instructions"))
    if profile.occupancy is not None:
        lines.append(("occupancy", f"{profile.occupancy:.1%} achieved"))
    if profile.issue_share is not None:
        lines.append(("issue slots", f"{profile.issue_share:.1%} used"))
    lines += [(f"pipe {pipe}", f"{share:.1%} of its peak: {PIPES[pipe]}") for pipe, share in profile.pipes.items()]
    lines += [
        (words(state), f"{share:.1%} of the stalled warps: {STALLS[state]}")
        for state, share in profile.waits.items()
        if share >= 0.01  # noqa: PLR2004 - rarer states explain nothing
    ]
    if len(profile.launches) > 1:
        lines += [
            (
                launch.kernel,
                "; ".join(
                    text
                    for value, text in (
                        (launch.dram_read_bytes, f"{(launch.dram_read_bytes or 0) / 1e6:,.2f} MB read from DRAM"),
                        (launch.dram_write_bytes, f"{(launch.dram_write_bytes or 0) / 1e6:,.2f} MB written"),
                        (launch.occupancy, f"occupancy {launch.occupancy or 0:.0%}"),
                    )
                    if value is not None
                ),
            )
            for launch in profile.launches
        ]
    return [*lines, *(("note", note) for note in profile.notes)]


def sentence(record: VariantRecord) -> str:
    """Summarise a variant's counters in a sentence; empty without counters."""
    profile, parts = record.profile, []
    if profile is None:
        return ""
    if profile.issue_share is not None:
        parts.append(f"its schedulers issue in {profile.issue_share:.0%} of the cycles")
    if (pipe := busiest(profile)) is not None:
        parts.append(f"the {pipe[0]} pipe is at {pipe[1]:.0%} of its peak")
    if waits := [f"{words(state)} ({share:.0%})" for state, share in list(profile.waits.items())[:MOST_WAITS]]:
        parts.append(f"stalled warps wait for {', '.join(waits)}")
    if (dram_ratio := dram_per_needed(record)) is not None:
        parts.append(f"DRAM moves {dram_ratio:.2f} bytes per byte needed")
    return f"According to the hardware counters, {'; '.join(parts)}." if parts else ""
