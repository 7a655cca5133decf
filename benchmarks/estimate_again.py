"""Make the ceilings and estimates of a published report again, with today's model, and nothing else.

python benchmarks/estimate_again.py reports/h200/gemm_best reports/gemm_best_again
python benchmarks/publish.py reports/gemm_best_again reports/h200/gemm_best

With --counts, what the execution on the CPU counted is replaced as well, and for all kernels. With --experiments, the
folder of the experiment is another than experiments/.

The variants are compiled here by the compiler that the records name, and executed on the CPU; no GPU is needed. A
variant whose machine code is not the one that was measured keeps its measurement and loses its estimate. The second
folder becomes a run directory with its report, which says which version of lab made the predictions. What only the
measuring machine had, a baseline's PTX, is not in it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

from lab.base import environment, workers
from lab.base.version import VERSION
from lab.experiment.load import from_text
from lab.experiment.model import Experiment
from lab.experiment.space import Point
from lab.experiment.variants import Planned, plan
from lab.predict.schedulers.estimate import Pace
from lab.recorded.run_records import BuildRecord, EmulationRecord, RunRecord, StepRecord, VariantRecord
from lab.report.render import render
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.stages import provenance
from lab.stages import record as records
from lab.stages.build import BuildFailure, Built, build, build_task
from lab.stages.emulate import EmulationTask
from lab.stages.estimate import EstimateTask, execute
from lab.store import published
from lab.store.database import Store
from lab.toolchain.base import Toolchain
from lab.toolchain.select import toolchain

ROOT = Path(__file__).parents[1]
_TOGETHER = 8
"""Variants that a worker builds at once: the disassembler takes longer to start than for one."""


@dataclass(frozen=True, slots=True)
class Again:
    """A variant whose predictions were made again.

    Attributes:
        record: As it was published, with the new predictions.
        planned: How it was built here.
        outcome: What was built.
        same_code: It is the machine code that was measured.
    """

    record: VariantRecord
    planned: Planned
    outcome: Built | BuildFailure
    same_code: bool


def experiment_of(run: RunRecord, folder: Path | None = None) -> Experiment:
    """The experiment of a run, from the text that it kept; templates and operators are those of today.

    Args:
        run: The run's facts.
        folder: Where its file would lie, for what it names beside it; experiments/ by default.
    """
    return from_text(run.source, (folder or ROOT / "experiments") / f"{run.experiment}.yaml")


def again(
    experiment: Experiment, run: RunRecord, input_records: Iterable[VariantRecord], jobs: int, *, counts: bool = False
) -> Iterator[Again]:
    """Make the predictions of records again, in their order.

    Args:
        experiment: Theirs.
        run: Its GPU is the one that is predicted for.
        input_records: Records that have a build.
        jobs: Worker processes.
        counts: Replace what was counted on the CPU, too.

    Raises:
        MissingToolError: a compiler that built some of them is not here.
    """
    recorded = list(input_records)
    planned = [_planned(experiment, record) for record in recorded]
    with ProcessPoolExecutor(jobs) as pool:
        tasks = [build_task(one) for one in planned]
        outcomes = chain.from_iterable(
            pool.map(build, (tasks[i : i + _TOGETHER] for i in range(0, len(tasks), _TOGETHER)))
        )
        asked = [_asked(experiment, run, *one, counts=counts) for one in zip(planned, recorded, outcomes, strict=True)]
        # variants with the same code at the same emulated size share an execution, as in a sweep
        keyed = {task.key: task for task in asked if task.key}
        executed = dict(zip(keyed, pool.map(_execute, map(_sent, keyed.values())), strict=True))
    for record, task in zip(recorded, asked, strict=True):
        fresh, same = task.inspected, task.same_code
        if task.key:
            fresh = records.judged(fresh, *executed[task.key], task.model)
        new = replace(record, estimate=None)
        if same:
            new = replace(new, prediction=fresh.prediction, steps=_steps(record, fresh), estimate=fresh.estimate)
            new = replace(new, build=_with_resources(record, fresh))
            new = replace(new, emulation=fresh.emulation) if counts and task.key else new
        yield Again(new, task.planned, task.outcome, same)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A variant between its build and its execution; `key` is empty where there is none."""

    planned: Planned
    inspected: VariantRecord
    outcome: Built | BuildFailure
    same_code: bool
    model: EstimateTask | None
    task: EmulationTask | None
    key: str


def _asked(
    experiment: Experiment,
    run: RunRecord,
    planned: Planned,
    record: VariantRecord,
    outcome: Built | BuildFailure,
    *,
    counts: bool,
) -> _Asked:
    context = FlowContext(experiment, run.gpu, emulate=True)
    variant = flow.inspect(context, planned, outcome, None)
    same = isinstance(outcome, Built) and record.build is not None and outcome.sass_sha256 == record.build.sass_sha256
    model = variant.model if same else None
    if (
        (model is None and not (counts and same))
        or record.emulation is None
        or planned.point.problem.emulate is None
        or isinstance(outcome, BuildFailure)
    ):
        return _Asked(planned, variant.record, outcome, same, model, None, "")
    task = flow.emulation_task(context, variant)
    return _Asked(planned, variant.record, outcome, same, model, task, f"{outcome.build.ptx}\n{task!r}")


_Sent = tuple[EmulationTask, str, EstimateTask | None]


def _sent(asked: _Asked) -> _Sent:
    """Return the fields of a variant a worker needs; its plan stays in this process."""
    assert asked.task is not None  # noqa: S101 - those with a key have one
    assert isinstance(asked.outcome, Built)  # noqa: S101
    return asked.task, asked.outcome.build.ptx, asked.model


def _execute(sent: _Sent) -> tuple[EmulationRecord, Pace | None]:
    task, ptx, model = sent
    return execute(task, ptx, model)


def _planned(experiment: Experiment, record: VariantRecord) -> Planned:
    kernel = next(kernel for kernel in experiment.kernels if kernel.name == record.kernel)
    problem = next(problem for problem in experiment.problems if dict(problem.values) == dict(record.problem))
    tool = _toolchain(*((record.build.toolchain, record.build.version) if record.build else ("auto", "")))
    # a parameter that the template got since the run has its default
    parameters = kernel.template.completed(record.parameters)
    (variant,) = plan(experiment, [Point(kernel, parameters, problem, record.label)], [tool], [record.arch])
    return replace(variant, variant=record.variant)


@cache
def _toolchain(name: str, version: str) -> Toolchain:
    """The compiler of that version; nvcc makes the same code whether PyCUDA calls it or not."""
    return toolchain(f"{'nvcc' if name.endswith('nvcc') else name}=={version}")


def _with_resources(old: VariantRecord, new: VariantRecord) -> BuildRecord | None:
    """The build that was measured, with what is read of its machine code today."""
    return old.build and new.build and replace(old.build, resources=new.build.resources)


def _steps(old: VariantRecord, new: VariantRecord) -> tuple[StepRecord, ...]:
    pairs = zip(old.steps, new.steps, strict=True)
    return tuple(replace(step, prediction=fresh.prediction, resources=fresh.resources) for step, fresh in pairs)


def run_again(
    source: Path, target: Path, *, experiments: Path | None = None, jobs: int | None = None, counts: bool = False
) -> RunRecord:
    """Make a run directory of a published report, with its predictions made again.

    Args:
        source: The published report.
        target: The run directory; it must not be there.
        experiments: As `experiment_of`'s folder.
        jobs: Worker processes; the number of cores by default.
        counts: As for `again`.

    Returns:
        The facts of the run, with notes on what was done.
    """
    if target.exists():
        raise SystemExit(f"{target} is there already")
    kept = published.read_records(source)
    run, records = kept.run, kept.records
    experiment = experiment_of(run, experiments)
    built = [record for record in records if record.build is not None]
    predictions = {
        one.record.variant: one for one in again(experiment, run, built, jobs or workers.cores(), counts=counts)
    }
    lost = sum(not prediction.same_code for prediction in predictions.values())
    by = ", ".join(filter(None, [f"lab {VERSION}", environment.commit()]))
    what = "Ceilings, estimates and counts of the CPU" if counts else "Ceilings and estimates"
    notes = [f"{what} were made again by {by}, after the run; what was measured is the run's own."]
    if lost:
        notes.append(f"{lost} variants have no estimate: today's templates do not give the code that was measured.")
    run = replace(run, notes=(*run.notes, *notes))
    with Store(target, create=True) as store:
        store.write_run(run)
        for position, record in enumerate(records):
            prediction = predictions.get(record.variant)
            store.write(prediction.record if prediction else record, position)
            if prediction:
                store.write_files(
                    record.variant, provenance.files_of(prediction.planned, prediction.outcome, prediction.record)
                )
        render(store)
    return run


def main() -> None:
    """Make the run directory, and say what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the published report")
    parser.add_argument("target", type=Path, help="the run directory that is made")
    parser.add_argument("--counts", action="store_true", help="replace what was counted on the CPU, too")
    parser.add_argument("--experiments", type=Path, default=None, help="folder of the experiment file")
    given = parser.parse_args()
    facts = run_again(given.source, given.target, experiments=given.experiments, counts=given.counts)
    for note in facts.notes:
        print(note)
    print(given.target / "index.html")


if __name__ == "__main__":
    main()
