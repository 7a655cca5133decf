"""Step 7: time every final kernel at every size, except what halving skips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.base.sizes import Size
from lab.hardware.gpus import Gpu
from lab.measured.timing import Kind
from lab.store.tuning_model import Cut, CutKind, ProblemType, ProtocolStep, StepRow, TimingStage
from lab.tuning.bench import Bench, Ledger, TimingTask
from lab.tuning.candidate_builds import Kernel
from lab.tuning.choose import halving
from lab.tuning.choose.protocol import TITLES
from lab.tuning.file.load import Tuning
from lab.tuning.file.size_lists import Sizes
from lab.tuning.file.tuning_schema import HalvingModel

Entrants = dict[Size, tuple[Kernel, ...]]
"""The kernels to time at each size."""


@dataclass(frozen=True)
class TuningContext:
    """The objects shared by all steps of one run.

    Attributes:
        tuning: The tuning file.
        bench: What times kernels.
        ledger: Times that are known.
        gpu: The GPU that measures, or that predictions are for.
    """

    tuning: Tuning
    bench: Bench
    ledger: Ledger
    gpu: Gpu

    @property
    def drop(self) -> float | None:
        """Share above the fastest at which `Bench.run` drops a kernel; None without halving."""
        return self.tuning.halving.drop if self.tuning.halving else None


@dataclass(frozen=True)
class FinalStep:
    """The inputs of step 7 for one problem type.

    Attributes:
        type: The problem type.
        kernels: The final kernels of all groups, each once.
        singles: Ids of the kernels that are timed at every size of their group, with all samples.
        sizes: Sizes of all groups.
    """

    type: ProblemType
    kernels: tuple[Kernel, ...]
    singles: frozenset[str]
    sizes: Sizes

    def at(self, size: Size) -> tuple[Kernel, ...]:
        """Return the kernels that support the size and whose group has it."""
        return tuple(
            kernel for kernel in self.kernels if size in kernel.candidate.group.final.set and not kernel.refused(size)
        )


def final_of(tuning: Tuning, kind: ProblemType, kernels: Sequence[Kernel], singles: frozenset[str]) -> FinalStep:
    """Merge the groups of one problem type: their kernels and sizes, without repetitions.

    Args:
        tuning: The tuning file.
        kind: The problem type.
        kernels: Kernels that the groups' steps 1 to 6 left.
        singles: Ids of the single-tuned ones.
    """
    groups = [group for group in tuning.groups if group.type == kind]
    ranges = tuple(dict.fromkeys(size for group in groups for size in group.final.ranges))
    exact = tuple(dict.fromkeys(size for group in groups for size in group.final.exact))
    scattered = frozenset(size for group in groups for size in group.final.scattered)
    once = {kernel.facts.id: kernel for kernel in reversed(kernels)}
    return FinalStep(kind, tuple(reversed(once.values())), singles, Sizes(ranges, exact, scattered))


def race(context: TuningContext, final: FinalStep) -> tuple[Cut, ...]:
    """Time the final kernels, with halving if the file has it.

    Returns:
        What was left out, one cut for each rule that left something out.
    """
    rules = context.tuning.halving
    if rules is None:
        _time(context, final, {size: final.at(size) for size in final.sizes.all})
        return ()
    first = halving.coarse(final.sizes, rules.coarse, rules.coarse_gflop)
    promising = {size: _promising(context, final, rules, size) for size in first}
    _time(context, final, promising)
    times, coarse_sizes = _known(context.ledger, final, first), set(first)
    remaining = [size for size in final.sizes.all if size not in coarse_sizes]
    surviving = {size: _surviving(final, rules, size, times, first) for size in remaining}
    _time(context, final, surviving)
    cuts = (
        Cut(CutKind.PREDICTION, _left_out(final, promising), rules.below_prediction),
        Cut(
            CutKind.NEIGHBOURS,
            _left_out(final, surviving),
            rules.keep,
            nearest=rules.nearest,
            coarse=len(first),
            sizes=len(final.sizes.all),
        ),
        Cut(CutKind.FIRST_SAMPLE, _sampled_once(context.ledger, final), rules.drop),
    )
    return tuple(cut for cut in cuts if cut.points)


def _time(context: TuningContext, final: FinalStep, entrants: Entrants) -> None:
    """Time kernels at their sizes, with the baseline if the file has one."""
    tasks = [TimingTask(size, kernels, final.singles) for size, kernels in entrants.items()]
    baseline = bool(context.tuning.baselines)
    context.bench.run(TimingStage.FINAL, final.type, tasks, drop=context.drop, baseline=baseline)


def _promising(context: TuningContext, final: FinalStep, rules: HalvingModel, size: Size) -> tuple[Kernel, ...]:
    """Return the kernels of a coarse size, without those predicted to be much slower than the best."""
    kernels = final.at(size)
    if not rules.below_prediction:
        return kernels
    predictions = {
        kernel.facts.id: kernel.predicted_ms(size, context.gpu) for kernel in kernels if not kernel.facts.failure
    }
    known_ms = {identity: ms for identity, ms in predictions.items() if ms is not None}
    good = halving.promising(known_ms, rules.below_prediction) | final.singles
    return tuple(kernel for kernel in kernels if kernel.facts.id in good or kernel.facts.id not in known_ms)


def _known(ledger: Ledger, final: FinalStep, sizes: Sequence[Size]) -> halving.Ms:
    """Return times in ms at some sizes, by id; kernels without a time have no entry at a size."""
    return {
        kernel.facts.id: {
            size: timed.ms
            for size in sizes
            if (timed := ledger.of(TimingStage.FINAL, kernel.facts.id, size)) is not None and timed.ms is not None
        }
        for kernel in final.kernels
    }


def _surviving(
    final: FinalStep, rules: HalvingModel, size: Size, coarse_times: halving.Ms, first: Sequence[Size]
) -> tuple[Kernel, ...]:
    """Return the kernels of a size that are fast at a nearby coarse size; all of them if none is."""
    kernels = final.at(size)
    ids = {kernel.facts.id for kernel in kernels}
    eligible = {identity: times for identity, times in coarse_times.items() if identity in ids}
    good = halving.survivors(size, eligible, first, nearest=rules.nearest, keep=rules.keep) | final.singles
    return tuple(kernel for kernel in kernels if kernel.facts.id in good) or kernels


def _left_out(final: FinalStep, entrants: Entrants) -> int:
    """Return the number of kernel-size pairs that are not among the entrants."""
    return sum(len(final.at(size)) - len(kernels) for size, kernels in entrants.items())


def _sampled_once(ledger: Ledger, final: FinalStep) -> int:
    """Return the number of kernel-size pairs dropped after their first sample."""
    return sum(
        timed.samples is not None and timed.samples.n == 1 and timed.kind is Kind.MEASURED
        for kernel in final.kernels
        for timed in ledger.times[TimingStage.FINAL].get(kernel.facts.id, {}).values()
    )


def step(final: FinalStep, ledger: Ledger, cuts: Sequence[Cut], group: str) -> ProtocolStep:
    """Return step 7 of one group as a table: the number of sizes at which each kernel is the fastest."""
    wins = dict.fromkeys((kernel.facts.id for kernel in final.kernels), 0)
    timed = dict(wins)
    for size in final.sizes.all:
        times = times_at(final, ledger, size)
        for identity in times:
            timed[identity] += 1
        if times:
            wins[min(times, key=lambda identity: times[identity])] += 1
    rows = []
    for kernel in final.kernels:
        if kernel.candidate.group.name == group:
            won, facts = wins[kernel.facts.id], kernel.facts
            values = {"fastest at": f"{won} sizes", "timed at": f"{timed[facts.id]} sizes"}
            rows.append(StepRow(facts.name, values, None, "", wins=won > 0, failure=facts.failure))
    points = sum(timed.values())
    text = f"{len(final.kernels)} kernels of all groups, {len(final.sizes.all)} sizes: {points} points timed"
    text += f", {sum(cut.points for cut in cuts if cut.kind.not_run)} left out."
    return ProtocolStep(group, 7, TITLES[6], text, (), tuple(rows))


def times_at(final: FinalStep, ledger: Ledger, size: Size, stage: TimingStage = TimingStage.FINAL) -> dict[str, float]:
    """Return times in ms at one size by the kernels' ids; kernels without a time are left out."""
    times = {kernel.facts.id: ledger.of(stage, kernel.facts.id, size) for kernel in final.kernels}
    return {identity: timed.ms for identity, timed in times.items() if timed is not None and timed.ms is not None}
