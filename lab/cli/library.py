"""`lab library`: explain what a tuned library picks, time it here, and pack it for others."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import Location, UserError
from lab.base.terminal import write

if TYPE_CHECKING:
    from lab.base.sizes import Size
    from lab.library.archive import StoredLibrary
    from lab.library.checked_sizes import CheckedSize
    from lab.library.package import Library
    from lab.templates.launches import Launch

commands = typer.Typer(name="library", help="Tuned libraries: explain, check, pack.", no_args_is_help=True)

Place = Annotated[
    str, typer.Argument(help="A library's folder or archive, or the name of a shipped one.", show_default=False)
]
Size1 = Annotated[int, typer.Argument(min=1, show_default=False)]
_NEAREST = 3
"""Number of measured sizes `explain` shows."""

_HIGH, _HIGH_OF_BATCHES = 16384, 1024
"""Largest dimension that `check` draws: for 64 GEMMs of 1024 x 1024 x 1024 each operand has 2^26 elements."""


@commands.command()
def explain(
    library: Place,
    m: Size1,
    n: Size1,
    k: Size1,
    batch: Annotated[int, typer.Option(min=1, help="GEMMs per batch, for a batched library.")] = 1,
) -> None:
    """Explain which kernel a library picks for a size, and show the throughput measured at nearby sizes."""
    from lab.library.archive import stored

    libraries = stored(library)
    single = next(
        (stored_library.library.name for stored_library in libraries if not stored_library.library.batched), None
    )
    if batch > 1 and single is not None:
        accepted = "1, or a batched library; this one launches its kernel once per GEMM"
        raise UserError(
            f"{single} does not pick by the batch size", code="conflict", key="--batch", found=batch, accepted=accepted
        )
    for stored_library in libraries:
        for line in _explained(stored_library, (m, n, k, batch)):
            write(line)


def _explained(stored_library: StoredLibrary, size: Size) -> list[str]:
    from lab.base.elements import operations
    from lab.library.call_factors import host_factors
    from lab.library.calls import launches, sized_form
    from lab.library.expected import expected_ms
    from lab.library.picking import picked

    library = stored_library.library
    first, number = library.logic.select(*size), picked(library, *size)
    kernel = library.kernels[number]
    m, n, k, batch = size
    point = sized_form(m, n, k, None, library, batch=batch).point
    numbers, work = host_factors(1.0, 0.0, library.dtype), 1e-9 * operations(library.dtype)
    sequence = launches(library, number, dict(zip((*library.sizes, *library.factors), (*point, *numbers), strict=True)))
    lines = [f"{library.layout} {_shown(size[: len(library.axes)])}: {kernel.name}"]
    lines.append(f"  because {'; '.join(_reasons(library, size)) or 'the library has one kernel'}")
    if first != number:
        first_choice = library.kernels[first]
        lines.append(f"  in place of {first_choice.name}, which requires {first_choice.requires}")
    if kernel.requires:
        lines.append(f"  requires {kernel.requires}; other leading dimensions get another kernel")
    lines.append(f"  {kernel.template}: {', '.join(f'{name}={value}' for name, value in kernel.parameters.items())}")
    lines += [
        f"  launch {step.entry}: grid {_grid(step)}, block {' x '.join(map(str, step.block))}, "
        f"{step.dynamic_shared_bytes} bytes of dynamic shared memory"
        for step in sequence.steps
    ]
    if sequence.workspace:
        lines.append(f"  workspace: {sum(buffer.bytes for buffer in sequence.workspace)} bytes")
    expected = expected_ms(library.measured, size, library.alignment)
    if expected is not None:
        lines.append(f"  expected: {expected:.4g} ms, {work * math.prod(size) / expected:.3g} TFLOP/s")
    near = sorted(library.measured, key=lambda at: math.dist(_doublings(at.size), _doublings(size)))
    for at in near[:_NEAREST]:
        reached = work * math.prod(at.size) / at.ms
        beside = f", {at.cublas_ms / at.ms:.2f} of cuBLAS's throughput" if at.cublas_ms else ""
        name, place = library.kernels[at.kernel].name, _shown(at.size[: len(library.axes)])
        lines.append(f"  {library.times.value} near it: {place}: {reached:.3g} TFLOP/s{beside}, by {name}")
    return lines


def _shown(size: Size) -> str:
    """Return a size as it is printed, with the batch last."""
    m, n, k, *batch = size
    return f"{m} x {n} x {k}{''.join(f', batch {products}' for products in batch)}"


def _reasons(library: Library, size: Size) -> tuple[str, ...]:
    from lab.library.picking import picked

    decides = library.logic if library.logic.select(*size) == picked(library, *size) else library.general
    return (decides or library.logic).reasons(*size)


def _grid(step: Launch) -> str:
    if step.resident_grid is not None:
        return (
            f"at most {' x '.join(map(str, step.resident_grid.of(1 << 31)))}, as many blocks as the GPU holds at once"
        )
    return " x ".join(map(str, step.grid))


def _doublings(size: Size) -> tuple[float, ...]:
    return tuple(math.log2(extent) for extent in size)


@commands.command()
def check(
    library: Place,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for check.csv and check.png.", show_default="none")
    ] = None,
    sizes: Annotated[int, typer.Option(min=1, help="Random sizes for each layout.")] = 100,
    csv: Annotated[
        Path | None,
        typer.Option(help="Sizes in place of random ones: a CSV file with m, n, k, a_t, b_t.", show_default="none"),
    ] = None,
    high: Annotated[
        int | None, typer.Option(min=1, help="Largest dimension.", show_default="16384, for batches 1024")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Most GEMMs per batch, for a batched library.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sizes.")] = 1,
    cache: Annotated[str, typer.Option(help="State of L2: auto (cold unless very short), cold or warm.")] = "auto",
) -> None:
    """Time a library against cuBLAS on this machine, at random sizes, half of the dimensions aligned.

    Aligned ones are multiples of 4, of 16-bit elements of 8. Of a CSV file's sizes, each library gets those of its
    layout.
    """
    from lab.base.elements import ELEMENT_BYTES
    from lab.gpu.process.find import find_cards
    from lab.gpu.process.localcards import LocalCards
    from lab.gpu.timing.cache import Flush
    from lab.gpu.timing.survey import SurveyPolicy
    from lab.hardware.tensormaps import ADDRESS_ALIGNMENT
    from lab.library.alignment import VECTOR
    from lab.library.archive import stored
    from lab.store.tuning_model import ProblemType
    from lab.tuning.file.size_lists import drawn, from_csv
    from lab.tuning.file.tuning_schema import RandomModel
    from lab.tuning.library_check import check as check_on

    if cache not in {"auto", "cold", "warm"}:
        raise UserError("unknown L2 state", code="wrong-value", key="--cache", found=cache, accepted="auto, cold, warm")
    libraries = stored(library)
    multiple = max(VECTOR, ADDRESS_ALIGNMENT // ELEMENT_BYTES[libraries[0].library.dtype])

    def asked_of(tuned_library: Library) -> tuple[Size, ...]:
        of = ProblemType(tuned_library.dtype, tuned_library.layout, tuned_library.batched)
        if csv is not None:
            return from_csv(csv, of)
        largest = high or (_HIGH_OF_BATCHES if tuned_library.batched else _HIGH)
        ends = [largest, largest, batch, largest] if tuned_library.batched else largest
        return drawn(RandomModel(count=sizes, low=1, high=ends, aligned=0.5, multiple=multiple, seed=seed), of.axes)

    sizes_by_layout = {stored_library.library.layout: asked_of(stored_library.library) for stored_library in libraries}
    if not any(sizes_by_layout.values()):
        raise UserError(
            "the file has no size of these layouts",
            code="nothing-left",
            found=str(csv),
            accepted=", ".join(sizes_by_layout),
        )
    cards, reason = find_cards(measure=True)
    if not cards:
        raise UserError(
            f"nothing can be checked: {reason}", code="nothing-left", accepted="a machine with an NVIDIA GPU and PyCUDA"
        )
    policy = SurveyPolicy(samples=7, enough_ms=20, drop=None, flush=Flush.of(cache))
    rows: list[CheckedSize] = []
    with LocalCards(cards) as pool:
        for stored_library in libraries:
            own = sizes_by_layout[stored_library.library.layout]
            rows += check_on(stored_library, own, pool, policy=policy, seed=seed) if own else ()
            write(f"{stored_library.library.layout}: {len(own)} sizes", error=True)
    failed = _tell(rows)
    if output is not None:
        _write(rows, output, f"{Path(library).name} against cuBLAS on one {cards[0].description.name}")
    raise typer.Exit(1 if failed else 0)


def _tell(rows: list[CheckedSize]) -> int:
    """Print the ratios by layout and class, and the failures; return the number of failures."""
    from lab.library.checked_sizes import summaries

    write(f"{'over cuBLAS':12} {'sizes':>6} {'geo. mean':>10} {'5th pct.':>10} {'worst':>7} {'faster':>7}")
    for stat in summaries(rows):
        write(f"{stat.name:12} {stat.sizes:6} {stat.mean:10.3f} {stat.p5:10.3f} {stat.worst:7.3f} {stat.faster:7.1%}")
    slow = sorted((row for row in rows if row.ratio is not None), key=lambda row: row.ratio or 0.0)
    for row in slow[:5]:
        write(f"slowest: {row.layout} {_shown(row.size)}: {row.ratio:.3f}, by {row.kernel}")
    errors = [row.expectation_error for row in rows if row.expectation_error is not None]
    if errors:
        write(f"expected times: median error {median(errors):.1%} over {len(errors)} sizes")
    failed = [row for row in rows if row.failure]
    for row in failed[:10]:
        write(f"failed: {row.layout} {_shown(row.size)}, {row.kernel}: {row.failure}", error=True)
    return len(failed)


def _write(rows: list[CheckedSize], folder: Path, title: str) -> None:
    from lab.base.files import write_atomically
    from lab.library.checked_sizes import to_csv
    from lab.report.tuning.checked_png import draw

    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "check.csv", to_csv(rows))
    if any(row.ratio is not None for row in rows):
        draw(rows, folder / "check.png", title)
    write(f"report: {folder}")


@commands.command()
def pack(
    place: Annotated[
        str, typer.Argument(help="Folder of a tuning run; or archives, to emit their C again.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the archives.", show_default=False)],
) -> None:
    """Pack every library of a tuning run as an archive, which `lab.dispatch.load` reads as it is.

    Archives, or a library that comes with lab, are packed again with the C and Python that this version emits.
    """
    from lab.library import archive, emit

    for stored_library in archive.stored(place):
        cubins = {
            kernel.name: stored_library.cubins[kernel.cubin]
            for kernel in stored_library.library.kernels
            if kernel.cubin in stored_library.cubins
        }
        if len(cubins) < len(stored_library.library.kernels):
            missing = next(kernel.cubin for kernel in stored_library.library.kernels if kernel.name not in cubins)
            raise UserError(
                "the machine code of a kernel is missing",
                code="missing-file",
                at=Location(stored_library.place),
                found=missing,
            )
        target = output / f"{stored_library.library.name}{archive.SUFFIX}"
        if stored_library.place.is_dir():
            archive.pack(stored_library.place, target)
        else:
            with tempfile.TemporaryDirectory() as temporary:
                emit.write(stored_library.library, cubins, Path(temporary))
                archive.pack(Path(temporary), target)
        write(f"{target}: {target.stat().st_size} bytes")
