"""The protocol at work: all steps of every problem type, and what is remembered of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.base.errors import Location, UserError
from lab.base.sizes import Size
from lab.base.version import VERSION
from lab.measured.timing import Kind
from lab.store.tuning_model import Cut, LibraryFacts, ProblemType, ProtocolStep, TimingStage, TuningFacts
from lab.tuning import grow, race
from lab.tuning.bench import TimingTask
from lab.tuning.choose.protocol import Candidate, Times, candidate, select
from lab.tuning.file.load import Group
from lab.tuning.kernels import Kernel, Workshop


@dataclass
class Work:
    """The steps on their way. What is done so far can be stored at any time, after Ctrl-C too.

    Attributes:
        context: What all steps share.
        shop: Builds kernels.
        stepped: Called with each step that is done.
        folder: Where libraries are written.
    """

    context: race.TuningContext
    shop: Workshop
    stepped: Callable[[ProtocolStep], None]
    folder: Path
    _steps: dict[str, list[ProtocolStep]] = field(default_factory=dict)
    _cuts: dict[str, tuple[Cut, ...]] = field(default_factory=dict)
    _libraries: dict[str, LibraryFacts] = field(default_factory=dict)
    _singles: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def everything(self) -> None:
        """Every problem type: steps 1 to 6 of each of its groups, step 7 of all of them together, the library."""
        for kind in self.context.tuning.types:
            kernels: list[Kernel] = []
            singles: set[str] = set()
            groups = [group for group in self.context.tuning.groups if group.type == kind]
            for group in groups:
                made, single = self._group(group)
                kernels += made
                singles |= single
            self._final(groups, race.final_of(self.context.tuning, kind, kernels, frozenset(singles)))

    def remember(self, facts: TuningFacts) -> TuningFacts:
        """Store kernels, steps and facts.

        Args:
            facts: The run's, as they were known when it began.

        Returns:
            The facts with what came of the steps.
        """
        store = self.context.ledger.store
        store.write_kernels(one.facts for one in self.shop.known.values())
        store.write_steps(self._steps, self._cuts)
        complete = replace(facts, libraries=self._libraries, singles=self._singles, baseline=self.context.bench.library)
        store.write_facts(complete)
        return complete

    def failures(self) -> tuple[str, ...]:
        """One sentence for each kernel that could not be built, or whose result was wrong at some size."""
        found: dict[str, str] = {}
        for one in self.shop.known.values():
            if one.facts.failure:
                found[one.facts.name] = one.facts.failure
        names = {one.facts.id: one.facts.name for one in self.shop.known.values()}
        for times in self.context.ledger.times.values():
            for identity, sizes in times.items():
                for size, timed in sizes.items():
                    if timed.failure and timed.kind is Kind.MEASURED and identity in names:
                        found.setdefault(names[identity], f"at {size}: {timed.failure}")
        return tuple(f"{name}: {why}" for name, why in found.items())

    def _group(self, group: Group) -> tuple[list[Kernel], set[str]]:
        """Steps 1 to 6; the kernels that are left, and the id of the single-tuned one if the file names one."""

        def times(candidates: Sequence[Candidate], sizes: Sequence[Size]) -> Times:
            return self._times(group, candidates, sizes)

        chosen, steps = select(group, times)
        self._note(group, steps)
        if group.single is None:
            return list(self.shop.make(chosen).values()), set()
        single = candidate(group, group.single)
        if isinstance(single, str):
            raise UserError(
                "the parameters of the single-tuned kernel do not fit together",
                code="mismatch",
                at=Location(self.context.tuning.file),
                key="single_tuned",
                found=f"not satisfied: {single}",
                accepted="parameters that satisfy every constraint of the group and every requirement of the template",
            )
        made = self.shop.make([*chosen, single])
        return list(made.values()), {made[single.name].facts.id}

    def _times(self, group: Group, candidates: Sequence[Candidate], sizes: Sequence[Size]) -> Times:
        """The times that steps 2 to 6 ask for."""
        made, context = self.shop.make(candidates), self.context
        tasks = [TimingTask(size, tuple(made.values())) for size in sizes]
        context.bench.run(TimingStage.STEPS, group.type, tasks, drop=None, baseline=False)
        return {
            name: {
                size: timed
                for size in sizes
                if (timed := context.ledger.of(TimingStage.STEPS, one.facts.id, size)) is not None
            }
            for name, one in made.items()
        }

    def _final(self, groups: Sequence[Group], final: race.FinalStep) -> None:
        """Step 7 and the library."""
        context, kind = self.context, final.type
        self._cuts[kind.label] = race.race(context, final)
        for group in groups:
            self._note(group, (race.step(final, context.ledger, self._cuts[kind.label], group.name),))
        made = grow.library(context, final, self.folder, self._source(kind))
        if made is not None:
            self._libraries[made.folder.name] = made.facts
        self._singles[kind.label] = tuple(sorted(final.singles))

    def _source(self, kind: ProblemType) -> str:
        """Where a library's times come from."""
        context = self.context
        how = "measured on" if context.bench.kind is Kind.MEASURED else "predicted for"
        return f"{kind.label}, {context.tuning.name}: times {how} {context.gpu.name}, lab {VERSION}"

    def _note(self, group: Group, steps: Sequence[ProtocolStep]) -> None:
        self._steps.setdefault(group.type.label, []).extend(steps)
        for step in steps:
            self.stepped(step)
