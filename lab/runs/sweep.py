"""Takes many variants through the stages: builds and emulations on the executor, the GPU beside them.

Variants are built on all cores, a few ahead of what comes next; the GPU takes what is ready; a record is written as
soon as its variant is finished. `lab.runs.flow` decides what follows for a variant, `lab.runs.schedule` when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from lab.base.errors import MissingToolError
from lab.base.executor import Executor
from lab.experiment.variants import Planned
from lab.gpu.process.job import JobResult
from lab.gpu.process.line import GpuLine
from lab.runs import flow
from lab.runs.baselines import BaselineWatch
from lab.runs.flow import FlowContext, InspectedVariant, NextStep
from lab.runs.recorder import Recorder
from lab.runs.schedule import OrderGate, SerialLane, TaskLane, run_lanes
from lab.runs.search import Pruning, group_of
from lab.stages import provenance
from lab.stages import record as records
from lab.stages.batches import BuildFunction, BuildQueue
from lab.stages.build import BuildFailure, Built, build, build_task
from lab.stages.emulate import EmulationTask
from lab.store.model import Status, VariantRecord
from lab.templates.launches import BuiltLaunch

_MOST_READY = 200
"""Variants that may wait for the GPU before building pauses: each holds its cubin in memory."""


class Sweep:
    """Connects the stages of one run.

    Attributes:
        not_measured: Why the GPU could not be used after all; empty where it could, or where there is none.
    """

    def __init__(
        self,
        context: FlowContext,
        recorder: Recorder,
        executor: Executor,
        line: GpuLine | None,
        *,
        baselines: BaselineWatch | None = None,
        function: BuildFunction = build,
    ) -> None:
        """Start with nothing under way.

        Args:
            context: What is the same for all variants.
            recorder: Where results go.
            executor: Where variants are built and emulated.
            line: The GPU's, or None.
            baselines: Remembers the baselines that the run meets.
            function: Builds a batch of variants.
        """
        self._context, self._recorder, self._line = context, recorder, line
        self._baselines = baselines or BaselineWatch({})
        self._gate: OrderGate[InspectedVariant | VariantRecord] = OrderGate(ordered=recorder.pruner is not None)
        self._builds = BuildQueue(executor, function=function, room=partial(self._room, executor))
        self._emulations = TaskLane(executor, remember=len(context.experiment.problems) > 1)
        self._gpu: SerialLane[InspectedVariant] = SerialLane(self._measure, self._measured)
        self._spared: frozenset[int] = frozenset()
        self._predicting = False
        self._held: dict[int, InspectedVariant] = {}
        self.not_measured = ""

    def work(
        self,
        planned: Sequence[Planned],
        done: Mapping[str, VariantRecord],
        *,
        searched: int | None = None,
        predict: bool = False,
    ) -> None:
        """Take variants to their records.

        Args:
            planned: The variants; their positions follow on those of earlier calls.
            done: Records of an earlier, unfinished run by variant. Those whose fingerprints are still the variants' are
                taken; the others are made again.
            searched: Round of a search; None in a run of the whole space.
            predict: Record what is known of the variants without measuring them; `measure` may follow.

        Raises:
            MissingToolError: the compiler or the disassembler cannot run here.
            StoreError: the run directory cannot be written.
        """
        self._spare(planned)
        self._predicting = predict
        for one in planned:
            earlier = done.get(one.variant)
            if earlier is not None and earlier.fingerprint == one.fingerprint:
                self._gate.hold(one.position, earlier)
                self._recorder.take_over(one, earlier)
            else:
                self._builds.add(build_task(one), partial(self._built, one, searched))
        self._release()
        run_lanes((self._builds, self._emulations, self._gpu))
        self._predicting = False

    def measure(self, planned: Sequence[Planned], *, searched: int) -> None:
        """Measure variants that an earlier call of `work` predicted, this run's or an earlier one's.

        Args:
            planned: The variants, as `work` got them. Those that were measured, or failed, stay as they are.
            searched: Round of the search.
        """
        for one in planned:
            variant = self._held.pop(one.position, None) or self._stored(one)
            if variant is not None:
                self._line_up(replace(variant, record=replace(variant.record, round=searched)))
        run_lanes((self._gpu,))

    def _stored(self, planned: Planned) -> InspectedVariant | None:
        """A variant that an earlier, interrupted run predicted; None where nothing is left to do."""
        store = self._recorder.store
        record = store.record(planned.variant)
        if record.measurement is not None or record.status not in {Status.INSPECTED, Status.VERIFIED}:
            return None
        built = planned.built(BuiltLaunch.of(record.build))
        return InspectedVariant(built, record, "", store.read_file(planned.variant, "kernel.cubin"), None)

    def _room(self, executor: Executor) -> bool:
        """Whether to build further: a variant goes on to the next stages before all the others are built."""
        under_way = len(self._builds.running) + len(self._emulations.running)
        return under_way < 2 * executor.workers and self._gpu.waiting < _MOST_READY

    def _spare(self, planned: Sequence[Planned]) -> None:
        """Choose the variants that are not executed on the CPU, where the experiment limits their number."""
        experiment = self._context.experiment
        left_out = flow.spared(planned, experiment.emulate_at_most)
        self._spared |= left_out
        if left_out and self._context.emulate and experiment.problems[0].emulate:
            most = experiment.emulate_at_most
            self._recorder.note(f"At most {most} variants at a time were executed on the CPU, as the experiment asks.")

    def _built(self, planned: Planned, searched: int | None, outcome: Built | BuildFailure) -> None:
        self._recorder.observer.built(planned, outcome)
        variant = flow.inspect(self._context, planned, outcome, searched)
        for check in (flow.argument_mistake, flow.constant_mistake):
            if mistake := check(self._context, variant, outcome):
                raise mistake
        self._recorder.files(planned, provenance.files_of(planned, outcome, variant.record))
        self._gate.hold(planned.position, variant)
        self._release()

    def _release(self) -> None:
        """Let variants go on: at once, in a search in the order of their positions, which is that of its rules."""
        for one in self._gate.release():
            record = one if isinstance(one, VariantRecord) else one.record
            pruning = self._recorder.pruner.judge(record) if self._recorder.pruner else None
            if isinstance(one, InspectedVariant):
                self._go_on(one, pruning)

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

    def _emulated(self, variant: InspectedVariant, task: EmulationTask, done: Future[object]) -> None:
        self._line_up(flow.judge(variant, flow.emulation_outcome(variant, task, done)))

    def _line_up(self, variant: InspectedVariant) -> None:
        """Pass a variant on to the GPU, or finish it where the GPU cannot run it."""
        if self._predicting and not variant.record.status.failed:
            self._held[variant.position] = flow.for_gpu(variant)
            self._recorder.finish(variant.planned, variant.record)
            return
        if self._line is None or flow.step_before_measurement(self._context, variant) is NextStep.RECORD:
            if self._line is not None and (note := flow.reason_not_measured(self._context, variant)):
                self._recorder.note(note)
            self._recorder.finish(variant.planned, variant.record)
            return
        urgency = flow.urgency(variant.record, searching=self._recorder.pruner is not None)
        group = group_of(variant.record)  # a GPU worker keeps the data of one problem
        self._gpu.put(flow.for_gpu(variant), urgency=urgency, position=variant.position, group=group)

    def _measure(self, variant: InspectedVariant) -> Future[tuple[JobResult, int]] | None:
        """Hand a variant to the GPU, unless another one is faster than it can be."""
        if self._recorder.pruner is not None and (pruning := self._recorder.pruner.overtaken(variant.record)):
            self._prune(variant, pruning)
            return None
        assert self._line is not None  # noqa: S101 - nothing is put in a lane without a line
        experiment = self._context.experiment
        job = flow.job_of(experiment, variant.planned, variant.cubin, self._context.reference)
        return self._line.submit(job, flow.policy_of(experiment))

    def _measured(self, variant: InspectedVariant, done: Future[tuple[JobResult, int]]) -> None:
        try:
            result, worker = done.result()
        except MissingToolError as error:  # the GPU worker could not start
            self._line, self.not_measured = None, f"Nothing was measured: {error}"
            for one in (variant, *self._gpu.give_up()):
                self._recorder.finish(one.planned, one.record)
            return
        known = len(self._baselines.found)
        notes = self._baselines.meet(variant.planned.point.problem.label, result, worker)
        self._recorder.note(*notes)
        if len(self._baselines.found) > known:
            self._recorder.store.note("baselines", self._baselines.found)
        self._recorder.files(variant.planned, provenance.baseline_files(result))
        self._recorder.finish(variant.planned, flow.measured(variant, result))
