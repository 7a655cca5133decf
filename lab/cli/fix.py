"""`lab fix`: a change of a kernel's source that removes a cost, tried by executing it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

from lab.advice.paddings import SourceEdit, paddings, pads_of
from lab.api.running import run_mapping
from lab.base import yamlfile
from lab.base.errors import Location, UserError
from lab.base.files import write_atomically
from lab.cli.inspect import variants
from lab.experiment.variants import Planned
from lab.predict.variant_scores import real_work
from lab.recorded.run_records import Status, VariantRecord
from lab.runs.observer import RunObserver
from lab.runs.pipeline import RunOptions
from lab.runs.services import Services
from lab.store.figures import SHARED, emulated_traffic

_MOST_TRIED: Final = 12
_HEADERS: Final = (".h", ".hpp", ".cuh", ".inc")
_KEPT: Final = 0.1
"""Share of the bank conflicts below which nothing further is tried."""
_LEAST: Final = 0.01
"""Share of the bank conflicts that a change must remove."""
_TIED: Final = 1.01


@dataclass(frozen=True)
class TriedVariant:
    """The outcome of a variant's emulation.

    Attributes:
        status: Its verdict.
        conflicts: Wavefronts of shared memory that are conflicts.
        wavefronts: All of them.
        seconds: Predicted time; None where none is predicted.
    """

    status: Status
    conflicts: int
    wavefronts: int
    seconds: float | None

    def slower_than(self, other: TriedVariant) -> bool:
        """Return whether the predicted time is clearly longer than another one."""
        return self.seconds is not None and other.seconds is not None and self.seconds > _TIED * other.seconds


@dataclass(frozen=True)
class ProposedFix:
    """A change that removes bank conflicts.

    Attributes:
        source: The file to change.
        edit: The change.
        before: The variant as it is.
        after: The variant with the change.
        diff: Lines of the unified difference.
    """

    source: Path
    edit: SourceEdit
    before: TriedVariant
    after: TriedVariant
    diff: tuple[str, ...]

    def write(self) -> None:
        """Write the changed source.

        Raises:
            UserError: The file cannot be written.
        """
        try:
            write_atomically(self.source, self.edit.text)
        except OSError as error:
            raise UserError(
                f"the file cannot be written: {error.strerror}", code="unwritable", at=Location(self.source)
            ) from error


def propose(
    experiment: Path, variant: str = "", observer: RunObserver | None = None, services: Services | None = None
) -> tuple[TriedVariant, ProposedFix | None]:
    """Look for the smallest padding of an array in shared memory that removes bank conflicts.

    Each change is compiled and executed as `lab run` does without a GPU. It counts where the verdict stays, the
    predicted time is no longer, and conflicts are fewer.

    Args:
        experiment: The file of an experiment on a CUDA source.
        variant: Beginning of the variant's id; needed where there are several.
        observer: Receives the progress; nobody by default.
        services: The surroundings; this machine by default.

    Returns:
        The variant as it is, and the change; None where nothing helps, or there is nothing to remove.

    Raises:
        UserError: The experiment is wrong, has no such variant, or its kernels are not a CUDA source.
    """
    data = _plain_data(experiment)
    source = experiment.parent / str(data["source"])
    text = yamlfile.read_text(source)
    given = data | {"parameters": dict(_chosen(experiment, variant).point.parameters)}
    first = _run(given, source, text, observer, services)
    before = _tried(first)
    patterns = first.emulation.patterns if first.emulation is not None else None
    if first.status.failed or not before.conflicts:
        return before, None
    best: tuple[SourceEdit, TriedVariant] | None = None
    for _, edit in zip(range(_MOST_TRIED), paddings(text, pads_of(patterns or ())), strict=False):
        after = _tried(_run(given, source, edit.text, observer, services))
        fewest = best[1].conflicts if best is not None else (1 - _LEAST) * before.conflicts
        if after.status is before.status and after.conflicts < fewest and not after.slower_than(before):
            best = edit, after
            if after.conflicts <= _KEPT * before.conflicts:
                break
    if best is None:
        return before, None
    edit, after = best
    diff = unified_diff(text.splitlines(), edit.text.splitlines(), source.name, source.name, lineterm="", n=1)
    return before, ProposedFix(source, edit, before, after, tuple(diff))


def _plain_data(experiment: Path) -> dict[str, Any]:
    """Return the keys of an experiment file on one CUDA source.

    Raises:
        UserError: It is another kind of file.
    """
    data = yamlfile.parse(yamlfile.read_text(experiment), experiment).data
    source = data.get("source") if isinstance(data, Mapping) else None
    if not isinstance(source, str) or not source.endswith((".cu", ".cuh")):
        raise UserError(
            "lab fix changes CUDA sources",
            code="wrong-value",
            at=Location(experiment),
            key="source",
            found=source if source is not None else "an experiment without it",
            accepted="an experiment on a .cu file, as lab new writes it",
        )
    return dict(data)


def _chosen(experiment: Path, variant: str) -> Planned:
    every = variants(experiment)
    found = [one for one in every if one.variant.startswith(variant)]
    if len(found) == 1:
        return found[0]
    raise UserError(
        "several variants fit" if found else "there is no such variant",
        code="unknown-name",
        at=Location(experiment),
        key="--variant",
        found=variant or "no id",
        accepted="\n    ".join(["", *(f"{one.variant} {one.label}".rstrip() for one in every[:50])]),  # a screenful
    )


def _run(
    given: Mapping[str, Any], source: Path, text: str, observer: RunObserver | None, services: Services | None
) -> VariantRecord:
    """Execute a variant whose source has a text; headers beside the source stand beside it."""
    with tempfile.TemporaryDirectory(prefix="lab-fix-") as scratch:
        folder = Path(scratch)
        for header in source.parent.iterdir():
            if header.suffix in _HEADERS and header.is_file():
                shutil.copyfile(header, folder / header.name)
        file = folder / source.name
        file.write_text(text, encoding="utf-8")
        options = RunOptions(output=folder / "run", measure=False)
        outcome = run_mapping({**given, "source": str(file)}, options, observer, services)
        (record,) = outcome.records
        return record


def _tried(record: VariantRecord) -> TriedVariant:
    traffic, work = emulated_traffic(record, *SHARED), real_work(record)
    return TriedVariant(
        record.status,
        traffic.bank_conflicts if traffic is not None else 0,
        traffic.wavefronts if traffic is not None else 0,
        work.score().seconds if work is not None else None,
    )


def lines_of(before: TriedVariant, found: ProposedFix | None) -> tuple[str, ...]:
    """Return what the command prints."""
    if not before.conflicts:
        return (f"no bank conflicts to remove ({before.status})",)
    counted = f"{before.conflicts:,} of {before.wavefronts:,} wavefronts are bank conflicts"
    if found is None:
        return (counted, "no padding of an array in shared memory removes them; lab run names line and cause")
    after = found.after
    rows = [
        f"pad {found.edit.array} by {found.edit.elements} element{'s' if found.edit.elements > 1 else ''} per row",
        f"bank conflicts: {_conflicts(before)} -> {_conflicts(after)} wavefronts (emulated)",
    ]
    if before.seconds and after.seconds:
        rows.append(
            f"time: {before.seconds * 1e3:.4g} -> {after.seconds * 1e3:.4g} ms,"
            f" {before.seconds / after.seconds:.2f} x faster (predicted)"
        )
    return (*rows, f"verdict: {before.status} -> {after.status}", *found.diff)


def _conflicts(tried: TriedVariant) -> str:
    return f"{tried.conflicts:,} of {tried.wavefronts:,}"
