"""The experiment that stands for the kernels of `lab diff`: executed on both sides, verdicts and times compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lab.base.errors import Location, UserError
from lab.base.files import check_below, scratch
from lab.diff.comparison import SideComparison, SideVerdict, VariantTime
from lab.diff.sides import files_of
from lab.measured.timing import Kind
from lab.recorded.run_records import VariantRecord
from lab.runs.compare import compare_folders
from lab.runs.pipeline import RunOptions, run


def with_experiment(
    comparison: SideComparison, names: tuple[str, str], experiment: str, archs: tuple[str, ...], folder: Path
) -> SideComparison:
    """Return a comparison with the verdicts and times of an experiment on both sides.

    Args:
        comparison: The comparison of the machine code.
        names: Both sides as the user named them: folders or revisions.
        experiment: The experiment's file, relative to each side.
        archs: Architectures; empty means those of the experiment.
        folder: The working directory, whose repository has the revisions.

    Raises:
        UserError: A side is neither a folder nor a revision, or HEAD lacks the experiment.
    """
    verdicts: list[SideVerdict] = []
    with scratch("lab-diff-runs-") as runs:
        for side, name in zip(("BASE", "HEAD"), names, strict=True):
            with files_of(name, folder) as place:
                file = _experiment(place, experiment, name)
                outcome = run(file, RunOptions(output=runs / side, measure=False, archs=archs))
                verdicts += [_verdict(side, record) for record in outcome.records]
        times = tuple(_times(runs / "BASE", runs / "HEAD"))
    return replace(comparison, verdicts=tuple(verdicts), times=times)


def _experiment(place: Path, experiment: str, name: str) -> Path:
    file = place / experiment
    if not place.is_dir() or not file.is_file():
        raise UserError(
            "this side has no such experiment",
            code="missing-file",
            at=Location(name),
            key="experiment",
            found=experiment,
            accepted="a file of both sides, relative to the folder or the top of the repository",
        )
    check_below(file, [place])
    return file


def _verdict(side: str, record: VariantRecord) -> SideVerdict:
    return SideVerdict(side, _name(record), record.status.value, record.status.sound, record.reason)


def _name(record: VariantRecord) -> str:
    return f"{record.kernel} {record.label}".strip()


def _times(base: Path, head: Path) -> Iterator[VariantTime]:
    """Yield the times of the variants of both runs."""
    for change in compare_folders(base, head, explain=False).changes:
        if change.ratio and change.low and change.high:
            name, kind = f"{change.kernel} {change.label}".strip(), change.kind or Kind.PREDICTED
            yield VariantTime(name, 1 / change.ratio, 1 / change.high, 1 / change.low, kind.value)
