"""The output of `lab inspect`: listings with the hot loop marked, and the instruction mix of their kernels.

Everything is written as plain lines: rich takes a minute to lay out 50,000 kernels or 10^5 loops.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.syntax import Syntax

from lab.cli.terminal import columns, print_flowing, rule, write

if TYPE_CHECKING:  # they take seconds to import
    from lab.cli.inspect import InspectedListing, Inspection
    from lab.isa.mix import Counts, KernelMix
    from lab.isa.model import Isa
    from lab.isa.roles import WarpRole

_HOT: Final = "▌"
_LOOPS: Final = (
    "loop",
    "depth",
    "instructions",
    "fma : ld.shared",
    "FMA\nshare",
    "fma/(fma +\nld.shared)",
    "live\nregs",
)
_MOST_CLASSES: Final = 4
"""Classes of instructions that the summary names."""
_MARGIN: Final = 9
"""Columns of the line number and the mark."""
_DEEPEST: Final = 16
"""Depth beyond which the name of a loop is not indented further."""


def print_inspection(console: Console, inspection: Inspection, *, full: bool) -> None:
    """Print a summary, the listings with the hot loop marked, and the instruction mix.

    Args:
        console: Where to print.
        inspection: What to print.
        full: Print the source and whole listings, too, rather than hot loops.
    """
    rule(console, inspection.title)
    write(console, [(f"{note}\n", "") for note in inspection.notes])
    write(console, [(_summary(inspection, console.width), "")])
    if inspection.source and full:
        if console.is_terminal:
            console.print(Syntax(inspection.source, "cuda", line_numbers=True, background_color="default"))
        else:  # rich would pad every line to the width
            lines = enumerate(inspection.source.splitlines(), 1)
            write(console, [("".join(f"{number:4} {line}\n" for number, line in lines), "")])
    for listing in inspection.listings:
        rule(console, listing.isa.upper())
        write(console, _marked(listing, console.width if console.is_terminal else None, full=full))
    if inspection.advice is not None:
        rule(console, "performance findings")
        for line in inspection.advice.text():
            print_flowing(console, line, indent=3)
    for listing in inspection.listings:
        write(console, (span for kernel in listing.kernels for span in _kernel(listing.isa, kernel)))
    if not full and any(listing.kernels for listing in inspection.listings):
        write(console, [("\n--full shows the source and all of the listings\n", "")])


def _summary(inspection: Inspection, width: int) -> str:
    """Return a row for each kernel: its registers, spills and static shared memory, and the mix of its hot loop.

    As many classes of the mix are named as fit into a width.
    """
    if not inspection.listings or not inspection.listings[-1].kernels:
        return ""
    for classes in range(_MOST_CLASSES, 0, -1):
        text = _table_of(inspection, classes)
        if max(map(len, text.splitlines())) <= width:
            break
    return text


def _table_of(inspection: Inspection, classes: int) -> str:
    rows = []
    for kernel in inspection.listings[-1].kernels:
        used = inspection.resources.get(kernel.name)
        figures = ("", "", "")
        if used is not None:
            figures = (str(used.registers), f"{used.spill_bytes} B", f"{used.shared_bytes} B")
        elif kernel.live_registers is not None:
            figures = (str(kernel.live_registers), "", "")
        rows.append((inspection.titles.get(kernel.name, kernel.name), *figures, _hot_mix(kernel, classes)))
    headers = ("kernel", "registers", "spills", "shared", "hot loop" if any(rows) else "")
    kept = [place for place in range(len(headers)) if place in (0, 4) or any(row[place] for row in rows)]
    picked = [tuple(row[place] for place in kept) for row in rows]
    return columns([headers[place] for place in kept], [(*row[:-1], row[-1]) for row in picked])


def _hot_mix(kernel: KernelMix, most: int) -> str:
    """Return the instructions of a kernel's hot loop by their most frequent classes."""
    counts = kernel.hot_counts
    top = sorted(counts.by_class.items(), key=lambda item: (-item[1], item[0]))[:most]
    where = "" if kernel.hot_loop else "no loop, "
    return f"{where}{counts.instructions} instructions: {', '.join(f'{count} {name}' for name, count in top)}"


_OFFSET: Final = re.compile(r"^ *(/\*[0-9a-f]{4,}\*/) {12}")
_LIVE: Final = re.compile(r" *(// [|+].*)$")
"""The columns of live registers that nvdisasm writes behind SASS."""


def _narrowed(line: str, width: int) -> str:
    """Return a line of SASS with less white space and, where it is still too long, without live registers."""
    if len(line) <= width:
        return line
    line = _OFFSET.sub(r"\1", line)
    live = _LIVE.search(line)
    if live is None:
        return line
    code = line[: live.start()]
    packed = f"{code:{max(len(code) + 1, width - len(live[1]))}}{live[1]}"
    return packed if len(packed) <= width else code


def _marked(listing: InspectedListing, width: int | None, *, full: bool) -> Iterator[tuple[str, str]]:
    """Yield the lines of a listing that are shown, with their styles; narrowed to a width unless it is None."""
    hot = {line for kernel in listing.kernels if kernel.hot_loop for line in kernel.hot_loop.numbers}
    # a kernel without loops is shown whole
    whole = {
        line
        for kernel in listing.kernels
        if kernel.hot_loop is None and kernel.lines is not None
        for line in range(kernel.lines[0], kernel.lines[1] + 1)
    }
    shown = hot | whole
    for (is_hot, is_shown), lines in groupby(
        enumerate(listing.text.splitlines(), 1), lambda line: (line[0] in hot, full or line[0] in shown)
    ):
        mark = _HOT if is_hot else " "
        if is_shown:
            texts = ((number, line if width is None else _narrowed(line, width - _MARGIN)) for number, line in lines)
            yield "".join(f"{number:6} {mark} {line}\n" for number, line in texts), "bold yellow" if is_hot else ""


def _kernel(isa: Isa, kernel: KernelMix) -> Iterator[tuple[str, str]]:
    """Yield the mix of a kernel as texts with their styles."""
    yield f"\n── {isa.upper()} of {kernel.name} ──\n", "bold"
    yield f"loops\n{_loops(kernel)}", ""
    yield "".join(f"{_role(role)}\n" for role in kernel.roles), ""
    yield f"instructions by class\n{_classes(kernel)}", ""


def _loops(kernel: KernelMix) -> str:
    rows = [
        (
            f"{_HOT if loop.hot else ' '} {'  ' * min(loop.depth - 1, _DEEPEST)}{loop.label}",
            str(loop.depth),
            str(loop.counts.instructions),
            *_figures(loop.counts),
            "" if loop.live_registers is None else str(loop.live_registers),
        )
        for loop in kernel.loops
    ]
    live = "" if kernel.live_registers is None else str(kernel.live_registers)
    total_row = ("  whole kernel", "0", str(kernel.counts.instructions), *_figures(kernel.counts), live)
    return columns(_LOOPS, [*rows, total_row])


def _role(role: WarpRole) -> str:
    count = "the registers of the launch" if role.registers is None else f"{role.registers} registers"
    return f"{role.role}: {count} from line {role.line} on"


def _figures(counts: Counts) -> tuple[str, str, str]:
    ratio = f"{counts.fma} : {counts.ld_shared}"
    if counts.fma_per_ld_shared is not None:
        ratio += f" = {counts.fma_per_ld_shared:.2f}"
    share, fma_ratio = counts.fma_share, counts.fma_over_fma_plus_ld_shared
    return ratio, "" if share is None else f"{share:.1%}", "" if fma_ratio is None else f"{fma_ratio:.3f}"


def _classes(kernel: KernelMix) -> str:
    hot = kernel.hot_loop
    by_class = sorted(kernel.counts.by_class.items(), key=lambda item: -item[1])
    rows = [(name, str(hot.counts.by_class.get(name, 0)) if hot else "", str(count)) for name, count in by_class]
    return columns(("class", "hot loop", "kernel"), rows)
