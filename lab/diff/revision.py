"""Git revisions as sides: the files of a revision in a scratch folder, built there by a command or by lab."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lab.base.errors import Location, MissingToolError, UserError
from lab.base.files import scratch
from lab.base.workers import environment

BUILD_TIMEOUT_S: Final = 3600.0
_TIMEOUT_S: Final = 120.0
_LOG_LINES: Final = 20


def is_revision(name: str, folder: Path) -> bool:
    """Return whether a name is a commit of the repository around a folder."""
    if name.startswith("-") or shutil.which("git") is None:
        return False
    run = _git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return run.returncode == 0


def merge_base(first: str, second: str, folder: Path) -> str:
    """Return the common ancestor of two revisions.

    Raises:
        UserError: They have none in this clone.
    """
    run = _git(folder, "merge-base", first, second)
    if run.returncode:
        raise UserError(
            "the revisions have no common ancestor in this clone",
            code="wrong-value",
            found=f"{first} {second}",
            accepted="a clone with the history of both: git fetch --unshallow",
        )
    return run.stdout.decode().strip()


@contextmanager
def checked_out(revision: str, folder: Path) -> Iterator[Path]:
    """Provide the files of a revision in a folder that is removed afterwards. The repository stays as it is.

    Submodules and files that Git LFS keeps elsewhere are not included.

    Raises:
        UserError: Git cannot read the revision.
        MissingToolError: git is missing.
    """
    run = _git(_top(folder), "archive", "--format=tar", revision)
    if run.returncode:
        raise UserError(
            "git cannot read this revision",
            code="wrong-value",
            found=revision,
            accepted=run.stderr.decode(errors="replace").strip() or None,
        )
    with scratch("lab-diff-") as place:
        with tarfile.open(fileobj=io.BytesIO(run.stdout)) as archive:
            # Python 3.11.2, which Debian has, knows neither filters nor the argument.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(place)  # noqa: S202 - git writes no path outside of the tree
        yield place


def run_build(command: str, folder: Path, name: str) -> None:
    """Run the user's build command in a folder, through the shell that they wrote it for.

    Raises:
        UserError: It fails; the error ends with what it printed last.
    """
    try:
        run = subprocess.run(  # noqa: S602 - the user's own command line
            command,
            shell=True,
            cwd=folder,
            capture_output=True,
            check=False,
            timeout=BUILD_TIMEOUT_S,
            env=environment(),
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            "the build did not finish",
            code="user-code",
            key="--build",
            found=command,
            accepted=f"{BUILD_TIMEOUT_S:g} s",
        ) from None
    if run.returncode:
        log = (run.stdout + run.stderr).decode(errors="replace").splitlines()[-_LOG_LINES:]
        raise UserError(
            f"the build of {name} failed with exit code {run.returncode}",
            code="user-code",
            at=Location(folder),
            key="--build",
            found="\n    ".join([command, *log]),
        )


def _top(folder: Path) -> Path:
    run = _git(folder, "rev-parse", "--show-toplevel")
    return Path(run.stdout.decode().strip()) if run.returncode == 0 else folder


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    git = shutil.which("git")
    if git is None:
        raise MissingToolError("git is not on this machine")
    try:
        return subprocess.run(
            [git, "-C", str(folder), *words], capture_output=True, check=False, timeout=_TIMEOUT_S, env=environment()
        )
    except subprocess.TimeoutExpired as error:
        raise MissingToolError(f"git did not answer within {_TIMEOUT_S:g} s: {' '.join(words)}") from error
