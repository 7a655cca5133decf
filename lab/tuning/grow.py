"""From a run's times to a library: refinement, held-out sizes, decision tree, folder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from lab.base.errors import Location, UserError
from lab.base.folder import Folder
from lab.base.sizes import Size, extents
from lab.library import emit, specialise
from lab.library.alignment import Alignment
from lab.library.batch_expressions import blocks, others, takes
from lab.library.grid import Grid, Loss, loss_of
from lab.library.interpolation import Filled, Stair, fill
from lab.library.package import Library, LibraryKernel, MeasuredSize, TimesKind
from lab.library.tree import Logic, build
from lab.measured.timing import Kind
from lab.store.tuning_model import LibraryFacts, ProblemType, TimingStage, baseline_id
from lab.tuning.bench import TimingTask
from lab.tuning.candidate_builds import Kernel
from lab.tuning.choose import halving
from lab.tuning.file.load import Tuning
from lab.tuning.general import Requiring
from lab.tuning.race import FinalStep, TuningContext, times_at

REFINE_KEEP = 0.1
"""Speed threshold for refinement: kernels this close to the fastest at a nearby size are timed again.

Nearby are the `_REFINE_NEAREST` measured sizes around: the library picks among kernels that are best at one of them.
"""

_REFINE_NEAREST = 4


@dataclass(frozen=True)
class Grown:
    """Selection logic grown from a run's times.

    Attributes:
        logic: What picks a kernel.
        over: Measured sizes and times that it was grown over.
        interpolated: Sizes between them whose times were interpolated.
        requiring: The kernels that cannot take every size, and what picks another one; None where all can.
    """

    logic: Logic
    over: Grid
    interpolated: int
    requiring: Requiring | None = None

    def pick(self, size: Size) -> str:
        """Return the name of the kernel that runs at a size without padding."""
        if self.requiring is None:
            return self.logic.kernels[self.logic.select(*size)]
        return self.requiring.pick(self.logic, size)


@dataclass(frozen=True)
class WrittenLibrary:
    """A written library.

    Attributes:
        folder: Its folder.
        facts: What the run remembers of it.
    """

    folder: Path
    facts: LibraryFacts


def library(context: TuningContext, final: FinalStep, folder: Path, source: str) -> WrittenLibrary | None:
    """Grow the logic, time its kernels at held-out sizes, and write the library's folder.

    Args:
        context: The run.
        final: Kernels and sizes of one problem type.
        folder: Folder of the run, in which the library gets a folder of its own.
        source: Where the times come from, for the library's files.

    Returns:
        None where no kernel has a time, or the file asks for no library.
    """
    settings = context.tuning.library
    if settings is None:
        return None
    held_out, refined = _between(final.sizes.ranges, context.tuning)
    if refined:
        _refine(context, final, refined)
    grown = grow(context, final)
    if grown is None:
        return None
    picked = {kernel.facts.name: kernel for kernel in final.kernels if kernel.facts.name in grown.logic.kernels}
    if held_out:
        _time_held_out(context, final, grown, picked, held_out)
    times = TimesKind.MEASURED if context.bench.kind is Kind.MEASURED else TimesKind.PREDICTED
    cubins = {name: picked[name].cubin for name in grown.logic.kernels}
    library_folder = (Folder(folder) / f"{settings.name}_{final.type.layout}").make()
    return write(context, final, grown, library_folder, times=times, source=source, cubins=cubins)


def write(
    context: TuningContext,
    final: FinalStep,
    grown: Grown,
    folder: Path,
    *,
    times: TimesKind,
    source: str,
    cubins: Mapping[str, bytes],
) -> WrittenLibrary:
    """Write a library's folder.

    Args:
        context: The run.
        final: Kernels and sizes of the problem type.
        grown: Its logic.
        folder: The folder; the library has its name.
        times: Kind of its times.
        source: Where the times come from, for the library's files.
        cubins: Machine code of the kernels that the logic picks, by their names.
    """
    facts, logic = facts_of(context, final, grown), grown.logic
    picked = {kernel.facts.name: kernel for kernel in final.kernels if kernel.facts.name in logic.kernels}
    written_library = Library(
        name=folder.name,
        dtype=final.type.dtype,  # type: ignore[arg-type]  # a problem type has no other
        layout=final.type.layout,  # type: ignore[arg-type]
        arch=picked[logic.kernels[0]].facts.arch,
        times=times,
        source=source,
        kernels=tuple(_launched(picked[name], final.type) for name in logic.kernels),
        logic=logic,
        loss=facts.loss,
        held_out=facts.held_out,
        measured=_measured(context, final, grown),
        general=grown.requiring.general if grown.requiring else None,
        batched=final.type.batched,
    )
    settings = context.tuning.library
    emit.write(
        written_library, cubins, folder, emit.Selection(settings.selection) if settings else emit.Selection.NESTED
    )
    return WrittenLibrary(folder, facts)


def _time_held_out(
    context: TuningContext, final: FinalStep, grown: Grown, picked: dict[str, Kernel], held_out: Sequence[Size]
) -> None:
    """Time the library's kernels at sizes the logic is not grown over."""
    # the time of the picked kernel decides what is lost, so it is never that of a first sample alone
    ids = [frozenset({picked[grown.pick(size)].facts.id}) for size in held_out]
    tasks = [TimingTask(size, tuple(picked.values()), kept_ids) for size, kept_ids in zip(held_out, ids, strict=True)]
    context.bench.run(TimingStage.HELD_OUT, final.type, tasks, drop=context.drop, baseline=False)


def _measured(context: TuningContext, final: FinalStep, grown: Grown) -> tuple[MeasuredSize, ...]:
    """Return the library's fastest kernel, and cuBLAS, at the sizes the logic was grown over."""
    number = {name: i for i, name in enumerate(grown.logic.kernels)}
    measured = []
    for size, row in _rows(grown.over):
        own = {name: ms for name, ms in row.items() if name in number}
        if own:
            best = min(own, key=lambda name: own[name])
            beside = context.ledger.of(TimingStage.FINAL, baseline_id(final.type.label), size)
            m, n, k, batch = extents(size)
            measured.append(MeasuredSize(m, n, k, number[best], own[best], beside.ms if beside else None, batch))
    return tuple(measured)


def grow(context: TuningContext, final: FinalStep) -> Grown | None:
    """Grow the logic over all times, including those of refinement.

    Where some kernels cannot take every size, a general logic is grown first, over the others. At a size that a kernel
    cannot take, picking it costs what the general logic's pick takes there, as it will when the library is called.

    Args:
        context: The run; its file says how much a split must gain.
        final: Kernels and sizes.

    Returns:
        None where no kernel has a time, or the file asks for no library.

    Raises:
        UserError: Kernels have requirements and none is without.
    """
    launched = {
        kernel.facts.name: _launched(kernel, final.type) for kernel in final.kernels if not kernel.facts.failure
    }
    asking = {name: kernel for name, kernel in launched.items() if kernel.requires}
    if not asking:
        return _grown(context, final, None)
    able = tuple(kernel for kernel in final.kernels if kernel.facts.name not in asking)
    general = _grown(context, replace(final, kernels=able), None)
    if general is None:
        if context.tuning.library is None or not any(times_at(final, context.ledger, size) for size in final.sizes.all):
            return None
        raise UserError(
            "the library would have no kernel for sizes that meet no requirement",
            code="nothing-left",
            at=Location(context.tuning.file),
            key="groups",
            found=sorted({kernel.template for kernel in asking.values()}),
            accepted="a further group whose kernels take every size, as those of hgemm/v1_ldmatrix.cu.j2 do",
        )
    grown = _grown(context, final, Requiring(asking, final.type.layout, general.logic))
    if grown is None or grown.requiring is None or not asking.keys() & set(grown.logic.kernels):
        return general
    names = tuple(dict.fromkeys((*grown.logic.kernels, *general.logic.kernels)))
    requiring = replace(grown.requiring, general=general.logic.renumbered(names))
    return replace(grown, logic=grown.logic.renumbered(names), requiring=requiring)


def _grown(context: TuningContext, final: FinalStep, requiring: Requiring | None) -> Grown | None:
    """Grow one logic over the kernels' times."""
    settings = context.tuning.library
    if settings is None:
        return None
    measured, exact = (_grid(context, final, sizes) for sizes in (final.sizes.ranges, final.sizes.exact))
    alignment = Alignment.of(final.type.dtype, final.type.layout)
    if measured is None:
        if exact is None:
            return None
        return Grown(build(None, exact, tolerance=settings.tolerance, alignment=alignment), exact, 0, requiring)
    _, refined = _between(final.sizes.ranges, context.tuning)
    between = _grid(context, final, refined, TimingStage.REFINED)
    if between is not None:
        measured = _joined(measured, between)
    filled = _filled(context, final, measured, alignment)
    over, edges, interpolated, gains = measured, None, 0, None
    if filled is not None:
        over, edges, interpolated = filled.grid, filled.edges, len(filled.grid.sizes) - len(measured.sizes)
    if requiring is not None:
        over = requiring.with_others(over)
        gains = requiring.gains(over)
    logic = build(over, exact, tolerance=settings.tolerance, edges=edges, gains=gains, alignment=alignment)
    return Grown(logic, measured, interpolated, requiring)


def facts_of(context: TuningContext, final: FinalStep, grown: Grown) -> LibraryFacts:
    """Return the facts of a library for a run's report."""
    logic = grown.logic
    return LibraryFacts(
        type=final.type.label,
        kernels=logic.kernels,
        splits=len(logic.splits),
        exact=len(logic.exact),
        interpolated=grown.interpolated,
        loss=loss_of(grown.over, [grown.pick(size) for size in grown.over.sizes]),
        held_out=_held_out_loss(context, final, grown),
    )


def _held_out_loss(context: TuningContext, final: FinalStep, grown: Grown) -> Loss | None:
    """Return the logic's loss over held-out sizes; None if none of them has a time."""
    held_out, _ = _between(final.sizes.ranges, context.tuning)
    grid = _grid(context, final, held_out, TimingStage.HELD_OUT)
    return loss_of(grid, [grown.pick(size) for size in grid.sizes]) if grid else None


def _launched(kernel: Kernel, of: ProblemType) -> LibraryKernel:
    """Return a kernel's launches, specialised to expressions of sizes."""
    return specialise.kernel(
        kernel.facts.name,
        cubin=f"{kernel.facts.name}.cubin",
        template=kernel.candidate.group.template,
        parameters=kernel.candidate.parameters,
        dtype=of.dtype,
        layout=of.layout,
        batched=of.batched,
    )


def _between(ranges: Sequence[Size], tuning: Tuning) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """Return the held-out sizes and the refinement sizes, which are disjoint."""
    if tuning.library is None or not ranges:
        return (), ()
    held_out = halving.between(ranges, tuning.library.held_out, tuning.seed)
    return held_out, halving.between([*ranges, *held_out], tuning.library.refine, tuning.seed + 1)


def _filled(context: TuningContext, final: FinalStep, measured: Grid, alignment: Alignment) -> Filled | None:
    """Return the measured sizes and interpolated times between them."""
    stairs = {}
    for kernel in final.kernels:
        if kernel.facts.name in measured.kernels and kernel.facts.blocks_per_sm:
            launched, layout = _launched(kernel, final.type), final.type.layout
            stairs[kernel.facts.name] = Stair(
                partial(blocks, launched, layout),
                kernel.facts.blocks_per_sm,
                kernel.facts.cluster,
                partial(takes, launched, layout) if launched.requires else None,
                partial(others, launched, layout),
            )
    cold = {
        size
        for stage in (TimingStage.FINAL, TimingStage.REFINED)
        for one in final.kernels
        for size, timed in context.ledger.times[stage].get(kernel.facts.id, {}).items()
        if timed.cache == "cold"
    }
    return fill(measured, stairs, context.gpu.sms, cold, alignment)


def _refine(context: TuningContext, final: FinalStep, between: Sequence[Size]) -> None:
    """Time kernels at refinement sizes if they are fast at sizes nearby."""
    ranges = _grid(context, final, final.sizes.ranges)
    if ranges is None:
        return
    times: dict[str, dict[Size, float]] = {name: {} for name in ranges.kernels}
    for size, row in _rows(ranges):
        for name, ms in row.items():
            times[name][size] = ms
    by_name = {kernel.facts.name: kernel for kernel in final.kernels}
    tasks = [
        TimingTask(size, tuple(by_name[name] for name in sorted(good)))
        for size in between
        if (good := halving.survivors(size, times, ranges.sizes, nearest=_REFINE_NEAREST, keep=REFINE_KEEP))
    ]
    context.bench.run(TimingStage.REFINED, final.type, tasks, drop=context.drop, baseline=False)


def _joined(first: Grid, second: Grid) -> Grid:
    """Merge the times of two grids."""
    return Grid.of(dict(chain(_rows(first), _rows(second))))


def _rows(grid: Grid) -> Iterator[tuple[Size, dict[str, float]]]:
    """Yield each size with its times, in ms by the kernels' names."""
    for size, row in zip(grid.sizes, grid.times, strict=True):
        yield size, {name: ms for name, ms in zip(grid.kernels, row, strict=True) if not math.isnan(ms)}


def _grid(
    context: TuningContext, final: FinalStep, sizes: Sequence[Size], stage: TimingStage = TimingStage.FINAL
) -> Grid | None:
    """Return times by the kernels' names, for sizes with a time; None without any."""
    names = {kernel.facts.id: kernel.facts.name for kernel in final.kernels}
    times = {
        size: {names[identity]: ms for identity, ms in found.items()}
        for size in sizes
        if (found := times_at(final, context.ledger, size, stage))
    }
    return Grid.of(times) if times else None
