"""Run an experiment twice, in two processes, to measure differences from run to run.

The first run's directory holds the second one's, ``repeat/``, complete and with a report of its own. Each can be
interrupted and resumed. Builds come from the cache, so that both runs execute the same machine code and
only the measurement differs. Where nothing is measured, the second run shows that predicted and emulated figures depend
on the input alone.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import numpy as np

from lab.base import interrupts, workers
from lab.base.errors import StoreError
from lab.base.folder import Folder
from lab.measured.standing import baseline_beside, common_baseline, standing
from lab.measured.timing import Kind
from lab.recorded.run_records import RepeatedFigure, RepeatRecord, RunRecord, VariantRecord
from lab.report.rank_correlation import rank_correlation
from lab.runs.compare import Change, compare
from lab.runs.observer import RunObserver
from lab.runs.pipeline import RunOptions, RunOutcome, run
from lab.runs.services import Services
from lab.store import figures
from lab.store.database import Store

FOLDER: Final = "repeat"
"""Name of the second run's folder in the first one's directory."""

_FEWEST: Final = 4
"""Fewest variants for which a rank correlation is meaningful."""

Watch = Callable[[], AbstractContextManager[RunObserver]]
"""Opener of a run's observer: a module-level function, since the second run calls it in its own process."""

Again = Callable[[Path, RunOptions, Watch], bool]
"""Function that makes the second run and returns whether it was interrupted."""

RunData = tuple[RunRecord, Sequence[VariantRecord]]


def run_twice(
    file: Path, options: RunOptions, watch: Watch, *, services: Services | None = None, again: Again | None = None
) -> RunOutcome:
    """Run an experiment, run it again in a new process, and compare the two in the first one's report.

    Args:
        file: The experiment.
        options: Of both runs; the second goes to `FOLDER` in the first one's directory.
        watch: Opens an observer for each run.
        services: The environment of the first run, and of the report; this machine by default.
        again: Makes the second run; in a new process by default.

    Returns:
        The first run's outcome, with the report that holds both; interrupted where either was.

    Raises:
        UserError: the experiment is wrong.
        MissingToolError: there is no compiler or no disassembler.
        StoreError: a run directory cannot be written or is in use, or the second run's process was killed.
    """
    services = services or Services()
    with watch() as observer:
        first = run(file, replace(options, followed=True), observer, services)
    if first.interrupted:
        return first
    second = (Folder(first.folder) / FOLDER).make()
    with Store(first.folder, create=True) as store:
        if not store.noted("repeating"):  # a second run that is there already belongs to an earlier first one
            with Store(second, create=True) as stale:
                stale.clear()
            store.note("repeating", second.name)
        interrupted = (again or run_in_a_process)(file, replace(options, output=second, resume=True), watch)
        if interrupted:
            note = "The second run of --repeat-check was interrupted; the same command continues it, with --resume."
            facts = replace(first.run, notes=(*first.run.notes, note))
        else:
            facts = first.run
            with Store(second) as repetition:
                comparison = repeated((facts, first.records), (repetition.run(), repetition.records()))
            store.write_repeat(comparison)
            store.note("state", {**(store.state() or {}), "finished": True})
        store.write_run(facts)
        return replace(first, run=facts, pages=services.render(store), interrupted=interrupted)


def run_in_a_process(file: Path, options: RunOptions, watch: Watch) -> bool:
    """Run an experiment in a fresh process.

    Returns:
        True if it was interrupted.

    Raises:
        StoreError: the process was killed, or its run directory cannot be written.
    """
    # not a daemon, which may have no workers of its own
    with ProcessPoolExecutor(1, get_context("spawn"), _begin) as process:
        try:
            # the terminal interrupts both processes; the other one says so, saves its records and ends
            with interrupts.stoppable(message=""):
                with workers.handed_down():
                    interrupted = process.submit(_run, file, options, watch)
                return interrupts.wait(interrupted.result)
        except KeyboardInterrupt:
            return True
        except BrokenProcessPool as error:
            raise StoreError(
                f"the process of the second run was killed; its finished records are in {options.output}, "
                "and the same command continues the run, with --resume"
            ) from error


def _begin() -> None:
    """Prepare this process for its own run."""
    workers.end_with_parent()
    interrupts.end_at_once()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _run(file: Path, options: RunOptions, watch: Watch) -> bool:
    with watch() as observer:
        return run(file, options, observer).interrupted


def repeated(first: RunData, second: RunData) -> RepeatRecord:
    """Compare a run with its repetition.

    Args:
        first: Facts and records of the first run.
        second: The same of the second.

    Raises:
        UserError: they have no variant in common.
    """
    compared = compare(first, second)
    by_id = ({r.variant: r for r in first[1]}, {r.variant: r for r in second[1]})
    matched = [(by_id[0][change.variant_a], by_id[1][change.variant_b]) for change in compared.changes]
    pairs = {name: _pairs(matched, of) for name, (_, of) in _FIGURES.items()}
    compared_figures = (_figure(name, kind, pairs[name]) for name, (kind, _) in _FIGURES.items())
    ranked = next(filter(None, pairs.values()), {})
    problems = figures.by_problem(first[0], tuple(a for a, _ in matched)).values()
    pair = {a.variant: (a, b) for a, b in matched}
    tops = [_tops([pair[record.variant] for record in group if record.variant in ranked], ranked) for group in problems]
    return RepeatRecord(
        started=second[0].started,
        not_measured=first[0].not_measured or second[0].not_measured,
        variants=len(matched),
        only_one=len(compared.only_a) + len(compared.only_b),
        same_code=sum(change.same_code is True for change in compared.changes),
        same_status=sum(a.status is b.status for a, b in matched),
        figures=tuple(figure for figure in compared_figures if figure is not None),
        differences={variant: b / a - 1 for variant, (a, b) in ranked.items()},
        outside=sum(_outside(change) for change in compared.changes),
        winners=sum(bool(top) for top in tops),
        same_winners=sum(len(set(top)) == 1 for top in tops if top),
        rank_correlation=_correlation(list(ranked.values())) if len(problems) == 1 else None,
    )


def _pairs(
    matched: Sequence[tuple[VariantRecord, VariantRecord]], of: Callable[[VariantRecord], float | None]
) -> dict[str, tuple[float, float]]:
    """Return a figure's values in both runs by variant, where both have it."""
    return {a.variant: (first, second) for a, b in matched if (first := of(a)) and (second := of(b)) is not None}


def _tops(
    pairs: Sequence[tuple[VariantRecord, VariantRecord]], ranked: Mapping[str, tuple[float, float]]
) -> tuple[str, ...]:
    """Return each run's best variant, by the first run's ids; empty where no variant has a figure."""
    if not pairs:
        return ()
    best = []
    for which in (0, 1):
        common = common_baseline(baseline_beside(pair[which].measurement) for pair in pairs)
        worth = {pair[0].variant: _worth(pair[which], ranked[pair[0].variant][which], common) for pair in pairs}
        best.append(max(worth, key=lambda variant: worth[variant]))
    return tuple(best)


def _worth(record: VariantRecord, figure: float, common: str) -> float:
    """Return the value that ranks a variant of a run; `figure` is its throughput where anything was measured."""
    timed = record.measurement
    return standing(figure, timed.baseline.median) if common and timed and timed.baseline else figure


def _to_baseline(record: VariantRecord) -> float | None:
    timed = None if record.status.failed else record.measurement
    return None if timed is None else timed.ratio_to_baseline


def _executed(record: VariantRecord) -> float | None:
    executed = record.emulation.executed if record.emulation else None
    return None if executed is None else executed.warps


_FIGURES: Final[Mapping[str, tuple[Kind, Callable[[VariantRecord], float | None]]]] = {
    "throughput": (Kind.MEASURED, figures.measured),
    "ratio to the baseline": (Kind.MEASURED, _to_baseline),
    "estimate": (Kind.PREDICTED, figures.estimated),
    "ceiling": (Kind.PREDICTED, figures.predicted),
    "executed instructions": (Kind.EMULATED, _executed),
}
"""Compared figures with their kinds; a report ranks variants by the first that exists."""


def _outside(change: Change) -> bool:
    """Return whether the runs differ by more than the scatter within each explains."""
    return change.low is not None and change.high is not None and not change.low <= 1 <= change.high


def _figure(name: str, kind: Kind, pairs: Mapping[str, tuple[float, float]]) -> RepeatedFigure | None:
    if not pairs:
        return None
    signed = {variant: second / first - 1 for variant, (first, second) in pairs.items()}
    sizes = np.abs(list(signed.values()))
    worst = max(signed, key=lambda variant: abs(signed[variant]))
    return RepeatedFigure(
        name=name,
        kind=kind,
        variants=len(signed),
        equal=int((sizes == 0).sum()),
        median=float(np.median(sizes)),
        p95=float(np.quantile(sizes, 0.95)),
        largest=signed[worst],
        worst=worst,
        shift=float(np.median(list(signed.values()))),
    )


def _correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    if len(pairs) < _FEWEST:
        return None
    rho = rank_correlation(*zip(*pairs, strict=True)).rho
    return None if math.isnan(rho) else rho
