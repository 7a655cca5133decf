"""Counts that emulation adds to the static ones: executed mix, hot loop by execution, counts per PTX line.

Shares are of thread instructions, the dynamic counterpart of a static count: an instruction whose guard is false, or
that only other lanes of the warp execute, does not count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from lab.base.warp import WARP_SIZE
from lab.emulator.results import MemoryCount
from lab.isa.mix import KernelMix, LoopMix
from lab.recorded.run_records import EmulationRecord, VariantRecord
from lab.report.charts import style
from lab.store.figures import hot_counts


def threads_of(emulation: EmulationRecord) -> int:
    """Return the number of threads of the emulated launches."""
    return sum(math.prod(step.launch.grid) * math.prod(step.launch.block) for step in emulation.launches)


def warps_of(emulation: EmulationRecord) -> int:
    """Return the number of warps of the emulated launches; a block's last warp counts even if it is not full."""
    sizes = [(math.prod(step.launch.grid), math.prod(step.launch.block)) for step in emulation.launches]
    return sum(blocks * math.ceil(threads / WARP_SIZE) for blocks, threads in sizes)


def executed_by_class(record: VariantRecord, *, hot: bool) -> Mapping[str, int] | None:
    """Count executed thread instructions by class, in the PTX's hot loop or in the whole kernel.

    As with static counts (`figures.hot_counts`), a kernel without loops is its own hot loop. None where nothing was
    executed, or where the executed entry point is not the one that was read.
    """
    emulation = record.emulation
    if emulation is None or emulation.executed is None or not _same_kernel(record, emulation):
        return None
    if hot and record.ptx is not None and record.ptx.hot_loop is not None:
        return emulation.hot_loop.threads_by_class if emulation.hot_loop else None
    return emulation.executed.threads_by_class


def _same_kernel(record: VariantRecord, emulation: EmulationRecord) -> bool:
    """Return whether the executed entry point is the one read; an awkward emulated size may need another."""
    return record.ptx is not None and [step.entry for step in emulation.launches] == [record.ptx.name]


def executed_loops(record: VariantRecord) -> dict[str, int]:
    """Map each PTX loop to the warp instructions executed in it but in no loop inside it; empty without counts."""
    emulation = record.emulation
    if emulation is None or record.ptx is None or not emulation.lines or not _same_kernel(record, emulation):
        return {}
    listed = [line for group in emulation.lines for line in group.lines]
    innermost = [""] * (max(listed) + 1)
    for loop in sorted(record.ptx.loops, key=lambda loop: loop.depth):
        for first, last in loop.lines:
            inside = len(innermost[first : last + 1])  # lines past the last executed one have no place
            innermost[first : first + inside] = [loop.label] * inside
    own = dict.fromkeys(("", *(loop.label for loop in record.ptx.loops)), 0)
    for group in emulation.lines:
        for line in group.lines:
            own[innermost[line]] += group.warps
    del own[""]
    return own


def hot_by_execution(record: VariantRecord) -> LoopMix | None:
    """Return the loop that executes most outside of nested loops, or the static hot loop where they tie."""
    return _most(record, executed_loops(record))


def _most(record: VariantRecord, own: Mapping[str, int]) -> LoopMix | None:
    if record.ptx is None or not any(own.values()):
        return None
    return max(record.ptx.loops, key=lambda loop: (own[loop.label], loop.hot))


def difference(record: VariantRecord) -> str:
    """Describe a disagreement of execution and text on the hot loop or the entry point; empty where they agree."""
    emulation = record.emulation
    if (
        emulation is not None
        and emulation.executed is not None
        and record.ptx is not None
        and not _same_kernel(record, emulation)
    ):
        return (
            f"The CPU executed {emulation.launches[0].entry}, the entry point at emulated size, not {record.ptx.name}: "
            "executed and static mix cannot be compared."
        )
    if record.ptx is None or len(record.ptx.loops) == 1:
        return ""  # one loop is the hot one by any count; of ten thousand records this takes a second to find out
    if emulation is not None and _surely_hot(record.ptx, emulation):
        return ""
    own = executed_loops(record)
    hottest = _most(record, own)
    static = record.ptx.hot_loop if record.ptx else None
    if hottest is None or static is None or hottest.label == static.label or record.emulation is None:
        return ""
    total = record.emulation.executed.warps if record.emulation.executed else sum(own.values())
    return (
        f"The loop that executes most is {hottest.label} ({own[hottest.label] / total:.1%} of the warp instructions), "
        f"not {static.label} ({own[static.label] / total:.1%}), the hot loop of the text."
    )


def _surely_hot(ptx: KernelMix, emulation: EmulationRecord) -> bool:
    """Return whether the static hot loop executes half of all instructions, so that no line need be read."""
    hot = ptx.hot_loop
    if hot is None or emulation.hot_loop is None or emulation.executed is None:
        return False
    deepest = all(loop.depth <= hot.depth for loop in ptx.loops)  # it contains no other loop
    return deepest and 2 * emulation.hot_loop.warps >= emulation.executed.warps


def mix_tables(record: VariantRecord) -> list[dict[str, object]]:
    """Tabulate static and executed instructions by class: hot loop, hot loop by execution, whole kernel."""
    emulation, ptx = record.emulation, record.ptx
    if emulation is None or ptx is None:
        return []
    tables = []
    static, executed = hot_counts(ptx), executed_by_class(record, hot=True)
    if ptx.hot_loop is not None and static is not None and executed is not None:
        tables.append(_table(f"Hot loop {ptx.hot_loop.label}", static.by_class, executed, emulation))
    hottest = hot_by_execution(record)
    if hottest is not None and not hottest.hot:
        title = f"Hot loop by execution {hottest.label}"
        tables.append(_table(title, hottest.counts.by_class, _within(emulation, hottest), emulation))
    kernel_counts = executed_by_class(record, hot=False)
    if kernel_counts is not None:
        tables.append(_table("Whole kernel", ptx.counts.by_class, kernel_counts, emulation))
    return tables


def _within(emulation: EmulationRecord, loop: LoopMix) -> dict[str, int]:
    """Count executed thread instructions by class inside a loop."""
    inside, counts = loop.numbers, Counter[str]()
    for group in emulation.lines:
        counts[group.cls] += group.threads * sum(line in inside for line in group.lines)
    return dict(counts)


def _table(
    title: str, static: Mapping[str, int], executed: Mapping[str, int], emulation: EmulationRecord
) -> dict[str, object]:
    """Return rows (class, static count and share, executed count per thread and share), and their sums."""
    threads, of_text, of_run = threads_of(emulation), sum(static.values()), sum(executed.values())
    rows = [
        (
            cls,
            static.get(cls, 0),
            _share(static.get(cls, 0), of_text),
            per_thread(executed.get(cls, 0), threads),
            _share(executed.get(cls, 0), of_run),
        )
        for cls in style.CLASS_COLOURS
        if static.get(cls) or executed.get(cls)
    ]
    return {"title": title, "rows": rows, "static": of_text, "executed": per_thread(of_run, threads)}


def _share(count: int, total: int) -> float:
    return round(count / total, 5) if total else 0.0


def per_thread(count: int, threads: int) -> float:
    """Return the mean count per thread, to five significant digits."""
    return float(f"{count / threads:.5g}")


def line_notes(record: VariantRecord) -> list[dict[str, object]]:
    """Return the notes beside the PTX lines: executions per warp, and the cost of a memory request.

    Returns:
        An object for each group of lines with equal counts: `lines`, `each` (mean executions per warp of the launch),
        `per` (wavefronts `w` or sectors `s` per request), `about` (the same as a sentence), `conflict` (whether bank
        conflicts cost wavefronts).
    """
    emulation = record.emulation
    if emulation is None or emulation.executed is None:
        return []
    warps = warps_of(emulation)
    return [
        {
            "lines": group.lines,
            "each": _short(group.warps / warps),
            "per": " ".join(_cost(name, count) for name, count in group.memory.items() if count.requests),
            "about": "; ".join(
                (
                    f"{group.warps:,} warp instructions, {group.threads / group.warps:.1f} active lanes",
                    *(_cost_in_words(name, count) for name, count in group.memory.items() if count.requests),
                )
            ),
            "conflict": any(count.bank_conflicts for count in group.memory.values()),
        }
        for group in emulation.lines
    ]


def _short(value: float) -> str:
    """Format a number with at most four significant digits, since the gutter is narrow."""
    return f"{value:.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"  # noqa: PLR2004 - four digits


def _cost(name: str, count: MemoryCount) -> str:
    if name.startswith("shared"):
        return f"{_short(round(count.wavefronts / count.requests, 2))}w"
    if name.startswith("const"):
        return f"{_short(round(count.passes / count.requests, 2))}p"
    return f"{_short(round(count.sectors_per_request, 2))}s"


def _cost_in_words(name: str, count: MemoryCount) -> str:
    name, requests = name.replace(".", " "), f"{count.requests:,} requests"
    if name.startswith("shared"):
        per_request, ideal = count.wavefronts / count.requests, count.ideal_wavefronts / count.requests
        return f"{name}: {requests}, {per_request:.2f} wavefronts each, {ideal:.2f} without bank conflicts"
    if name.startswith("const"):
        return f"{name}: {requests}, {count.passes / count.requests:.2f} passes each, one for each distinct word"
    used = count.bytes_used / count.bytes_moved if count.bytes_moved else 0.0
    return f"{name}: {requests}, {count.sectors_per_request:.2f} sectors each, bytes used over bytes moved {used:.2f}"
