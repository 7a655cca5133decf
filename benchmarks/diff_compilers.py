"""Compare what releases of ptxas make of the same kernels: the table of docs/results/compilers.md.

    python benchmarks/diff_compilers.py                  # print it
    python benchmarks/diff_compilers.py --write          # write the page
    python benchmarks/diff_compilers.py --arch sm_80 --release 12.9 --release 13.5

A release is an NVRTC, which brings its ptxas; those that this machine lacks are named with the command that installs
them. Sources: the kernels of experiments/others and experiments/plain with the first value of each parameter, and those
of `diff_traps.py`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

from diff_traps import ROOT, PoolSource, pool

from lab.base.errors import LabError, MissingToolError
from lab.diff.collect import CollectOptions, collect
from lab.diff.comparison import KernelChange, SideComparison, compare_sides
from lab.diff.side import CodeSide, SideImage
from lab.toolchain.select import toolchain

PAGE: Final = ROOT / "docs" / "results" / "compilers.md"
RELEASES: Final = ("11.8", "12.9", "13.5")
POOLS: Final = ("own", "plain", "others")
_SHOWN: Final = 12


def side(release: str, arch: str, sources: Sequence[PoolSource]) -> CodeSide:
    """Return all sources compiled by a release; those that it refuses are failures."""
    images: list[SideImage] = []
    failures: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            file = Path(folder, source.name, "kernel.cu")
            file.parent.mkdir(exist_ok=True)
            file.write_text(source.text)
            try:
                compiled = collect(file, CollectOptions((arch,), (f"nvrtc=={release}",)))
            except MissingToolError:
                raise
            except LabError as error:
                failures.append((source.name, str(error).splitlines()[0]))
                continue
            images += [replace(image, where=source.name) for image in compiled.images]
            failures += [(source.name, reason) for _, reason in compiled.failures]
    return CodeSide(f"NVRTC {release}", tuple(images), (), tuple(failures))


def rows(comparisons: Sequence[tuple[str, SideComparison]]) -> Iterator[str]:
    """Yield the table: one row for each step from release to release."""
    heads = "releases, kernels, identical or renamed, rescheduled, equivalent mix, changed, registers, instructions"
    yield f"| {heads.replace(', ', ' | ')} |"
    yield f"|{' --- |' * 8}"
    for name, comparison in comparisons:
        classes = Counter(change.cls.value for change in comparison.changes)
        listed = [change for change in comparison.changes if change.base and change.head]
        cells = [
            name,
            str(len(comparison.changes)),
            str(classes["identical"] + classes["renamed"]),
            str(classes["rescheduled"]),
            str(classes["equivalent mix"]),
            str(classes["changed"]),
            _moves([(c.base.registers, c.head.registers) for c in listed if c.base and c.head]),
            _moves([(c.base.instructions, c.head.instructions) for c in listed if c.base and c.head]),
        ]
        yield f"| {' | '.join(cells)} |"


def _moves(values: Sequence[tuple[int, int]]) -> str:
    more, fewer = (sum(sign * b > sign * a for a, b in values) for sign in (1, -1))
    ratio = median(b / a for a, b in values) if values else 1.0
    return f"{more} more, {fewer} fewer, median x {ratio:.2f}"


def largest(comparisons: Sequence[tuple[str, SideComparison]]) -> Iterator[str]:
    """Yield the kernels whose registers, spills or instructions changed the most."""
    yield "| releases | kernel | registers | spill bytes | instructions | hot loop |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, comparison in comparisons:
        listed = sorted((c for c in comparison.changes if c.base and c.head), key=_size, reverse=True)
        for change in listed[: _SHOWN // len(comparisons) + 1]:
            before, after = change.base, change.head
            assert before is not None and after is not None  # noqa: S101, PT018 - listed
            loops = [figures.loop.instructions if figures.loop else 0 for figures in (before, after)]
            pairs = [
                (before.registers, after.registers), (before.spill_bytes, after.spill_bytes),
                (before.instructions, after.instructions), (loops[0], loops[1]),
            ]  # fmt: skip
            cells = [f"{a} -> {b}" if a != b else str(a) for a, b in pairs]
            yield f"| {name} | `{change.name}` of {change.where} | {' | '.join(cells)} |"


def _size(change: KernelChange) -> float:
    before, after = change.base, change.head
    if before is None or after is None:
        return 0.0
    spills = abs((after.spill_bytes or 0) - (before.spill_bytes or 0)) / 8
    return spills + abs(after.registers / before.registers - 1) + abs(after.instructions / before.instructions - 1)


def page(arch: str, releases: Sequence[str], pools: Sequence[str]) -> str:
    """Return the page.

    Raises:
        MissingToolError: A release is not on this machine.
    """
    sources = [source for name in pools for source in pool(name)]
    command = " ".join(["python benchmarks/diff_compilers.py", *(f"--pool {name}" for name in pools), "--write"])
    versions = [toolchain(f"nvrtc=={release}").version for release in releases]
    sides = [side(release, arch, sources) for release in releases]
    comparisons = [
        (f"{a} -> {b}", compare_sides(before, after, figures=True))
        for (a, b), (before, after) in zip(pairwise(releases), pairwise(sides), strict=True)
    ]
    refused = [f"{collected.name}: {len(collected.failures)}" for collected in sides if collected.failures]
    return "\n".join(
        [
            "# What compilers changed",
            "",
            f"`{command}` compiles {len(sources)} sources for {arch} by NVRTC",
            f"{', '.join(versions)} and compares",
            "each release with the one before ([classes](../how-to/pull-requests.md#classes)). No time is measured.",
            "",
            *rows(comparisons),
            "",
            "## Largest changes",
            "",
            *largest(comparisons),
            "",
            f"Sources that a release refuses: {', '.join(refused) if refused else 'none'}.",
            "",
        ]
    )


def main() -> None:
    """Print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--release", action="append")
    parser.add_argument("--pool", action="append")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    text = page(arguments.arch, arguments.release or RELEASES, arguments.pool or POOLS)
    if arguments.write:
        PAGE.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
