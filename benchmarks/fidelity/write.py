"""Write docs/results/fidelity.md from what `measure.py` and `sanitize.py` found."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "results" / "fidelity.md"

Row = Mapping[str, Any]
_CLOSE = 0.01

_INTRODUCTION = """\
<!-- made by benchmarks/fidelity/write.py; do not edit -->
# The emulator's counts against hardware counters

The emulator executes PTX and counts requests, wavefronts and sectors by rules (`lab/hardware/memory.py`). This page
compares its counts with those of Nsight Compute for the same launches on a GPU. Counts are compared exactly; nothing is
scaled or fitted for a launch.

To repeat the comparison on a machine with a GPU, PyCUDA, Nsight Compute and compute-sanitizer:

```
python benchmarks/fidelity/measure.py     # patterns and kernels, emulated and under ncu --clock-control none
python benchmarks/fidelity/sanitize.py    # planted faults, under compute-sanitizer
python benchmarks/fidelity/write.py       # this page
```
"""

_RULES = """\
## The rules, as the hardware shows them

- **Shared memory, up to 4 bytes per lane.** One phase of 32 lanes. A bank delivers one 4-byte word per pass, and lanes
  that read the same word share it: the number of wavefronts is the number of distinct words in the busiest bank.
- **8 and 16 bytes per lane.** Two phases of 16 lanes, four of 8. *Loads* take half as many phases where in the whole
  warp every lane has the address of lane xor 1, or every lane that of lane xor 2 (an idle lane agrees with any).
  One lane that disagrees anywhere in the warp undoes it. The row or column fragments of a GEMM's thread tiles
  profit: a warp that reads 8 float4 for 4 lanes each takes 2 wavefronts, not 4. Stores never profit.
- **cp.async of 4 and 8 bytes** passes through L1: the busiest bank of the source and the busiest bank of the target
  add up (less one) in each phase, and lanes do not share words.
- **cp.async of 16 bytes** comes from L2 in sectors. A wavefront moves sectors from one 128-byte source line to one
  target line whose places in the two lines differ by one exclusive or, so a swizzled tile costs no more than a plain
  one. Pieces that lie differently in their source and target sectors travel alone.
- **Global memory.** A request asks for the distinct 32-byte sectors that its lanes touch.
"""

_EXPLAINED = {
    "shared_load": (
        "ptxas turns neighbouring scalar shared loads of unrolled steps into 64- and 128-bit ones (LDS.64, LDS.128), "
        "so the hardware issues fewer requests than the PTX has, and a conflict is paid once for several words"
    ),
    "shared_store": "ptxas merges neighbouring scalar shared stores into wider ones",
    "ffma_threads": (
        "ptxas makes FFMA out of PTX's division, `ex2.approx` on denormals and square roots, which have no fma "
        "in the text"
    ),
    "global_load": "ncu counts the global side of cp.async among the loads too, the emulator only as copies",
    "shared_copy": (
        "data of cp.async that arrives from L2 in parts is written in parts, so the hardware's count differs from run "
        "to run (2,191 in another one)"
    ),
    "wmma": (
        "wmma fragments are moved by LDSM (a count of its own) and in an order that PTX leaves open; the emulator "
        "counts them element by element"
    ),
}


def main() -> None:
    """Write the page."""
    found = json.loads((HERE / "h200.json").read_text())
    judged = json.loads((HERE / "sanitizer.json").read_text())
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(
        "\n".join([_INTRODUCTION, *_machine(found, judged), _RULES, *_body(found["launches"]), *_faults(judged)])
    )
    print(PAGE)


def _machine(found: Row, judged: Row) -> Iterator[str]:
    facts = {**found["machine"], **{key: judged["machine"][key] for key in ("compute-sanitizer",)}}
    yield (
        "Measured with "
        + ", ".join(f"{key} {value}" if key != "gpu" else value for key, value in facts.items())
        + ".\n"
    )


def _body(launches: list[Row]) -> Iterator[str]:
    yield "## Address patterns\n"
    yield (
        "One warp, one access by inline PTX, one launch for each pattern: strides, broadcasts, sharing, idle lanes, "
        "tiles, swizzles, permutations, misaligned and random addresses (`benchmarks/fidelity/patterns.py`).\n"
    )
    yield "| access | patterns | figure | equal | within 1 % | largest difference |\n|---|---:|---|---:|---:|---:|"
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in launches:
        groups[row["group"]].append(row)
    differing: list[str] = []
    for group, rows in groups.items():
        if group not in ("ladder", "families"):
            space, operation, width = group.split("_")
            for figure in _figures(space, operation):
                yield _summary(f"{space} {operation}, {width} bytes", figure, rows)
                differing += _differences(f"{space} {operation} of {width} bytes", figure, rows)
    yield ""
    if differing:
        yield (
            "Where they differ (emulated / measured): cp.async whose 16-byte pieces lie differently in source and "
            "target sector, or whose source and target both conflict at random.\n"
        )
        yield from differing
        yield ""
    for group, title in (("ladder", "The ladder"), ("families", "The emulator's test kernels")):
        yield from _kernels(title, groups[group])


def _figures(space: str, operation: str) -> tuple[str, ...]:
    unit = "wavefronts" if space == "shared" else "sectors"
    own = (f"{space}_{operation}_requests", f"{space}_{operation}_{unit}")
    return (*own, "global_copy_requests", "global_copy_sectors") if operation == "copy" else own


def _summary(access: str, figure: str, rows: list[Row]) -> str:
    off = [_difference(row, figure) for row in rows]
    equal, close = sum(d == 0 for d in off), sum(d <= _CLOSE for d in off)
    return f"| {access} | {len(rows)} | {figure.replace('_', ' ')} | {equal} | {close} | {max(off):.0%} |"


def _difference(row: Row, figure: str) -> float:
    ours, theirs = row["emulated"][figure], row["measured"][figure]
    return float(abs(ours - theirs) / max(theirs, 1))


def _differences(access: str, figure: str, rows: Iterable[Row]) -> Iterator[str]:
    off = [
        f"{row['name']} {row['emulated'][figure]}/{row['measured'][figure]}"
        for row in rows
        if _difference(row, figure) > 0
    ]
    if off:
        yield f"- {access}, {figure.split('_', 1)[1].replace('_', ' ')}: {'; '.join(off)}."


def _kernels(title: str, rows: list[Row]) -> Iterator[str]:
    yield f"## {title}\n"
    names = list(dict.fromkeys(name for row in rows for name, value in row["measured"].items() if value))
    yield "Emulated, and the measured figure where it differs; empty where both are 0.\n"
    yield "| kernel | " + " | ".join(name.replace("_", " ") for name in names) + " |"
    yield "|---|" + "---:|" * len(names)
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        cells = []
        for name in names:
            ours, theirs = row["emulated"][name], row["measured"][name]
            cells.append(
                "" if ours == theirs == 0 else f"{ours:,}" if ours == theirs else f"{ours:,} (measured {theirs:,})"
            )
            if ours != theirs:
                reasons[_reason(row, name)].append(row["name"])
        yield f"| {row['name']} | " + " | ".join(cells) + " |"
    yield ""
    for reason, kernels in reasons.items():
        yield f"- {'; '.join(dict.fromkeys(kernels))}: {reason}."
    yield ""


def _reason(row: Row, figure: str) -> str:
    if "wmma" in row["name"]:
        return _EXPLAINED["wmma"]
    return next((text for key, text in _EXPLAINED.items() if figure.startswith(key)), "**not explained**")


def _faults(judged: Row) -> Iterator[str]:
    order = [row for row in judged["kernels"] if row["mutant"] == "original" or "`" in row["mutant"]]
    planted = [row for row in judged["kernels"] if row not in order]
    yield "## Planted faults: the emulator's verdict and compute-sanitizer's\n"
    yield (
        "compute-sanitizer ran each with memcheck, racecheck, synccheck and, in the second table, initcheck, compiled "
        "with `-lineinfo`. It does not look for shared memory that nobody wrote, elements of the output that nobody "
        "wrote, wrong results, or races in global memory. `benchmarks/fidelity/sanitizer.json` has each fault.\n"
    )
    yield from _table("In the emulator's test kernels", planted)
    if order:
        yield from _table(
            "In kernels that synchronise (`tests/support/race_cases.py`, `tests/support/fault_cases.py`)", order
        )


def _table(title: str, rows: list[Row]) -> Iterator[str]:
    originals = [row for row in rows if row["mutant"].startswith("original")]
    mutants = [row for row in rows if row not in originals]
    ours = sum(bool(row["emulator"]) for row in mutants)
    theirs = sum(any(row["sanitizer"].values()) for row in mutants)
    quiet = sum(not row["emulator"] for row in originals)
    silent = sum(not any(row["sanitizer"].values()) for row in originals)
    yield f"### {title}\n"
    yield (
        f"Of {len(mutants)} planted faults the emulator finds {ours}, compute-sanitizer {theirs}. Of {len(originals)} "
        f"originals the emulator passes {quiet}, compute-sanitizer {silent}.\n"
    )
    yield "| kernel | faults | emulator | compute-sanitizer | kinds of findings |\n|---|---:|---:|---:|---|"
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        those = [row for row in mutants if row["kernel"] == kernel]
        kinds = dict.fromkeys(kind for row in those for kind in row["emulator"])
        counts = (sum(bool(row["emulator"]) for row in those), sum(any(row["sanitizer"].values()) for row in those))
        yield f"| {kernel} | {len(those)} | {counts[0]} | {counts[1]} | {', '.join(kinds)} |"
    yield ""


if __name__ == "__main__":
    main()
