"""Run many variants through the stages: builds and emulations on the executor, the GPU beside them.

Variants are built on all cores, a few ahead of what comes next; the GPU takes what is ready; a record is written as
soon as its variant is finished. `lab.runs.flow` decides what follows for a variant, `lab.runs.task_schedule` when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from lab.base.errors import MissingToolError
from lab.base.executor import Executor
from lab.experiment.variants import Plan, Planned
from lab.gpu.process.cards import Cards, Ran
from lab.gpu.process.job import Job, Policy
from lab.recorded.run_records import Status, VariantRecord
from lab.runs import flow
from lab.runs.baseline_checks import BaselineWatch
from lab.runs.controls import Controls
from lab.runs.flow import FlowContext, InspectedVariant, NextStep
from lab.runs.recorder import Recorder
from lab.runs.task_schedule import OrderGate, SerialLane, TaskLane, run_lanes
from lab.search.pruning import Pruning, group_of
from lab.stages import provenance
from lab.stages import record as records
from lab.stages.batches import BuildFunction, BuildQueue
from lab.stages.build import BuildFailure, Built, build, build_task
from lab.stages.emulate import EmulationTask

_MOST_READY = 200
"""Most variants waiting for the GPU or an earlier one before building pauses: each holds its cubin in memory."""


class Sweep:
    """The connected stages of one run.

    Attributes:
        not_measured: Why the GPU could not be used after all; empty where it could, or where there is none.
    """

    def __init__(
        self,
        context: FlowContext,
        recorder: Recorder,
        executor: Executor,
        cards: Cards | None,
        *,
        baselines: BaselineWatch | None = None,
        controls: Controls | None = None,
        function: BuildFunction = build,
    ) -> None:
        """Start idle.

        Args:
            context: Data shared by all variants.
            recorder: Where results go.
            executor: Where variants are built and emulated.
            cards: The GPUs, or None.
            baselines: Remembers the baselines that the run meets.
            controls: Compares the cards, where there are several.
            function: Builds a batch of variants.
        """
        self._context, self._recorder, self._cards = context, recorder, cards
        self._baselines, self._controls = baselines or BaselineWatch({}), controls
        self._gate: OrderGate[InspectedVariant | str] = OrderGate(ordered=recorder.pruner is not None)
        self._builds = BuildQueue(executor, function=function, room=partial(self._room, executor))
        self._emulations = TaskLane(executor, remember=len(context.experiment.problems) > 1)
        self._gpu: SerialLane[InspectedVariant] = SerialLane(
            self._measure, self._measured, places=self._places, ordered=recorder.pruner is not None
        )
        self._spared: frozenset[int] = frozenset()
        self._held = 0  # variants that are built and wait for an earlier one
        self._predicting = False
        self._predicted: dict[int, InspectedVariant] = {}
        self.not_measured = ""

    def work(
        self,
        planned: Plan,
        finished: Mapping[str, VariantRecord],
        *,
        searched: int | None = None,
        predict: bool = False,
    ) -> None:
        """Run variants to their records.

        Args:
            planned: The variants; their positions follow on those of earlier calls.
            finished: Records of an earlier, unfinished run by variant. Those with unchanged fingerprints are
                reused; the others are made again.
            searched: Round of a search; None in a run of the whole space.
            predict: Record the variants without measuring them; `measure` may follow.

        Raises:
            MissingToolError: the compiler or the disassembler cannot run here.
            StoreError: the run directory cannot be written.
        """
        self._spare(planned)
        self._predicting = predict
        if self._controls is not None:
            self._controls.plan(planned.points)
        reused = self._take_up(planned, finished)
        self._release()
        self._builds.supply(
            (
                (build_task(variant), partial(self._built, variant, searched))
                for variant in (planned[place] for place in range(len(planned)) if place not in reused)
            ),
            len(planned) - len(reused),
        )
        run_lanes((self._builds, self._emulations, self._gpu))
        self._predicting = False

    def measure(self, planned: Sequence[Planned], *, searched: int) -> None:
        """Measure variants an earlier call of `work` predicted, in this run or an earlier one.

        Args:
            planned: The variants, as `work` got them. Those that were measured, or failed, stay as they are.
            searched: Round of the search.
        """
        for planned_variant in planned:
            variant = self._predicted.pop(planned_variant.position, None) or self._stored(planned_variant)
            if variant is not None:
                self._line_up(replace(variant, record=replace(variant.record, round=searched)))
        run_lanes((self._gpu,))

    def _stored(self, planned: Planned) -> InspectedVariant | None:
        """Return a variant an earlier, interrupted run predicted; None where nothing is left to do."""
        store = self._recorder.store
        record = store.record(planned.variant)
        if record.measurement is not None or not (record.status.sound or record.status is Status.INSPECTED):
            return None
        built = records.built_before(self._context.experiment, planned, record, self._context.gpu)
        return InspectedVariant(built, record, "", store.read_file(planned.variant, "kernel.cubin"), None)

    def _take_up(self, planned: Plan, finished: Mapping[str, VariantRecord]) -> set[int]:
        """Reuse earlier records that still match their variants; return the variants' places in `planned`."""
        reused = set()
        for place, variant in enumerate(planned.variants):
            if (
                variant in finished
                and (earlier := finished[variant]).fingerprint == (planned_variant := planned[place]).fingerprint
            ):
                self._recorder.take_over(planned_variant, earlier)
                if self._controls is not None:
                    self._controls.kept(earlier.measurement)
                if self._recorder.pruner is not None:
                    self._gate.hold(planned_variant.position, variant)
                reused.add(place)
        return reused

    def _room(self, executor: Executor) -> bool:
        """Return whether to build more: variants reach later stages before all others are built."""
        under_way = len(self._builds.running) + len(self._emulations.running)
        return under_way < 2 * executor.workers and self._gpu.waiting + self._held < _MOST_READY

    def _spare(self, planned: Plan) -> None:
        """Choose the variants that are not emulated, where the experiment limits their number."""
        experiment = self._context.experiment
        left_out = flow.spared(planned.positions, experiment.emulate_at_most)
        self._spared |= left_out
        if left_out and self._context.emulate and experiment.problems[0].emulate:
            limit = experiment.emulate_at_most
            self._recorder.note(f"At most {limit} variants at a time were executed on the CPU, as the experiment asks.")

    def _built(self, planned: Planned, searched: int | None, outcome: Built | BuildFailure) -> None:
        self._recorder.observer.built(planned, outcome)
        variant = flow.inspect(self._context, planned, outcome, searched)
        for check in (flow.argument_mistake, flow.constant_mistake):
            if mistake := check(self._context, variant, outcome):
                raise mistake
        self._recorder.files(planned, provenance.files_of(planned, outcome, variant.record))
        self._gate.hold(planned.position, variant)
        self._held += 1
        self._release()

    def _release(self) -> None:
        """Release variants: at once, or in a search in position order, which its rules need."""
        pruner = self._recorder.pruner
        for released in self._gate.release():
            if isinstance(released, InspectedVariant):
                self._held -= 1
                self._go_on(released, pruner.judge(released.record) if pruner else None)
            elif pruner is not None:  # the rules learn from what was kept, too
                pruner.judge(self._recorder.store.record(released))

    def _go_on(self, variant: InspectedVariant, pruning: Pruning | None) -> None:
        if pruning is not None:
            self._prune(variant, pruning)
            return
        step = flow.step_after_build(self._context, variant, spared=variant.position in self._spared)
        if step is NextStep.EMULATE:
            task = flow.emulation_task(self._context, variant)
            self._emulations.submit(flow.emulation_work(variant, task), partial(self._emulated, variant, task))
        else:
            self._line_up(variant)

    def _prune(self, variant: InspectedVariant, pruning: Pruning) -> None:
        self._recorder.finish(variant.planned, records.pruned(variant.record, pruning.rule, pruning.detail))

    def _emulated(self, variant: InspectedVariant, task: EmulationTask, future: Future[object]) -> None:
        judged = flow.judge(variant, flow.emulation_outcome(variant, task, future))
        self._recorder.observer.executed(judged.record)
        self._line_up(judged)

    def _line_up(self, variant: InspectedVariant) -> None:
        """Pass a variant to a GPU, or finish it where none can run it."""
        if self._predicting and not variant.record.status.failed:
            self._predicted[variant.position] = flow.for_gpu(variant)
            self._recorder.finish(variant.planned, variant.record)
            return
        if self._cards is None or flow.step_before_measurement(self._context, variant) is NextStep.RECORD:
            if self._cards is not None and (note := flow.reason_not_measured(self._context, variant)):
                self._recorder.note(note)
            self._recorder.finish(variant.planned, variant.record)
            return
        urgency = flow.urgency(variant.record, searching=self._recorder.pruner is not None)
        group = group_of(variant.record)  # a GPU worker keeps the data of one problem
        self._gpu.put(flow.for_gpu(variant), urgency=urgency, position=variant.position, group=group)

    def _places(self) -> tuple[str, ...]:
        """Return the ids of the cards that take work."""
        return tuple(card.id for card in self._cards.cards) if self._cards is not None else ()

    def _measure(self, variant: InspectedVariant, card: str) -> Future[Ran] | None:
        """Hand a variant to a GPU, unless another one is faster than it can be."""
        if self._recorder.pruner is not None and (pruning := self._recorder.pruner.overtaken(variant.record)):
            self._prune(variant, pruning)
            return None
        assert self._cards is not None  # noqa: S101 - nothing is put in the lane without a card
        if self._controls is not None:
            self._controls.begin(group_of(variant.record), card)
        return self._cards.submit(self._job(variant), self._policy(variant), card=card)

    def _policy(self, variant: InspectedVariant) -> Policy:
        """Return a variant's timing policy: in a strategy's search, one far behind the best is sampled once."""
        experiment, pruner = self._context.experiment, self._recorder.pruner
        policy = flow.policy_of(experiment)
        strategy = experiment.search is not None and experiment.search.strategy not in {"random", "exhaustive"}
        best = pruner.measured.get(group_of(variant.record)) if pruner is not None and strategy else None
        return replace(policy, beaten_ms=flow.CUT * variant.record.rate(1.0) / best) if best else policy

    def _job(self, variant: InspectedVariant) -> Job:
        return flow.job_of(self._context.experiment, variant.planned, variant.cubin, self._context.reference)

    def _measured(self, variant: InspectedVariant, future: Future[Ran]) -> None:
        try:
            ran = future.result()
        except MissingToolError as error:  # no GPU worker could start
            self._cards, self.not_measured = None, f"Nothing was measured: {error}"
            for unmeasured in (variant, *self._gpu.give_up()):
                self._recorder.finish(unmeasured.planned, unmeasured.record)
            return
        if self._controls is not None:
            self._controls.learn(group_of(variant.record), self._job(variant), ran)
        count_before = len(self._baselines.found)
        notes = self._baselines.meet(variant.planned.point.problem.label, ran)
        self._recorder.note(*notes)
        if len(self._baselines.found) > count_before:
            self._recorder.store.note("baselines", self._baselines.found)
        self._recorder.files(variant.planned, provenance.baseline_files(ran.result))
        self._recorder.finish(variant.planned, flow.measured(variant, ran))
