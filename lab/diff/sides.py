"""Resolve the two sides of a command: files and folders, git revisions, and what `lab-diff.yaml` lists of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from lab.base.errors import Location, UserError
from lab.base.files import check_below
from lab.diff.collect import CollectOptions, collect
from lab.diff.revision import checked_out, is_revision, run_build
from lab.diff.settings import FILE, DiffSettings, read_settings
from lab.diff.side import CodeSide, merged


@dataclass(frozen=True, slots=True)
class SideRequest:
    """A request to collect a folder or a revision.

    Attributes:
        options: How sources are compiled.
        config: The settings; None means `lab-diff.yaml` of the side itself, and without one the machine code of the
            folder.
        build: The command that builds the side; empty without one.
        artifacts: Files or folders that the command leaves, relative to the side; empty means the whole side.
        stand_in: Settings of a side that lacks its own.
    """

    options: CollectOptions
    config: Path | None = None
    build: str = ""
    artifacts: tuple[str, ...] = ()
    stand_in: DiffSettings | None = None


def settings_of(folder: Path, config: Path | None = None) -> DiffSettings | None:
    """Return the settings of a folder; None where it has none."""
    file = config or folder / FILE
    return read_settings(file) if config is not None or file.is_file() else None


@contextmanager
def files_of(name: str, folder: Path) -> Iterator[Path]:
    """Provide the files of a side: a path as it is, or a revision of the repository around a folder.

    Raises:
        UserError: It is neither.
    """
    path = Path(name)
    if path.exists() or not is_revision(name, folder):
        yield path
        return
    with checked_out(name, folder) as place:
        yield place


def collect_side(name: str, request: SideRequest, folder: Path) -> CodeSide:
    """Collect a side by the name that a user gave.

    Args:
        name: A path, or a git revision.
        request: How to collect it.
        folder: The working directory, whose repository has the revisions.

    Raises:
        UserError: It is neither a path nor a revision, does not build, or has no machine code.
        MissingToolError: A tool is not on this machine.
    """
    with files_of(name, folder) as path:
        if not path.is_dir():
            return collect(path, request.options, name)
        settings = settings_of(path, request.config) or request.stand_in
        build = request.build or (settings.build if settings else "")
        artifacts = request.artifacts or tuple(settings.artifacts if settings else ())
        if build:
            run_build(build, path, name)
        if artifacts:
            parts = [_artifact(path, artifact, request.options) for artifact in artifacts]
            return merged(name, parts)
        if settings is not None and settings.kernels and not build:
            return _sources(path, settings, request.options, name)
        return collect(path, request.options, name)


def _artifact(folder: Path, artifact: str, options: CollectOptions) -> CodeSide:
    path = folder / artifact
    check_below(path, [folder])
    if not path.exists():
        raise UserError(
            "there is no such artifact after the build",
            code="missing-file",
            at=Location(path),
            key="artifacts",
            found=artifact,
        )
    return collect(path, options, artifact)


def _sources(folder: Path, settings: DiffSettings, options: CollectOptions, name: str) -> CodeSide:
    sides = []
    for entry in settings.kernels:
        source = folder / entry.source
        check_below(source, [folder])
        if not source.exists():  # added or removed by the change
            continue
        own = replace(
            options,
            archs=options.archs or tuple(settings.archs),
            kernels=options.kernels or tuple(entry.kernels),
            root=options.root or folder,
            include=(*options.include, *(folder / include for include in entry.include)),
            macros=(*options.macros, *entry.define),
            options=(*options.options, *entry.options),
        )
        sides.append(collect(source, own, entry.source))
    if not sides:
        raise UserError(
            "none of the sources exists on this side",
            code="nothing-left",
            at=Location(name),
            key="kernels",
            found=", ".join(entry.source for entry in settings.kernels),
        )
    return merged(name, sides)
