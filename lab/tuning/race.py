"""Step 7: every final kernel is timed at every size, less what halving leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.base.sizes import Size
from lab.hardware.gpus import Gpu
from lab.measured.timing import Kind
from lab.store.tuning_model import Cut, CutKind, ProblemType, ProtocolStep, StepRow, TimingStage
from lab.tuning.bench import Bench, Ledger, TimingTask
from lab.tuning.choose import halving
from lab.tuning.choose.protocol import TITLES
from lab.tuning.file.load import Tuning
from lab.tuning.file.schema import HalvingModel
from lab.tuning.file.sizes import Sizes
from lab.tuning.kernels import Kernel

Entrants = dict[Size, tuple[Kernel, ...]]
"""The kernels that are timed at each size."""


@dataclass(frozen=True)
class TuningContext:
    """What all steps of one run share.

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
        """Share above the fastest beyond which `Bench.run` drops a kernel; None without halving."""
        return self.tuning.halving.drop if self.tuning.halving else None


@dataclass(frozen=True)
class FinalStep:
    """What step 7 works on, for one problem type.

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
        """The kernels that compute the size and whose group has it."""
        return tuple(one for one in self.kernels if size in one.candidate.group.final.set and not one.refused(size))


def final_of(tuning: Tuning, kind: ProblemType, kernels: Sequence[Kernel], singles: frozenset[str]) -> FinalStep:
    """Join the groups of one problem type: their kernels, each once, and their sizes.

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
    once = {one.facts.id: one for one in reversed(kernels)}
    return FinalStep(kind, tuple(reversed(once.values())), singles, Sizes(ranges, exact, scattered))


def race(context: TuningContext, final: FinalStep) -> tuple[Cut, ...]:
    """Time the final kernels.

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
    known, seen = _known(context.ledger, final, first), set(first)
    rest = [size for size in final.sizes.all if size not in seen]
    surviving = {size: _surviving(final, rules, size, known, first) for size in rest}
    _time(context, final, surviving)
    made = (
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
    return tuple(cut for cut in made if cut.points)


def _time(context: TuningContext, final: FinalStep, entrants: Entrants) -> None:
    """Time kernels at their sizes, and the baseline beside them where the file asks for it."""
    tasks = [TimingTask(size, kernels, final.singles) for size, kernels in entrants.items()]
    baseline = bool(context.tuning.baselines)
    context.bench.run(TimingStage.FINAL, final.type, tasks, drop=context.drop, baseline=baseline)


def _promising(context: TuningContext, final: FinalStep, rules: HalvingModel, size: Size) -> tuple[Kernel, ...]:
    """The kernels of a coarse size, without those that are predicted to be far from the best."""
    kernels = final.at(size)
    if not rules.below_prediction:
        return kernels
    found = {one.facts.id: one.predicted_ms(size, context.gpu) for one in kernels if not one.facts.failure}
    known = {identity: ms for identity, ms in found.items() if ms is not None}
    good = halving.promising(known, rules.below_prediction) | final.singles
    return tuple(one for one in kernels if one.facts.id in good or one.facts.id not in known)


def _known(ledger: Ledger, final: FinalStep, sizes: Sequence[Size]) -> halving.Ms:
    """Times in ms at some sizes, by id; kernels without a time have no entry at a size."""
    return {
        one.facts.id: {
            size: timed.ms
            for size in sizes
            if (timed := ledger.of(TimingStage.FINAL, one.facts.id, size)) is not None and timed.ms is not None
        }
        for one in final.kernels
    }


def _surviving(
    final: FinalStep, rules: HalvingModel, size: Size, known: halving.Ms, first: Sequence[Size]
) -> tuple[Kernel, ...]:
    """The kernels of a size that are good at a coarse size around; all of them where nothing is known of them."""
    kernels = final.at(size)
    here = {one.facts.id for one in kernels}
    eligible = {identity: times for identity, times in known.items() if identity in here}
    good = halving.survivors(size, eligible, first, nearest=rules.nearest, keep=rules.keep) | final.singles
    return tuple(one for one in kernels if one.facts.id in good) or kernels


def _left_out(final: FinalStep, entrants: Entrants) -> int:
    """Pairs of kernel and size that are not among the entrants."""
    return sum(len(final.at(size)) - len(kernels) for size, kernels in entrants.items())


def _sampled_once(ledger: Ledger, final: FinalStep) -> int:
    """Pairs of kernel and size that were dropped after their first sample."""
    return sum(
        timed.samples is not None and timed.samples.n == 1 and timed.kind is Kind.MEASURED
        for one in final.kernels
        for timed in ledger.times[TimingStage.FINAL].get(one.facts.id, {}).values()
    )


def step(final: FinalStep, ledger: Ledger, cuts: Sequence[Cut], group: str) -> ProtocolStep:
    """Step 7 of one group as a table: at how many sizes each of its kernels is the fastest."""
    wins = dict.fromkeys((one.facts.id for one in final.kernels), 0)
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
    """Times in ms at one size by the kernels' ids; kernels without a time are left out."""
    found = {one.facts.id: ledger.of(stage, one.facts.id, size) for one in final.kernels}
    return {identity: timed.ms for identity, timed in found.items() if timed is not None and timed.ms is not None}
