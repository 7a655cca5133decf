"""Execution of the protocol: all steps of every problem type, and their results."""

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
from lab.tuning.candidate_builds import Kernel, Workshop
from lab.tuning.choose.protocol import Candidate, Times, candidate, select
from lab.tuning.file.load import Group


@dataclass
class Work:
    """The steps in progress. Completed steps can be stored at any time, also after Ctrl-C.

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
        """Run every problem type: steps 1 to 6 of each group, step 7 of all groups together, the library."""
        for kind in self.context.tuning.types:
            kernels: list[Kernel] = []
            singles: set[str] = set()
            groups = [group for group in self.context.tuning.groups if group.type == kind]
            for group in groups:
                group_kernels, single = self._group(group)
                kernels += group_kernels
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
        store.write_kernels(kernel.facts for kernel in self.shop.known.values())
        store.write_steps(self._steps, self._cuts)
        complete = replace(facts, libraries=self._libraries, singles=self._singles, baseline=self.context.bench.library)
        store.write_facts(complete)
        return complete

    def failures(self) -> tuple[str, ...]:
        """Return a sentence for each kernel that failed to build, or had a wrong result at some size."""
        reasons: dict[str, str] = {}
        for kernel in self.shop.known.values():
            if kernel.facts.failure:
                reasons[kernel.facts.name] = kernel.facts.failure
        names = {kernel.facts.id: kernel.facts.name for kernel in self.shop.known.values()}
        for times in self.context.ledger.times.values():
            for identity, sizes in times.items():
                for size, timed in sizes.items():
                    if timed.failure and timed.kind is Kind.MEASURED and identity in names:
                        reasons.setdefault(names[identity], f"at {size}: {timed.failure}")
        return tuple(f"{name}: {reason}" for name, reason in reasons.items())

    def _group(self, group: Group) -> tuple[list[Kernel], set[str]]:
        """Run steps 1 to 6; return the remaining kernels and the id of the single-tuned one, if there is one."""

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
        kernels = self.shop.make([*chosen, single])
        return list(kernels.values()), {kernels[single.name].facts.id}

    def _times(self, group: Group, candidates: Sequence[Candidate], sizes: Sequence[Size]) -> Times:
        """Return the times requested by steps 2 to 6."""
        kernels, context = self.shop.make(candidates), self.context
        tasks = [TimingTask(size, tuple(kernels.values())) for size in sizes]
        context.bench.run(TimingStage.STEPS, group.type, tasks, drop=None, baseline=False)
        return {
            name: {
                size: timed
                for size in sizes
                if (timed := context.ledger.of(TimingStage.STEPS, one.facts.id, size)) is not None
            }
            for name, one in kernels.items()
        }

    def _final(self, groups: Sequence[Group], final: race.FinalStep) -> None:
        """Run step 7 and write the library."""
        context, kind = self.context, final.type
        self._cuts[kind.label] = race.race(context, final)
        for group in groups:
            self._note(group, (race.step(final, context.ledger, self._cuts[kind.label], group.name),))
        written = grow.library(context, final, self.folder, self._source(kind))
        if written is not None:
            self._libraries[written.folder.name] = written.facts
        self._singles[kind.label] = tuple(sorted(final.singles))

    def _source(self, kind: ProblemType) -> str:
        """Return the source of a library's times."""
        context = self.context
        origin = "measured on" if context.bench.kind is Kind.MEASURED else "predicted for"
        return f"{kind.label}, {context.tuning.name}: times {origin} {context.gpu.name}, lab {VERSION}"

    def _note(self, group: Group, steps: Sequence[ProtocolStep]) -> None:
        self._steps.setdefault(group.type.label, []).extend(steps)
        for step in steps:
            self.stepped(step)
