"""The facts of a run as a whole: its command, its environment and its baselines."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

from lab.base import environment
from lab.base.expressions import Scalar
from lab.base.version import VERSION
from lab.experiment.model import Experiment
from lab.experiment.space import Expansion
from lab.gpu.process.job import BaselineResult, JobResult
from lab.measured.timing import GpuDescription
from lab.operators.base import Problem
from lab.recorded.run_records import RunRecord, SearchRecord


def facts_of(
    experiment: Experiment,
    expansion: Expansion,
    *,
    command: str,
    variants: int,
    gpu: GpuDescription | None,
    not_measured: str,
    emulate: bool = True,
) -> RunRecord:
    """Return the facts of a run that are known when it starts.

    Args:
        experiment: The experiment.
        expansion: Its points.
        command: The command that reproduces the run; if empty, one is composed.
        variants: Number of variants.
        gpu: The GPU that measures, or None.
        not_measured: Why nothing is measured; empty with a GPU.
        emulate: Whether to emulate variants on the CPU.
    """
    looked_at = "combinations" if expansion.drawn is None else "of the combinations drawn"
    notes = tuple(f"{count} {looked_at} were left out by: {reason}." for reason, count in expansion.excluded.items())
    if emulate and all(problem.emulate is None and not problem.whole for problem in experiment.problems):
        notes += (_nothing_to_execute(experiment),)
    searched = None
    if experiment.search and expansion.drawn is not None:
        combinations = expansion.combinations // len(experiment.problems)
        rules = experiment.search
        predicted = rules.strategy in {"prior", "surrogate"} and rules.candidates != 0 and rules.known is None
        searched = SearchRecord(
            combinations, expansion.drawn, rules.seed, (variants,), rules.strategy, variants if predicted else 0
        )
    return RunRecord(
        experiment=experiment.name,
        question=experiment.question,
        operator=experiment.operator.name,
        problem=shared_fields(experiment),
        source=experiment.text,
        command=command or shlex.join(["python", "-m", "lab", "run", str(experiment.file)]),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        lab_version=VERSION,
        commit=environment.commit(),
        python=environment.python(),
        packages=environment.packages(),
        gpu=gpu,
        not_measured=not_measured,
        baselines={},
        swept=experiment.swept,
        variants=variants,
        notes=notes,
        problem_axes=experiment.problem_axes,
        search=searched,
        setting=dict(experiment.baseline),
    )


_FOR_INSTANCE = 100
"""A size that most kernels execute within a second on the CPU."""


def _nothing_to_execute(experiment: Experiment) -> str:
    values = experiment.problems[0].values
    fields = type(values).model_fields if isinstance(values, Problem) else {}
    sizes = [name for name, value in values.items() if isinstance(value, int) and not isinstance(value, bool)]
    required = {name: values[name] for name in sizes if name not in fields or fields[name].is_required()}
    example = ", ".join(f"{name}: {min(int(value), _FOR_INSTANCE)}" for name, value in required.items())
    return (
        "The CPU executes nothing, so no output is verified and no time is estimated: the file has no emulate, the "
        f"size for that{f'. Add, for instance, emulate: {{{example}}}' if example else ''}."
    )


def shared_fields(experiment: Experiment) -> dict[str, Scalar]:
    """Return the problem fields that have the same value in all of the experiment's problems."""
    first, *rest = (problem.values for problem in experiment.problems)
    return {name: value for name, value in first.items() if all(values.get(name) == value for values in rest)}


def baseline_fact(baseline: BaselineResult) -> str:
    """Return a baseline in one phrase: its name, library and kernel."""
    facts = ", ".join(filter(None, [baseline.library, baseline.kernel, baseline.note]))
    return f"{baseline.name} ({facts})" if facts else baseline.name


def left_out(result: JobResult) -> tuple[str, ...]:
    """Return a sentence for each requested baseline that is missing or computes something else."""
    timed = result.measurement
    if timed is None:
        return ()
    compared = {timed.baseline_name, *timed.others}
    requested = [baseline for baseline in (result.baseline, *result.others) if baseline is not None]
    return tuple(
        f"The baseline {baseline.name} was left out: {baseline.note}."
        for baseline in requested
        if baseline.name not in compared
    )
