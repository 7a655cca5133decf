"""The stages at work on many variants: builds and emulations in worker processes, the GPU beside them.

Nothing waits for anything that it does not need: variants are built on all cores, a few ahead of what comes next;
the GPU takes what is ready; a record is written once its variant is finished.
"""

from __future__ import annotations

import hashlib
import heapq
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from itertools import takewhile
from types import TracebackType
from typing import Any, Protocol, Self

from pebble import ProcessExpired

from lab.base import workers
from lab.base.errors import MissingToolError
from lab.experiment.load import Experiment
from lab.experiment.variants import Planned
from lab.gpu.process.job import Flush, Job, JobResult, Policy
from lab.gpu.process.line import GpuLine
from lab.measured.timing import GpuDescription
from lab.predict.schedulers.estimate import Pace
from lab.runs.search import Group, Pruner, Score, group_of, score
from lab.stages import records
from lab.stages.batches import Batches
from lab.stages.build import BuildFailure, Built, build_task
from lab.stages.emulate import EmulationTask, not_executed
from lab.stages.estimate import EstimateTask, execute
from lab.store.database import Store
from lab.store.model import EmulationRecord, VariantRecord
from lab.store.writer import Writer
from lab.templates.instance import Instance

EMULATION_TIMEOUT_S = 300.0
"""An emulation that takes longer is stopped; the variant goes on without it, and its row says so."""

DRIFT = 0.02
"""A baseline that moves by more from one GPU worker to the next is remarked on."""

_MOST_READY = 200
"""Variants that may wait for the GPU before building pauses: each holds its cubin in memory."""

_AHEAD = 2
"""Jobs in the GPU's line: the next is there when one ends, the others can still be put in order."""


class Watcher(Protocol):
    """Whoever is told how the work goes on."""

    def more(self, variants: int) -> None:
        """A search goes on with so many further variants."""

    def built(self, planned: Planned, outcome: Built | BuildFailure) -> None:
        """One variant was compiled and inspected, or could not be."""

    def recorded(self, record: VariantRecord) -> None:
        """One variant is finished."""

    def counting(self, variants: int) -> None:
        """Hardware counters of so many variants are to be read."""

    def counted(self, variants: int) -> None:
        """Those of so many more were."""


_Alike = list[Planned]
"""Variants with one machine code, of several problems."""


@dataclass(slots=True)
class _Item:
    """A variant on its way: built, and perhaps executed on the CPU."""

    planned: Planned
    record: VariantRecord
    ptx: str
    cubin: bytes
    model: EstimateTask | None


@dataclass
class Sweep:
    """What one run holds open while it works.

    Attributes:
        experiment: The experiment.
        store: Where records go.
        watcher: Who is told.
        line: The GPU's, or None.
        gpu: The GPU, or None.
        emulate: Execute variants on the CPU, where the experiment gives a size for it.
        jobs: Worker processes.
        pruner: Of a search, else None.
        done: Records of an earlier, unfinished run by variant; they are taken as they are.
        scores: Of every finished variant, by position.
        baselines: Label of a problem to its baseline in words, as the first variant that ran beside it found it.
        notes: Sentences for the reader of the report.
        not_measured: Why nothing was measured after all; may be empty.
    """

    experiment: Experiment
    store: Store
    watcher: Watcher
    line: GpuLine | None
    gpu: GpuDescription | None
    emulate: bool
    jobs: int
    pruner: Pruner | None = None
    done: Mapping[str, VariantRecord] = field(default_factory=dict)
    scores: dict[int, Score] = field(default_factory=dict)
    baselines: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    not_measured: str = ""
    round: int | None = None

    def __post_init__(self) -> None:
        """Start with nothing under way."""
        self._pool = workers.pool(self.jobs)
        self._writer = Writer()
        self._lost: set[str] = set()
        self._spared: set[int] = set()
        self._baseline_ms: dict[str, tuple[int, float]] = {}
        self._waiting: deque[Planned] = deque()
        self._batches = Batches(self._pool, self.jobs)
        self._building: dict[Future[Any], list[_Alike]] = {}
        self._emulating: dict[Future[Any], tuple[EmulationTask, str, list[_Item]]] = {}
        self._emulated: dict[str, tuple[EmulationRecord, Pace | None]] = {}
        self._measuring: dict[Future[tuple[JobResult, int]], _Item] = {}
        self._ready: list[tuple[float, int, _Item]] = []
        self._held: dict[int, _Item | VariantRecord] = {}
        self._next = 0
        self._group: Group | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        workers.end(self._pool, finished=kind is None)
        self._writer.__exit__(kind, error, trace)

    def work(self, planned: Sequence[Planned]) -> None:
        """Take these variants, whose positions follow on those of earlier ones, to their records."""
        self._spare(planned)
        for one in planned:
            if one.variant in self.done:
                self._take_over(one, self.done[one.variant])
            else:
                self._waiting.append(one)
        self._release()
        self._build_more()
        while pending := [*self._building, *self._emulating, *self._measuring]:
            for future in wait(pending, return_when=FIRST_COMPLETED).done.difference(self._measuring):
                self._ended(future)
            for future in self._from_line():
                self._ended(future)
            self._feed()
            self._build_more()

    def _from_line(self) -> list[Future[tuple[JobResult, int]]]:
        """The GPU's finished jobs in the order of its line, which tells a worker's results from its successor's.

        `wait` keeps no order, and while it returns it may name a job and not the one before it.
        """
        return list(takewhile(Future.done, self._measuring))

    def _ended(self, future: Future[Any]) -> None:
        """Go on with whatever a piece of work was for; what someone killed is done again once."""
        if future in self._measuring:
            self._measured(self._measuring.pop(future), future)
        elif future in self._emulating:
            task, key, items = self._emulating.pop(future)
            if self._killed(future, f"emulation {key}"):
                self._execute_again(task, key, items)
            else:
                self._executed(key, items, _emulation(future, task))
        else:
            batch = self._building.pop(future)
            outcomes = self._batches.outcomes(future, len(batch))
            if outcomes is None or (len(batch) == 1 and self._killed(future, f"build {batch[0][0].variant}")):
                for alike in batch:
                    self._build([alike])
            else:
                for alike, outcome in zip(batch, outcomes, strict=True):
                    self._built(alike, outcome)

    def _spare(self, planned: Sequence[Planned]) -> None:
        """Choose the variants that are not executed on the CPU, where the experiment limits their number."""
        most = self.experiment.emulate_at_most
        if most is not None and most < len(planned):
            chosen = {planned[place * len(planned) // most].position for place in range(most)}
            self._spared |= {one.position for one in planned} - chosen
            if self.emulate and self.experiment.problems[0].emulate:
                self.note(f"At most {most} variants at a time were executed on the CPU, as the experiment asks.")

    def note(self, sentence: str) -> None:
        """Something that a reader of the report must know, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)
            self.store.note("notes", self.notes)

    def _take_over(self, planned: Planned, record: VariantRecord) -> None:
        self._held[planned.position] = record
        self.store.place(planned.variant, planned.position)
        self._remember(record, planned.position)

    def _build_more(self) -> None:
        """Schedule a few: a variant goes on to the next stages before all the others are built."""
        wanted = {_code(alike[0]): alike for batch in self._building.values() for alike in batch}
        while (
            self._waiting
            and len(self._building) + len(self._emulating) < 2 * self.jobs
            and len(self._ready) < _MOST_READY
        ):
            batch: list[_Alike] = []
            size = self._batches.size(len(self._waiting))
            while self._waiting and len(batch) < size:
                one = self._waiting.popleft()
                if same := wanted.get(_code(one)):
                    same.append(one)  # another problem for the same machine code
                    continue
                wanted[_code(one)] = alike = [one]
                batch.append(alike)
            if batch:
                self._build(batch)

    def _build(self, batch: list[_Alike]) -> None:
        self._building[self._batches.start([build_task(alike[0]) for alike in batch])] = batch

    def _killed(self, future: Future[Any], work: str) -> bool:
        """Whether a worker was killed from outside, for the first time at this piece of work: it is done again."""
        error = future.exception()
        if not isinstance(error, ProcessExpired) or error.exitcode != -signal.SIGKILL or work in self._lost:
            return False
        self._lost.add(work)
        return True

    def _built(self, planned: Sequence[Planned], outcome: Built | BuildFailure) -> None:
        for one in planned:
            self.watcher.built(one, outcome)
            record = records.inspected(self.experiment, one, outcome, self.gpu, self.round)
            self._writer.do(self.store.write_files, one.variant, records.files_of(one, outcome, record))
            code = (outcome.build.ptx, outcome.build.cubin) if isinstance(outcome, Built) else ("", b"")
            model = records.estimate_task(self.experiment, one, record, outcome, self.gpu)
            self._held[one.position] = _Item(one, record, *code, model)
        self._release()

    def _release(self) -> None:
        """Let variants go on: at once, in a search in the order of their positions, which is that of its rules."""
        ready = sorted(self._held)
        if self.pruner is not None:
            ready = [position for place, position in enumerate(ready) if position == self._next + place]
        self._next += len(ready)
        for position in ready:
            what = self._held.pop(position)
            reason = ""
            if self.pruner is not None:
                reason = self.pruner.judge(what if isinstance(what, VariantRecord) else what.record)
            if isinstance(what, _Item):
                self._go_on(what, reason)

    def _go_on(self, item: _Item, pruned: str) -> None:
        """After the build: emulate, or pass it to the GPU."""
        if pruned:
            self._finish(item, records.pruned(item.record, pruned))
        elif item.record.status.failed:
            self._finish(item, item.record)
        elif (task := self._task(item)) is None:
            self._line_up(item)
        else:
            self._execute(item, task)

    def _task(self, item: _Item) -> EmulationTask | None:
        point, small = item.planned.point, item.planned.point.problem.emulate
        if not self.emulate or small is None or item.planned.position in self._spared:
            return None
        return EmulationTask(
            launches=Instance(point.kernel.template, point.parameters, small).launches,
            operator=self.experiment.operator_reference,
            problem=dict(small),
            seed=self.experiment.seed,
            hot_loops={mix.name: mix.hot_loop.label for mix in item.record.mixes("ptx") if mix.hot_loop},
        )

    def _execute(self, item: _Item, task: EmulationTask) -> None:
        """On the CPU; equal code on equal emulated problems is executed once."""
        key = hashlib.sha256(f"{item.ptx}\n{task!r}".encode()).hexdigest()
        if key in self._emulated:
            self._executed(key, [item], self._emulated[key])
            return
        for _, other, items in self._emulating.values():
            if other == key:
                items.append(item)
                return
        self._execute_again(task, key, [item])

    def _execute_again(self, task: EmulationTask, key: str, items: list[_Item]) -> None:
        future = self._pool.schedule(execute, args=[task, items[0].ptx, items[0].model], timeout=EMULATION_TIMEOUT_S)
        self._emulating[future] = (task, key, items)

    def _executed(self, key: str, items: Sequence[_Item], done: tuple[EmulationRecord, Pace | None]) -> None:
        if len(self.experiment.problems) > 1:  # else it does not come again
            self._emulated[key] = done
        for item in items:
            item.record = records.judged(item.record, *done, item.model)
            if item.record.status.failed:
                self._finish(item, item.record)
            else:
                self._line_up(item)

    def _line_up(self, item: _Item) -> None:
        item.ptx = ""
        if self.line is None or self.gpu is None:
            self._finish(item, item.record)
        elif not records.runs_on(item.planned.request.arch, self.gpu.arch):
            note = f"Variants for {item.planned.request.arch} were not measured: the GPU is {self.gpu.arch}."
            self.note(note)
            self._finish(item, item.record)
        else:
            heapq.heappush(self._ready, (self._urgency(item), item.planned.position, item))
            self._feed()

    def _urgency(self, item: _Item) -> float:
        """A search measures what promises most first, which prunes most; a sweep keeps the file's order."""
        if self.pruner is None:
            return 0.0
        if item.record.estimate is not None:
            return -item.record.estimate.tflops
        ceiling = item.record.prediction.ceiling if item.record.prediction else None
        return -ceiling.rate if ceiling else 0.0

    def _feed(self) -> None:
        """Hand the GPU what is ready, one problem's variants after another: its worker keeps one problem's data."""
        while self.line and self._ready and len(self._measuring) < _AHEAD:
            same = [entry for entry in self._ready if group_of(entry[2].record) == self._group]
            entry = min(same or self._ready)
            self._ready.remove(entry)
            item = entry[2]
            self._group = group_of(item.record)
            if self.pruner is not None and (reason := self.pruner.overtaken(item.record)):
                self._finish(item, records.pruned(item.record, reason))
            else:
                job = job_of(self.experiment, item.planned, item.cubin)
                self._measuring[self.line.submit(job, policy_of(self.experiment))] = item

    def _measured(self, item: _Item, future: Future[tuple[JobResult, int]]) -> None:
        try:
            result, worker = future.result()
        except MissingToolError as error:  # the worker could not start
            self.line, self.not_measured = None, f"Nothing was measured: {error}"
            for _, _, other in [(0.0, 0, item), *self._ready]:
                self._finish(other, other.record)
            self._ready.clear()
            return
        for note in records.left_out(result):
            self.note(note)
        if files := records.baseline_files(result):
            self._writer.do(self.store.write_files, item.planned.variant, files)
        label = item.planned.point.problem.label
        if result.baseline is not None and label not in self.baselines:
            self.baselines[label] = records.baseline_fact(result.baseline)
            self.store.note("baselines", self.baselines)
        if result.measurement and result.measurement.baseline:
            self._watch_drift(label, worker, result.measurement.baseline.median)
        self._finish(item, records.measured(item.record, result))

    def _watch_drift(self, label: str, worker: int, baseline_ms: float) -> None:
        """After a worker was replaced: does its baseline run as it did before? Else times do not compare across it."""
        before, known_ms = self._baseline_ms.get(label, (worker, baseline_ms))
        change = baseline_ms / known_ms - 1
        if before != worker and abs(change) > DRIFT:
            what = f" of {label}" if label else ""
            self.note(
                f"In GPU worker {worker} the baseline{what} takes {change:+.1%} more time than in worker {before}: "
                "ratios to the baseline hold, times measured before and after do not compare better than that."
            )
        self._baseline_ms[label] = (worker, baseline_ms)

    def _finish(self, item: _Item, record: VariantRecord) -> None:
        position = item.planned.position
        self._writer.do(self.store.write, record, position)
        self._remember(record, position)

    def _remember(self, record: VariantRecord, position: int) -> None:
        if finished := score(record, position):
            self.scores[position] = finished
            if self.pruner is not None:
                self.pruner.learn(finished)
        self.watcher.recorded(record)


def _code(planned: Planned) -> tuple[object, ...]:
    """What decides a build."""
    return (planned.toolchain.name, planned.toolchain.version, planned.request, planned.launches.entries)


def _emulation(future: Future[Any], task: EmulationTask) -> tuple[EmulationRecord, Pace | None]:
    try:
        done: tuple[EmulationRecord, Pace | None] = future.result()
    except TimeoutError:
        why = f"the emulation took longer than {EMULATION_TIMEOUT_S:.0f} s; a smaller `emulate` problem helps"
    except MemoryError:
        why = "the emulation needs more memory than its share; a smaller `emulate` problem helps"
    except ProcessExpired as error:
        why = f"the emulating process ended by itself: {error}"
    else:
        return done
    return not_executed(task, why), None


def job_of(experiment: Experiment, planned: Planned, cubin: bytes) -> Job:
    """What the GPU is asked to do with a variant."""
    return Job(
        variant=planned.variant,
        cubin=cubin,
        launches=planned.launches,
        operator=experiment.operator_reference,
        problem=dict(planned.point.problem.values),
        seed=experiment.seed,
    )


def policy_of(experiment: Experiment) -> Policy:
    """How variants of an experiment are checked and timed."""
    first, *others = experiment.baselines or (None,)
    return Policy(baseline=first, others=tuple(name for name in others if name), flush=Flush.of(experiment.cache))
