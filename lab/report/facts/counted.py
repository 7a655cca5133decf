"""Hardware counters of a variant as figures, table rows and a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.measured.counters import PIPES, STALLS, Profile
from lab.recorded.run_records import VariantRecord

MOST_WAITS: Final = 3
"""Most reasons for waiting that a sentence names."""


def per_needed(amount: Callable[[Profile], float | None]) -> Callable[[VariantRecord], float | None]:
    """Make a getter of counted bytes over the problem's least DRAM traffic; it returns None where either is unknown."""

    def get(record: VariantRecord) -> float | None:
        counted = amount(record.profile) if record.profile else None
        return None if counted is None or not record.bytes_moved else counted / record.bytes_moved

    return get


dram_per_needed = per_needed(lambda profile: profile.dram_bytes)
l2_per_needed = per_needed(lambda profile: profile.l2_bytes)


def wait(record: VariantRecord) -> str | None:
    """Return the most frequent reason for which warps wait: ``long scoreboard 62%``; None without counters."""
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
    found = record.profile
    if found is None:
        return []
    made = [("profiler", found.profiler), ("L2 cache", found.cache)]
    if found.dram_bytes is not None:
        needed = dram_per_needed(record)
        over = f", {needed:.2f} per byte needed" if needed is not None else ""
        made.append(("DRAM traffic", f"{found.dram_bytes / 1e6:,.2f} MB{over}"))
    if found.l2_bytes is not None:
        made.append(("L2 traffic", f"{found.l2_bytes / 1e6:,.2f} MB"))
    if found.duration_ms is not None:
        made.append(("duration", f"{found.duration_ms:.4f} ms under the profiler"))
    if found.clock_hz is not None:
        made.append(("SM clock", f"{found.clock_hz / 1e9:.2f} GHz under the profiler"))
    if found.instructions is not None:
        made.append(("executed", f"{found.instructions:,.0f} warp instructions"))
    if found.occupancy is not None:
        made.append(("occupancy", f"{found.occupancy:.1%} achieved"))
    if found.issue_share is not None:
        made.append(("issue slots", f"{found.issue_share:.1%} used"))
    made += [(f"pipe {pipe}", f"{share:.1%} of its peak: {PIPES[pipe]}") for pipe, share in found.pipes.items()]
    made += [
        (words(state), f"{share:.1%} of the stalled warps: {STALLS[state]}")
        for state, share in found.waits.items()
        if share >= 0.01  # noqa: PLR2004 - rarer states explain nothing
    ]
    if len(found.launches) > 1:
        made += [
            (
                one.kernel,
                "; ".join(
                    text
                    for value, text in (
                        (one.dram_read_bytes, f"{(one.dram_read_bytes or 0) / 1e6:,.2f} MB read from DRAM"),
                        (one.dram_write_bytes, f"{(one.dram_write_bytes or 0) / 1e6:,.2f} MB written"),
                        (one.occupancy, f"occupancy {one.occupancy or 0:.0%}"),
                    )
                    if value is not None
                ),
            )
            for one in found.launches
        ]
    return [*made, *(("note", note) for note in found.notes)]


def sentence(record: VariantRecord) -> str:
    """Summarise a variant's counters in a sentence; empty without counters."""
    found, parts = record.profile, []
    if found is None:
        return ""
    if found.issue_share is not None:
        parts.append(f"its schedulers issue in {found.issue_share:.0%} of the cycles")
    if (pipe := busiest(found)) is not None:
        parts.append(f"the {pipe[0]} pipe is at {pipe[1]:.0%} of its peak")
    if waits := [f"{words(state)} ({share:.0%})" for state, share in list(found.waits.items())[:MOST_WAITS]]:
        parts.append(f"stalled warps wait for {', '.join(waits)}")
    if (moved := dram_per_needed(record)) is not None:
        parts.append(f"DRAM moves {moved:.2f} bytes per byte needed")
    return f"According to the hardware counters, {'; '.join(parts)}." if parts else ""
