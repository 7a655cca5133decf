"""Step 7: all final kernels against all sizes, less what halving leaves out; and the library that its times make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from lab.base.sizes import Size
from lab.hardware.gpus import Gpu
from lab.library import emit, specialise
from lab.library.arrays import blocks
from lab.library.grid import Grid, Loss
from lab.library.interpolation import Filled, Stair, fill
from lab.library.package import Library, LibraryKernel, TimesKind
from lab.library.tree import Logic, build, evaluate
from lab.measured.timing import Kind
from lab.store.tuning import Stage
from lab.store.tuning_model import Cut, ProblemType, Row, Step
from lab.tuning.bench import Bench, Ledger, Task
from lab.tuning.choose import halving
from lab.tuning.choose.protocol import TITLES
from lab.tuning.file.load import Tuning
from lab.tuning.file.schema import HalvingModel
from lab.tuning.file.sizes import Sizes
from lab.tuning.kernels import Kernel

REFINE_KEEP = 0.1
"""Between sizes, a kernel is timed that is no more than this share slower than the fastest at one of the four measured
sizes nearest: the library picks among those that are best somewhere near."""


@dataclass(frozen=True)
class Run:
    """What the stages of one run share.

    Attributes:
        tuning: The file.
        bench: Who times.
        ledger: What is known.
        gpu: What predictions are for.
    """

    tuning: Tuning
    bench: Bench
    ledger: Ledger
    gpu: Gpu

    @property
    def drop(self) -> float | None:
        """For `Bench.run`, as the file's halving says; None without."""
        return self.tuning.halving.drop if self.tuning.halving else None


@dataclass(frozen=True)
class Final:
    """What step 7 works on, for one problem type.

    Attributes:
        type: The problem type.
        kernels: The final kernels.
        singles: Ids of those that are timed at every size of their group, with all samples.
        sizes: Of all groups.
    """

    type: ProblemType
    kernels: tuple[Kernel, ...]
    singles: frozenset[str]
    sizes: Sizes

    def at(self, size: Size) -> tuple[Kernel, ...]:
        """The kernels whose group has the size."""
        return tuple(one for one in self.kernels if size in one.candidate.group.final.set)


def final_of(tuning: Tuning, kind: ProblemType, kernels: Sequence[Kernel], singles: frozenset[str]) -> Final:
    """The kernels of one problem type, each once, and the sizes of its groups together."""
    groups = [group for group in tuning.groups if group.type == kind]
    ranges = tuple(dict.fromkeys(size for group in groups for size in group.final.ranges))
    exact = tuple(dict.fromkeys(size for group in groups for size in group.final.exact))
    once = {one.facts.id: one for one in reversed(kernels)}
    return Final(kind, tuple(reversed(once.values())), singles, Sizes(ranges, exact))


def race(run: Run, final: Final) -> list[Cut]:
    """Time the final kernels.

    Returns:
        What was left out, by rule.
    """
    sizes, rules, bench, ledger = final.sizes.all, run.tuning.halving, run.bench, run.ledger
    baseline = bool(run.tuning.baselines)
    if rules is None:
        tasks = [Task(size, final.at(size), final.singles) for size in sizes]
        bench.run(Stage.FINAL, final.type, tasks, drop=None, baseline=baseline)
        return []
    first = halving.coarse(final.sizes, rules.coarse, rules.coarse_gflop)
    cuts = _Cuts(rules, final.singles, run.gpu)
    tasks = [Task(size, cuts.by_prediction(size, final.at(size)), final.singles) for size in first]
    bench.run(Stage.FINAL, final.type, tasks, drop=rules.drop, baseline=baseline)
    known = {
        one.facts.id: {
            size: timed.ms
            for size in first
            if (timed := ledger.of(Stage.FINAL, one.facts.id, size)) is not None and timed.ms is not None
        }
        for one in final.kernels
    }
    seen = set(first)
    rest = [size for size in sizes if size not in seen]
    tasks = [Task(size, cuts.by_neighbours(size, final.at(size), known, first), final.singles) for size in rest]
    bench.run(Stage.FINAL, final.type, tasks, drop=rules.drop, baseline=baseline)
    return cuts.told(ledger, final, len(first))


@dataclass
class _Cuts:
    """Applies the rules and counts."""

    rules: HalvingModel
    singles: frozenset[str]
    gpu: Gpu
    predicted: int = 0
    neighbours: int = 0

    def by_prediction(self, size: Size, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
        """Without those that are predicted to be far from the best."""
        if not self.rules.below_prediction:
            return kernels
        found = {one.facts.id: one.predicted_ms(size, self.gpu) for one in kernels if not one.facts.failure}
        known = {name: ms for name, ms in found.items() if ms is not None}
        good = halving.promising(known, self.rules.below_prediction) | self.singles
        kept = tuple(one for one in kernels if one.facts.id in good or one.facts.id not in known)
        self.predicted += len(kernels) - len(kept)
        return kept

    def by_neighbours(
        self, size: Size, kernels: tuple[Kernel, ...], known: halving.Ms, first: Sequence[Size]
    ) -> tuple[Kernel, ...]:
        """Those alone that are good at a coarse size around."""
        here = {one.facts.id for one in kernels}
        eligible = {name: times for name, times in known.items() if name in here}
        good = halving.survivors(size, eligible, first, nearest=self.rules.nearest, keep=self.rules.keep) | self.singles
        kept = tuple(one for one in kernels if one.facts.id in good)
        if not kept:
            return kernels  # no coarse size of these kernels' group: nothing is known of them
        self.neighbours += len(kernels) - len(kept)
        return kept

    def told(self, ledger: Ledger, final: Final, first: int) -> list[Cut]:
        """The rules in words, each with what it left out."""
        rules, total = self.rules, len(final.sizes.all)
        single = sum(
            timed.samples is not None and timed.samples.n == 1 and timed.kind is Kind.MEASURED
            for one in final.kernels
            for timed in ledger.times[Stage.FINAL].get(one.facts.id, {}).values()
        )
        made = [
            Cut(f"predicted to take more than {rules.below_prediction:g} times the best prediction", self.predicted),
            Cut(
                f"more than {rules.keep:.0%} slower than the fastest at each of the {rules.nearest} nearest of "
                f"{first} coarse sizes ({total} in all): not run",
                self.neighbours,
            ),
            Cut(f"more than {rules.drop:.0%} slower than the fastest in the first sample: no further ones", single),
        ]
        return [cut for cut in made if cut.points]


def step(final: Final, ledger: Ledger, cuts: Sequence[Cut], group: str) -> Step:
    """Step 7 of one group in a table: at how many sizes each kernel wins."""
    wins = dict.fromkeys((one.facts.id for one in final.kernels), 0)
    timed = dict(wins)
    for size in final.sizes.all:
        times = times_at(final, ledger, size)
        for name in times:
            timed[name] += 1
        if times:
            wins[min(times, key=lambda name: times[name])] += 1
    rows = []
    for kernel in final.kernels:
        if kernel.candidate.group.name == group:
            won, facts = wins[kernel.facts.id], kernel.facts
            values = {"fastest at": f"{won} sizes", "timed at": f"{timed[facts.id]} sizes"}
            rows.append(Row(facts.name, values, None, "", wins=won > 0, failure=facts.failure))
    points = sum(timed.values())
    text = f"{len(final.kernels)} kernels of all groups, {len(final.sizes.all)} sizes: {points} points timed"
    text += f", {sum(cut.points for cut in cuts if 'not run' in cut.rule or 'predicted' in cut.rule)} left out."
    return Step(group, 7, TITLES[6], text, (), tuple(rows))


def times_at(final: Final, ledger: Ledger, size: Size, stage: Stage = Stage.FINAL) -> dict[str, float]:
    """Times by id at one size, of those that have one."""
    found = {one.facts.id: ledger.of(stage, one.facts.id, size) for one in final.kernels}
    return {name: timed.ms for name, timed in found.items() if timed is not None and timed.ms is not None}


@dataclass(frozen=True)
class Written:
    """A library that was written.

    Attributes:
        folder: Where.
        logic: What picks a kernel.
        loss: Over the sizes that it was grown over.
        held_out: Over sizes between them; None where there were none.
        interpolated: Sizes whose times were interpolated for the logic's thresholds.
    """

    folder: Path
    logic: Logic
    loss: Loss
    held_out: Loss | None
    interpolated: int


@dataclass(frozen=True)
class Grown:
    """Logic grown over a run's times.

    Attributes:
        logic: What picks a kernel.
        over: Measured sizes and times that it was grown over.
        interpolated: Sizes between them whose times were interpolated.
    """

    logic: Logic
    over: Grid
    interpolated: int


def library(run: Run, final: Final, folder: Path, source: str) -> Written | None:
    """Grow the logic over the times, time its kernels at held-out sizes, write the folder.

    Returns:
        None where no kernel has a time, or the file asks for no library.
    """
    tuning, bench = run.tuning, run.bench
    if tuning.library is None:
        return None
    held, refined = _between(final.sizes.ranges, tuning)
    if refined:
        _refine(run, final, refined)
    grown = grow(run, final)
    if grown is None:
        return None
    logic = grown.logic
    picked = {one.facts.name: one for one in final.kernels if one.facts.name in logic.kernels}
    if held:
        # the pick's time decides what is lost, so it is never that of a first sample alone
        ids = [frozenset({picked[logic.kernels[logic.select(*size)]].facts.id}) for size in held]
        tasks = [Task(size, tuple(picked.values()), kept) for size, kept in zip(held, ids, strict=True)]
        bench.run(Stage.HELD_OUT, final.type, tasks, drop=run.drop, baseline=False)
    loss, lost_between = evaluate(logic, grown.over), held_out(run, final, logic)
    kernels = tuple(_launched(picked[name], final.type) for name in logic.kernels)
    made = Library(
        name=f"{tuning.library.name}_{final.type.layout}",
        dtype=final.type.dtype,  # type: ignore[arg-type]  # a problem type has no other
        layout=final.type.layout,  # type: ignore[arg-type]
        arch=picked[logic.kernels[0]].facts.arch,
        times=TimesKind.MEASURED if bench.kind is Kind.MEASURED else TimesKind.PREDICTED,
        source=source,
        kernels=kernels,
        logic=logic,
        loss=loss,
        held_out=lost_between,
    )
    where = folder / made.name
    emit.write(made, {name: picked[name].cubin for name in logic.kernels}, where)
    return Written(where, logic, loss, lost_between, grown.interpolated)


def grow(run: Run, final: Final) -> Grown | None:
    """The logic over the times that are known, those of sizes between the ranges' too.

    Args:
        run: Its file says how much a split must gain.
        final: Kernels and sizes.

    Returns:
        None where no kernel has a time.
    """
    tuning, ledger = run.tuning, run.ledger
    assert tuning.library is not None  # noqa: S101 - asked for a library's sake
    measured, exact = (_grid(final, ledger, sizes) for sizes in (final.sizes.ranges, final.sizes.exact))
    if measured is None:
        return Grown(build(None, exact, tolerance=tuning.library.tolerance), exact, 0) if exact else None
    _, refined = _between(final.sizes.ranges, tuning)
    between = _grid(final, ledger, refined, Stage.REFINED)
    if between is not None:
        measured = _joined(measured, between)
    filled = _filled(run, final, measured)
    if filled is None:
        return Grown(build(measured, exact, tolerance=tuning.library.tolerance), measured, 0)
    logic = build(filled.grid, exact, tolerance=tuning.library.tolerance, edges=filled.edges)
    return Grown(logic, measured, len(filled.grid.sizes) - len(measured.sizes))


def noted(logic: Logic, loss: Loss, lost_between: Loss | None, interpolated: int) -> dict[str, object]:
    """What a run remembers of a library, for its report."""
    return {
        "kernels": list(logic.kernels),
        "splits": len(logic.splits),
        "exact": len(logic.exact),
        "interpolated": interpolated,
        "loss": asdict(loss),
        "held_out": asdict(lost_between) if lost_between else None,
    }


def held_out(run: Run, final: Final, logic: Logic) -> Loss | None:
    """What the logic loses over the sizes that it was not grown over; None where none has a time."""
    held, _ = _between(final.sizes.ranges, run.tuning)
    grid = _grid(final, run.ledger, held, Stage.HELD_OUT)
    return evaluate(logic, grid) if grid else None


def _launched(one: Kernel, of: ProblemType) -> LibraryKernel:
    """A kernel's launches at every size."""
    return specialise.kernel(
        one.facts.name,
        cubin=f"{one.facts.name}.cubin",
        template=one.candidate.group.template,
        parameters=one.candidate.parameters,
        dtype=of.dtype,
        layout=of.layout,
    )


def _between(ranges: Sequence[Size], tuning: Tuning) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """Sizes at which the library's loss is taken, and sizes for its thresholds; none is of both."""
    if tuning.library is None or not ranges:
        return (), ()
    held = halving.between(ranges, tuning.library.held_out, tuning.seed)
    return held, halving.between([*ranges, *held], tuning.library.refine, tuning.seed + 1)


def _filled(run: Run, final: Final, measured: Grid) -> Filled | None:
    """The measured sizes, and what they tell of those between."""
    stairs = {
        one.facts.name: Stair(partial(blocks, _launched(one, final.type)), one.facts.blocks_per_sm, one.facts.cluster)
        for one in final.kernels
        if one.facts.name in measured.kernels and one.facts.blocks_per_sm
    }
    cold = {
        size
        for stage in (Stage.FINAL, Stage.REFINED)
        for one in final.kernels
        for size, timed in run.ledger.times[stage].get(one.facts.id, {}).items()
        if timed.cache == "cold"
    }
    return fill(measured, stairs, run.gpu.sms, cold)


def _refine(run: Run, final: Final, between: Sequence[Size]) -> None:
    """Time, at sizes between those of the ranges, the kernels that are good around."""
    ranges = _grid(final, run.ledger, final.sizes.ranges)
    if ranges is None:
        return
    known: dict[str, dict[Size, float]] = {name: {} for name in ranges.kernels}
    for size, row in _rows(ranges):
        for name, ms in row.items():
            known[name][size] = ms
    by_name = {one.facts.name: one for one in final.kernels}
    tasks = [
        Task(size, tuple(by_name[name] for name in sorted(good)))
        for size in between
        if (good := halving.survivors(size, known, ranges.sizes, nearest=4, keep=REFINE_KEEP))
    ]
    run.bench.run(Stage.REFINED, final.type, tasks, drop=run.drop, baseline=False)


def _joined(one: Grid, other: Grid) -> Grid:
    return Grid.of(dict(chain(_rows(one), _rows(other))))


def _rows(grid: Grid) -> Iterator[tuple[Size, dict[str, float]]]:
    """Each size with the times that it has."""
    for size, row in zip(grid.sizes, grid.times, strict=True):
        yield size, {name: ms for name, ms in zip(grid.kernels, row, strict=True) if not math.isnan(ms)}


def _grid(final: Final, ledger: Ledger, sizes: Sequence[Size], stage: Stage = Stage.FINAL) -> Grid | None:
    """Times by the kernels' names; sizes without any are left out."""
    names = {one.facts.id: one.facts.name for one in final.kernels}
    times = {
        size: {names[identity]: ms for identity, ms in found.items()}
        for size in sizes
        if (found := times_at(final, ledger, size, stage))
    }
    return Grid.of(times) if times else None
